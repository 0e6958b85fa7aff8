//! What a message and an all-reduce cost over TCP on one machine.

use cavalcade_transport::{
    Deadline, Links, Listener, Mesh, Secret, SystemClock, Tag, Tcp, Transport, TransportError,
    all_reduce_ring, all_reduce_server, all_reduce_tree,
};
use cavalcade_units::{Nanos, Rank};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;

fn group(n: usize) -> Vec<Tcp> {
    let listeners: Vec<_> = (0..n).map(|_| Listener::bind(None).expect("a port is free")).collect();
    let peers: Vec<_> =
        listeners.iter().map(|listener| listener.local_addr().expect("it is bound")).collect();
    let secret = Secret::generate();
    thread::scope(|scope| {
        let joins: Vec<_> = (0..)
            .zip(listeners)
            .map(|(rank, listener)| {
                let (peers, secret) = (peers.clone(), secret.clone());
                let mesh = Mesh { rank: Rank(rank), peers, secret, links: Links::unlimited() };
                let clock = Arc::new(SystemClock::start());
                let deadline = Deadline::after(clock, Nanos(10_000_000_000));
                scope.spawn(move || mesh.connect(listener, &deadline).expect("loopback works"))
            })
            .collect();
        joins.into_iter().map(|join| join.join().expect("connecting does not panic")).collect()
    })
}

/// There and back again: twice the latency for small messages.
fn round_trip(criterion: &mut Criterion) {
    let ranks = group(2);
    let [near, far] = &ranks[..] else { unreachable!("two were asked for") };
    let mut bench = criterion.benchmark_group("round_trip");
    thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(payload) = far.recv(Rank(0), Tag(0)) {
                far.send(Rank(0), Tag(0), payload).expect("rank 0 waits for it");
            }
        });
        for n_bytes in [8, 64 << 10, 4 << 20] {
            bench.throughput(Throughput::Bytes(2 * n_bytes as u64));
            bench.bench_function(format!("{n_bytes}_bytes"), |bencher| {
                bencher.iter_batched(
                    || vec![1; n_bytes],
                    |payload| {
                        near.send(Rank(1), Tag(0), payload).expect("rank 1 answers");
                        black_box(near.recv(Rank(1), Tag(0)).expect("rank 1 answers"))
                    },
                    BatchSize::LargeInput,
                );
            });
        }
        near.shutdown();
    });
    bench.finish();
}

type AllReduce = fn(&dyn Transport, &[Rank], Tag, &mut [f32]) -> Result<(), TransportError>;

/// 4 MB of `f32` among four ranks, summed in each way; rank 0 is measured, a message starts the
/// others.
fn all_reduce(criterion: &mut Criterion) {
    const N_VALUES: usize = 1 << 20;
    let ways: [(&str, AllReduce); 3] =
        [("ring", all_reduce_ring), ("tree", all_reduce_tree), ("server", all_reduce_server)];
    let ranks = group(4);
    let members: Vec<Rank> = ranks.iter().map(Transport::rank).collect();
    let mut bench = criterion.benchmark_group("all_reduce");
    bench.throughput(Throughput::Bytes(4 * N_VALUES as u64)).sample_size(20);
    thread::scope(|scope| {
        let (first, others) = ranks.split_first().expect("there are four");
        for transport in others {
            let members = &members;
            scope.spawn(move || {
                let mut values = vec![0.0; N_VALUES];
                while let Ok(word) = transport.recv(Rank(0), Tag(0))
                    && let [way] = word[..]
                {
                    let (_, reduce) = ways[usize::from(way)];
                    reduce(transport, members, Tag(1), &mut values).expect("all are here");
                }
            });
        }
        let tell = |word: &[u8]| {
            for &rank in &members[1..] {
                first.send(rank, Tag(0), word.to_vec()).expect("all are here");
            }
        };
        for (way, (name, reduce)) in (0..).zip(ways) {
            bench.bench_function(format!("4_MB_among_4_{name}"), |bencher| {
                let mut values = vec![0.0; N_VALUES];
                bencher.iter(|| {
                    tell(&[way]);
                    reduce(first, &members, Tag(1), &mut values).expect("all are here");
                });
            });
        }
        tell(&[]);
    });
    bench.finish();
}

criterion_group!(benches, round_trip, all_reduce);
criterion_main!(benches);
