//! Collectives against the plain sum, and against their own formula.

use crate::rig::{Group, each, groups, message};
use cavalcade_transport::{
    Collective, Tag, Transport, TransportError, all_gather_f64, all_reduce_ring, all_reduce_server,
    all_reduce_tree, barrier, broadcast, bytes_sent, bytes_sent_by_all,
};
use cavalcade_units::{Bytes, Rank};
use std::sync::atomic::{AtomicU64, Ordering};

fn members(n: usize) -> Vec<Rank> {
    (0..n).map(Rank::from_idx).collect()
}

/// Values of a rank whose sums round differently in different orders.
fn values(rank: Rank, len: usize) -> Vec<f32> {
    let value = |idx: usize| ((rank.idx() * 31 + idx * 17) % 97) as f32 * 0.1 - 3.7;
    (0..len).map(value).collect()
}

type AllReduce = fn(&dyn Transport, &[Rank], Tag, &mut [f32]) -> Result<(), TransportError>;

/// Every way of summing.
const ALL_REDUCES: [(Collective, AllReduce); 3] = [
    (Collective::AllReduceRing, all_reduce_ring),
    (Collective::AllReduceTree, all_reduce_tree),
    (Collective::AllReduceServer, all_reduce_server),
];

fn all_reduced(reduce: AllReduce, group: &Group, order: &[Rank], len: usize) -> Vec<Vec<f32>> {
    each(group, |transport| {
        let mut reduced = values(transport.rank(), len);
        reduce(transport, order, Tag(3), &mut reduced).unwrap();
        reduced
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn all_reduce_is_the_sum_with_the_same_bits_everywhere() {
    for n in 1..=9 {
        for (kind, group) in groups(n) {
            for (way, reduce) in ALL_REDUCES {
                for len in [0, 1, 2, 3, 4, 7, 101] {
                    let reduced = all_reduced(reduce, &group, &members(n), len);
                    let place = format!("{way:?}, {kind}, {n} ranks, {len} values");
                    for (idx, &value) in reduced[0].iter().enumerate() {
                        let addends = || members(n).into_iter().map(|rank| values(rank, len)[idx]);
                        let sum: f64 = addends().map(f64::from).sum();
                        let scale: f64 = addends().map(|value| f64::from(value.abs())).sum();
                        let error = (f64::from(value) - sum).abs();
                        assert!(error <= 1e-6 * scale, "{place}, element {idx}");
                    }
                    assert!(reduced.iter().all(|other| bits(other) == bits(&reduced[0])));
                    let again = all_reduced(reduce, &group, &members(n), len);
                    assert_eq!(bits(&reduced[0]), bits(&again[0]), "again, {place}");
                }
            }
        }
    }
}

/// The server adds member after member, the tree neighbor to neighbor, then pair to pair.
#[test]
fn tree_and_server_sum_in_the_groups_order() {
    for n in 1..=9 {
        let [(_, group), _] = groups(n);
        let order: Vec<Rank> = members(n).into_iter().rev().collect();
        let mut sums: Vec<Vec<f32>> = order.iter().map(|&rank| values(rank, 101)).collect();
        let add = |mut sum: Vec<f32>, more: &Vec<f32>| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            sum
        };
        let one_by_one = sums[1..].iter().fold(sums[0].clone(), add);
        let reduced = all_reduced(all_reduce_server, &group, &order, 101);
        assert_eq!(bits(&reduced[0]), bits(&one_by_one), "server, {n} ranks");
        while sums.len() > 1 {
            let pairs = sums.chunks(2);
            sums = pairs.map(|pair| pair[1..].iter().fold(pair[0].clone(), add)).collect();
        }
        let reduced = all_reduced(all_reduce_tree, &group, &order, 101);
        assert_eq!(bits(&reduced[0]), bits(&sums[0]), "tree, {n} ranks");
    }
}

#[test]
fn a_group_can_be_a_part_of_all_ranks_in_any_order() {
    for (_, reduce) in ALL_REDUCES {
        for (_, group) in groups(4) {
            let order = [Rank(3), Rank(0), Rank(2)];
            let results = each(&group, |transport| {
                let mut reduced = [transport.rank().0 as f32, 1.0];
                reduce(transport, &order, Tag(0), &mut reduced).map(|()| reduced)
            });
            for rank in order {
                assert_eq!(*results[rank.idx()].as_ref().unwrap(), [5.0, 3.0]);
            }
            let outsider = message(results.into_iter().nth(1).unwrap());
            assert_eq!(
                outsider,
                "rank 1 cannot join a collective over the group [3, 0, 2]: it is no member"
            );
            let twice = [Rank(0), Rank(0)];
            assert_eq!(
                message(barrier(&*group[0], &twice, Tag(0))),
                "rank 0 cannot join a collective over the group [0, 0]: rank 0 is in it twice"
            );
        }
    }
}

#[test]
fn gather_broadcast_and_barrier_reach_everybody() {
    for (_, group) in groups(4) {
        let order = [Rank(2), Rank(0), Rank(3), Rank(1)];
        let results = each(&group, |transport| {
            let mine = f64::from(transport.rank().0) + 0.1;
            let gathered = all_gather_f64(transport, &order, Tag(1), mine).unwrap();
            let mut payload = [transport.rank().0 as u8; 3];
            broadcast(transport, &order, Tag(2), Rank(3), &mut payload).unwrap();
            barrier(transport, &order, Tag(3)).unwrap();
            (gathered, payload)
        });
        for result in results {
            assert_eq!(result, (vec![2.1, 0.1, 3.1, 1.1], [3; 3]));
        }
    }
}

#[test]
fn a_mismatch_names_both_ranks_the_tag_and_the_lengths() {
    for (_, group) in groups(2) {
        let errors = each(&group, |transport| {
            let mut values = vec![0.0; 5 + 2 * transport.rank().idx()];
            message(all_reduce_ring(transport, &members(2), Tag::new(4, 17, 2), &mut values))
        });
        assert_eq!(
            errors[0],
            "the collective kind 4 step 17 id 2 does not match: rank 0 has 20 bytes and rank 1 has \
             28; all members must call it with the same tag and the same shape"
        );
        assert!(errors[1].contains("rank 1 has 28 bytes and rank 0 has 20"), "{}", errors[1]);

        let error = each(&group, |transport| {
            let mut payload = vec![0; 1 + transport.rank().idx()];
            broadcast(transport, &members(2), Tag::new(5, 0, 0), Rank(0), &mut payload)
        });
        let error = error.into_iter().nth(1).unwrap().unwrap_err();
        assert!(matches!(error, TransportError::LengthMismatch { ours: 2, theirs: 1, .. }));
    }
}

/// Whoever sums finds it out, and ends the run for the others.
#[test]
fn a_mismatch_in_tree_and_server_names_the_same() {
    for (_, reduce) in &ALL_REDUCES[1..] {
        for (_, group) in groups(3) {
            let errors = each(&group, |transport| {
                let mut values = vec![0.0; if transport.rank() == Rank(1) { 7 } else { 5 }];
                let error =
                    message(reduce(transport, &members(3), Tag::new(4, 17, 2), &mut values));
                transport.abort(&error);
                error
            });
            assert_eq!(
                errors[0],
                "the collective kind 4 step 17 id 2 does not match: rank 0 has 20 bytes and rank 1 \
                 has 28; all members must call it with the same tag and the same shape"
            );
        }
    }
}

/// Counts the payload bytes that pass.
struct Counted<'a>(&'a dyn Transport, AtomicU64);

impl Transport for Counted<'_> {
    fn rank(&self) -> Rank {
        self.0.rank()
    }
    fn world_size(&self) -> usize {
        self.0.world_size()
    }
    fn send(&self, to: Rank, tag: Tag, payload: Vec<u8>) -> Result<(), TransportError> {
        self.1.fetch_add(payload.len() as u64, Ordering::Relaxed);
        self.0.send(to, tag, payload)
    }
    fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError> {
        self.0.recv(from, tag)
    }
    fn shutdown(&self) {
        self.0.shutdown();
    }
    fn abort(&self, reason: &str) {
        self.0.abort(reason);
    }
}

fn counted(n: usize, work: impl Fn(&dyn Transport) + Sync) -> Vec<u64> {
    let [(_, group), _] = groups(n);
    each(&group, |transport| {
        let counted = Counted(transport, AtomicU64::new(0));
        work(&counted);
        counted.1.into_inner()
    })
}

#[test]
fn the_bytes_sent_are_those_of_the_formula() {
    let busiest = |sent: &[u64]| Bytes(sent.iter().copied().max().unwrap());
    let together = |sent: &[u64]| Bytes(sent.iter().sum());
    for n in 1..=9 {
        for len in [0, 1, 60, 61, 63] {
            let bytes = Bytes::of_f32(len);
            for (way, reduce) in ALL_REDUCES {
                let sent = counted(n, |transport| {
                    reduce(transport, &members(n), Tag(0), &mut vec![1.0; len]).unwrap();
                });
                let formula = bytes_sent(way, n, bytes);
                let place = format!("{way:?}: {sent:?} against {formula:?} for {len} values");
                if way == Collective::AllReduceRing && len % n != 0 {
                    assert!(sent.iter().all(|&sent| sent.abs_diff(formula.0) <= 8), "{place}");
                } else {
                    assert_eq!(busiest(&sent), formula, "{place}");
                }
                assert_eq!(together(&sent), bytes_sent_by_all(way, n, bytes), "{place}");
            }
        }
        let gathered = counted(n, |transport| {
            all_gather_f64(transport, &members(n), Tag(0), 1.0).unwrap();
        });
        let broadcasted = counted(n, |transport| {
            broadcast(transport, &members(n), Tag(0), Rank(0), &mut [0; 50]).unwrap();
        });
        for (kind, sent, bytes) in
            [(Collective::AllGather, gathered, 8), (Collective::Broadcast, broadcasted, 50)]
        {
            assert_eq!(busiest(&sent), bytes_sent(kind, n, Bytes(bytes)));
            assert_eq!(together(&sent), bytes_sent_by_all(kind, n, Bytes(bytes)));
        }
    }
}
