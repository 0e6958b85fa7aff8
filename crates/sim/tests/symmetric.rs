//! A schedule with symmetric copies against the same with every copy written down.

use cavalcade_engine::interpret;
use cavalcade_schedule::{
    ActionId, CheckedSchedule, CollectiveKind, Form, Kind, Layout, MemoryModel, Op, Options, Pass,
    Pipeline, Stage, Ticks, Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld, predict};
use cavalcade_testkit::layouts::cases;
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use proptest::prelude::*;

/// Costs that depend on a device's place in its copy of `n_devices`, and on how many take part.
struct ByPlace {
    n_devices: u32,
    /// Copies that each device of the schedule stands for.
    stands_for: u64,
    seed: u64,
}

impl ByPlace {
    fn drawn(&self, device: DeviceId, what: u64) -> u64 {
        let place = u64::from(device.0 % self.n_devices);
        (place * 7919 + what * 104_729 + self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54
    }
}

impl MemoryModel for ByPlace {
    fn bytes(&self, device: DeviceId, value: Value) -> Bytes {
        Bytes(match value {
            Value::Stash { .. } => 5 + self.drawn(device, 1),
            _ => 1,
        })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for ByPlace {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let what = if let Op::Compute { pass: Pass::Forward, .. } = op { 2 } else { 3 };
        Nanos(100 + self.drawn(device, what))
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        let latency = Nanos(self.drawn(from, 4) + self.drawn(to, 5));
        LinkCost { latency, bandwidth: Some(Bandwidth::from_bytes_per_second(1e7)) }
    }
    fn collective(&self, kind: CollectiveKind, group: &[DeviceId]) -> Nanos {
        let step = if kind == CollectiveKind::GradNorm { 3 } else { 50 };
        Nanos(group.len() as u64 * self.stands_for * step)
    }
}

/// `layout` several times, each on devices of its own.
fn repeated(layout: &Layout, n_copies: u32) -> Layout {
    let copy = |copy: u32, pipeline: &Pipeline| {
        let moved = |stage: &Stage| Stage {
            device: DeviceId(stage.device.0 + copy * layout.n_devices),
            layers: stage.layers.clone(),
        };
        Pipeline {
            stages: pipeline.stages.iter().map(moved).collect(),
            microbatches: pipeline.microbatches,
        }
    };
    let pipelines =
        (0..n_copies).flat_map(|idx| layout.pipelines.iter().map(move |p| copy(idx, p)));
    Layout {
        n_layers: layout.n_layers,
        n_devices: layout.n_devices * n_copies,
        ties: layout.ties.clone(),
        pipelines: pipelines.collect(),
        ticks: Ticks::default(),
    }
}

fn checked(kind: Kind, layout: &Layout, copies: u32) -> CheckedSchedule {
    let options = Options { clip_gradients: true, copies, ..Options::default() };
    check(build(generate(kind, layout).expect("it fits"), &options), None).expect("it is sound")
}

/// Start and end of each op of the first `n_devices` devices, and the most that each holds.
fn first_copy(schedule: &CheckedSchedule, costs: &ByPlace) -> (Vec<Vec<[u64; 2]>>, Vec<Bytes>) {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    let trace = interpret(schedule, &devices, &mut world).expect("it was checked");
    let first = &devices[..costs.n_devices as usize];
    let times = first.iter().map(|&device| {
        let actions = schedule.actions_of(device).map(ActionId);
        let records = actions.map(|action| trace.get(action).expect("it ran"));
        records.map(|record| [record.start.0, record.end.0]).collect()
    });
    let mut peaks = world.peaks();
    peaks.truncate(first.len());
    (times.collect(), peaks)
}

proptest! {
    /// Every op of the copy that is written down runs when it would run among all of them.
    #[test]
    fn one_copy_stands_for_all(
        (kind, layout) in cases(2),
        n_copies in 2u32..5,
        seed in 0u64..1 << 40,
    ) {
        // Without a flush nothing is summed; pipelines that skip share their devices.
        prop_assume!(kind.has_flush() && kind.form() != Form::Alike);
        let whole = checked(kind, &repeated(&layout, n_copies), 0);
        let folded = checked(kind, &layout, n_copies - 1);
        let costs = |stands_for: u32| ByPlace {
            n_devices: layout.n_devices,
            stands_for: stands_for.into(),
            seed,
        };
        prop_assert_eq!(first_copy(&whole, &costs(1)), first_copy(&folded, &costs(n_copies)));
    }
}

proptest! {
    /// Not in the step in which devices become free one after the other either.
    #[test]
    fn nothing_ends_before_it_starts((kind, layout) in cases(2), seed in 0u64..1 << 40) {
        let schedule = checked(kind, &layout, 0);
        let costs = ByPlace { n_devices: layout.n_devices, stands_for: 1, seed };
        let prediction = predict(&schedule, &costs).expect("memory has no end");
        for (action, record) in prediction.trace.iter() {
            prop_assert!(record.start <= record.end, "{}", schedule.describe(action));
        }
        let critical: Nanos = prediction.critical.iter().map(|&(_, time)| time).sum();
        prop_assert!(critical <= prediction.trace.end());
    }
}

/// One pipeline alone has nothing to sum; as one of several it has.
#[test]
fn copies_need_sums() {
    let layout = Layout::even(Kind::OneFOneB, 3, 1, 4);
    let schedule = |copies| checked(Kind::OneFOneB, &layout, copies).schedule().clone();
    assert_eq!(schedule(0).collectives.len(), 1);
    let mut folded = schedule(2);
    assert_eq!(folded.collectives.len(), 4);
    folded.copies = 0;
    let error = check(folded.clone(), None).unwrap_err().to_string();
    assert!(error.contains("the sum of the gradients of bucket 0"), "{error}");
    folded.copies = 2;
    assert_eq!(folded.to_string().parse(), Ok(folded));
}
