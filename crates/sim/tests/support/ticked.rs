//! Costs that are a layout's ticks, in nanoseconds: what its generator was told, told to the
//! simulator.

use cavalcade_engine::interpret;
use cavalcade_schedule::{
    CheckedSchedule, CollectiveKind, ComputeOrder, Layout, MemoryModel, Op, Options, Pass,
    StageTicks, Ticks, Value, build, check,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// Every device serves one stage; a stash weighs one byte and nothing else anything.
pub(crate) struct Ticked {
    stages: Vec<StageTicks>,
    ticks: Ticks,
}

impl Ticked {
    pub(crate) fn new(layout: &Layout) -> Self {
        let mut stages = vec![StageTicks::default(); layout.n_devices as usize];
        for (pipeline_idx, pipeline) in layout.pipelines.iter().enumerate() {
            for (stage_idx, stage) in pipeline.stages.iter().enumerate() {
                stages[stage.device.idx()] = layout.ticks.of_stage(pipeline_idx, stage_idx);
            }
        }
        Self { stages, ticks: layout.ticks.clone() }
    }

    /// How long `order` takes and the most stashes that each device holds.
    pub(crate) fn run(&self, order: ComputeOrder) -> (u64, Vec<u64>) {
        let schedule = check(build(order, &Options::default()), None).expect("it is sound");
        self.run_checked(&schedule)
    }

    fn run_checked(&self, schedule: &CheckedSchedule) -> (u64, Vec<u64>) {
        let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
        let mut world = VirtualWorld::new(schedule, self, vec![Nanos::ZERO; devices.len()]);
        let trace = interpret(schedule, &devices, &mut world).expect("memory has no end");
        (trace.makespan().0, world.peaks().into_iter().map(|bytes| bytes.0).collect())
    }
}

impl MemoryModel for Ticked {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(u64::from(matches!(value, Value::Stash { .. })))
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Ticked {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let ticks = self.stages[device.idx()];
        Nanos(match op {
            Op::Compute { pass: Pass::Forward, .. } => ticks.forward,
            Op::Compute { pass: Pass::Backward, .. } => ticks.backward,
            Op::Compute { pass: Pass::BackwardInput, .. } => ticks.backward_input,
            Op::Compute { pass: Pass::BackwardWeight, .. } => ticks.backward_weight,
            _ => 0,
        })
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        LinkCost { latency: Nanos(self.ticks.delay(from, to)), bandwidth: None }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}
