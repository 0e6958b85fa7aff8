//! The places that micro-batches can visit, and what passes and hops take.
//!
//! The pipelines of the layout are cut alike, so a stage has as many places as it has devices over
//! all pipelines, and any of them can serve a micro-batch of any pipeline.

use crate::op::Pass;
use crate::order::Layout;
use crate::ticks::StageTicks;
use cavalcade_units::DeviceId;
use std::collections::BTreeMap;

/// Index of a place.
pub(super) type Place = usize;

/// All places of all stages.
pub(super) struct Net {
    /// By place, its device.
    pub(super) devices: Vec<DeviceId>,
    /// By place, its stage.
    pub(super) stages: Vec<usize>,
    /// By place.
    ticks: Vec<StageTicks>,
    /// By place and place, from the end of a pass until its message is there.
    delays: Vec<Vec<u64>>,
    /// By stage, its places.
    pub(super) places: Vec<Vec<Place>>,
    /// By micro-batch, where it goes if nothing is skipped and nothing swapped: through its
    /// pipeline.
    pub(super) homes: Vec<Vec<Place>>,
    /// Most micro-batches that a place holds between their forward and their backward.
    pub(super) cap: usize,
}

impl Net {
    pub(super) fn new(layout: &Layout, cap: u32) -> Self {
        let n_stages = layout.pipelines.first().map_or(0, |pipeline| pipeline.stages.len());
        let mut place_of = BTreeMap::new();
        let mut net = Self {
            devices: Vec::new(),
            stages: Vec::new(),
            ticks: Vec::new(),
            delays: Vec::new(),
            places: vec![Vec::new(); n_stages],
            homes: Vec::new(),
            cap: cap as usize,
        };
        for (pipeline_idx, pipeline) in layout.pipelines.iter().enumerate() {
            let mut home = Vec::new();
            for (stage_idx, stage) in pipeline.stages.iter().enumerate() {
                let place = *place_of.entry(stage.device).or_insert_with(|| {
                    net.devices.push(stage.device);
                    net.stages.push(stage_idx);
                    net.ticks.push(layout.ticks.of_stage(pipeline_idx, stage_idx));
                    net.places[stage_idx].push(net.devices.len() - 1);
                    net.devices.len() - 1
                });
                home.push(place);
            }
            net.homes.extend(std::iter::repeat_n(home, pipeline.microbatches as usize));
        }
        let delay = |from: &DeviceId, to: &DeviceId| layout.ticks.delay(*from, *to);
        let row = |from| net.devices.iter().map(|to| delay(from, to)).collect();
        net.delays = net.devices.iter().map(row).collect();
        net
    }

    pub(super) fn n_stages(&self) -> usize {
        self.places.len()
    }

    pub(super) fn delay(&self, from: Place, to: Place) -> u64 {
        self.delays[from][to]
    }

    pub(super) fn time(&self, place: Place, pass: Pass) -> u64 {
        self.ticks[place].of_pass(pass)
    }

    /// Stages that may be left out: all but the first and the last.
    pub(super) fn middle(&self) -> std::ops::Range<usize> {
        1..self.n_stages().saturating_sub(1).max(1)
    }
}
