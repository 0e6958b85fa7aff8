//! From a compute order to a whole schedule: plain functions in a list, each of which keeps the
//! order of what was there before it.
//!
//! | pass | before | after |
//! |---|---|---|
//! | `transfers` | computes only | every value needed on another device is sent and received |
//! | `buckets` | no buckets | parameters fall into parts whose holders are the same |
//! | `reduce` | buckets | every part with several holders is summed after the last backward |
//! | `optimizer` | gradients are whole | norm if clipping, then one step a chunk |

mod buckets;
mod optimizer;
mod reduce;
mod transfers;

use crate::op::Op;
use crate::order::ComputeOrder;
use crate::tables::{Collective, CollectiveKind, Schedule};
use cavalcade_units::{CollectiveId, DeviceId, GroupId};

/// What the passes are to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether gradients are clipped by the norm of the whole model's gradient.
    pub clip_gradients: bool,
}

/// Runs all passes over `order`.
pub fn build(order: ComputeOrder, options: Options) -> Schedule {
    let mut schedule = Schedule {
        name: order.name,
        n_layers: order.n_layers,
        ties: order.ties,
        chunks: order.chunks,
        paths: order.paths,
        microbatches: order.microbatches,
        programs: vec![Vec::new(); order.programs.len()],
        ..Schedule::default()
    };
    transfers::insert(&mut schedule, &order.programs);
    buckets::form(&mut schedule);
    reduce::insert(&mut schedule);
    optimizer::insert(&mut schedule, options.clip_gradients);
    schedule
}

/// Adds a collective of `devices` to the tables and to the end of each of their programs.
fn push_collective(schedule: &mut Schedule, kind: CollectiveKind, devices: Vec<DeviceId>) {
    let group_idx = schedule.groups.iter().position(|group| *group == devices);
    let group_idx = group_idx.unwrap_or_else(|| {
        schedule.groups.push(devices.clone());
        schedule.groups.len() - 1
    });
    let id = CollectiveId::from_idx(schedule.collectives.len());
    schedule.collectives.push(Collective { kind, group: GroupId::from_idx(group_idx) });
    for device in devices {
        schedule.programs[device.idx()].push(Op::Collective(id));
    }
}
