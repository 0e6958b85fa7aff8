//! How many ops a second the engine runs in the virtual world.
//!
//! `cargo bench -p cavalcade-sim`

use cavalcade_engine::interpret;
use cavalcade_schedule::{
    CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass, Pipeline, Stage,
    Ticks, Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bytes, DeviceId, Nanos};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

struct Fixed;

impl MemoryModel for Fixed {
    fn bytes(&self, _: DeviceId, _: Value) -> Bytes {
        Bytes(1)
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for Fixed {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        Nanos(if matches!(op, Op::Compute { pass: Pass::Forward, .. }) { 1000 } else { 2000 })
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        LinkCost { latency: Nanos(10), bandwidth: None }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos(100)
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
    check(build(order, &Options { clip_gradients: true, ..Options::default() }), None)
        .expect("1F1B is sound")
}

fn virtual_world(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("virtual_world");
    for (n_pipelines, n_stages, microbatches) in [(1, 4, 64), (4, 16, 256), (16, 16, 128)] {
        let schedule = replicas(n_pipelines, n_stages, microbatches);
        let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
        group.throughput(Throughput::Elements(schedule.n_actions() as u64));
        let name = format!("{n_pipelines}x{n_stages}x{microbatches}");
        group.bench_with_input(
            BenchmarkId::from_parameter(name),
            &schedule,
            |bencher, schedule| {
                bencher.iter(|| {
                    let free = vec![Nanos::ZERO; devices.len()];
                    let mut world = VirtualWorld::new(schedule, &Fixed, free);
                    interpret(schedule, &devices, &mut world).expect("it was checked")
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, virtual_world);
criterion_main!(benches);
