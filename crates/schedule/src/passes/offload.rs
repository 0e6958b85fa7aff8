//! Keeps the inputs of recomputed chunks on the host between their two uses (DeepSpeed's CPU
//! checkpointing; SuperNeurons, Wang et al. 2018).
//!
//! ```text
//! compute    0F0      1F0 1B0   0X0 0B0
//! to host        0O0
//! from host               0P0            issued one pass before the recompute that needs it
//! ```

use crate::op::{Op, Pass};
use crate::tables::Schedule;

/// Each kept input leaves right after its forward and is fetched `ahead` passes of its device
/// before its recompute. An input between whose two uses there are no more passes stays.
pub(super) fn insert(schedule: &mut Schedule, ahead: usize) {
    for program in &mut schedule.programs {
        let passes: Vec<usize> =
            (0..program.len()).filter(|&at| matches!(program[at], Op::Compute { .. })).collect();
        // By position in the program: what comes before and after the op there.
        let mut before = vec![Vec::new(); program.len()];
        let mut after = vec![Vec::new(); program.len()];
        for (nth, &at) in passes.iter().enumerate() {
            let Op::Compute { pass: Pass::Recompute, chunk, microbatch } = program[at] else {
                continue;
            };
            let forward = Op::Compute { pass: Pass::Forward, chunk, microbatch };
            let made = passes[..nth].iter().position(|&at| program[at] == forward);
            if let Some(made) = made.filter(|made| made + ahead < nth) {
                after[passes[made]].push(Op::Offload { chunk, microbatch });
                before[passes[nth - ahead.max(1) + 1]].push(Op::Prefetch { chunk, microbatch });
            }
        }
        let ops = program.iter().zip(before).zip(after);
        let whole = ops.flat_map(|((&op, before), after)| {
            before.into_iter().chain([op]).chain(after).collect::<Vec<_>>()
        });
        *program = whole.collect();
    }
}
