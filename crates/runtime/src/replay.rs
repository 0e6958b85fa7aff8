//! One process replays what a run without a flush did, from its log of versions, and must reach
//! the same weights.
//!
//! The log says which version of its weights each chunk went on with before the last micro-batch of
//! each wave; all else follows from the schedule. The programs are run op by op in list order, each
//! as far as what it needs is there, on one thread: no transport, lanes, servers, queues or clocks.

use crate::device::{optimizer, span};
use crate::error::RunError;
use crate::job::Job;
use crate::protocol::Values;
use crate::server_rule::ServedWeights;
use crate::versions::VersionEvent;
use cavalcade_nn::{Activation, Chunk, ChunkInput, ChunkOutput, Optimizer, network_chunk};
use cavalcade_schedule::{BucketId, Op, Pass};
use cavalcade_units::{ChunkId, DeviceId, ExchangeId, MicrobatchId};
use std::collections::{BTreeMap, HashMap};

/// What a replay came to.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// By wave: mean loss over all replicas.
    pub losses: Vec<f64>,
    /// What the servers have in the end.
    pub weights: Values,
    /// How stale weights were.
    pub staleness: Staleness,
    /// The first wave that a server went on with without a replica that was lost.
    pub first_left: Option<u64>,
}

/// The largest numbers of updates that weights lacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staleness {
    /// Of the own replica: at most `Nm - 1`.
    pub local: u64,
    /// Of another replica: at most `(D + 1) Nm + Nm - 2`.
    pub global: u64,
    /// Waves that a replica was ahead of what it had of the others: at most `D + 1`.
    pub waves_ahead: u64,
}

/// A chunk and its part of the mathematics.
struct Replica {
    chunk: Box<dyn Chunk>,
    optimizer: Box<dyn Optimizer>,
    changes: HashMap<MicrobatchId, Vec<f32>>,
    sums: BTreeMap<u64, Vec<f32>>,
    /// Updates of its own pipeline in its weights.
    n_applied: u64,
    /// Waves of all replicas in its weights.
    version: u64,
}

/// The weights of a bucket in each version that somebody still goes on with.
struct Versions {
    served: ServedWeights,
    brought: BTreeMap<u64, Vec<Option<Vec<f32>>>>,
    version: u64,
    kept: BTreeMap<u64, Vec<f32>>,
    /// By holder that was lost, the first wave without its changes.
    left: HashMap<u32, u64>,
}

struct Replay<'a> {
    job: &'a Job,
    log: HashMap<(u32, u32, u64), u64>,
    replicas: Vec<Replica>,
    versions: Vec<Versions>,
    activations: HashMap<(ChunkId, MicrobatchId), Activation>,
    gradients: HashMap<(ChunkId, MicrobatchId), Activation>,
    outcome: Replayed,
    /// Devices of replicas that were lost in an earlier step.
    lost: Vec<DeviceId>,
}

/// Replays the run of `job` that left the log `versions`.
///
/// # Errors
/// If the log is not one of such a run: an entry is missing, or names a version that can't have
/// been there.
pub fn replay(job: &Job, versions: &[VersionEvent]) -> Result<Replayed, RunError> {
    let waves = job.waves.ok_or_else(|| {
        RunError::Setup("the run exchanged no waves, so there is nothing to replay".to_owned())
    })?;
    let mut replay = Replay::new(job, versions, waves.total);
    for step in 0..job.n_steps(waves.total) {
        replay.step(step)?;
    }
    for (idx, versions) in replay.versions.iter().enumerate() {
        let named = job.named(BucketId(idx as u32), &versions.served.weights);
        replay.outcome.weights.extend(named);
    }
    Ok(replay.outcome)
}

impl<'a> Replay<'a> {
    fn new(job: &'a Job, log: &[VersionEvent], n_waves: u64) -> Self {
        let schedule = job.schedule.schedule();
        let replica = |layers: &std::ops::Range<u32>| {
            let chunk = network_chunk(&job.network, layers.clone(), job.settings.seed);
            let optimizer = optimizer(job.settings.optimizer, chunk.params());
            let (changes, sums) = (HashMap::new(), BTreeMap::new());
            Replica { chunk, optimizer, changes, sums, n_applied: 0, version: 0 }
        };
        let left = |wanted: usize| {
            let left = log.iter().filter_map(move |event| match *event {
                VersionEvent::Left { chunk, bucket, wave } if bucket as usize == wanted => {
                    Some((chunk, wave))
                }
                _ => None,
            });
            left.collect::<HashMap<u32, u64>>()
        };
        let versions = |idx: usize| {
            let weights = job.initial_weights(BucketId(idx as u32));
            Versions {
                kept: BTreeMap::from([(0, weights.clone())]),
                served: ServedWeights::new(job.settings.servers, weights),
                brought: BTreeMap::new(),
                version: 0,
                left: left(idx),
            }
        };
        let entries = log.iter().filter_map(|event| match *event {
            VersionEvent::Pulled { chunk, bucket, wave, version } => {
                Some(((chunk, bucket, wave), version))
            }
            VersionEvent::Left { .. } => None,
        });
        Self {
            job,
            log: entries.collect(),
            replicas: schedule.chunks.iter().map(|chunk| replica(&chunk.layers)).collect(),
            versions: (0..schedule.buckets.len()).map(versions).collect(),
            activations: HashMap::new(),
            lost: Vec::new(),
            gradients: HashMap::new(),
            outcome: Replayed {
                losses: vec![0.0; n_waves as usize],
                first_left: (0..schedule.buckets.len()).flat_map(|b| left(b).into_values()).min(),
                ..Replayed::default()
            },
        }
    }

    /// Runs every program to its end, each in turn as far as it comes.
    fn step(&mut self, step: u64) -> Result<(), RunError> {
        let job = self.job;
        let programs = &job.schedule.schedule().programs;
        let mut at = vec![0; programs.len()];
        for &device in &self.lost {
            at[device.idx()] = programs[device.idx()].len();
        }
        loop {
            let before = at.clone();
            for (device, program) in programs.iter().enumerate() {
                while let Some(&op) = program.get(at[device]) {
                    if !job.is_beyond_op(op, step) && !self.run(op, step)? {
                        break;
                    }
                    at[device] += 1;
                }
            }
            let unfinished = at.iter().zip(programs).enumerate();
            let unfinished = unfinished.filter(|(_, (at, program))| **at < program.len());
            let mut unfinished = unfinished.map(|(idx, _)| DeviceId::from_idx(idx)).peekable();
            if unfinished.peek().is_none() {
                return Ok(());
            }
            if at == before {
                let Some(device) = unfinished.find(|&device| !self.has_left(device)) else {
                    // What lost replicas did not come to is not replayed.
                    let devices = (0..programs.len()).map(DeviceId::from_idx);
                    self.lost = devices.filter(|&device| self.has_left(device)).collect();
                    return Ok(());
                };
                return Err(RunError::Setup(format!(
                    "the log of versions cannot be one of this run: in step {step}, device \
                     {device} waits for a version that is never complete"
                )));
            }
        }
    }

    /// Whether a device's pipeline was lost.
    fn has_left(&self, device: DeviceId) -> bool {
        let schedule = self.job.schedule.schedule();
        let is_lost =
            |chunk: &ChunkId| self.versions.iter().any(|of| of.left.contains_key(&chunk.0));
        schedule.chunks_on(device).any(|own| {
            schedule.paths.iter().any(|path| path.contains(&own) && path.iter().any(is_lost))
        })
    }

    /// Runs an op; false if what it needs is not there yet.
    fn run(&mut self, op: Op, step: u64) -> Result<bool, RunError> {
        match op {
            Op::Compute { pass, chunk, microbatch } => self.pass(pass, chunk, microbatch, step),
            Op::Push(id) => {
                self.push(id, step);
                Ok(true)
            }
            Op::Merge(id) => self.merge(id, step),
            // One process: what was made is at hand.
            _ => Ok(true),
        }
    }

    fn pass(
        &mut self,
        pass: Pass,
        chunk: ChunkId,
        microbatch: MicrobatchId,
        step: u64,
    ) -> Result<bool, RunError> {
        let (before, after) = self.job.schedule.schedule().neighbors(chunk, microbatch);
        let (wave, n_before) = self.job.place_of(microbatch, step);
        match pass {
            Pass::Forward | Pass::Recompute => {
                return self.forward(chunk, microbatch, step, pass == Pass::Recompute);
            }
            Pass::Backward | Pass::BackwardInput => {
                let upstream = match after {
                    Some(after) => {
                        let Some(found) = self.gradients.remove(&(after, microbatch)) else {
                            return Ok(false);
                        };
                        Some(found)
                    }
                    None => None,
                };
                // Whole or split, the sums are the same to the last bit.
                let found = self.replicas[chunk.idx()].chunk.backward(microbatch, upstream)?;
                if let Some(found) = found.filter(|_| before.is_some()) {
                    self.gradients.insert((chunk, microbatch), found);
                }
            }
            Pass::Update => {
                let rate = self.job.settings.learning_rate.at(wave) as f32;
                let replica = &mut self.replicas[chunk.idx()];
                let (weights, gradients) = (replica.chunk.weights(), replica.chunk.gradients());
                let change = replica.optimizer.change(weights, gradients, rate, n_before + 1);
                replica.chunk.zero_gradients();
                let sum = replica.sums.entry(wave).or_insert_with(|| vec![0.0; change.len()]);
                sum.iter_mut().zip(&change).for_each(|(sum, more)| *sum += more);
                replica.changes.insert(microbatch, change);
            }
            Pass::Apply => {
                let replica = &mut self.replicas[chunk.idx()];
                let change = replica.changes.remove(&microbatch).unwrap_or_default();
                replica.chunk.update(&mut |weights, _| {
                    weights.iter_mut().zip(&change).for_each(|(weight, more)| *weight += more);
                });
                replica.n_applied = n_before + 1;
            }
            Pass::BackwardWeight | Pass::Adjoint | Pass::DoubleBackward => {}
        }
        Ok(true)
    }

    fn forward(
        &mut self,
        chunk: ChunkId,
        microbatch: MicrobatchId,
        step: u64,
        again: bool,
    ) -> Result<bool, RunError> {
        let job = self.job;
        let (before, after) = job.schedule.schedule().neighbors(chunk, microbatch);
        let (wave, n_before) = job.place_of(microbatch, step);
        if again {
            return Ok(true);
        }
        let targets = after.is_none().then(|| job.targets(step, microbatch));
        let input = match before {
            Some(before) => {
                let Some(found) = self.activations.remove(&(before, microbatch)) else {
                    return Ok(false);
                };
                ChunkInput::Activation(found)
            }
            None => job.data(step, microbatch),
        };
        let replica = &mut self.replicas[chunk.idx()];
        match replica.chunk.forward(microbatch, input, targets, 1.0)? {
            ChunkOutput::Activation(out) => {
                self.activations.insert((chunk, microbatch), out);
            }
            ChunkOutput::Loss(loss) => {
                let share = f64::from(job.microbatch_size) / job.reported_batch() as f64;
                self.outcome.losses[wave as usize] += loss * share;
            }
        }
        let length = job.schedule.schedule().wave.map_or(1, u64::from);
        let lacks = |n_seen: u64| n_before.saturating_sub(n_seen);
        let staleness = &mut self.outcome.staleness;
        staleness.local =
            staleness.local.max(lacks(replica.n_applied.max(replica.version * length)));
        staleness.global = staleness.global.max(lacks(replica.version * length));
        staleness.waves_ahead =
            staleness.waves_ahead.max((n_before / length).saturating_sub(replica.version));
        Ok(true)
    }

    fn push(&mut self, id: ExchangeId, step: u64) {
        let schedule = self.job.schedule.schedule();
        let entry = &schedule.exchanges[id.idx()];
        let bucket = &schedule.buckets[entry.bucket.idx()];
        let replica = &self.replicas[entry.chunk.idx()];
        let span = span(&*replica.chunk, &bucket.unit);
        let (since, wave) = (self.job.wave(step, entry.since), self.job.wave(step, entry.wave));
        let mut sum = vec![0.0; span.len()];
        for of_wave in replica.sums.range(since..=wave).map(|(_, sum)| &sum[span.clone()]) {
            sum.iter_mut().zip(of_wave).for_each(|(sum, more)| *sum += more);
        }
        let holder = bucket.holders.iter().position(|&chunk| chunk == entry.chunk);
        let holder = holder.expect("an exchange is of one of the bucket's holders");
        let Versions { served, brought, version, kept, left } =
            &mut self.versions[entry.bucket.idx()];
        if left.get(&entry.chunk.0).is_some_and(|&from| from <= wave) {
            // It was on its way when the replica was lost.
            return;
        }
        let n_holders = bucket.holders.len();
        brought.entry(wave).or_insert_with(|| vec![None; n_holders])[holder] = Some(sum);
        while let Some(first) = brought.first_entry() {
            let wave = *first.key();
            let is_gone = |holder: &ChunkId| left.get(&holder.0).is_some_and(|&from| from <= wave);
            let brought = first.get().iter().zip(&bucket.holders);
            if brought.into_iter().any(|(sum, holder)| sum.is_none() && !is_gone(holder)) {
                break;
            }
            let (wave, brought) = first.remove_entry();
            served.step(&brought.into_iter().flatten().collect::<Vec<_>>());
            *version = wave + 1;
            kept.insert(*version, served.weights.clone());
            // Nobody goes on with what is older than any replica may be.
            let oldest = version.saturating_sub(2 * u64::from(entry.lag) + 4);
            *kept = kept.split_off(&oldest);
        }
    }

    fn merge(&mut self, id: ExchangeId, step: u64) -> Result<bool, RunError> {
        let schedule = self.job.schedule.schedule();
        let entry = &schedule.exchanges[id.idx()];
        let wave = self.job.wave(step, entry.wave);
        let bucket = entry.bucket;
        let Some(&version) = self.log.get(&(entry.chunk.0, bucket.0, wave)) else {
            let device = schedule.chunks[entry.chunk.idx()].device;
            if self.has_left(device) {
                return Ok(false);
            }
            return Err(RunError::Setup(format!(
                "the log of versions has no entry for chunk {}, bucket {}, wave {wave}; was the \
                 run ended early?",
                entry.chunk, bucket.0
            )));
        };
        if version + u64::from(entry.lag) < wave || version > wave {
            return Err(RunError::Setup(format!(
                "chunk {} went on with version {version} in wave {wave}; the run allows {} to \
                 {wave}",
                entry.chunk,
                wave.saturating_sub(u64::from(entry.lag))
            )));
        }
        let versions = &self.versions[bucket.idx()];
        if versions.version < version {
            return Ok(false);
        }
        let Some(weights) = versions.kept.get(&version) else {
            return Err(RunError::Setup(format!("version {version} is not there any more")));
        };
        let mut merged = weights.clone();
        let replica = &mut self.replicas[entry.chunk.idx()];
        let span = span(&*replica.chunk, &schedule.buckets[bucket.idx()].unit);
        for own in replica.sums.range(version..wave).map(|(_, sum)| &sum[span.clone()]) {
            merged.iter_mut().zip(own).for_each(|(sum, more)| *sum += more);
        }
        replica.chunk.update(&mut |weights, _| weights[span.clone()].copy_from_slice(&merged));
        replica.version = version;
        let least = wave.saturating_sub(u64::from(entry.lag));
        replica.sums.retain(|&of, _| of >= least);
        Ok(true)
    }
}
