//! Sums the gradients of every part of the parameters that more than one chunk holds, here or in
//! symmetric copies of the schedule.
//!
//! Sums run on lanes of their own and begin when a part's last share is in. Backwards come to the
//! last layers first, so their sums stand first in the list and overlap with the backwards of the
//! chunks before; a tie's last share is the first layer's.

use crate::passes::push_collective;
use crate::tables::{BucketId, CollectiveKind, ParamUnit, Schedule};
use cavalcade_units::DeviceId;
use std::cmp::Reverse;
use std::collections::BTreeSet;

pub(super) fn insert(schedule: &mut Schedule) {
    let mut order: Vec<usize> = (0..schedule.buckets.len()).collect();
    order.sort_by_key(|&bucket| match &schedule.buckets[bucket].unit {
        ParamUnit::Layers(layers) => (false, Reverse(layers.start)),
        ParamUnit::Tie(tie) => (true, Reverse(u32::MAX - tie)),
    });
    for bucket_idx in order {
        if schedule.is_summed(BucketId(bucket_idx as u32)) {
            let holders = &schedule.buckets[bucket_idx].holders;
            let devices: BTreeSet<DeviceId> =
                holders.iter().map(|c| schedule.chunks[c.idx()].device).collect();
            let kind = CollectiveKind::SumGradients(BucketId(bucket_idx as u32));
            push_collective(schedule, kind, devices.into_iter().collect());
        }
    }
}
