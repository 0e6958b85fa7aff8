//! Sends each value to the device that needs it.
//!
//! A receive stands just before the pass that needs its value and a send just after the pass
//! that made it. Both run on lanes of their own, so this says in which order values move and not
//! when: a receive is open as soon as those before it from the same peer are done.

use crate::effects::{Access, EffectsIndex};
use crate::op::Op;
use crate::order::ComputeOp;
use crate::tables::{Schedule, Transfer};
use crate::value::Value;
use cavalcade_units::{ChunkId, DeviceId, TransferId};
use std::collections::HashMap;

pub(super) fn insert(schedule: &mut Schedule, orders: &[Vec<ComputeOp>]) {
    let mut transfers = Vec::new();
    let mut programs = Vec::with_capacity(orders.len());
    let mut ids: HashMap<Value, TransferId> = HashMap::new();
    let index = EffectsIndex::new(schedule);
    let device_of = |chunk: ChunkId| schedule.chunks[chunk.idx()].device;
    for (device_idx, order) in orders.iter().enumerate() {
        let device = DeviceId::from_idx(device_idx);
        let mut program = Vec::with_capacity(order.len() * 3);
        let mut id = |value, from, to| {
            *ids.entry(value).or_insert_with(|| {
                transfers.push(Transfer { value, from, to });
                TransferId::from_idx(transfers.len() - 1)
            })
        };
        for &(pass, chunk, microbatch) in order {
            let op = Op::Compute { pass, chunk, microbatch };
            let mut sends = Vec::new();
            op.effects(&index, device, &mut |effect| {
                let Some((maker, ..)) = effect.value.message() else { return };
                if effect.access == Access::Write {
                    let to = schedule.reader_of(effect.value).map(device_of);
                    if let Some(to) = to.filter(|&to| to != device) {
                        sends.push(Op::Send(id(effect.value, device, to)));
                    }
                } else if device_of(maker) != device {
                    program.push(Op::Recv(id(effect.value, device_of(maker), device)));
                }
            });
            program.push(op);
            program.extend(sends);
        }
        programs.push(program);
    }
    (schedule.transfers, schedule.programs) = (transfers, programs);
}
