//! What each op reads, consumes and writes: the one place that says so.

use crate::op::{Op, Pass};
use crate::tables::{CollectiveKind, Schedule};
use crate::value::Value;
use cavalcade_units::DeviceId;

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
        Self { schedule, grads, clips: schedule.clips_gradients() }
    }
}

impl Op {
    /// Calls `touch` with everything this op does to values of `device`.
    ///
    /// ```text
    /// forward          reads params, consumes the activation before it; writes stash, activation
    /// backward         reads params, consumes stash and the gradient after it; writes the
    ///                  gradient of its input, accumulates parameter gradients
    /// send, recv       consumes on one device, writes on the other
    /// sum of gradients updates the bucket's gradients of every holder
    /// gradient norm    reads all parameter gradients, writes the norm
    /// optimizer step   consumes gradients and norm; updates params and optimizer state
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
            Self::Compute { pass: Pass::Forward, chunk, microbatch } => {
                let (before, after) = schedule.neighbors(chunk, microbatch);
                on(Access::Read, Value::Params { chunk });
                if let Some(chunk) = before {
                    on(Access::Consume, Value::Activation { chunk, microbatch });
                }
                on(Access::Write, Value::Stash { chunk, microbatch });
                if after.is_some() {
                    on(Access::Write, Value::Activation { chunk, microbatch });
                }
            }
            Self::Compute { pass: Pass::Backward, chunk, microbatch } => {
                let (before, after) = schedule.neighbors(chunk, microbatch);
                on(Access::Read, Value::Params { chunk });
                on(Access::Consume, Value::Stash { chunk, microbatch });
                if let Some(chunk) = after {
                    on(Access::Consume, Value::Gradient { chunk, microbatch });
                }
                if before.is_some() {
                    on(Access::Write, Value::Gradient { chunk, microbatch });
                }
                for &grad in &index.grads[chunk.idx()] {
                    on(Access::Accumulate, grad);
                }
            }
            Self::Send(id) => on(Access::Consume, schedule.transfers[id.idx()].value),
            Self::Recv(id) => on(Access::Write, schedule.transfers[id.idx()].value),
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
