//! The plan itself and the one check that makes it.

use crate::{PlanError, Waves};
use cavalcade_schedule::{Kind, fits};
use cavalcade_units::DeviceId;
use std::ops::Range;

/// A consecutive run of layers on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    device: DeviceId,
    layers: Range<u32>,
}

impl Stage {
    /// `layers` on `device`; checked by [`Plan::new`].
    pub fn new(device: DeviceId, layers: Range<u32>) -> Self {
        Self { device, layers }
    }

    /// The device.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// The layers, by their position in the model.
    pub fn layers(&self) -> Range<u32> {
        self.layers.clone()
    }
}

/// One replica of the model: stages in order, from the first layer to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    stages: Vec<Stage>,
    microbatches: u32,
}

impl Pipeline {
    /// `stages` that take `microbatches` of each step; checked by [`Plan::new`].
    pub fn new(stages: Vec<Stage>, microbatches: u32) -> Self {
        Self { stages, microbatches }
    }

    /// The stages, in the order in which a micro-batch's forward visits them.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// This pipeline's share of a step, in micro-batches.
    pub fn microbatches(&self) -> u32 {
        self.microbatches
    }
}

impl Pipeline {
    /// The pipeline as its schedule sees it.
    pub fn form(&self) -> cavalcade_schedule::Pipeline {
        let stages = self.stages.iter().map(|stage| cavalcade_schedule::Stage {
            device: stage.device,
            layers: stage.layers.clone(),
        });
        cavalcade_schedule::Pipeline { stages: stages.collect(), microbatches: self.microbatches }
    }
}

/// A checked plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pipelines: Vec<Pipeline>,
    microbatch_size: u32,
    schedule: Kind,
    pub(crate) waves: Option<Waves>,
}

impl Plan {
    /// A plan for a model of `n_layers` on a cluster of `n_devices`, with micro-batches of
    /// `microbatch_size` samples. Devices may stay idle.
    ///
    /// # Errors
    /// There is no pipeline, stage, micro-batch or sample where one is needed; a pipeline does
    /// not cover `0..n_layers` exactly once in order; a stage has no layer; a device does not
    /// exist; the pipelines do not have the form that `schedule` needs (for most schedules: a
    /// device serves one stage).
    pub fn new(
        pipelines: Vec<Pipeline>,
        microbatch_size: u32,
        schedule: Kind,
        n_layers: u32,
        n_devices: usize,
    ) -> Result<Self, PlanError> {
        if pipelines.is_empty() {
            return Err(PlanError::NoPipelines);
        }
        if microbatch_size == 0 {
            return Err(PlanError::EmptyMicrobatches);
        }
        for (idx, pipeline) in pipelines.iter().enumerate() {
            check_layers(idx, pipeline, n_layers)?;
        }
        check_devices(&pipelines, n_devices)?;
        let forms: Vec<_> = pipelines.iter().map(Pipeline::form).collect();
        fits(schedule, &forms)?;
        Ok(Self { pipelines, microbatch_size, schedule, waves: None })
    }

    /// The same plan with some of its pipelines alone.
    #[must_use]
    pub fn with_pipelines(&self, pipelines: Vec<Pipeline>) -> Self {
        Self { pipelines, ..*self }
    }

    /// The pipelines; each holds the whole model.
    pub fn pipelines(&self) -> &[Pipeline] {
        &self.pipelines
    }

    /// Samples in a micro-batch.
    pub fn microbatch_size(&self) -> u32 {
        self.microbatch_size
    }

    /// The order in which stages work.
    pub fn schedule(&self) -> Kind {
        self.schedule
    }

    /// Samples in a step, over all pipelines.
    pub fn global_batch(&self) -> u64 {
        let microbatches: u64 = self.pipelines.iter().map(|p| u64::from(p.microbatches)).sum();
        microbatches * u64::from(self.microbatch_size)
    }
}

fn check_layers(pipeline_idx: usize, pipeline: &Pipeline, n_layers: u32) -> Result<(), PlanError> {
    if pipeline.microbatches == 0 {
        return Err(PlanError::NoMicrobatches { pipeline: pipeline_idx });
    }
    let mut expected = 0;
    for (stage_idx, Stage { layers, .. }) in pipeline.stages.iter().enumerate() {
        if layers.is_empty() {
            let layers = layers.clone();
            return Err(PlanError::EmptyStage { pipeline: pipeline_idx, stage: stage_idx, layers });
        }
        if layers.start != expected {
            return Err(PlanError::Gap {
                pipeline: pipeline_idx,
                stage: stage_idx,
                found: layers.start,
                expected,
                end: layers.end,
            });
        }
        expected = layers.end;
    }
    let Some(last) = pipeline.stages.len().checked_sub(1) else {
        return Err(PlanError::NoStages { pipeline: pipeline_idx });
    };
    if expected != n_layers {
        return Err(PlanError::End {
            pipeline: pipeline_idx,
            stage: last,
            found: expected,
            n_layers,
        });
    }
    Ok(())
}

fn check_devices(pipelines: &[Pipeline], n_devices: usize) -> Result<(), PlanError> {
    for (pipeline_idx, pipeline) in pipelines.iter().enumerate() {
        for (stage_idx, &Stage { device, .. }) in pipeline.stages.iter().enumerate() {
            if device.idx() >= n_devices {
                return Err(PlanError::NoSuchDevice {
                    pipeline: pipeline_idx,
                    stage: stage_idx,
                    device,
                    n_devices,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Pipeline, Plan, PlanError, Stage};
    use cavalcade_schedule::Kind;
    use cavalcade_units::DeviceId;
    use std::ops::Range;

    fn pipeline(microbatches: u32, stages: &[(u32, Range<u32>)]) -> Pipeline {
        let stage =
            |(device, layers): &(u32, _)| Stage::new(DeviceId(*device), Range::clone(layers));
        Pipeline::new(stages.iter().map(stage).collect(), microbatches)
    }

    fn plan(pipelines: Vec<Pipeline>) -> Result<Plan, PlanError> {
        Plan::new(pipelines, 2, Kind::GPipe, 6, 4)
    }

    #[test]
    fn unlike_pipelines_make_a_plan_and_devices_may_stay_idle() {
        let plan = plan(vec![pipeline(4, &[(0, 0..2), (3, 2..6)]), pipeline(1, &[(1, 0..6)])]);
        assert_eq!(plan.unwrap().global_batch(), 10);
    }

    #[test]
    fn a_device_may_serve_several_stages_where_the_schedule_says_so() {
        let folded = pipeline(4, &[(0, 0..2), (3, 2..3), (0, 3..4), (3, 4..6)]);
        Plan::new(vec![folded.clone()], 2, Kind::Interleaved, 6, 4).unwrap();
        Plan::new(vec![folded], 2, Kind::OneFOneB, 6, 4).unwrap_err();
        let there = pipeline(2, &[(0, 0..2), (3, 2..6)]);
        let back = pipeline(3, &[(3, 0..4), (0, 4..6)]);
        Plan::new(vec![there.clone(), back.clone()], 2, Kind::Chimera, 6, 4).unwrap();
        Plan::new(vec![there, back], 2, Kind::GPipe, 6, 4).unwrap_err();
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (pipelines, wanted) in [
            (vec![], "the plan has no pipeline"),
            (vec![pipeline(1, &[])], "pipeline 0 has no stage"),
            (vec![pipeline(0, &[(0, 0..6)])], "pipeline 0 takes 0 micro-batches"),
            (vec![pipeline(1, &[(0, 0..6)]), pipeline(1, &[(1, 1..6)])], "stage 0 of pipeline 1 b"),
            (vec![pipeline(1, &[(0, 0..2), (1, 3..6)])], "begins at layer 3, but layer 2 is"),
            (vec![pipeline(1, &[(0, 0..3), (1, 2..6)])], "begins at layer 2, but layer 3 is"),
            (vec![pipeline(1, &[(0, 0..2), (1, 2..2), (2, 2..6)])], "holds no layer (2..2)"),
            (vec![pipeline(1, &[(0, 0..5)])], "ends at layer 5, but the model has 6"),
            (vec![pipeline(1, &[(0, 0..2), (1, 2..7)])], "stage 1 of pipeline 0, its last, ends"),
            (vec![pipeline(1, &[(4, 0..6)])], "on device 4, but the cluster has 4"),
            (
                vec![pipeline(1, &[(0, 0..6)]), pipeline(1, &[(1, 0..2), (0, 2..6)])],
                "device 0 serves stage 0 of pipeline 0 and stage 1 of pipeline 1",
            ),
        ] {
            let error = plan(pipelines).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        for (kind, pipelines, wanted) in [
            (
                Kind::Interleaved,
                vec![pipeline(1, &[(0, 0..2), (0, 2..3), (1, 3..6)])],
                "turn of device",
            ),
            (
                Kind::Interleaved,
                vec![pipeline(1, &[(0, 0..2), (1, 2..3), (0, 3..6)])],
                "3 stages on 2",
            ),
            (Kind::Chimera, vec![pipeline(1, &[(0, 0..2), (1, 2..6)])], "pairs"),
            (
                Kind::Chimera,
                vec![pipeline(1, &[(0, 0..6)]), pipeline(1, &[(0, 0..6)])],
                "even number",
            ),
            (
                Kind::Chimera,
                vec![pipeline(1, &[(0, 0..3), (1, 3..6)]), pipeline(1, &[(0, 0..3), (1, 3..6)])],
                "opposite order",
            ),
        ] {
            let error = Plan::new(pipelines, 2, kind, 6, 4).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let empty = Plan::new(vec![pipeline(1, &[(0, 0..6)])], 0, Kind::GPipe, 6, 4);
        assert_eq!(empty, Err(PlanError::EmptyMicrobatches));
    }
}
