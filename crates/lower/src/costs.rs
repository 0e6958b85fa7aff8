//! What an op costs on a device, by the profile.

use cavalcade_cluster::{Cluster, LinkSpec, Route};
use cavalcade_model::Model;
use cavalcade_profile::{Pass as ProfiledPass, Profile};
use cavalcade_schedule::{BucketId, Kind, MemoryModel, Op, ParamUnit, Pass, Schedule, Value};
use cavalcade_units::{Bandwidth, Bytes, ChunkId, DeviceId, Nanos};
use std::ops::Range;

/// Times and sizes of the ops and values of one schedule on one cluster.
#[derive(Clone, Debug)]
pub struct OpCosts {
    schedule: Schedule,
    profile: Profile,
    cluster: Cluster,
    /// Parameters by bucket.
    bucket_params: Vec<usize>,
    /// Parameters by chunk.
    chunk_params: Vec<usize>,
    /// Whether backward passes run in two halves, by chunk.
    chunk_is_split: Vec<bool>,
    /// Bytes that a forward or whole backward pass needs while it runs, by chunk.
    chunk_workspace: Vec<Bytes>,
    /// Bytes of the parameter servers, by device.
    server_bytes: Vec<Bytes>,
}

impl OpCosts {
    /// Costs of `schedule`, which was lowered for `model` and `cluster`.
    ///
    /// # Panics
    /// If the profile or the cluster is of something else: fewer layers or devices.
    pub fn new(schedule: &Schedule, model: &Model, profile: &Profile, cluster: &Cluster) -> Self {
        assert_eq!(profile.layers.len(), schedule.n_layers as usize, "one profile a layer");
        assert_eq!(cluster.devices().len(), schedule.programs.len(), "one program a device");
        let bucket_params: Vec<usize> = schedule
            .buckets
            .iter()
            .map(|bucket| match &bucket.unit {
                ParamUnit::Layers(layers) => own_params(model, layers.clone()),
                ParamUnit::Tie(tie) => model.ties[*tie as usize].param.n_values(),
            })
            .collect();
        let mut chunk_params = vec![0; schedule.chunks.len()];
        for (bucket, n_params) in schedule.buckets.iter().zip(&bucket_params) {
            bucket.holders.iter().for_each(|chunk| chunk_params[chunk.idx()] += n_params);
        }
        let mut chunk_is_split = vec![false; schedule.chunks.len()];
        for op in schedule.programs.iter().flatten() {
            if let Op::Compute { pass: Pass::BackwardInput, chunk, .. } = op {
                chunk_is_split[chunk.idx()] = true;
            }
        }
        let chunks = schedule.chunks.iter().zip(&chunk_params);
        let chunk_workspace = chunks
            .map(|(chunk, &n_params)| workspace(model, profile, chunk.layers.clone(), n_params))
            .collect();
        let server_bytes = server_bytes(schedule, &bucket_params);
        Self {
            server_bytes,
            chunk_is_split,
            chunk_workspace,
            schedule: schedule.clone(),
            profile: profile.clone(),
            cluster: cluster.clone(),
            bucket_params,
            chunk_params,
        }
    }

    /// How long the arithmetic of `op` takes on `device`; zero for what is not arithmetic.
    pub fn arithmetic(&self, device: DeviceId, op: Op) -> Nanos {
        let speed = speed(&self.cluster, device);
        match op {
            Op::Compute { pass: Pass::Update, chunk, .. } | Op::OptimizerStep { chunk } => {
                self.profile.optimizer_time(self.chunk_params[chunk.idx()], speed)
            }
            // New weights are written, as at the end of an optimizer step.
            Op::Compute { pass: Pass::Apply, chunk, .. } => {
                self.profile.optimizer_time(self.chunk_params[chunk.idx()], speed)
            }
            Op::Merge(id) => {
                let bucket = self.schedule.exchanges[id.idx()].bucket;
                self.profile.optimizer_time(self.bucket_params[bucket.idx()], speed)
            }
            Op::Compute { pass, chunk, .. } => {
                pass_time(&self.profile, pass, self.layers(chunk), speed)
            }
            Op::Send(_)
            | Op::Recv(_)
            | Op::Push(_)
            | Op::Pull(_)
            | Op::Collective(_)
            | Op::Offload { .. }
            | Op::Prefetch { .. } => Nanos::ZERO,
        }
    }

    /// The profile behind these costs.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The cluster behind these costs.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Bytes of the gradients that are summed for a bucket.
    pub fn bucket_bytes(&self, bucket: BucketId) -> Bytes {
        Bytes::of_f32(self.bucket_params[bucket.idx()])
    }

    fn layers(&self, chunk: ChunkId) -> Range<u32> {
        self.schedule.chunks[chunk.idx()].layers.clone()
    }
}

/// By device, what its parameter servers keep: the parameters and two values of optimizer state for
/// each, and what holders have handed over while others have not.
fn server_bytes(schedule: &Schedule, bucket_params: &[usize]) -> Vec<Bytes> {
    let mut bytes = vec![Bytes::ZERO; schedule.programs.len()];
    let lag = schedule.exchanges.iter().map(|exchange| exchange.lag).max().unwrap_or_default();
    for (bucket, &n_params) in schedule.buckets.iter().zip(bucket_params) {
        if let Some(server) = bucket.server {
            let early = bucket.holders.len() as u64 * (u64::from(lag) + 1);
            bytes[server.idx()] += Bytes::of_f32(n_params) * (3 + early);
        }
    }
    bytes
}

/// The speed of `device` relative to the host that was measured.
pub(crate) fn speed(cluster: &Cluster, device: DeviceId) -> f64 {
    cluster.device(device).speed.unwrap_or(1.0)
}

/// The arithmetic of a pass over `layers`; none of an update, whose time follows from parameters.
pub(crate) fn pass_time(profile: &Profile, pass: Pass, layers: Range<u32>, speed: f64) -> Nanos {
    let time = |pass| profile.pass_time(pass, layers, speed);
    match pass {
        Pass::Forward | Pass::Recompute => time(ProfiledPass::Forward),
        // The backward of an adjoint is a whole one.
        Pass::Backward | Pass::DoubleBackward => time(ProfiledPass::Backward),
        // An adjoint is an input backward.
        Pass::BackwardInput | Pass::Adjoint => time(ProfiledPass::BackwardInput),
        Pass::BackwardWeight => time(ProfiledPass::BackwardWeight),
        Pass::Update | Pass::Apply => Nanos::ZERO,
    }
}

/// The link from one device to another: where a run would emulate it, what the host's loopback
/// takes on top of that; as it is where devices share networks, which no run emulates.
pub fn link(profile: &Profile, cluster: &Cluster, from: DeviceId, to: DeviceId) -> LinkSpec {
    let host = profile.loopback;
    let Some(Route { latency, bandwidth, .. }) = cluster.route(from, to) else {
        return LinkSpec { latency: host.latency, bandwidth: Some(host.bandwidth) };
    };
    if cluster.is_shared() {
        return LinkSpec { latency, bandwidth };
    }
    // A message passes the emulated link and then really travels through the host.
    let host_rate = host.bandwidth.bytes_per_second();
    let rate = bandwidth
        .map_or(host_rate, |emulated| 1.0 / (1.0 / emulated.bytes_per_second() + 1.0 / host_rate));
    let bandwidth = Some(Bandwidth::from_bytes_per_second(rate));
    LinkSpec { latency: latency + host.latency, bandwidth }
}

impl MemoryModel for OpCosts {
    fn base(&self, device: DeviceId) -> Bytes {
        self.profile.base + self.server_bytes[device.idx()]
    }

    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        let per_param = self.profile.param_bytes;
        let params = |chunk: ChunkId| self.chunk_params[chunk.idx()] as u64;
        match value {
            Value::Activation { chunk, .. } | Value::Tangent { chunk, .. } => {
                self.profile.output(self.layers(chunk))
            }
            Value::Gradient { chunk, .. }
            | Value::Adjoint { chunk, .. }
            | Value::Input { chunk, .. } => input_bytes(&self.profile, self.layers(chunk).start),
            Value::Stash { chunk, .. }
            | Value::Deferred { chunk, .. }
            | Value::AdjointStash { chunk, .. } => self.profile.saved(self.layers(chunk)),
            Value::Offloaded { .. } => Bytes::ZERO,
            Value::Params { chunk } => Bytes(params(chunk) * per_param.weights),
            Value::WeightStash { chunk, .. }
            | Value::Change { chunk, .. }
            | Value::WaveSum { chunk, .. } => Bytes::of_f32(self.chunk_params[chunk.idx()]),
            Value::Pulled { exchange } => {
                self.bucket_bytes(self.schedule.exchanges[exchange.idx()].bucket)
            }
            Value::OptState { chunk } => Bytes(params(chunk) * per_param.optimizer),
            Value::ParamGrad { bucket, .. } => {
                Bytes(self.bucket_params[bucket.idx()] as u64 * per_param.gradients)
            }
            Value::GradNorm => Bytes(8),
        }
    }

    fn updated(&self, device: DeviceId, value: Value) -> Bytes {
        match value {
            Value::Stash { chunk, .. } => self.profile.deferred(self.layers(chunk)),
            _ => self.bytes(device, value),
        }
    }

    fn workspace(&self, device: DeviceId, op: Op) -> Bytes {
        match op {
            Op::Compute { pass, chunk, .. } => {
                match self.chunk_is_split[chunk.idx()] && pass != Pass::Backward {
                    true => self.profile.split_workspace(self.layers(chunk)),
                    false => self.chunk_workspace[chunk.idx()],
                }
            }
            // The copy that travels.
            Op::Send(id) => self.bytes(device, self.schedule.transfers[id.idx()].value),
            // The copy that travels.
            Op::Push(id) => self.bytes(device, Value::Pulled { exchange: id }),
            Op::Recv(_)
            | Op::Pull(_)
            | Op::Merge(_)
            | Op::Collective(_)
            | Op::OptimizerStep { .. }
            | Op::Offload { .. }
            | Op::Prefetch { .. } => Bytes::ZERO,
        }
    }

    fn capacity(&self, device: DeviceId) -> Option<Bytes> {
        self.cluster.device(device).memory
    }
}

/// Parameters that `layers` have for themselves; shared ones are in buckets of their own.
fn own_params(model: &Model, layers: Range<u32>) -> usize {
    let layers = &model.layers[layers.start as usize..layers.end as usize];
    layers.iter().flat_map(|layer| &layer.params).map(|spec| spec.n_values()).sum()
}

/// How the passes of a stage run, as far as its memory depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagePasses {
    /// Backward passes run in two halves.
    pub split_backward: bool,
    /// Some of them run as a whole all the same.
    pub some_whole: bool,
    /// Forward passes keep their input alone and run again before the backward pass.
    pub recompute: bool,
    /// Without a flush, how many more copies of its parameters a stage keeps beside one for each
    /// micro-batch in flight: see [`copies_of_waves`].
    pub copies: u32,
}

impl StagePasses {
    /// Those of `kind`, with backward passes split in any case if `split_backward`, and every chunk
    /// recomputed if `recompute`.
    pub fn of(kind: Kind, split_backward: bool, recompute: bool) -> Self {
        Self {
            split_backward: split_backward || kind.splits_backward(),
            some_whole: !split_backward && kind.leaves_some_whole(),
            recompute,
            copies: 0,
        }
    }
}

/// What a stage that holds `layers` may need with `in_flight` micro-batches: at least what the
/// check's bound will be, so that layers can be placed before there is a schedule. Besides what is
/// computed on, it counts for each micro-batch in flight, and for one more, two messages at either
/// end that have come early or wait to leave, each with the copy that a send makes.
pub fn stage_bytes(
    model: &Model,
    profile: &Profile,
    layers: Range<u32>,
    in_flight: u32,
    passes: StagePasses,
) -> Bytes {
    let StagePasses { split_backward, some_whole, recompute, copies } = passes;
    let params = model.params_of(layers.clone());
    let n_params: usize = params.iter().map(|param| param.spec.n_values()).sum();
    let input = input_bytes(profile, layers.start);
    let messages = profile.output(layers.clone()) + input;
    let n_inputs = if recompute { in_flight } else { 0 };
    // A whole backward comes right after the recomputation, a half of one may wait.
    let n_stashes = if recompute && !split_backward { in_flight.min(1) } else { in_flight };
    let whole = || workspace(model, profile, layers.clone(), n_params);
    let workspace = match (split_backward, some_whole) {
        (true, false) => profile.split_workspace(layers.clone()),
        (true, true) => profile.split_workspace(layers.clone()).max(whole()),
        (false, _) => whole(),
    };
    let copies = match copies {
        0 => 0,
        copies => u64::from(copies) + u64::from(in_flight),
    };
    profile.base
        + Bytes::of_f32(n_params) * copies
        + Bytes(n_params as u64 * profile.param_bytes.total())
        + input * u64::from(n_inputs)
        + stash(profile, layers, split_backward) * u64::from(n_stashes)
        + workspace
        + messages * (4 * (u64::from(in_flight) + 1))
}

/// Copies of its parameters that a stage keeps for waves of `length` micro-batches between replicas
/// that may be `distance` waves apart: changes that are not added yet, sums of waves, what is
/// pulled and what travels; and, where the servers of `served` replicas are with it, theirs.
pub fn copies_of_waves(length: u32, distance: u32, served: Option<u32>) -> u32 {
    let own = length + 1 + distance + 2 + 3;
    own + served.map_or(0, |n| 3 + n * (distance + 1))
}

/// What leaves the layer before `start`, which is as large as its gradient.
fn input_bytes(profile: &Profile, start: u32) -> Bytes {
    match start {
        0 => Bytes::ZERO,
        start => profile.output(start - 1..start),
    }
}

/// The most that a micro-batch keeps from its forward to the end of its backward.
fn stash(profile: &Profile, layers: Range<u32>, is_split: bool) -> Bytes {
    let saved = profile.saved(layers.clone());
    if is_split { saved.max(profile.deferred(layers)) } else { saved }
}

/// What a forward or a whole backward pass over `layers` needs while it runs. The latter makes the
/// gradients of all the chunk's parameters before they are added to the accumulated ones; a
/// layer's measured workspace has its own among them. A half of a backward pass makes them one by
/// one, or leaves them in the stash: what its layers were measured with is all of it.
fn workspace(model: &Model, profile: &Profile, layers: Range<u32>, n_params: usize) -> Bytes {
    let without_gradients = layers.map(|layer| {
        let params = model.params_of(layer..layer + 1);
        let n_own: usize = params.iter().map(|param| param.spec.n_values()).sum();
        profile.workspace(layer..layer + 1).saturating_sub(Bytes::of_f32(n_own))
    });
    without_gradients.max().unwrap_or_default() + Bytes::of_f32(n_params)
}
