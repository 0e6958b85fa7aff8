//! What each op reads, consumes and writes: the one place that says so.

use crate::op::{Op, Pass};
use crate::tables::{CollectiveKind, Schedule};
use crate::value::Value;
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId};

/// How an op touches a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The value must be there and stays.
    Read,
    /// The value must be there; it is freed after its last reader.
    Consume,
    /// The value comes into being.
    Write,
    /// The value comes into being, or is added to if it is there.
    Accumulate,
    /// The value must be there and changes in place.
    Update,
}

impl Access {
    /// Whether the value must have been made by an earlier op.
    pub fn needs_value(self) -> bool {
        matches!(self, Self::Read | Self::Consume | Self::Update)
    }

    /// Whether the op makes or changes the value.
    pub fn changes_value(self) -> bool {
        matches!(self, Self::Write | Self::Accumulate | Self::Update)
    }
}

/// One touch of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// How.
    pub access: Access,
    /// What.
    pub value: Value,
}

/// Facts about a schedule that [`Op::effects`] would otherwise look up again for every op.
pub(crate) struct EffectsIndex<'a> {
    schedule: &'a Schedule,
    /// By chunk, the parameter gradients it has.
    grads: Vec<Vec<Value>>,
    clips: bool,
    /// By micro-batch, its wave on its path; empty if there are no waves.
    waves: Vec<u32>,
}

impl<'a> EffectsIndex<'a> {
    pub(crate) fn new(schedule: &'a Schedule) -> Self {
        let mut grads = vec![Vec::new(); schedule.chunks.len()];
        for (idx, bucket) in schedule.buckets.iter().enumerate() {
            for &chunk in &bucket.holders {
                let bucket = crate::tables::BucketId(idx as u32);
                grads[chunk.idx()].push(Value::ParamGrad { chunk, bucket });
            }
        }
        let waves = schedule.wave_of_microbatches();
        Self { schedule, grads, clips: schedule.clips_gradients(), waves }
    }
}

impl Op {
    /// Calls `touch` with everything this op does to values of `device`.
    ///
    /// ```text
    /// forward          reads params, consumes the activation before it; writes stash, activation
    /// backward         reads params, consumes stash and the gradient after it; writes the
    ///                  gradient of its input, accumulates parameter gradients
    ///   its input part    all but the parameter gradients; updates the stash, which stays
    ///   its weight part   consumes the stash, accumulates parameter gradients
    /// send, recv       consumes on one device, writes on the other
    /// sum of gradients updates the bucket's gradients of every holder
    /// gradient norm    reads all parameter gradients, writes the norm
    /// optimizer step   consumes gradients and norm; updates params and optimizer state
    ///
    /// recomputed       forward writes the kept input in place of the stash;
    /// chunk            recompute consumes it, reads params, writes the stash
    /// offload          consumes the kept input, writes the offloaded one; prefetch the reverse
    ///
    /// second order     adjoint: reads params and stash, consumes the adjoint after it; writes
    ///                  its own adjoint and its stash. Double backward: consumes that stash and the
    ///                  tangent before it, reads params and stash; writes tangent and deferred
    ///                  part, accumulates parameter gradients. Backward consumes the deferred part
    ///
    /// without a flush  forward reads params and writes stashed weights, which the backward
    ///                  consumes in place of reading params; update: consumes gradients, reads
    ///                  params, updates the optimizer state, writes the change; apply: consumes
    ///                  the change, updates params
    /// with servers     update also adds to the wave's sum; push: consumes it; pull: writes what
    ///                  came; merge: consumes that, reads the sums of the waves that it may lack,
    ///                  updates params
    /// ```
    pub(crate) fn effects(
        self,
        index: &EffectsIndex<'_>,
        device: DeviceId,
        touch: &mut dyn FnMut(Effect),
    ) {
        let schedule = index.schedule;
        let mut on = |access, value| touch(Effect { access, value });
        match self {
            Self::Compute { pass, chunk, microbatch } => {
                pass.effects(index, chunk, microbatch, &mut on);
            }
            Self::Send(id) => on(Access::Consume, schedule.transfers[id.idx()].value),
            Self::Recv(id) => on(Access::Write, schedule.transfers[id.idx()].value),
            Self::Offload { chunk, microbatch } => {
                on(Access::Consume, Value::Input { chunk, microbatch });
                on(Access::Write, Value::Offloaded { chunk, microbatch });
            }
            Self::Prefetch { chunk, microbatch } => {
                on(Access::Consume, Value::Offloaded { chunk, microbatch });
                on(Access::Write, Value::Input { chunk, microbatch });
            }
            Self::Collective(id) => match schedule.collectives[id.idx()].kind {
                CollectiveKind::SumGradients(bucket) => {
                    for &chunk in &schedule.buckets[bucket.idx()].holders {
                        if schedule.chunks[chunk.idx()].device == device {
                            on(Access::Update, Value::ParamGrad { chunk, bucket });
                        }
                    }
                }
                CollectiveKind::GradNorm => {
                    for chunk in schedule.chunks_on(device) {
                        for &grad in &index.grads[chunk.idx()] {
                            on(Access::Read, grad);
                        }
                    }
                    on(Access::Write, Value::GradNorm);
                }
            },
            Self::Push(id) => {
                let entry = &schedule.exchanges[id.idx()];
                for wave in entry.since..=entry.wave {
                    on(Access::Consume, Value::WaveSum { chunk: entry.chunk, wave });
                }
            }
            Self::Pull(id) => on(Access::Write, Value::Pulled { exchange: id }),
            Self::Merge(id) => {
                let entry = &schedule.exchanges[id.idx()];
                on(Access::Consume, Value::Pulled { exchange: id });
                for wave in entry.least()..entry.wave {
                    on(Access::Read, Value::WaveSum { chunk: entry.chunk, wave });
                }
                on(Access::Update, Value::Params { chunk: entry.chunk });
            }
            Self::OptimizerStep { chunk } => {
                for &grad in &index.grads[chunk.idx()] {
                    on(Access::Consume, grad);
                }
                if index.clips {
                    on(Access::Consume, Value::GradNorm);
                }
                on(Access::Update, Value::Params { chunk });
                on(Access::Update, Value::OptState { chunk });
            }
        }
    }
}

impl Pass {
    /// What a pass of `chunk` over `microbatch` does to values: the part of [`Op::effects`] for
    /// passes.
    fn effects(
        self,
        index: &EffectsIndex<'_>,
        chunk: ChunkId,
        microbatch: MicrobatchId,
        on: &mut dyn FnMut(Access, Value),
    ) {
        let schedule = index.schedule;
        let (before, after) = schedule.neighbors(chunk, microbatch);
        let stash = Value::Stash { chunk, microbatch };
        let input = Value::Input { chunk, microbatch };
        let deferred = Value::Deferred { chunk, microbatch };
        let adjoint_stash = Value::AdjointStash { chunk, microbatch };
        let weights = match schedule.staleness {
            Some(_) => Value::WeightStash { chunk, microbatch },
            None => Value::Params { chunk },
        };
        let accumulate = |on: &mut dyn FnMut(Access, Value)| {
            index.grads[chunk.idx()].iter().for_each(|&grad| on(Access::Accumulate, grad));
        };
        match self {
            Self::Forward => {
                on(Access::Read, Value::Params { chunk });
                if schedule.staleness.is_some() {
                    on(Access::Write, weights);
                }
                if let Some(chunk) = before {
                    on(Access::Consume, Value::Activation { chunk, microbatch });
                }
                let is_recomputed = schedule.chunks[chunk.idx()].recompute;
                on(Access::Write, if is_recomputed { input } else { stash });
                if after.is_some() {
                    on(Access::Write, Value::Activation { chunk, microbatch });
                }
            }
            Self::Recompute => {
                on(Access::Read, weights);
                on(Access::Consume, input);
                on(Access::Write, stash);
            }
            Self::Adjoint => {
                on(Access::Read, weights);
                on(Access::Read, stash);
                if let Some(chunk) = after {
                    on(Access::Consume, Value::Adjoint { chunk, microbatch });
                }
                on(Access::Write, adjoint_stash);
                if before.is_some() {
                    on(Access::Write, Value::Adjoint { chunk, microbatch });
                }
            }
            Self::DoubleBackward => {
                on(Access::Read, weights);
                on(Access::Read, stash);
                on(Access::Consume, adjoint_stash);
                if let Some(chunk) = before {
                    on(Access::Consume, Value::Tangent { chunk, microbatch });
                }
                on(Access::Write, deferred);
                if after.is_some() {
                    on(Access::Write, Value::Tangent { chunk, microbatch });
                }
                accumulate(on);
            }
            Self::Backward | Self::BackwardInput => {
                let last_use = schedule.staleness.map_or(Access::Read, |_| Access::Consume);
                on(last_use, weights);
                let is_whole = self == Self::Backward;
                on(if is_whole { Access::Consume } else { Access::Update }, stash);
                if let Some(chunk) = after {
                    on(Access::Consume, Value::Gradient { chunk, microbatch });
                }
                if before.is_some() {
                    on(Access::Write, Value::Gradient { chunk, microbatch });
                }
                if is_whole {
                    if schedule.second_order {
                        on(Access::Consume, deferred);
                    }
                    accumulate(on);
                }
            }
            Self::BackwardWeight => {
                on(Access::Consume, stash);
                accumulate(on);
            }
            Self::Update => {
                index.grads[chunk.idx()].iter().for_each(|&grad| on(Access::Consume, grad));
                on(Access::Read, Value::Params { chunk });
                on(Access::Update, Value::OptState { chunk });
                on(Access::Write, Value::Change { chunk, microbatch });
                if let Some(&wave) = index.waves.get(microbatch.idx()) {
                    on(Access::Accumulate, Value::WaveSum { chunk, wave });
                }
            }
            Self::Apply => {
                on(Access::Consume, Value::Change { chunk, microbatch });
                on(Access::Update, Value::Params { chunk });
            }
        }
    }
}
