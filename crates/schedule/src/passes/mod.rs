//! From a compute order to a whole schedule: plain functions in a list, each of which keeps the
//! order of what was there before it.
//!
//! | pass | before | after |
//! |---|---|---|
//! | `split` | whole backwards | each is an input backward and a weight backward |
//! | `recompute` | chunks keep stashes | the chosen ones keep inputs and run the forward again |
//! | `transfers` | computes only | every value needed on another device is sent and received |
//! | `buckets` | no buckets | parameters fall into parts whose holders are the same |
//! | `offload` | recomputed chunks | their inputs leave the device and are fetched in time |
//! | `reduce` | buckets | every part with several holders is summed after its last backward |
//! | `exchange` | servers are placed | waves end with a push, and begin to end with a merge |
//! | `optimizer` | gradients are whole | norm if clipping, then one step a chunk |
//!
//! A schedule without a flush has its updates among its passes and no end of the step: `reduce`
//! and `optimizer` leave it as it is, and `exchange` leaves all others.

mod buckets;
mod exchange;
mod offload;
mod optimizer;
mod recompute;
mod reduce;
mod split;
mod transfers;

pub use exchange::{Servers, Synchronize, Waves};

use crate::op::Op;
use crate::order::ComputeOrder;
use crate::reduction::Reduction;
use crate::tables::{Collective, CollectiveKind, Schedule};
use cavalcade_units::{ChunkId, CollectiveId, DeviceId, GroupId};

/// What the passes are to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether gradients are clipped by the norm of the whole model's gradient.
    pub clip_gradients: bool,
    /// Whether whole backwards are split, so that gradients reach the stage before sooner. Those of
    /// a second-order objective stay whole.
    pub split_backward: bool,
    /// Chunks that keep their input alone and run the forward again before the backward.
    pub recompute: Vec<ChunkId>,
    /// Whether recomputed chunks keep their inputs on the host, and how many passes before its
    /// use each is fetched.
    pub offload: Option<u32>,
    /// How many more copies of the whole there are: see [`Schedule::copies`].
    pub copies: u32,
    /// How replicas without a flush stay together; none if they do not.
    pub waves: Option<Waves>,
    /// How gradients are summed.
    pub reduction: Reduction,
}

/// Runs all passes over `order`.
///
/// # Panics
/// If a chunk that is to recompute is none of the order's.
pub fn build(mut order: ComputeOrder, options: &Options) -> Schedule {
    if options.split_backward && !order.second_order {
        split::backward(&mut order);
    }
    recompute::insert(&mut order, &options.recompute);
    let mut schedule = Schedule {
        name: order.name,
        n_layers: order.n_layers,
        staleness: order.staleness,
        detours: order.detours,
        second_order: order.second_order,
        copies: options.copies,
        reduction: options.reduction,
        ties: order.ties,
        chunks: order.chunks,
        paths: order.paths,
        microbatches: order.microbatches,
        programs: vec![Vec::new(); order.programs.len()],
        ..Schedule::default()
    };
    transfers::insert(&mut schedule, &order.programs);
    if let Some(ahead) = options.offload {
        offload::insert(&mut schedule, ahead as usize);
    }
    let by_layer = |waves: &Waves| matches!(waves.servers, Servers::RoundRobin(_));
    buckets::form(&mut schedule, options.waves.as_ref().is_some_and(by_layer));
    if schedule.staleness.is_none() {
        reduce::insert(&mut schedule);
        optimizer::insert(&mut schedule, options.clip_gradients);
    } else if let Some(waves) = &options.waves {
        exchange::place(&mut schedule, &waves.servers);
        exchange::insert(&mut schedule, waves);
    }
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
