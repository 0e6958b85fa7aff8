//! Jitter, stragglers and faults, over links of pairs and over the same links as resources.

use cavalcade_cluster::Resource;
use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass,
    Pipeline, Stage, Ticks, Value, build, check, generate,
};
use cavalcade_sim::{
    Costs, Disturbance, Fault, LinkCost, Stalled, Verdict, VirtualWorld, predict, predict_disturbed,
};
use cavalcade_testkit::layouts::cases;
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// A forward of 1000, a backward of 2000, messages of 500 at a byte a nanosecond, a latency of 7.
struct Simple {
    n_devices: usize,
    /// By pair; none where links are the pairs' own.
    resources: Vec<Resource>,
}

impl Simple {
    fn new(n_devices: usize, is_shared: bool) -> Self {
        let resource = |_| Resource { name: "link".to_owned(), bandwidth: rate() };
        let n_resources = if is_shared { n_devices * n_devices } else { 0 };
        Self { n_devices, resources: (0..n_resources).map(resource).collect() }
    }
}

fn rate() -> Bandwidth {
    Bandwidth::from_bytes_per_second(1e9)
}

impl MemoryModel for Simple {
    fn bytes(&self, _: DeviceId, _: Value) -> Bytes {
        Bytes(500)
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Simple {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        Nanos(match op {
            Op::Compute { pass: Pass::Forward, .. } => 1000,
            Op::Compute { .. } => 2000,
            _ => 100,
        })
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        LinkCost { latency: Nanos(7), bandwidth: self.resources.is_empty().then(rate) }
    }
    fn resources(&self) -> &[Resource] {
        &self.resources
    }
    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        let pair = from.idx() * self.n_devices + to.idx();
        if self.resources.is_empty() { Vec::new() } else { vec![pair] }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos(50)
    }
}

fn replicas(n_pipelines: u32, n_stages: u32, microbatches: u32) -> CheckedSchedule {
    let pipeline = |p| {
        let stage = |i| Stage { device: DeviceId(p * n_stages + i), layers: i..i + 1 };
        Pipeline { stages: (0..n_stages).map(stage).collect(), microbatches }
    };
    let layout = Layout {
        n_layers: n_stages,
        n_devices: n_pipelines * n_stages,
        ties: Vec::new(),
        pipelines: (0..n_pipelines).map(pipeline).collect(),
        ticks: Ticks::default(),
    };
    let order = generate(Kind::OneFOneB, &layout).expect("one stage a device");
    check(build(order, &Options::default()), None).expect("1F1B is sound")
}

/// One disturbed step, the same over both forms of links.
fn run(schedule: &CheckedSchedule, disturbance: &Disturbance) -> Result<Trace, Stalled> {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let trouble = disturbance.check(devices.len()).expect("it makes sense");
    let [own, shared] = [false, true].map(|is_shared| {
        let costs = Simple::new(devices.len(), is_shared);
        let world = VirtualWorld::new(schedule, &costs, vec![Nanos::ZERO; devices.len()]);
        interpret(schedule, &devices, &mut world.disturbed(&trouble, 0))
    });
    assert_eq!(own, shared, "{disturbance:?}");
    own
}

fn with(faults: &[Fault]) -> Disturbance {
    Disturbance { faults: faults.to_vec(), ..Disturbance::default() }
}

fn stall(from: u32, to: u32, at: u64, lasts: Option<u64>) -> Fault {
    let (from, to) = (DeviceId(from), DeviceId(to));
    Fault::LinkStalls { from, to, at: Nanos(at), lasts: lasts.map(Nanos) }
}

fn death(device: u32, at: u64) -> Fault {
    Fault::DeviceDies { device: DeviceId(device), at: Nanos(at) }
}

fn verdict(schedule: &CheckedSchedule, faults: &[Fault]) -> Verdict {
    match run(schedule, &with(faults)) {
        Err(Stalled::Fault(verdict)) => *verdict,
        other => panic!("it goes on: {other:?}"),
    }
}

/// Two stages, one micro-batch: the first sends at 1000 to 1500, its gradient comes 4507 to 5014,
/// and it ends at 7014 and an optimizer step.
#[test]
fn a_stall_that_ends_delays_by_what_it_takes_from_the_message() {
    let schedule = replicas(1, 2, 1);
    for (faults, expected) in [
        (&[][..], 7114),
        (&[stall(0, 1, 1200, Some(300))], 7414),
        (&[stall(0, 1, 800, Some(300))], 7214),
        (&[stall(0, 1, 500, Some(400))], 7114),
        (&[stall(0, 1, 1500, Some(400))], 7114),
        (&[stall(1, 0, 1200, Some(300))], 7114),
        (&[stall(0, 1, 1200, Some(300)), stall(0, 1, 1300, Some(500))], 7714),
        (&[stall(0, 1, 1300, Some(100)), stall(0, 1, 1100, Some(100))], 7314),
        (&[stall(0, 1, 1000, Some(1)), stall(1, 0, 5000, Some(1000))], 8115),
    ] {
        let trace = run(&schedule, &with(faults)).unwrap();
        assert_eq!(trace.end(), Nanos(expected), "{faults:?}");
    }
}

#[test]
fn a_stall_for_ever_is_named_with_who_waits() {
    let found = verdict(&replicas(1, 2, 2), &[stall(0, 1, 1200, None)]);
    expect![[r#"
        the link from device 0 to device 1 stalled at 1.2 us; at 2.0 us nothing could go on, 2 of 18 ops were done
        device 0, op 1 (S0) waits for the link from device 0 to device 1, which stalled at 1.2 us
        device 1, op 0 (R0) waits for the link from device 0 to device 1, which stalled at 1.2 us"#]]
    .assert_eq(&found.to_string());
}

#[test]
fn a_death_is_named_with_who_waits() {
    expect![[r#"
        device 2 died at 12.0 us; at 14.0 us nothing could go on, 40 of 59 ops were done
        device 0, op 12 (R6) waits for device 1, which waits itself
        device 1, op 18 (R14) waits for device 2, which died at 12.0 us"#]]
    .assert_eq(&verdict(&replicas(1, 3, 4), &[death(2, 12_000)]).to_string());
    // In a sum of gradients the members of other pipelines wait as well.
    expect![[r#"
        device 3 died at 8.0 us; at 10.0 us nothing could go on, 33 of 40 ops were done
        device 0, op 8 (C1) waits for device 2, which waits itself
        device 2, op 6 (R7) waits for device 3, which died at 8.0 us"#]]
    .assert_eq(&verdict(&replicas(2, 2, 2), &[death(3, 8_000)]).to_string());
    // The first fault that holds something up is the cause; the second pipeline's is another one.
    let two = [stall(2, 3, 9_000, None), death(1, 4_000), stall(1, 0, 20_000, Some(1))];
    let found = verdict(&replicas(2, 2, 4), &two);
    expect![[r#"
        device 1 died at 4.0 us; at 14.0 us nothing could go on, 32 of 72 ops were done
        device 0, op 4 (R2) waits for device 1, which died at 4.0 us
        device 2, op 11 (S13) waits for the link from device 2 to device 3, which stalled at 9.0 us
        device 3, op 12 (R13) waits for the link from device 2 to device 3, which stalled at 9.0 us"#]]
    .assert_eq(&found.to_string());
}

#[test]
fn what_ends_before_a_fault_does_not_notice_it() {
    let schedule = replicas(1, 2, 1);
    let free = run(&schedule, &with(&[])).unwrap();
    assert_eq!(run(&schedule, &with(&[death(1, 5_007), death(0, 7_114)])), Ok(free));
    // Its gradient has to leave until 5007; what has left arrives.
    assert_eq!(verdict(&schedule, &[death(1, 5_006)]).fault, death(1, 5_006));
    assert_eq!(verdict(&schedule, &[death(0, 7_113)]).n_finished, schedule.n_actions() - 1);
}

#[test]
fn an_unfinished_step_says_how_far_it_came() {
    let schedule = replicas(1, 2, 1);
    // Nothing but the two receives can begin besides the forward that does not end.
    let found = verdict(&schedule, &[death(0, 999)]);
    assert_eq!((found.n_finished, found.n_actions), (0, schedule.n_actions()));
    assert_eq!((found.waits.len(), found.at), (1, Nanos(999)));
}

fn computes(schedule: &CheckedSchedule, trace: &Trace) -> Vec<(ActionId, Nanos)> {
    let is_compute = |a: ActionId| matches!(schedule.op(a), Op::Compute { .. });
    let records = trace.iter().filter(|(action, _)| is_compute(*action));
    records.map(|(action, record)| (action, record.end - record.start)).collect()
}

#[test]
fn a_straggler_is_slower_by_its_factor() {
    let schedule = replicas(1, 3, 4);
    let stragglers = vec![(DeviceId(1), 1.5), (DeviceId(2), 2.0), (DeviceId(1), 2.0)];
    let slow = run(&schedule, &Disturbance { stragglers, ..Disturbance::default() }).unwrap();
    let free = run(&schedule, &Disturbance::default()).unwrap();
    for ((action, slow), (_, free)) in
        computes(&schedule, &slow).iter().zip(computes(&schedule, &free))
    {
        let factor = [1, 3, 2][schedule.device_of(*action).idx()];
        assert_eq!(*slow, free * factor);
    }
}

/// Draws have the mean and the spread that was asked for, and depend on nothing but seed, step and
/// action: whatever the links and the order of events, an action takes as long.
#[test]
fn jitter_has_its_mean_and_spread_and_does_not_depend_on_the_order() {
    let schedule = replicas(2, 4, 256);
    let jitter = |seed| Disturbance { seed, jitter: 0.2, ..Disturbance::default() };
    let trace = run(&schedule, &jitter(3)).unwrap();
    assert_eq!(run(&schedule, &jitter(3)).unwrap(), trace);
    assert_ne!(run(&schedule, &jitter(4)).unwrap(), trace);
    let late = Disturbance { faults: vec![stall(0, 1, 0, Some(77_000))], ..jitter(3) };
    let late = run(&schedule, &late).unwrap();
    assert_ne!(late, trace);
    assert_eq!(computes(&schedule, &late), computes(&schedule, &trace));

    let free = run(&schedule, &Disturbance::default()).unwrap();
    let pairs = computes(&schedule, &trace).into_iter().zip(computes(&schedule, &free));
    let factors: Vec<f64> =
        pairs.map(|((_, drawn), (_, cost))| drawn.0 as f64 / cost.0 as f64).collect();
    let n = factors.len() as f64;
    let mean = factors.iter().sum::<f64>() / n;
    let variance = factors.iter().map(|factor| (factor - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // 4096 draws: four standard errors.
    assert!((mean - 1.0).abs() < 4.0 * 0.2 / n.sqrt(), "{mean}");
    assert!((variance.sqrt() - 0.2).abs() < 4.0 * 0.2 / n.sqrt(), "{}", variance.sqrt());
}

#[test]
fn no_disturbance_predicts_the_same_and_a_fault_in_the_second_step_is_found() {
    let schedule = replicas(1, 2, 4);
    let costs = Simple::new(2, false);
    let free = predict(&schedule, &costs).unwrap();
    let disturbed =
        |faults: &[Fault]| predict_disturbed(&schedule, &costs, &with(faults).check(2).unwrap());
    assert_eq!(disturbed(&[]), Ok(free.clone()));
    let later = free.step_time.0 + 3_000;
    let error = disturbed(&[death(1, later)]).unwrap_err();
    assert!(matches!(error, Stalled::Fault(verdict) if verdict.fault == death(1, later)));
    assert_eq!(disturbed(&[death(1, 10 * free.step_time.0)]), Ok(free));
}

#[test]
fn nonsense_is_refused() {
    let refuse = |disturbance: Disturbance, message: Expect| {
        message.assert_eq(&disturbance.check(2).unwrap_err().to_string());
    };
    let none = Disturbance::default;
    refuse(
        Disturbance { jitter: f64::NAN, ..none() },
        expect!["a jitter of NaN; write a number from 0 to 10, such as 0.1 for a tenth"],
    );
    refuse(
        Disturbance { jitter: -0.1, ..none() },
        expect!["a jitter of -0.1; write a number from 0 to 10, such as 0.1 for a tenth"],
    );
    refuse(
        Disturbance { stragglers: vec![(DeviceId(0), 0.0)], ..none() },
        expect!["device 0 is slower by 0; write a factor above 0, such as 1.5"],
    );
    refuse(
        Disturbance { stragglers: vec![(DeviceId(2), 2.0)], ..none() },
        expect!["there is no device 2 to disturb; the devices are 0..2"],
    );
    refuse(with(&[death(7, 1)]), expect!["there is no device 7 to disturb; the devices are 0..2"]);
    refuse(
        with(&[stall(1, 1, 1, None)]),
        expect!["device 1 has no link to itself that could stall; name two devices"],
    );
}

proptest! {
    /// Whatever stalls and goes on again delays by no more than all stalls together, and nothing
    /// is early.
    #[test]
    fn stalls_that_end_only_delay(
        (kind, layout) in cases(3),
        stalls in proptest::collection::vec(
            (0..6_u32, 1..6_u32, 0..20_000_u64, 0..9_000_u64),
            0..5,
        ),
    ) {
        let schedule = check(build(generate(kind, &layout).unwrap(), &Options::default()), None);
        let schedule = schedule.unwrap();
        let n = layout.n_devices;
        let faults: Vec<_> = stalls.iter().filter(|_| n > 1).map(|&(from, off, at, lasts)| {
            let from = from % n;
            stall(from, (from + 1 + off % (n - 1)) % n, at, Some(lasts))
        }).collect();
        let all: u64 = if n > 1 { stalls.iter().map(|&(.., lasts)| lasts).sum() } else { 0 };
        let late = run(&schedule, &with(&faults)).unwrap();
        for (action, free) in run(&schedule, &with(&[])).unwrap().iter() {
            let late = late.get(action).unwrap();
            prop_assert!(late.end >= free.end && late.end.0 <= free.end.0 + all);
        }
    }

    /// Any death ends in a verdict that names it, or comes too late to matter.
    #[test]
    fn a_death_ends_in_a_verdict(
        (kind, layout) in cases(3),
        device in 0..6_u32,
        at in 0..60_000_u64,
    ) {
        let schedule = check(build(generate(kind, &layout).unwrap(), &Options::default()), None);
        let schedule = schedule.unwrap();
        let fault = death(device % layout.n_devices, at);
        match run(&schedule, &with(&[fault])) {
            Ok(trace) => prop_assert_eq!(Ok(trace), run(&schedule, &with(&[]))),
            Err(Stalled::Fault(verdict)) => {
                prop_assert_eq!(verdict.fault, fault);
                prop_assert!(verdict.n_finished < verdict.n_actions);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
