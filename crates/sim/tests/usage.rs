//! What a prediction says of devices and links.

mod support;

use cavalcade_cluster::Resource;
use cavalcade_schedule::{CollectiveKind, Kind, MemoryModel, Op, Options, Value};
use cavalcade_sim::{Costs, DeviceUse, LinkCost, LinkName, predict};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use support::{Equal, run, schedule};

/// Equal stages over free links wait for each other's computing and for no link.
#[test]
fn a_bubble_is_no_communication() {
    for kind in [Kind::GPipe, Kind::OneFOneB, Kind::ZbH1] {
        for (p, m) in [(1, 3), (2, 4), (4, 8)] {
            let schedule = schedule(kind, p, 1, m, &Options::default());
            let prediction = predict(&schedule, &Equal::free(1000, 1000, 1000)).unwrap();
            assert_eq!(prediction.devices.len(), p as usize);
            for used in &prediction.devices {
                assert_eq!(used.busy, Nanos(u64::from(m) * 3000), "{kind} p={p} m={m}");
                assert_eq!(used.busy + used.idle, prediction.step_time, "{kind} p={p} m={m}");
                assert_eq!(used.exposed, Nanos::ZERO, "{kind} p={p} m={m}");
            }
            assert_eq!(prediction.busiest_link(), None, "{kind} p={p} m={m}");
        }
    }
}

/// Two stages, one micro-batch, a delay of 500 in each direction: the second stage is idle for the
/// forward and the delay, of which the delay is exposed; the first for two delays and a backward.
#[test]
fn a_delay_that_nothing_hides_is_exposed() {
    let schedule = schedule(Kind::GPipe, 2, 1, 1, &Options::default());
    let costs = Equal { slow: Some((DeviceId(1), 500)), ..Equal::free(1000, 2000, 0) };
    let prediction = predict(&schedule, &costs).unwrap();
    assert_eq!(prediction.step_time, Nanos(2 * 3000 + 2 * 500));
    assert_eq!(prediction.step_time, run(&schedule, &costs).0.makespan());
    let used = |busy, idle, exposed| DeviceUse {
        busy: Nanos(busy),
        idle: Nanos(idle),
        exposed: Nanos(exposed),
    };
    assert_eq!(prediction.devices, [used(3000, 4000, 500), used(3000, 4000, 500)]);
}

/// Forwards ahead of the slow link hide its delay but at the ends of the step: what is left is the
/// way of the first micro-batch to the third stage, the way of its gradient to the second, and,
/// where there are no forwards left to fill in, 1000 before each of the last four gradients, which
/// come every 3000 and take 2000.
#[test]
fn a_hidden_delay_is_not_exposed() {
    let costs = Equal { slow: Some((DeviceId(2), 3000)), ..Equal::free(1000, 2000, 0) };
    let exposed = |kind: Kind| {
        let schedule = schedule(kind, 4, 1, 16, &Options::default());
        let prediction = predict(&schedule, &costs).unwrap();
        assert!(prediction.devices.iter().all(|used| used.exposed <= used.idle), "{kind}");
        prediction.devices.iter().map(|used| used.exposed.0).collect::<Vec<_>>()
    };
    assert_eq!(exposed(Kind::Geo { cut: 2, extra: 2 }), [0, 7000, 3000, 0]);
    assert!(exposed(Kind::OneFOneB).iter().sum::<u64>() > 40_000);
}

/// Two messages of 300 bytes an edge at 1 byte a nanosecond, the first two edges sharing a port.
#[test]
fn busy_shares_are_bytes_at_full_rate() {
    let schedule = schedule(Kind::GPipe, 4, 1, 1, &Options::default());
    let rate = Bandwidth::from_bytes_per_second;
    let port = Resource { name: "port".to_owned(), bandwidth: rate(5e8) };
    let prediction = predict(&schedule, &Ports { port: [port] }).unwrap();
    let step = prediction.step_time.0 as f64;
    let found = prediction.links.iter().map(|used| {
        let busy = (used.busy * step).round() as u64;
        (used.link.clone(), used.bytes.0, busy)
    });
    let pair = |from, to| LinkName::Pair { from: DeviceId(from), to: DeviceId(to) };
    let shared = || LinkName::Shared("port".to_owned());
    let expected = [
        (pair(1, 0), 300, 300),
        (pair(2, 1), 300, 300),
        (pair(2, 3), 300, 300),
        (pair(3, 2), 300, 300),
        (shared(), 600, 1200),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(prediction.busiest_link().unwrap().link, shared());
}

/// Every pair has a link of its own; what goes from 0 to 1 and from 1 to 2 passes a port.
struct Ports {
    port: [Resource; 1],
}

impl MemoryModel for Ports {
    fn bytes(&self, _: DeviceId, _: Value) -> Bytes {
        Bytes(300)
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Ports {
    fn compute(&self, _: DeviceId, _: Op) -> Nanos {
        Nanos(100)
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        let bandwidth = Some(Bandwidth::from_bytes_per_second(1e9));
        LinkCost { latency: Nanos::ZERO, bandwidth }
    }
    fn resources(&self) -> &[Resource] {
        &self.port
    }
    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        if from < to && to.0 < 3 { vec![0] } else { Vec::new() }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

/// The messages of `Equal` weigh nothing.
#[test]
fn links_without_bytes_are_left_out() {
    let schedule = schedule(Kind::OneFOneB, 4, 1, 4, &Options::default());
    assert!(predict(&schedule, &Equal::free(10, 20, 0)).unwrap().links.is_empty());
}
