//! Messages arrive as they were sent, on every transport alike.

use crate::rig::{Group, each, groups};
use cavalcade_transport::Tag;
use cavalcade_units::Rank;
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::{collection, prop_assert_eq};
use std::thread;

const N: u32 = 3;

#[derive(Clone, Debug)]
struct Message {
    from: Rank,
    to: Rank,
    tag: Tag,
    payload: Vec<u8>,
    /// Receivers ask in this order, which has nothing to do with that of sending.
    priority: u64,
}

fn message() -> impl Strategy<Value = Message> {
    let payload = collection::vec(any::<u8>(), 0..40);
    (0..N, 0..N, 0..3u32, payload, any::<u64>()).prop_map(|(from, to, id, payload, priority)| {
        Message { from: Rank(from), to: Rank(to), tag: Tag::new(1, 5, id), payload, priority }
    })
}

/// Sends all, then receives all; what each rank received.
fn exchange(group: &Group, traffic: &[Message]) -> Vec<Vec<Vec<u8>>> {
    let mut asked: Vec<&Message> = traffic.iter().collect();
    asked.sort_by_key(|message| message.priority);
    each(group, |transport| {
        for sent in traffic.iter().filter(|message| message.from == transport.rank()) {
            transport.send(sent.to, sent.tag, sent.payload.clone()).unwrap();
        }
        let mine = asked.iter().filter(|message| message.to == transport.rank());
        mine.map(|wanted| transport.recv(wanted.from, wanted.tag).unwrap()).collect()
    })
}

/// What each rank must receive: the oldest message not yet taken of that sender and tag.
fn expected(traffic: &[Message]) -> Vec<Vec<Vec<u8>>> {
    let mut asked: Vec<&Message> = traffic.iter().collect();
    asked.sort_by_key(|message| message.priority);
    let mut pending: Vec<Option<&Message>> = traffic.iter().map(Some).collect();
    let mut received = vec![Vec::new(); N as usize];
    for wanted in asked {
        let is_next = |slot: &&mut Option<&Message>| {
            slot.is_some_and(|sent| {
                (sent.from, sent.to, sent.tag) == (wanted.from, wanted.to, wanted.tag)
            })
        };
        let sent = pending.iter_mut().find(is_next).unwrap().take().unwrap();
        received[wanted.to.idx()].push(sent.payload.clone());
    }
    received
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn transports_agree_on_any_traffic(traffic in collection::vec(message(), 0..60)) {
        let expected = expected(&traffic);
        for (kind, group) in groups(N as usize) {
            prop_assert_eq!(&exchange(&group, &traffic), &expected, "{}", kind);
        }
    }
}

#[test]
fn threads_wait_for_tags_in_any_order() {
    for (_, group) in groups(2) {
        let [zero, one] = [&group[0], &group[1]];
        thread::scope(|scope| {
            let waits: Vec<_> = (0..8)
                .map(|id| scope.spawn(move || one.recv(Rank(0), Tag::new(0, 0, id)).unwrap()))
                .collect();
            for id in (0..8).rev() {
                zero.send(Rank(1), Tag::new(0, 0, id), vec![id as u8; 3]).unwrap();
            }
            for (id, wait) in (0..).zip(waits) {
                assert_eq!(wait.join().unwrap(), [id; 3]);
            }
        });
    }
}

#[test]
fn a_large_message_arrives_whole() {
    let payload: Vec<u8> = (0..3_000_001_u32).map(|idx| (idx % 251) as u8).collect();
    for (_, group) in groups(2) {
        // Both send before either receives: neither may wait for the other.
        let received = each(&group, |transport| {
            let peer = Rank(1 - transport.rank().0);
            transport.send(peer, Tag(1), payload.clone()).unwrap();
            transport.recv(peer, Tag(1)).unwrap()
        });
        assert!(received.iter().all(|received| *received == payload));
    }
}

#[test]
fn a_rank_that_does_not_exist_is_named() {
    for (_, group) in groups(2) {
        let error = group[0].send(Rank(2), Tag(0), vec![]).unwrap_err().to_string();
        assert_eq!(error, "there is no rank 2: this run has the ranks 0 to 1");
        assert!(group[0].recv(Rank(2), Tag(0)).is_err());
    }
}
