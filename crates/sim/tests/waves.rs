//! Replicas kept together by waves over virtual parameter servers.

use cavalcade_engine::Trace;
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Exchange, Kind, Layout, MemoryModel, Op, Options,
    Pass, Pipeline, Servers, Stage, Ticks, Value, Waves, build, check, generate,
};
use cavalcade_sim::{Costs, Disturbance, Fault, LinkCost, predict};
use cavalcade_units::{Bandwidth, Bytes, ChunkId, DeviceId, ExchangeId, Nanos};
use proptest::prelude::*;

/// Replicas of `k` stages on devices of their own; a forward and a backward take 100 and 200 times
/// the slowness of the device's replica, and all links are alike.
struct Replicas {
    k: u32,
    slowness: Vec<u64>,
    link: LinkCost,
}

impl MemoryModel for Replicas {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(if matches!(value, Value::Pulled { .. }) { 1000 } else { 0 })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Replicas {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let slowness = self.slowness[(device.0 / self.k) as usize];
        Nanos(match op {
            Op::Compute { pass: Pass::Forward, .. } => 100 * slowness,
            Op::Compute { pass: Pass::Backward, .. } => 200 * slowness,
            _ => 0,
        })
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        self.link
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

impl Replicas {
    fn schedule(&self, length: u32, n_waves: u32, distance: u32) -> CheckedSchedule {
        let n = self.slowness.len() as u32;
        let stage = |r: u32, i: u32| Stage { device: DeviceId(r * self.k + i), layers: i..i + 1 };
        let pipeline = |r| Pipeline {
            stages: (0..self.k).map(|i| stage(r, i)).collect(),
            microbatches: length * n_waves,
        };
        let layout = Layout {
            n_layers: self.k,
            n_devices: n * self.k,
            ties: Vec::new(),
            pipelines: (0..n).map(pipeline).collect(),
            ticks: Ticks::default(),
        };
        let order = generate(Kind::HetPipe { wave: Some(length) }, &layout).expect("it fits");
        let waves = Some(Waves { length, distance, servers: Servers::Local });
        check(build(order, &Options { waves, ..Options::default() }), None).expect("it is sound")
    }

    fn first_step(&self, schedule: &CheckedSchedule) -> Trace {
        let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
        let ready = vec![Nanos::ZERO; devices.len()];
        let mut world = cavalcade_sim::VirtualWorld::new(schedule, self, ready);
        cavalcade_engine::interpret(schedule, &devices, &mut world).expect("nothing is in the way")
    }
}

const FREE: LinkCost = LinkCost::FREE;

fn slow_link() -> LinkCost {
    let bandwidth = Some(Bandwidth::from_bytes_per_second(1e9));
    LinkCost { latency: Nanos(50), bandwidth }
}

/// Waves that each holder of a bucket has handed over when `at` comes.
fn complete(schedule: &CheckedSchedule, trace: &Trace, of: &Exchange, at: Nanos) -> Vec<u32> {
    let table = schedule.schedule().exchanges.iter().enumerate();
    let holders = schedule.schedule().buckets[of.bucket.idx()].holders.iter();
    let count = |&chunk: &ChunkId| {
        let own = table.clone().filter(|(_, e)| (e.bucket, e.chunk) == (of.bucket, chunk));
        let pushes = own.map(|(idx, _)| schedule.exchanged(ExchangeId::from_idx(idx)).0);
        pushes.filter(|&push| trace.get(push).expect("it ran").end <= at).count() as u32
    };
    holders.map(count).collect()
}

/// Of every push (none) and pull (its exchange), what was complete when it had ended.
fn moments(schedule: &CheckedSchedule, trace: &Trace) -> Vec<(Option<u32>, Vec<u32>)> {
    let table = schedule.schedule().exchanges.iter().enumerate();
    let moments = table.flat_map(|(idx, entry)| {
        let (push, pull) = schedule.exchanged(ExchangeId::from_idx(idx));
        let at = |action| complete(schedule, trace, entry, trace.get(action).expect("it ran").end);
        [(None, at(push)), (Some(entry.wave), at(pull))]
    });
    moments.collect()
}

/// Equal replicas over free links lose nothing to each other.
#[test]
fn equal_replicas_are_as_fast_as_one() {
    for distance in [0, 1, 4] {
        let one = Replicas { k: 4, slowness: vec![1], link: FREE };
        let four = Replicas { k: 4, slowness: vec![1; 4], link: FREE };
        let alone = one.first_step(&one.schedule(4, 6, distance)).makespan();
        let together = four.first_step(&four.schedule(4, 6, distance)).makespan();
        assert_eq!(alone, Nanos(300 * (24 + 3)), "distance {distance}");
        assert_eq!(together, alone, "distance {distance}");
    }
}

/// One device a replica, waves of one micro-batch, no distance: every round takes as long as the
/// slowest replica, the way to the server, and the way back.
#[test]
fn no_distance_is_a_barrier_a_round() {
    let replicas = Replicas { k: 1, slowness: vec![1, 3], link: slow_link() };
    let trace = replicas.first_step(&replicas.schedule(1, 5, 0));
    // The slow one is not on the servers' device: it sends 1000 bytes at one a nanosecond, and what
    // comes back as many; the first pull is at the very beginning and brings as much.
    let ways = 2 * (1000 + 50);
    assert_eq!(trace.makespan(), Nanos(1050 + 50 + 900 * 5 + ways * 4 + 1000));
}

/// HetPipe's figures: the fast replica is ahead by at most `D + 1` waves, and by that many in the
/// end.
#[test]
fn a_fast_replica_runs_ahead_as_far_as_the_distance_allows() {
    for distance in [0, 1, 3] {
        let replicas = Replicas { k: 2, slowness: vec![4, 1], link: FREE };
        let schedule = replicas.schedule(2, 12, distance);
        let trace = replicas.first_step(&schedule);
        let ahead = moments(&schedule, &trace).into_iter().map(|(pull, complete)| {
            let wave = pull.unwrap_or_default();
            assert!(complete.iter().all(|&n| n + distance >= wave), "{wave} {complete:?}");
            complete.iter().max().unwrap() - complete.iter().min().unwrap()
        });
        assert_eq!(ahead.max(), Some(distance + 1), "distance {distance}");
    }
}

proptest! {
    /// No pull is answered before all have handed over what it needs, and waiting never grows with
    /// the distance.
    #[test]
    fn a_larger_distance_never_takes_longer(
        k in 1u32..4, slowness in prop::collection::vec(1u64..6, 1..4), length in 1u32..5,
        is_slow: bool,
    ) {
        let link = if is_slow { slow_link() } else { FREE };
        let replicas = Replicas { k, slowness, link };
        let mut before = None;
        for distance in 0..4 {
            let schedule = replicas.schedule(length, 5, distance);
            let trace = replicas.first_step(&schedule);
            for (pull, complete) in moments(&schedule, &trace) {
                let wave = pull.unwrap_or_default();
                prop_assert!(complete.iter().all(|&n| n + distance >= wave));
            }
            let makespan = trace.makespan();
            prop_assert!(before.is_none_or(|before| makespan <= before), "distance {}", distance);
            before = Some(makespan);
        }
    }
}

/// What passes links by the figures of a prediction: every wave's parameters once in each
/// direction, and none within a device.
#[test]
fn pushed_and_pulled_bytes_are_the_parameters_once_a_wave() {
    let replicas = Replicas { k: 2, slowness: vec![1, 1, 1], link: slow_link() };
    let prediction =
        predict(&replicas.schedule(4, 6, 1), &replicas).expect("nothing is in the way");
    let sum: u64 = prediction.links.iter().map(|used| used.bytes.0).sum();
    // Two replicas away from the servers, two parts each, six waves, both directions.
    assert_eq!(sum, 2 * 2 * 6 * 2 * 1000);
}

/// A slow while of one replica: what it loses is lost once, and with a distance the others go on in
/// the meantime; no pull gets older weights than it may.
#[test]
fn throughput_recovers_from_a_slow_while() {
    let replicas = Replicas { k: 2, slowness: vec![1, 1], link: FREE };
    let (lasts, at) = (Nanos(2000), Nanos(2000));
    let stall = Fault::LinkStalls { from: DeviceId(2), to: DeviceId(3), at, lasts: Some(lasts) };
    let trouble = Disturbance { faults: vec![stall], ..Disturbance::default() }.check(4).unwrap();
    for distance in [0, 1, 4] {
        let schedule = replicas.schedule(2, 20, distance);
        let calm = replicas.first_step(&schedule);
        let devices: Vec<_> = (0..4).map(DeviceId).collect();
        let world = cavalcade_sim::VirtualWorld::new(&schedule, &replicas, vec![Nanos::ZERO; 4]);
        let mut world = world.disturbed(&trouble, 0);
        let trace = cavalcade_engine::interpret(&schedule, &devices, &mut world).unwrap();
        assert!(trace.makespan() <= calm.makespan() + lasts, "distance {distance}");
        for (pull, complete) in moments(&schedule, &trace) {
            let wave = pull.unwrap_or_default();
            assert!(complete.iter().all(|&n| n + distance >= wave));
        }
        // The other one ends in time if it may be far enough ahead.
        let end = |trace: &Trace| {
            let actions = schedule.actions_of(DeviceId(0)).map(ActionId);
            actions.filter_map(|a| trace.get(a)).map(|record| record.end).max()
        };
        assert_eq!(end(&trace) == end(&calm), distance == 4, "distance {distance}");
    }
}
