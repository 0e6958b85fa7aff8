//! How many ops a second the engine runs in the virtual world.
//!
//! `cargo bench -p cavalcade-sim`

use cavalcade_cluster::Resource;
use cavalcade_engine::{Trace, interpret};
use cavalcade_schedule::{
    CheckedSchedule, CollectiveKind, Kind, Layout, MemoryModel, Op, Options, Pass, Pipeline, Stage,
    Ticks, Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, VirtualWorld};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos};
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

/// Every stage of all pipelines in a node with one NIC: all messages share two resources each,
/// and unequal computing times keep them from starting and ending together.
struct Nics {
    n_stages: u32,
    resources: Vec<Resource>,
}

impl Nics {
    fn new(n_stages: u32) -> Self {
        let nic = |idx| Resource {
            name: format!("NIC {idx}"),
            bandwidth: Bandwidth::from_bytes_per_second(1e9 + f64::from(idx)),
        };
        Self { n_stages, resources: (0..2 * n_stages).map(nic).collect() }
    }
}

impl MemoryModel for Nics {
    fn bytes(&self, _: DeviceId, _: Value) -> Bytes {
        Bytes(50)
    }
    fn workspace(&self, device: DeviceId, op: Op) -> Bytes {
        Fixed.workspace(device, op)
    }
    fn capacity(&self, device: DeviceId) -> Option<Bytes> {
        Fixed.capacity(device)
    }
}

impl Costs for Nics {
    fn compute(&self, device: DeviceId, op: Op) -> Nanos {
        let microbatch = match op {
            Op::Compute { microbatch, .. } => microbatch.0,
            _ => 0,
        };
        let mixed = device.0.wrapping_mul(2_654_435_761) ^ microbatch.wrapping_mul(40_503);
        Fixed.compute(device, op) + Nanos(u64::from(mixed % 97))
    }
    fn link(&self, from: DeviceId, to: DeviceId) -> LinkCost {
        Fixed.link(from, to)
    }
    fn resources(&self) -> &[Resource] {
        &self.resources
    }
    fn legs(&self, from: DeviceId, to: DeviceId) -> Vec<usize> {
        let node = |device: DeviceId| (device.0 % self.n_stages) as usize;
        vec![node(from), self.n_stages as usize + node(to)]
    }
    fn collective(&self, kind: CollectiveKind, group: &[DeviceId]) -> Nanos {
        Fixed.collective(kind, group)
    }
}

fn simulate(schedule: &CheckedSchedule, costs: &impl Costs) -> Trace {
    let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
    let mut world = VirtualWorld::new(schedule, costs, vec![Nanos::ZERO; devices.len()]);
    interpret(schedule, &devices, &mut world).expect("it was checked")
}

fn virtual_world(criterion: &mut Criterion) {
    let sizes = [(1, 4, 64), (4, 16, 256), (16, 16, 128)];
    for (group, is_shared) in [("virtual_world", false), ("shared_nics", true)] {
        let mut group = criterion.benchmark_group(group);
        for (n_pipelines, n_stages, microbatches) in sizes {
            let schedule = replicas(n_pipelines, n_stages, microbatches);
            let nics = Nics::new(n_stages);
            group.throughput(Throughput::Elements(schedule.n_actions() as u64));
            let id =
                BenchmarkId::from_parameter(format!("{n_pipelines}x{n_stages}x{microbatches}"));
            group.bench_with_input(id, &schedule, |bencher, schedule| {
                if is_shared {
                    bencher.iter(|| simulate(schedule, &nics));
                } else {
                    bencher.iter(|| simulate(schedule, &Fixed));
                }
            });
        }
        group.finish();
    }
}

criterion_group!(benches, virtual_world);
criterion_main!(benches);
