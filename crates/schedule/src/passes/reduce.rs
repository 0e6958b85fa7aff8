//! Sums the gradients of every part of the parameters that more than one device holds.

use crate::passes::push_collective;
use crate::tables::{BucketId, CollectiveKind, Schedule};
use cavalcade_units::DeviceId;
use std::collections::BTreeSet;

pub(super) fn insert(schedule: &mut Schedule) {
    for bucket_idx in 0..schedule.buckets.len() {
        let holders = &schedule.buckets[bucket_idx].holders;
        if holders.len() > 1 {
            let devices: BTreeSet<DeviceId> =
                holders.iter().map(|c| schedule.chunks[c.idx()].device).collect();
            let kind = CollectiveKind::SumGradients(BucketId(bucket_idx as u32));
            push_collective(schedule, kind, devices.into_iter().collect());
        }
    }
}
