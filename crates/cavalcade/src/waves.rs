//! The plan of a run without a flush: layers by the exact rule, and as many micro-batches in flight
//! as are fastest and have room.

use crate::config::{Config, WavesConfig};
use crate::error::Error;
use crate::prepare::{self, plan_of, refused, stages};
use cavalcade_lower::{StagePasses, copies_of_waves};
use cavalcade_model::Model;
use cavalcade_plan::{Placement, Plan, Waves};
use cavalcade_profile::Profile;
use cavalcade_schedule::{CheckedSchedule, Kind};
use cavalcade_sim::{Disturbance, Prediction, ProfiledCosts, predict, predict_disturbed};

/// Most waves between two drains of the pipelines, after which a report with times is made.
const WAVES_PER_STEP: u64 = 256;
/// Waves by which numbers in flight are compared.
const COMPARED_WAVES: u32 = 12;
/// Most waves apart that are tried.
const MOST_DISTANCE: u32 = 8;
/// More in flight has to be faster by this share to be worth its memory and its staleness.
const WORTH: f64 = 0.01;

/// What the configuration fixes, completed by the exact rules.
pub(crate) fn make_plan(
    config: &Config,
    waves: &WavesConfig,
    network: &Model,
    profile: &Profile,
) -> Result<Plan, Error> {
    let per_step = config.settings.steps.min(WAVES_PER_STEP) as u32;
    let length = match waves.in_flight {
        Some(length) => length,
        None => fastest(config, waves, network, profile)?.0,
    };
    let made = Making { config, waves, network, profile };
    let distance = match waves.distance {
        Some(distance) => distance,
        None => made.best_distance(length)?,
    };
    made.plan(length, per_step, distance)
}

/// How many in flight are fastest, or what is fixed, and the seconds that each pipeline then takes
/// for a micro-batch.
pub(crate) fn fastest(
    config: &Config,
    waves: &WavesConfig,
    network: &Model,
    profile: &Profile,
) -> Result<(u32, f64), Error> {
    let made = Making { config, waves, network, profile };
    match waves.in_flight {
        Some(length) => Ok((length, made.time_of_one(length)?)),
        None => made.fastest(),
    }
}

/// The kind of schedule with `length` in flight, and how the passes of a stage run where replicas
/// may be `distance` waves apart. With the stage are the servers of `served` replicas, if any.
pub(crate) fn passes(
    config: &Config,
    waves: &WavesConfig,
    (length, distance): (u32, u32),
    served: Option<u32>,
) -> (Kind, StagePasses) {
    let kind = Kind::HetPipe { wave: Some(length) };
    let served = served.filter(|_| waves.servers == Placement::Local);
    let copies = copies_of_waves(length, distance, served);
    let passes = StagePasses::of(kind, config.plan.split_backward, config.plan.recompute);
    (kind, StagePasses { copies, ..passes })
}

struct Making<'a> {
    config: &'a Config,
    waves: &'a WavesConfig,
    network: &'a Model,
    profile: &'a Profile,
}

impl Making<'_> {
    fn plan(&self, length: u32, per_step: u32, distance: u32) -> Result<Plan, Error> {
        let Self { config, network, profile, .. } = *self;
        let plan = &config.plan;
        let n_replicas = plan.pipelines.len() as u32;
        let of = |idx: usize| {
            let served = (idx == 0).then_some(n_replicas);
            passes(config, self.waves, (length, distance), served)
        };
        let kind = of(0).0;
        let microbatches = length.checked_mul(per_step).ok_or_else(|| Error::Plan {
            path: config.path.clone(),
            problem: format!("{length} micro-batches in flight over {per_step} waves are too many"),
        })?;
        if let Some(idx) = plan.pipelines.iter().position(|p| p.microbatches.is_some()) {
            let problem = format!(
                "pipeline[{idx}].microbatches is set, but replicas that exchange waves take \
                 sync.in_flight micro-batches a wave each; leave it out"
            );
            return Err(Error::Plan { path: config.path.clone(), problem });
        }
        let stages = stages(config, network, profile, kind, &|idx| (of(idx).1, microbatches))?;
        let each = vec![microbatches; stages.len()];
        let plan = plan_of(config, network, kind, &stages, &each)?;
        plan.with_waves(Waves { distance, servers: self.waves.servers })
            .map_err(|e| Error::Plan { path: config.path.clone(), problem: e.to_string() })
    }

    /// How many in flight are fastest: all up to twice the longest pipeline are simulated; of
    /// those about as fast as the fastest, the fewest.
    fn fastest(&self) -> Result<(u32, f64), Error> {
        let longest = self.config.plan.pipelines.iter().map(|p| p.devices.len()).max();
        let most = 2 * longest.unwrap_or(1) as u32;
        let mut times: Vec<(u32, f64)> = Vec::new();
        let mut refusal = None;
        for length in 1..=most {
            match self.time_of_one(length) {
                Ok(time) => times.push((length, time)),
                // More in flight needs more memory.
                Err(error) => {
                    refusal = Some(error);
                    break;
                }
            }
        }
        let Some(best) = times.iter().map(|&(_, time)| time).min_by(f64::total_cmp) else {
            return Err(refusal.expect("at least one was tried"));
        };
        let is_good = |&&(_, time): &&(u32, f64)| time <= best * (1.0 + WORTH);
        Ok(*times.iter().find(is_good).expect("the best is as fast as itself"))
    }

    /// The fewest waves apart that are about as fast as any while compute times vary as they were
    /// measured to.
    fn best_distance(&self, length: u32) -> Result<u32, Error> {
        let Self { config, network, profile, .. } = *self;
        let mut times: Vec<(u32, f64)> = Vec::new();
        for distance in 0..=MOST_DISTANCE {
            let plan = match self.plan(length, COMPARED_WAVES, distance) {
                Ok(plan) => plan,
                // Further apart needs more memory.
                Err(_) if !times.is_empty() => break,
                Err(error) => return Err(error),
            };
            let Ok((schedule, costs)) = lowered(config, &plan, network, profile) else { break };
            let prediction = jittered(&schedule, &costs, profile.jitter)?;
            times.push((distance, prediction.step_time.as_secs_f64()));
        }
        let best = times.iter().map(|&(_, time)| time).min_by(f64::total_cmp).unwrap_or_default();
        let good = times.iter().find(|(_, time)| *time <= best * (1.0 + WORTH));
        Ok(good.map_or(0, |&(distance, _)| distance))
    }

    /// Predicted seconds a micro-batch of each pipeline.
    fn time_of_one(&self, length: u32) -> Result<f64, Error> {
        let plan = self.plan(length, COMPARED_WAVES, self.waves.distance.unwrap_or(0))?;
        let prediction = predicted(self.config, &plan, self.network, self.profile)?;
        Ok(prediction.step_time.as_secs_f64() / f64::from(COMPARED_WAVES * length))
    }
}

/// What a step of `plan` will be like.
pub(crate) fn predicted(
    config: &Config,
    plan: &Plan,
    network: &Model,
    profile: &Profile,
) -> Result<Prediction, Error> {
    let (schedule, costs) = lowered(config, plan, network, profile)?;
    predict(&schedule, &costs).map_err(|e| Error::NoPlan(e.to_string()))
}

fn lowered(
    config: &Config,
    plan: &Plan,
    network: &Model,
    profile: &Profile,
) -> Result<(CheckedSchedule, ProfiledCosts), Error> {
    let (schedule, costs) = prepare::lowered(config, plan, network, profile)
        .map_err(|e| refused(e, &config.cluster))?;
    Ok((schedule, ProfiledCosts::new(costs)))
}

/// What a step will be like while compute times vary by `jitter`, always the same way.
pub(crate) fn jittered(
    schedule: &CheckedSchedule,
    costs: &ProfiledCosts,
    jitter: f64,
) -> Result<Prediction, Error> {
    let disturbance = Disturbance { seed: 1, jitter, ..Disturbance::default() };
    let trouble = disturbance.check(schedule.n_devices());
    let trouble = trouble.map_err(|e| Error::Argument(e.to_string()))?;
    predict_disturbed(schedule, costs, &trouble).map_err(|e| Error::Stopped(e.to_string()))
}
