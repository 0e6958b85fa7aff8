//! Durations for generators that weigh one order against another, in ticks of any length.
//!
//! What a tick is does not matter, only how durations compare: the caller counts in nanoseconds or
//! in whatever its figures are. The schedule that comes out holds none of them.

use crate::op::Pass;
use cavalcade_units::DeviceId;
use std::collections::BTreeMap;

/// How long passes and messages take. Empty, all passes of all stages take one tick each (a
/// whole backward two) and messages none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// By pipeline and stage; a stage that is not listed is as [`StageTicks::default`].
    pub stages: Vec<Vec<StageTicks>>,
    /// From one device to another, from the end of a pass until its message has arrived; what is
    /// not listed takes none.
    pub delays: BTreeMap<(DeviceId, DeviceId), u64>,
}

/// Durations of one stage's passes over one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTicks {
    /// Its forward.
    pub forward: u64,
    /// Its backward, whole.
    pub backward: u64,
    /// The input part of its backward.
    pub backward_input: u64,
    /// The weight part of its backward.
    pub backward_weight: u64,
}

impl Default for StageTicks {
    /// One tick a pass, two a whole backward.
    fn default() -> Self {
        Self { forward: 1, backward: 2, backward_input: 1, backward_weight: 1 }
    }
}

impl StageTicks {
    /// Of one pass; a recompute is a forward. None of passes that no generator weighs.
    pub(crate) fn of_pass(self, pass: Pass) -> u64 {
        match pass {
            Pass::Forward | Pass::Recompute => self.forward,
            Pass::Backward => self.backward,
            Pass::BackwardInput => self.backward_input,
            Pass::BackwardWeight => self.backward_weight,
            Pass::Adjoint | Pass::DoubleBackward | Pass::Update | Pass::Apply => 0,
        }
    }
}

impl Ticks {
    /// Durations of the passes of a stage of a pipeline.
    pub fn of_stage(&self, pipeline: usize, stage: usize) -> StageTicks {
        let stages = self.stages.get(pipeline);
        stages.and_then(|stages| stages.get(stage)).copied().unwrap_or_default()
    }

    /// From the end of a pass on `from` until its message is on `to`; none within a device.
    pub fn delay(&self, from: DeviceId, to: DeviceId) -> u64 {
        let listed = self.delays.get(&(from, to)).filter(|_| from != to);
        listed.copied().unwrap_or(0)
    }
}
