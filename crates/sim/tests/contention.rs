//! Messages that share resources: closed forms, and what holds for any of them.

use cavalcade_cluster::Resource;
use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass,
    Pipeline, Stage, Ticks, Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use proptest::prelude::*;

/// Bytes a second at which a byte takes a nanosecond.
const BYTE_A_NANO: f64 = 1e9;

/// Devices that compute for a given time and then send, over resources.
#[derive(Debug)]
struct Shared {
    /// By device, a forward; a backward takes nothing.
    forward: Vec<u64>,
    /// By sending device, the bytes of its activations; gradients weigh nothing.
    bytes: Vec<u64>,
    /// By sending device, the legs of its messages.
    legs: Vec<Vec<usize>>,
    /// By sending device, its link's own limit.
    limit: Vec<Option<f64>>,
    resources: Vec<Resource>,
}

impl MemoryModel for Shared {
    fn bytes(&self, device: DeviceId, value: Value) -> Bytes {
        Bytes(match value {
            Value::Activation { .. } => self.bytes[device.idx()],
            _ => 0,
        })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Shared {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let is_forward = matches!(op, Op::Compute { pass: Pass::Forward, .. });
        Nanos(if is_forward { self.forward[device.idx()] } else { 0 })
    }
    fn link(&self, from: DeviceId, _: DeviceId) -> LinkCost {
        let bandwidth = self.limit[from.idx()].map(Bandwidth::from_bytes_per_second);
        LinkCost { latency: Nanos(7), bandwidth }
    }
    fn resources(&self) -> &[Resource] {
        &self.resources
    }
    fn legs(&self, from: DeviceId, _: DeviceId) -> Vec<usize> {
        self.legs[from.idx()].clone()
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

fn resources(rates: &[f64]) -> Vec<Resource> {
    let resource = |rate: &f64| Resource {
        name: "shared".to_owned(),
        bandwidth: Bandwidth::from_bytes_per_second(*rate),
    };
    rates.iter().map(resource).collect()
}

/// Pipelines of two stages: the even devices send to the odd ones.
fn pairs(n_pairs: u32, microbatches: u32) -> CheckedSchedule {
    let stage =
        |device: u32, layer: u32| Stage { device: DeviceId(device), layers: layer..layer + 1 };
    let pipeline =
        |p: u32| Pipeline { stages: vec![stage(2 * p, 0), stage(2 * p + 1, 1)], microbatches };
    let layout = Layout {
        n_layers: 2,
        n_devices: 2 * n_pairs,
        ties: Vec::new(),
        pipelines: (0..n_pairs).map(pipeline).collect(),
        ticks: Ticks::default(),
    };
    let order = generate(Kind::GPipe, &layout).expect("it fits");
    check(build(order, &Options::default()), None).expect("it is sound")
}

fn run<C: Costs>(schedule: &CheckedSchedule, costs: &C) -> Trace {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    interpret(schedule, &devices, &mut world).expect("memory has no end")
}

/// Start and end of all sends of activations, by device and in list order.
fn sends(schedule: &CheckedSchedule, trace: &Trace) -> Vec<(u64, u64)> {
    let is_activation = |op: Op| match op {
        Op::Send(id) => {
            let transfer = &schedule.schedule().transfers[id.idx()];
            matches!(transfer.value, Value::Activation { .. })
        }
        _ => false,
    };
    let records = trace.iter().filter(|(action, _)| is_activation(schedule.op(*action)));
    records.map(|(_, record)| (record.start.0, record.end.0)).collect()
}

/// One message a pair: forwards of these lengths, then messages of these bytes.
fn one_each(pairs_of: &[(u64, u64, Option<f64>, &[usize])], rates: &[f64]) -> Vec<(u64, u64)> {
    let costs = costs_of(pairs_of, rates);
    let schedule = pairs(pairs_of.len() as u32, 1);
    sends(&schedule, &run(&schedule, &costs))
}

fn costs_of(pairs_of: &[(u64, u64, Option<f64>, &[usize])], rates: &[f64]) -> Shared {
    let twice = |times: Vec<u64>| times.into_iter().flat_map(|time| [time, 0]).collect();
    let of = pairs_of.iter();
    Shared {
        forward: twice(of.clone().map(|pair| pair.0).collect()),
        bytes: twice(of.clone().map(|pair| pair.1).collect()),
        limit: of.clone().flat_map(|pair| [pair.2, None]).collect(),
        legs: of.flat_map(|pair| [pair.3.to_vec(), Vec::new()]).collect(),
        resources: resources(rates),
    }
}

#[test]
fn one_alone_is_as_fast_as_the_narrowest_part_of_its_way() {
    let link: &[usize] = &[0];
    assert_eq!(one_each(&[(5, 1000, None, link)], &[BYTE_A_NANO]), [(5, 1005)]);
    assert_eq!(one_each(&[(5, 1000, Some(5e8), link)], &[BYTE_A_NANO]), [(5, 2005)]);
    assert_eq!(one_each(&[(5, 1000, None, &[0, 1])], &[BYTE_A_NANO, 2.5e8]), [(5, 4005)]);
}

#[test]
fn two_on_one_link_take_twice_as_long() {
    let link: &[usize] = &[0];
    let both = [(10, 1000, None, link), (10, 1000, None, link)];
    assert_eq!(one_each(&both, &[BYTE_A_NANO]), [(10, 2010), (10, 2010)]);
    // On links of their own they do not notice each other.
    let apart: [(u64, u64, Option<f64>, &[usize]); 2] =
        [(10, 1000, None, &[0]), (10, 1000, None, &[1])];
    assert_eq!(one_each(&apart, &[BYTE_A_NANO, BYTE_A_NANO]), [(10, 1010), (10, 1010)]);
}

/// One alone for 500, both at half the rate until the first is done, then the other alone.
#[test]
fn one_that_joins_half_way_slows_the_rest_of_the_first() {
    let link: &[usize] = &[0];
    let both = [(0, 1000, None, link), (500, 1000, None, link)];
    assert_eq!(one_each(&both, &[BYTE_A_NANO]), [(0, 1500), (500, 2000)]);
}

/// Three on a link of 1, one of which may have 1/5: the others have 2/5 each. When the short one
/// of them is done, the long one has the 4/5 that the limited one leaves.
#[test]
fn what_a_limited_one_leaves_the_others_share() {
    let link: &[usize] = &[0];
    let three =
        [(0, 400, None, link), (0, 800, None, link), (0, 1000, Some(BYTE_A_NANO / 5.0), link)];
    assert_eq!(one_each(&three, &[BYTE_A_NANO]), [(0, 1000), (0, 1500), (0, 5000)]);
}

/// The classic: one over both links, one over each. The narrow one binds the long flow to 1/4, so
/// the other on the wide one has 3/4.
#[test]
fn a_flow_over_two_links_is_bound_by_the_narrow_one() {
    let three: [(u64, u64, Option<f64>, &[usize]); 3] =
        [(0, 500, None, &[0, 1]), (0, 1500, None, &[0]), (0, 500, None, &[1])];
    assert_eq!(one_each(&three, &[BYTE_A_NANO, 5e8]), [(0, 2000), (0, 2000), (0, 2000)]);
}

/// Pairs with messages of several micro-batches over resources in any mixture.
fn mixtures() -> impl Strategy<Value = (Shared, CheckedSchedule)> {
    let rate = (1..40_u32).prop_map(|tenths| f64::from(tenths) * BYTE_A_NANO / 10.0);
    let legs = proptest::sample::subsequence(vec![0, 1, 2], 0..=3);
    let limit = proptest::option::of(rate.clone());
    let pair = (0..2000_u64, 0..5000_u64, limit, legs);
    let all = (proptest::collection::vec(pair, 1..6), proptest::collection::vec(rate, 3), 1..6_u32);
    all.prop_map(|(pairs_of, rates, microbatches)| {
        let borrowed: Vec<_> =
            pairs_of.iter().map(|(f, b, limit, legs)| (*f, *b, *limit, legs.as_slice())).collect();
        (costs_of(&borrowed, &rates), pairs(pairs_of.len() as u32, microbatches))
    })
}

proptest! {
    /// In pairs whose first device computes without waiting for anything, sharing only delays; no
    /// resource carries more than it can; and a lane still sends one message after the other.
    #[test]
    fn sharing_delays_and_no_resource_carries_more_than_it_can((costs, schedule) in mixtures()) {
        let shared = run(&schedule, &costs);
        let fastest = |device: usize| {
            let legs = costs.legs[device].iter().map(|&leg| costs.resources[leg].bandwidth);
            let legs = legs.map(Bandwidth::bytes_per_second);
            legs.chain(costs.limit[device]).reduce(f64::min)
        };
        let alone = Shared {
            limit: (0..costs.limit.len()).map(fastest).collect(),
            legs: vec![Vec::new(); costs.legs.len()],
            resources: Vec::new(),
            forward: costs.forward.clone(),
            bytes: costs.bytes.clone(),
        };
        let alone = run(&schedule, &alone);
        let mut carried = vec![0.0; costs.resources.len()];
        let mut last = vec![0_u64; costs.resources.len()];
        for (action, record) in shared.iter() {
            let before = alone.get(action).expect("it ran");
            // Rounding: half a nanosecond for each message before it, at most.
            prop_assert!(record.end.0 + 8 >= before.end.0, "{}", schedule.describe(action));
            if let Op::Send(id) = schedule.op(action) {
                let transfer = &schedule.schedule().transfers[id.idx()];
                let bytes = costs.bytes(transfer.from, transfer.value).0 as f64;
                for &leg in &costs.legs[transfer.from.idx()] {
                    carried[leg] += bytes;
                    last[leg] = last[leg].max(record.end.0);
                    let rate = costs.resources[leg].bandwidth.bytes_per_second();
                    let taken = (record.end.0 - record.start.0) as f64 / 1e9;
                    prop_assert!(bytes <= rate * (taken + 1e-9), "faster than its resource");
                }
            }
        }
        for (leg, bytes) in carried.iter().enumerate() {
            let rate = costs.resources[leg].bandwidth.bytes_per_second();
            let slack = rate * 8e-9;
            let most = rate * last[leg] as f64 / 1e9 + slack;
            prop_assert!(*bytes <= most, "{bytes} in {}", last[leg]);
        }
        for device in (0..schedule.n_devices()).map(DeviceId::from_idx) {
            let is_send = |a: &ActionId| matches!(schedule.op(*a), Op::Send(_));
            let sends = schedule.actions_of(device).map(ActionId).filter(is_send);
            let records: Vec<_> = sends.map(|a| shared.get(a).expect("it ran")).collect();
            prop_assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
        prop_assert_eq!(run(&schedule, &costs), shared);
    }

    /// Resources so wide that nobody notices them change nothing, to the nanosecond.
    #[test]
    fn wide_resources_change_nothing(
        forward in 1..2000_u64, bytes in 0..100_000_u64, microbatches in 1..9_u32,
    ) {
        let wide: [(u64, u64, Option<f64>, &[usize]); 3] = [
            (forward, bytes, Some(BYTE_A_NANO), &[0, 1]),
            (forward, bytes, Some(BYTE_A_NANO / 3.0), &[1]),
            (forward, bytes, Some(BYTE_A_NANO / 7.0), &[0]),
        ];
        let own = wide.map(|(forward, bytes, limit, _)| (forward, bytes, limit, &[] as &[usize]));
        let schedule = pairs(3, microbatches);
        let shared = run(&schedule, &costs_of(&wide, &[1e12, 1e12]));
        prop_assert_eq!(shared, run(&schedule, &costs_of(&own, &[])));
    }
}
