//! Sends each activation and gradient to the device that needs it.
//!
//! A receive stands just before the pass that needs its value and a send just after the pass
//! that made it. Both run on lanes of their own, so this says in which order values move and not
//! when: a receive is open as soon as those before it from the same peer are done.

use crate::op::{Op, Pass};
use crate::order::ComputeOp;
use crate::tables::{Schedule, Transfer};
use crate::value::Value;
use cavalcade_units::{ChunkId, DeviceId, TransferId};
use std::collections::HashMap;

pub(super) fn insert(schedule: &mut Schedule, orders: &[Vec<ComputeOp>]) {
    let mut ids = HashMap::new();
    for (device_idx, order) in orders.iter().enumerate() {
        let device = DeviceId::from_idx(device_idx);
        let mut program = Vec::with_capacity(order.len() * 3);
        for &(pass, chunk, microbatch) in order {
            let (before, after) = schedule.neighbors(chunk, microbatch);
            let (source, target) = match pass {
                Pass::Forward => (before, after),
                Pass::Backward => (after, before),
            };
            let value_of = |chunk| match pass {
                Pass::Forward => Value::Activation { chunk, microbatch },
                Pass::Backward => Value::Gradient { chunk, microbatch },
            };
            let device_of = |chunk: ChunkId| schedule.chunks[chunk.idx()].device;
            let needs = source.map(|c| (value_of(c), device_of(c), device));
            let makes = target.map(|c| (value_of(chunk), device, device_of(c)));
            let mut id = |(value, from, to): (Value, DeviceId, DeviceId)| {
                *ids.entry(value).or_insert_with(|| {
                    schedule.transfers.push(Transfer { value, from, to });
                    TransferId::from_idx(schedule.transfers.len() - 1)
                })
            };
            let moves = |end: &(Value, DeviceId, DeviceId)| end.1 != end.2;
            program.extend(needs.filter(moves).map(|end| Op::Recv(id(end))));
            program.push(Op::Compute { pass, chunk, microbatch });
            program.extend(makes.filter(moves).map(|end| Op::Send(id(end))));
        }
        schedule.programs[device_idx] = program;
    }
}
