//! HetPipe's comparisons (Park et al., USENIX ATC 2020, section 7) on a cluster of one's own: which
//! devices form pipelines, how far apart replicas may be, which devices take part, and all of it
//! against gradients summed over devices that hold the whole model.

use crate::config::Config;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::prepare::{self, Prepared};
use crate::waves::jittered;
use cavalcade_engine::Trace;
use cavalcade_model::Network;
use cavalcade_profile::Profile;
use cavalcade_schedule::{ActionId, CheckedSchedule, Lane, MemoryModel, Op};
use cavalcade_sim::ProfiledCosts;
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// One row of a comparison.
#[derive(Clone, Debug)]
pub struct Case {
    /// Of which table.
    pub table: &'static str,
    /// What is compared in it.
    pub name: String,
    /// The run.
    pub config: Config,
    /// Spread of compute times in the simulation, as a share of their mean.
    pub jitter: f64,
}

/// What is expected of a case, or was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Samples a second over all replicas.
    pub samples_per_s: f64,
    /// Mean time from asking a server to its answer.
    pub wait: Nanos,
    /// The share of their time that devices stand idle because a merge waits for its pull.
    pub idle: f64,
}

/// The comparisons on the cluster of `config`, which exchanges waves over nodes of devices.
///
/// # Errors
/// If the configuration allocates no devices by policy, or has fewer than two nodes.
pub fn hetpipe_cases(
    config: &Config,
    network: &Network,
    profile: &Profile,
) -> Result<Vec<Case>, Error> {
    if config.plan.allocation.is_none() || config.sync.waves.is_none() {
        return Err(Error::Argument(format!(
            "{}: the comparisons need devices that are allocated by a policy and exchange waves; \
             set plan.allocation and sync.mode, as examples/clusters/hetpipe.toml does",
            config.path.display()
        )));
    }
    let mut cases = Vec::new();
    let mut add = |table, name: &str, config, jitter| {
        cases.push(Case { table, name: name.to_owned(), config, jitter });
    };
    let policies = [
        ("np, servers local", "np", "local"),
        ("ed, servers round-robin", "ed", "round-robin"),
        ("ed, servers local", "ed", "local"),
        ("hd, servers local", "hd", "local"),
        ("auto, servers local", "auto", "local"),
    ];
    for (name, policy, servers) in policies {
        let config = config.varied(&[("plan.allocation", policy), ("sync.servers", servers)]);
        // A policy may not fit the nodes that there are.
        if let Ok(config) = config {
            add("policy", name, config, 0.0);
        }
    }
    // As many in flight as there are stages: how many have room depends on the distance.
    let in_flight = config.nodes().len().to_string();
    for distance in ["0", "1", "2", "4"] {
        let name = format!("D = {distance}");
        let config = config.varied(&[
            ("plan.allocation", "ed"),
            ("sync.distance", distance),
            ("sync.in_flight", &in_flight),
        ])?;
        add("distance, compute times varying by 30 %", &name, config, 0.3);
    }
    let nodes = config.nodes();
    for n in 1..=nodes.len() {
        // The strongest first, as the paper adds them.
        let names: Vec<&str> = nodes[..n].iter().map(String::as_str).collect();
        let narrowed = config.narrowed(&names)?;
        let n_devices = narrowed.cluster.devices().len();
        let set = format!("{} ({n_devices} devices)", names.join(""));
        let policy = if n == 1 { "np" } else { "ed" };
        let waves = narrowed.varied(&[("plan.allocation", policy)])?;
        add("device set", &format!("waves on {set}"), waves, 0.0);
        if let Some(config) = all_reduce_case(&narrowed, network, profile)? {
            add("device set", &format!("all-reduce on {set}"), config, 0.0);
        }
    }
    Ok(cases)
}

/// Plain data parallelism: each device that can hold the whole model takes one micro-batch a step;
/// gradients are averaged by a ring. None if no device can.
///
/// # Errors
/// If the configuration makes no sense so.
pub fn all_reduce_case(
    config: &Config,
    network: &Network,
    profile: &Profile,
) -> Result<Option<Config>, Error> {
    let needed = prepare::whole_model_bytes(&network.model(), profile);
    let holds = |device: &DeviceId| {
        config.cluster.device(*device).memory.is_none_or(|memory| needed <= memory)
    };
    let devices = (0..config.cluster.devices().len()).map(DeviceId::from_idx).filter(holds);
    let devices: Vec<DeviceId> = devices.collect();
    if devices.is_empty() { Ok(None) } else { Ok(Some(config.one_stage_each(&devices)?)) }
}

impl Case {
    /// Plans and simulates the case.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn prepare(&self, data: &Dataset, profile: &Profile) -> Result<Prepared, Error> {
        Prepared::new(self.config.clone(), data.clone(), profile.clone())
    }

    /// What the simulator expects.
    ///
    /// # Errors
    /// If the simulated run does not come to its end.
    pub fn expected(&self, prepared: &Prepared) -> Result<Throughput, Error> {
        if self.jitter == 0.0 {
            return Ok(throughput(prepared, &prepared.prediction.trace));
        }
        let costs = ProfiledCosts::new((*prepared.job.costs).clone());
        let prediction = jittered(&prepared.job.schedule, &costs, self.jitter)?;
        Ok(throughput(prepared, &prediction.trace))
    }
}

/// What a trace of one step of a run comes to.
pub fn throughput(prepared: &Prepared, trace: &Trace) -> Throughput {
    let schedule = &prepared.job.schedule;
    let samples = prepared.job.global_batch() as f64;
    let seconds = trace.makespan().as_secs_f64().max(1e-9);
    let (mut waits, mut n_pulls) = (Nanos::ZERO, 0u64);
    for (action, record) in trace.iter() {
        if let Op::Pull(_) = schedule.op(action) {
            waits += record.end - record.start;
            n_pulls += 1;
        }
    }
    let devices = (0..schedule.n_devices()).map(DeviceId::from_idx);
    let busy = devices.filter(|&device| !schedule.actions_of(device).is_empty());
    let idle: Vec<Nanos> = busy.map(|device| held_up(schedule, trace, device)).collect();
    let available = seconds * idle.len().max(1) as f64;
    let held_up: Nanos = idle.into_iter().sum();
    Throughput {
        samples_per_s: samples / seconds,
        wait: Nanos(waits.0 / n_pulls.max(1)),
        idle: held_up.as_secs_f64() / available,
    }
}

/// How long a device's arithmetic stood still before merges.
fn held_up(schedule: &CheckedSchedule, trace: &Trace, device: DeviceId) -> Nanos {
    let lanes = schedule.lanes(device);
    let is_compute = |a: &ActionId| lanes[schedule.lane_of(*a).0 as usize] == Lane::Compute;
    let mut free = None;
    let mut held_up = Nanos::ZERO;
    for action in schedule.actions_of(device).map(ActionId).filter(is_compute) {
        let Some(record) = trace.get(action) else { continue };
        if let (Op::Merge(_), Some(free)) = (schedule.op_on(device, action), free) {
            held_up += record.start.saturating_sub(free);
        }
        free = Some(record.end);
    }
    held_up
}

/// What goes between nodes for each micro-batch: values of the computation, and parameters with
/// their servers.
pub fn bytes_between_nodes(prepared: &Prepared) -> [Bytes; 2] {
    let schedule = prepared.job.schedule.schedule();
    let node = |device: DeviceId| prepared.config.cluster.device(device).node();
    let costs = &prepared.job.costs;
    let mut bytes = [Bytes::ZERO; 2];
    for transfer in &schedule.transfers {
        if node(transfer.from) != node(transfer.to) {
            bytes[0] += costs.bytes(transfer.from, transfer.value);
        }
    }
    for entry in &schedule.exchanges {
        let device = schedule.chunks[entry.chunk.idx()].device;
        let server = schedule.buckets[entry.bucket.idx()].server;
        if server.is_some_and(|server| node(server) != node(device)) {
            // Once to the server, once back.
            bytes[1] += costs.bucket_bytes(entry.bucket) * 2;
        }
    }
    let n = u64::from(prepared.job.n_microbatches()).max(1);
    bytes.map(|bytes| Bytes(bytes.0 / n))
}

/// The model of `config` over `data`: of a GPT, with its vocabulary known.
///
/// # Errors
/// If its sizes make no sense.
pub fn network_of(config: &Config, data: &Dataset) -> Result<Network, Error> {
    prepare::model(config, data)
}
