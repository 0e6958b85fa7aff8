//! One device of the real world: its chunks, the values that wait on it, and what each op does.
//!
//! Every op of the schedule is one call of [`Device::run`], on the thread of its lane. What may
//! run at the same time is decided by the schedule's dependencies, so the locks here are never
//! contended by two ops that want the same thing; they only prove it to the compiler.

use crate::error::RunError;
use crate::exchange::Exchanged;
use crate::job::Job;
use crate::lock::lock;
use crate::pacing::Pacer;
use crate::settings::OptimizerSettings;
use cavalcade_nn::{
    Activation, AdamW, AdamWConfig, Chunk, ChunkInput, ChunkOutput, ChunkParam, Optimizer, Sgd,
    Targets, decayed_ranges, network_chunk,
};
use cavalcade_profile::Meter;
use cavalcade_schedule::{BucketId, CollectiveKind, Op, ParamUnit, Pass, Reduction, Value};
use cavalcade_transport::{
    Tag, Transport, all_gather_f64, all_reduce_ring, all_reduce_server, all_reduce_tree,
    decode_f32s, encode_f32s,
};
use cavalcade_units::{ChunkId, CollectiveId, DeviceId, MicrobatchId, Nanos, Rank, TransferId};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// A chunk and the optimizer of its parameters.
pub(crate) struct Held {
    pub(crate) chunk: Box<dyn Chunk>,
    pub(crate) optimizer: Box<dyn Optimizer>,
}

/// What a step leaves behind beside new weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepOutcome {
    /// Sum of losses, weighted by share of the samples.
    pub(crate) loss: f64,
    /// The same by report, of those that are not over.
    losses: BTreeMap<u64, f64>,
    /// Norm of the whole gradient before clipping.
    pub(crate) grad_norm: Option<f64>,
    /// Gradients before clipping, by parameter, of those owned here; only when captured.
    pub(crate) gradients: BTreeMap<String, Vec<f32>>,
    /// Time by which passes overran their emulated duration.
    pub(crate) overrun: Nanos,
}

/// A device at work.
pub(crate) struct Device {
    id: DeviceId,
    pub(crate) job: Job,
    ranks: Vec<Option<Rank>>,
    chunks: BTreeMap<ChunkId, Mutex<Held>>,
    values: Mutex<BTreeMap<Value, Activation>>,
    pub(crate) outcome: Mutex<StepOutcome>,
    pub(crate) exchanged: Exchanged,
    pub(crate) transport: Arc<dyn Transport>,
    meter: Arc<dyn Meter>,
    pacer: Option<Pacer>,
    captures: bool,
    /// The threads of this device's arithmetic, as many as the cluster says.
    pool: ThreadPool,
}

impl Device {
    pub(crate) fn new(
        id: DeviceId,
        job: Job,
        transport: Arc<dyn Transport>,
        meter: Arc<dyn Meter>,
        pacer: Option<Pacer>,
        captures: bool,
    ) -> Result<Self, RunError> {
        let schedule = job.schedule.schedule();
        let mut chunks = BTreeMap::new();
        for chunk_id in schedule.chunks_on(id) {
            let layers = schedule.chunks[chunk_id.idx()].layers.clone();
            let chunk = network_chunk(&job.network, layers, job.settings.seed);
            let optimizer = optimizer(job.settings.optimizer, chunk.params());
            chunks.insert(chunk_id, Mutex::new(Held { chunk, optimizer }));
        }
        let ranks = job.ranks();
        let n_threads = job.costs.cluster().device(id).threads;
        let pool = ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build()
            .map_err(|e| RunError::Setup(format!("{n_threads} threads cannot be started: {e}")))?;
        Ok(Self {
            pool,
            id,
            ranks,
            chunks,
            values: Mutex::default(),
            outcome: Mutex::default(),
            exchanged: Exchanged::default(),
            transport,
            meter,
            pacer,
            captures,
            job,
        })
    }

    /// Does `op` of `step`.
    pub(crate) fn run(&self, op: Op, step: u64) -> Result<(), RunError> {
        if self.job.is_beyond_op(op, step) {
            return Ok(());
        }
        match op {
            Op::Compute { pass, chunk, microbatch } => {
                self.paced(op, || self.compute(pass, chunk, microbatch, step))
            }
            Op::Send(id) => self.send(id, step),
            Op::Recv(id) => self.receive(id, step),
            Op::Collective(id) => self.collective(id, step),
            Op::OptimizerStep { chunk } => self.paced(op, || self.optimize(chunk, step)),
            Op::Push(id) => self.push(id, step),
            Op::Pull(id) => self.pull(id, step),
            Op::Merge(id) => self.paced(op, || self.merge(id, step)),
            Op::Offload { chunk, microbatch } => {
                let away = Value::Offloaded { chunk, microbatch };
                self.rename(Value::Input { chunk, microbatch }, away);
                Ok(())
            }
            Op::Prefetch { chunk, microbatch } => {
                let away = Value::Offloaded { chunk, microbatch };
                self.rename(away, Value::Input { chunk, microbatch });
                Ok(())
            }
        }
    }

    /// Takes what a step, or a wave where a step has several, left behind.
    pub(crate) fn take_outcome(&self, report: u64) -> StepOutcome {
        let mut outcome = lock(&self.outcome);
        let loss = outcome.losses.remove(&report).unwrap_or_default();
        // Of the waves after it some has begun.
        let losses = std::mem::take(&mut outcome.losses);
        let taken = std::mem::replace(&mut *outcome, StepOutcome { losses, ..Default::default() });
        StepOutcome { loss, ..taken }
    }

    /// The values of all parameters that this device owns, by logical name: of a parameter that
    /// several devices hold, the first holder is the owner.
    pub(crate) fn owned_weights(&self) -> BTreeMap<String, Vec<f32>> {
        let mut owned = BTreeMap::new();
        for (&chunk_id, held) in &self.chunks {
            let held = lock(held);
            for bucket in self.owned_buckets(chunk_id) {
                collect(&*held.chunk, &self.unit(bucket), held.chunk.weights(), &mut owned);
            }
        }
        owned
    }

    /// Runs `work` on the device's threads and then waits until the emulated device would have
    /// been done with `op`.
    fn paced(
        &self,
        op: Op,
        work: impl FnOnce() -> Result<(), RunError> + Send,
    ) -> Result<(), RunError> {
        let Some(pacer) = &self.pacer else { return self.pool.install(work) };
        let start = self.meter.now();
        self.pool.install(work)?;
        let until = start + self.job.costs.arithmetic(self.id, op);
        let overrun = pacer.wait_until(&*self.meter, until);
        lock(&self.outcome).overrun += overrun;
        Ok(())
    }

    fn compute(
        &self,
        pass: Pass,
        chunk_id: ChunkId,
        microbatch: MicrobatchId,
        step: u64,
    ) -> Result<(), RunError> {
        let schedule = self.job.schedule.schedule();
        let (before, after) = schedule.neighbors(chunk_id, microbatch);
        let gradient = |chunk| Value::Gradient { chunk, microbatch };
        match pass {
            Pass::Forward => self.forward(chunk_id, microbatch, step)?,
            Pass::Recompute => {
                let kept = before.map(|_| Value::Input { chunk: chunk_id, microbatch });
                let (input, targets) = self.input(chunk_id, microbatch, kept, step);
                self.held(chunk_id).chunk.forward(microbatch, input, targets, self.loss_scale())?;
            }
            Pass::Backward | Pass::BackwardInput => {
                let upstream = after.map(|chunk| self.take(gradient(chunk)));
                let chunk = &mut self.held(chunk_id).chunk;
                let found = match pass {
                    Pass::Backward => chunk.backward(microbatch, upstream)?,
                    _ => chunk.backward_input(microbatch, upstream)?,
                };
                if let Some(found) = found.filter(|_| before.is_some()) {
                    self.put(gradient(chunk_id), found);
                }
            }
            Pass::BackwardWeight => self.held(chunk_id).chunk.backward_weight(microbatch)?,
            Pass::Update => self.update(chunk_id, microbatch, step)?,
            Pass::Apply => self.apply(chunk_id, microbatch),
            Pass::Adjoint | Pass::DoubleBackward => {
                return Err(RunError::Setup(format!(
                    "this build trains with first-order objectives; the schedule has a pass of \
                     another sort ({}): use another kind of schedule",
                    pass.word()
                )));
            }
        }
        Ok(())
    }

    /// Runs a forward. A chunk that recomputes keeps its input and no graph.
    fn forward(
        &self,
        chunk_id: ChunkId,
        microbatch: MicrobatchId,
        step: u64,
    ) -> Result<(), RunError> {
        let schedule = self.job.schedule.schedule();
        let own = Value::Activation { chunk: chunk_id, microbatch };
        let before = schedule.neighbors(chunk_id, microbatch).0;
        let source = before.map(|chunk| Value::Activation { chunk, microbatch });
        let (input, targets) = self.input(chunk_id, microbatch, source, step);
        let mut held = self.held(chunk_id);
        let output = if schedule.chunks[chunk_id.idx()].recompute {
            // A first chunk's data is always at hand.
            if let (Some(_), ChunkInput::Activation(kept)) = (source, &input) {
                self.put(Value::Input { chunk: chunk_id, microbatch }, kept.clone());
            }
            held.chunk.evaluate(input, targets)?
        } else {
            held.chunk.forward(microbatch, input, targets, self.loss_scale())?
        };
        match output {
            ChunkOutput::Activation(activation) => self.put(own, activation),
            ChunkOutput::Loss(loss) if !loss.is_finite() => {
                return Err(RunError::NotFinite { step, microbatch, loss });
            }
            ChunkOutput::Loss(loss) => {
                let report = self.job.place_of(microbatch, step).0;
                *lock(&self.outcome).losses.entry(report).or_default() += loss * self.share();
            }
        }
        Ok(())
    }

    /// What enters a chunk, which is `value` unless the chunk is the first and takes data; and
    /// its targets, if it is the last.
    fn input(
        &self,
        chunk: ChunkId,
        microbatch: MicrobatchId,
        value: Option<Value>,
        step: u64,
    ) -> (ChunkInput, Option<Targets>) {
        let (before, after) = self.job.schedule.schedule().neighbors(chunk, microbatch);
        let input = match value {
            Some(value) => ChunkInput::Activation(self.take(value)),
            None => {
                assert!(before.is_none(), "a chunk with one before it has an activation");
                self.job.data(step, microbatch)
            }
        };
        (input, after.is_none().then(|| self.job.targets(step, microbatch)))
    }

    /// A micro-batch's share of the samples of a report.
    fn share(&self) -> f64 {
        f64::from(self.job.microbatch_size) / self.job.reported_batch() as f64
    }

    /// By what losses are scaled: a mean over the batch, unless every micro-batch makes a change of
    /// its own.
    fn loss_scale(&self) -> f32 {
        match self.job.schedule.schedule().staleness {
            Some(_) => 1.0,
            None => self.share() as f32,
        }
    }

    fn send(&self, id: TransferId, step: u64) -> Result<(), RunError> {
        let transfer = &self.job.schedule.schedule().transfers[id.idx()];
        let activation = self.take(transfer.value);
        let payload = encode_f32s(&activation.data);
        self.transport.send(self.rank(transfer.to), tag(0, step, id.0), payload)?;
        Ok(())
    }

    fn receive(&self, id: TransferId, step: u64) -> Result<(), RunError> {
        let transfer = &self.job.schedule.schedule().transfers[id.idx()];
        let bytes = self.transport.recv(self.rank(transfer.from), tag(0, step, id.0))?;
        let shape = self.job.shape(transfer.value);
        let data = decode_f32s(&bytes)?;
        if data.len() != shape.iter().product::<usize>() {
            return Err(RunError::WrongSize {
                transfer: id,
                from: transfer.from,
                found: data.len(),
                shape,
            });
        }
        self.put(transfer.value, Activation { data, shape });
        Ok(())
    }

    fn collective(&self, id: CollectiveId, step: u64) -> Result<(), RunError> {
        let schedule = self.job.schedule.schedule();
        let entry = &schedule.collectives[id.idx()];
        let group: Vec<Rank> =
            schedule.groups[entry.group.idx()].iter().map(|&device| self.rank(device)).collect();
        match entry.kind {
            CollectiveKind::SumGradients(bucket) => self.sum_gradients(bucket, &group, id, step),
            CollectiveKind::GradNorm => {
                let own = self.chunks.iter().flat_map(|(&chunk_id, held)| {
                    let held = lock(held);
                    let squares = self.owned_buckets(chunk_id).map(|bucket| {
                        let span = span(&*held.chunk, &self.unit(bucket));
                        cavalcade_nn::squared_norm(&held.chunk.gradients()[span])
                    });
                    squares.collect::<Vec<f64>>()
                });
                let own: f64 = own.sum();
                let all = all_gather_f64(&*self.transport, &group, tag(1, step, id.0), own)?;
                let norm = all.iter().sum::<f64>().sqrt();
                if !norm.is_finite() {
                    return Err(RunError::NormNotFinite { step });
                }
                lock(&self.outcome).grad_norm = Some(norm);
                Ok(())
            }
        }
    }

    /// Adds up the copies on this device, sums over the group, and gives every copy the sum.
    fn sum_gradients(
        &self,
        bucket: BucketId,
        group: &[Rank],
        id: CollectiveId,
        step: u64,
    ) -> Result<(), RunError> {
        let unit = self.unit(bucket);
        let holders = &self.job.schedule.schedule().buckets[bucket.idx()].holders;
        let own: Vec<ChunkId> =
            holders.iter().copied().filter(|chunk| self.chunks.contains_key(chunk)).collect();
        let mut sum: Vec<f32> = Vec::new();
        for &chunk_id in &own {
            let held = self.held(chunk_id);
            let gradients = &held.chunk.gradients()[span(&*held.chunk, &unit)];
            if sum.is_empty() {
                sum.extend_from_slice(gradients);
            } else {
                sum.iter_mut().zip(gradients).for_each(|(sum, more)| *sum += more);
            }
        }
        let all_reduce = match self.job.schedule.schedule().reduction {
            Reduction::Ring => all_reduce_ring,
            Reduction::Tree => all_reduce_tree,
            Reduction::Server => all_reduce_server,
        };
        all_reduce(&*self.transport, group, tag(1, step, id.0), &mut sum)?;
        for &chunk_id in &own {
            let mut held = self.held(chunk_id);
            let span = span(&*held.chunk, &unit);
            held.chunk.gradients_mut()[span].copy_from_slice(&sum);
        }
        Ok(())
    }

    fn optimize(&self, chunk_id: ChunkId, step: u64) -> Result<(), RunError> {
        let mut held = self.held(chunk_id);
        if self.captures {
            let mut outcome = lock(&self.outcome);
            for bucket in self.owned_buckets(chunk_id) {
                let gradients = held.chunk.gradients();
                collect(&*held.chunk, &self.unit(bucket), gradients, &mut outcome.gradients);
            }
        }
        let settings = &self.job.settings;
        let norm = lock(&self.outcome).grad_norm;
        if let (Some(limit), Some(norm)) = (settings.clip_norm, norm) {
            clip(held.chunk.gradients_mut(), limit, norm);
        }
        let rate = settings.learning_rate.at(step) as f32;
        let Held { chunk, optimizer } = &mut *held;
        chunk.update(&mut |weights, gradients| {
            optimizer.step(weights, gradients, rate, step + 1);
        });
        chunk.zero_gradients();
        Ok(())
    }

    pub(crate) fn held(&self, chunk: ChunkId) -> MutexGuard<'_, Held> {
        lock(self.chunks.get(&chunk).expect("the check places every op on its chunk's device"))
    }

    /// The buckets that are counted once over the model at this chunk.
    fn owned_buckets(&self, chunk: ChunkId) -> impl Iterator<Item = BucketId> {
        let schedule = self.job.schedule.schedule();
        let is_owner = move |b: &BucketId| schedule.buckets[b.idx()].holders[0] == chunk;
        schedule.buckets_of(chunk).filter(is_owner)
    }

    pub(crate) fn unit(&self, bucket: BucketId) -> ParamUnit {
        self.job.schedule.schedule().buckets[bucket.idx()].unit.clone()
    }

    pub(crate) fn rank(&self, device: DeviceId) -> Rank {
        self.ranks[device.idx()].expect("a device that takes part in a transfer has a rank")
    }

    fn put(&self, value: Value, activation: Activation) {
        lock(&self.values).insert(value, activation);
    }

    /// Gives a kept input its name on the other side of the link to the host; a first chunk keeps
    /// none, for its data is always at hand. The device is emulated on its host, so nothing
    /// moves: only the books see it leave and return.
    fn rename(&self, from: Value, to: Value) {
        let mut values = lock(&self.values);
        if let Some(kept) = values.remove(&from) {
            values.insert(to, kept);
        }
    }

    fn take(&self, value: Value) -> Activation {
        let taken = lock(&self.values).remove(&value);
        taken.expect("the interpreter starts an op when the values that it consumes are there")
    }
}

/// The optimizer of `params`, with decay for matrices alone.
pub(crate) fn optimizer(settings: OptimizerSettings, params: &[ChunkParam]) -> Box<dyn Optimizer> {
    let n_values = params.last().map_or(0, |param| param.offset + param.n_values());
    match settings {
        OptimizerSettings::Sgd => Box::new(Sgd),
        OptimizerSettings::AdamW { beta1, beta2, epsilon, weight_decay } => {
            let config = AdamWConfig { beta1, beta2, epsilon, weight_decay };
            Box::new(AdamW::new(config, n_values, decayed_ranges(params, 0..n_values)))
        }
    }
}

/// Scales gradients whose whole norm is above `limit` down to it.
pub(crate) fn clip(gradients: &mut [f32], limit: f64, norm: f64) {
    if norm > limit {
        let scale = (limit / norm) as f32;
        gradients.iter_mut().for_each(|gradient| *gradient *= scale);
    }
}

/// Where the parameters of `unit` lie in the chunk's flat buffers.
pub(crate) fn span(chunk: &dyn Chunk, unit: &ParamUnit) -> Range<usize> {
    let params = chunk.params().iter().filter(|param| match unit {
        ParamUnit::Layers(layers) => param.tie.is_none() && layers.contains(&param.layer),
        ParamUnit::Tie(tie) => param.tie == Some(*tie),
    });
    let ranges = params.map(|param| param.range());
    ranges.reduce(|whole, next| whole.start..next.end).unwrap_or(0..0)
}

/// The parameters that lie within `span` of the chunk's flat buffers.
pub(crate) fn params_within<'a>(
    chunk: &'a dyn Chunk,
    span: &'a Range<usize>,
) -> impl Iterator<Item = &'a ChunkParam> {
    chunk.params().iter().filter(|param| {
        let range = param.range();
        span.start <= range.start && range.end <= span.end
    })
}

/// Copies the values of each parameter of `unit` out of the flat buffer `flat`.
fn collect(
    chunk: &dyn Chunk,
    unit: &ParamUnit,
    flat: &[f32],
    into: &mut BTreeMap<String, Vec<f32>>,
) {
    let span = span(chunk, unit);
    for param in params_within(chunk, &span) {
        into.insert(param.name.clone(), flat[param.range()].to_vec());
    }
}

/// Tags of messages: transfers and collectives are numbered apart.
fn tag(kind: u8, step: u64, id: u32) -> Tag {
    Tag::new(kind, step as u32, id)
}
