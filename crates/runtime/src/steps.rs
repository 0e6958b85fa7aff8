//! All steps of one rank: the lanes of its device, the servers that are on it, and a report after
//! each step, or after each wave where a step has several.

use crate::device::Device;
use crate::error::RunError;
use crate::job::Job;
use crate::servers::Servers;
use crate::world::RealWorld;
use cavalcade_engine::{Action, Finished, Trace, World, interpret};
use cavalcade_profile::Meter;
use cavalcade_schedule::{ActionId, Op, Pass};
use cavalcade_transport::Transport;
use cavalcade_units::{DeviceId, Nanos};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is over on this rank.
pub(crate) struct Over {
    /// Counted over the run: a wave, or a step.
    pub(crate) report: u64,
    /// When the step that it is in began.
    pub(crate) began: Nanos,
    /// When each action of the step ran, if the step is over too.
    pub(crate) trace: Option<Trace>,
}

/// What a rank works with.
pub(crate) struct AtWork<'a> {
    pub(crate) job: &'a Job,
    pub(crate) id: DeviceId,
    pub(crate) device: &'a Device,
    pub(crate) servers: &'a Servers,
    pub(crate) meter: &'a Arc<dyn Meter>,
    pub(crate) transport: &'a dyn Transport,
}

/// Runs `n_reports` steps or waves; what the servers here have in the end is then in them.
pub(crate) fn run_steps(
    at_work: &AtWork<'_>,
    n_reports: u64,
    report: &mut dyn FnMut(Over) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let &AtWork { job, id, device, servers, meter, transport } = at_work;
    let n_lanes = job.schedule.lanes(id).len();
    let per_step = job.waves.map_or(1, |waves| u64::from(waves.per_step));
    let ends = wave_ends(job, id);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| servers.serve());
        let mut world = RealWorld::start(scope, device, n_lanes, meter);
        let outcome = (0..job.n_steps(n_reports)).try_for_each(|step| {
            world.begin_step(step);
            let began = meter.now();
            let last = ((step + 1) * per_step).min(n_reports) - 1;
            let mut each = |action: ActionId| match ends.get(&action) {
                Some(&wave) if job.wave(step, wave) < last => {
                    report(Over { report: job.wave(step, wave), began, trace: None })
                }
                _ => Ok(()),
            };
            let mut followed = Followed { world: &mut world, each: &mut each };
            let trace = Some(interpret(&job.schedule, &[id], &mut followed)?);
            report(Over { report: last, began, trace })
        });
        // The scope waits for all lanes, and one may be waiting for a peer that waits for us.
        let outcome = outcome.inspect_err(|error| transport.abort(&error.to_string()));
        drop(world);
        let served = serving.join().unwrap_or(Err(RunError::LaneGone));
        outcome.and(served)
    })
}

/// The last update of each wave on this device.
fn wave_ends(job: &Job, id: DeviceId) -> BTreeMap<ActionId, u32> {
    let schedule = job.schedule.schedule();
    let waves = schedule.wave_of_microbatches();
    let mut last: BTreeMap<u32, ActionId> = BTreeMap::new();
    for action in job.schedule.actions_of(id).map(ActionId) {
        if let Op::Compute { pass: Pass::Update, microbatch, .. } = job.schedule.op_on(id, action)
            && let Some(&wave) = waves.get(microbatch.idx())
        {
            last.insert(wave, action);
        }
    }
    last.into_iter().map(|(wave, action)| (action, wave)).collect()
}

/// A world that says what has finished.
struct Followed<'a> {
    world: &'a mut RealWorld,
    each: &'a mut dyn FnMut(ActionId) -> Result<(), RunError>,
}

impl World for Followed<'_> {
    type Error = RunError;

    fn start(&mut self, action: Action) -> Result<(), RunError> {
        self.world.start(action)
    }

    fn next(&mut self) -> Result<Finished, RunError> {
        let finished = self.world.next()?;
        (self.each)(finished.id)?;
        Ok(finished)
    }
}
