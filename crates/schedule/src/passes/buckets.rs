//! Cuts the parameters into parts such that every part has one set of holders.
//!
//! Pipelines of unlike cuts share layers in unlike runs:
//!
//! ```text
//! pipeline 0   [ chunk 0      ][ chunk 1           ]
//! pipeline 1   [ chunk 2  ][ chunk 3 ][ chunk 4    ]
//! buckets      [ 0,2      ][0,3][ 1,3 ][ 1,4       ]     and one for each tie
//! ```
//!
//! Where servers take turns layer by layer, every layer is a part.

use crate::tables::{Bucket, Chunk, ParamUnit, Schedule};
use cavalcade_units::ChunkId;
use std::collections::BTreeSet;

pub(super) fn form(schedule: &mut Schedule, by_layer: bool) {
    let cuts_of = |chunk: &Chunk| match by_layer {
        true => (chunk.layers.start..=chunk.layers.end).collect::<Vec<_>>(),
        false => vec![chunk.layers.start, chunk.layers.end],
    };
    let cuts: BTreeSet<u32> = schedule.chunks.iter().flat_map(cuts_of).collect();
    let cuts: Vec<u32> = cuts.into_iter().collect();
    for pair in cuts.windows(2) {
        let holders = holders(schedule, |layer| layer == pair[0]);
        if !holders.is_empty() {
            let unit = ParamUnit::Layers(pair[0]..pair[1]);
            schedule.buckets.push(Bucket { unit, holders, server: None });
        }
    }
    for (tie_idx, tie) in schedule.ties.iter().enumerate() {
        let holders = holders(schedule, |layer| tie.layers.contains(&layer));
        if !holders.is_empty() {
            let unit = ParamUnit::Tie(tie_idx as u32);
            schedule.buckets.push(Bucket { unit, holders, server: None });
        }
    }
}

fn holders(schedule: &Schedule, wanted: impl Fn(u32) -> bool) -> Vec<ChunkId> {
    let holds = |idx: &usize| schedule.chunks[*idx].layers.clone().any(&wanted);
    (0..schedule.chunks.len()).filter(holds).map(ChunkId::from_idx).collect()
}
