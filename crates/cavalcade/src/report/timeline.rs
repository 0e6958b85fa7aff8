//! A step as text: a line a device, time from left to right.
//!
//! ```text
//! titan    0000111122223333.......
//! whippet  ....a0a0a1b1....
//! ```
//!
//! Digits are forward passes, letters backward passes (both by the last digit of the micro-batch:
//! `3` forward and `d` backward of micro-batch 3 or 13), capitals weight gradients that come apart
//! from the rest of their backward, `~` recomputation, `#` collectives, `+` the optimizer, `.`
//! idle; of second-order objectives, `k` to `t` adjoints and `K` to `T` their backwards.

use cavalcade_cluster::Cluster;
use cavalcade_engine::Trace;
use cavalcade_schedule::{ActionId, CheckedSchedule, Op, Pass};
use cavalcade_units::DeviceId;

/// Draws `trace` in lines of `columns` characters beside the devices' names.
pub fn timeline(
    schedule: &CheckedSchedule,
    cluster: &Cluster,
    trace: &Trace,
    columns: usize,
) -> String {
    let origin = trace.start();
    let span = trace.makespan().0.max(1);
    let width = cluster.devices().iter().map(|device| device.name.len()).max().unwrap_or(0);
    let column = |nanos: u64| (nanos as u128 * columns as u128 / u128::from(span)) as usize;
    let mut text = String::new();
    for (idx, device) in cluster.devices().iter().enumerate() {
        let id = DeviceId::from_idx(idx);
        let mut line = vec!['.'; columns];
        let mut actions: Vec<_> = schedule.actions_of(id).map(ActionId).collect();
        // Computation is drawn over communication that goes on at the same time.
        actions.sort_by_key(|&a| !matches!(schedule.op_on(id, a), Op::Collective(_)));
        for action in actions {
            let (Some(mark), Some(record)) = (mark(schedule.op_on(id, action)), trace.get(action))
            else {
                continue;
            };
            let from = column((record.start - origin).0).min(columns - 1);
            let to = column((record.end - origin).0).clamp(from + 1, columns);
            line[from..to].fill(mark);
        }
        let line: String = line.into_iter().collect();
        text += &format!("{:width$}  {line}\n", device.name);
    }
    text
}

fn mark(op: Op) -> Option<char> {
    let (pass, microbatch) = match op {
        Op::Compute { pass, microbatch, .. } => (pass, microbatch),
        Op::Collective(_) => return Some('#'),
        Op::OptimizerStep { .. } => return Some('+'),
        Op::Merge(_) => return Some('*'),
        Op::Send(_)
        | Op::Recv(_)
        | Op::Push(_)
        | Op::Pull(_)
        | Op::Offload { .. }
        | Op::Prefetch { .. } => return None,
    };
    let first = match pass {
        Pass::Forward => b'0',
        Pass::Backward | Pass::BackwardInput => b'a',
        Pass::BackwardWeight => b'A',
        Pass::Adjoint => b'k',
        Pass::DoubleBackward => b'K',
        Pass::Recompute => return Some('~'),
        Pass::Update | Pass::Apply => return Some('+'),
    };
    Some(char::from(first + (microbatch.0 % 10) as u8))
}
