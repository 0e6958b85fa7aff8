//! How long it takes to make, check and simulate a step of 16,384 devices.
//!
//! `cargo bench -p cavalcade-sim --bench scale`
//!
//! The shape is that of Llama 3 405B in training (Grattafiori et al. 2024): tensor parallelism over
//! 8 devices, 16 stages of 8 chunks, 128 replicas, 128 micro-batches a replica. A device of the
//! schedule stands for the 1,024 that do the same: 8 of a tensor-parallel group, whose collectives
//! belong to its passes, in each of 128 replicas.

use cavalcade_engine::interpret;
use cavalcade_schedule::{
    CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass, Value, build,
    check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const N_STAGES: u32 = 16;
const N_CHUNKS: u32 = 8;
const N_MICROBATCHES: u32 = 128;
const N_ALIKE: u32 = 8 * 128;

/// A layer a chunk, on devices and links that are alike.
struct Llama;

impl MemoryModel for Llama {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        Bytes(match value {
            Value::Stash { .. } => 200 << 20,
            Value::Params { .. } | Value::ParamGrad { .. } => 800 << 20,
            _ => 16 << 20,
        })
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Llama {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        let is_forward = matches!(op, Op::Compute { pass: Pass::Forward, .. });
        Nanos(if is_forward { 14_000_000 } else { 28_000_000 })
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        let bandwidth = Some(Bandwidth::from_bytes_per_second(50e9));
        LinkCost { latency: Nanos(10_000), bandwidth }
    }
    fn collective(&self, _: CollectiveKind, group: &[DeviceId]) -> Nanos {
        Nanos(group.len() as u64 * 20_000_000)
    }
}

fn schedule() -> CheckedSchedule {
    let layout = Layout::even(Kind::Interleaved, N_STAGES, N_CHUNKS, N_MICROBATCHES);
    let order = generate(Kind::Interleaved, &layout).expect("the stages go round the devices");
    let options = Options { clip_gradients: true, copies: N_ALIKE - 1, ..Options::default() };
    check(build(order, &options), Some(&Llama)).expect("interleaved schedules are sound")
}

fn simulated(schedule: &CheckedSchedule) -> Nanos {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, &Llama, vec![Nanos::ZERO; devices.len()]);
    interpret(schedule, &devices, &mut world).expect("it was checked").makespan()
}

fn scale(criterion: &mut Criterion) {
    let made = schedule();
    let n_devices = made.n_devices() as u64 * u64::from(N_ALIKE);
    assert_eq!(n_devices, 16_384);
    let mut group = criterion.benchmark_group("16384_devices");
    group.sample_size(10);
    group.throughput(Throughput::Elements(made.n_actions() as u64));
    group.bench_function("make_and_check", |bencher| bencher.iter(schedule));
    group.bench_function("simulate", |bencher| bencher.iter(|| simulated(&made)));
    group.finish();
}

criterion_group!(benches, scale);
criterion_main!(benches);
