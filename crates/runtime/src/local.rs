//! All ranks as threads of one process: for tests, and for whoever embeds the library.

use crate::coordinator::Captured;
use crate::device::Device;
use crate::error::RunError;
use crate::job::Job;
use crate::protocol::Values;
use crate::servers::Servers;
use crate::steps::{AtWork, run_steps};
use crate::versions::VersionEvent;
use cavalcade_profile::Meter;
use cavalcade_transport::{InProcess, Transport};
use std::sync::Arc;

/// What a run on threads came to.
#[derive(Clone, Debug, Default)]
pub struct ThreadRun {
    /// By step, or by wave without a flush: the loss and what was captured, which is nothing of
    /// waves.
    pub steps: Vec<(f64, Captured)>,
    /// Without a flush: what the parameter servers logged.
    pub versions: Vec<VersionEvent>,
    /// The same: what the parameter servers have in the end.
    pub weights: Values,
}

/// Runs `steps` steps of `job` (waves, without a flush) on threads without pacing.
///
/// # Errors
/// The first error of any rank.
pub fn run_threads(job: &Job, steps: u64, meter: &Arc<dyn Meter>) -> Result<ThreadRun, RunError> {
    let devices = job.devices();
    let transports = InProcess::group(devices.len());
    let outcomes: Vec<Result<ThreadRun, RunError>> = std::thread::scope(|scope| {
        let ranks = devices.iter().zip(transports).map(|(&id, transport)| {
            let (job, meter) = (job.clone(), Arc::clone(meter));
            let transport: Arc<dyn Transport> = Arc::new(transport);
            scope.spawn(move || {
                let outcome = run_rank(&job, id, steps, &meter, Arc::clone(&transport));
                if let Err(error) = &outcome {
                    transport.abort(&error.to_string());
                }
                outcome
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank reports its panics")).collect()
    });
    let mut whole =
        ThreadRun { steps: vec![Default::default(); steps as usize], ..ThreadRun::default() };
    for rank in outcomes {
        let rank = rank?;
        for (sum, part) in whole.steps.iter_mut().zip(rank.steps) {
            sum.0 += part.0;
            sum.1.gradients.extend(part.1.gradients);
            sum.1.weights.extend(part.1.weights);
        }
        whole.versions.extend(rank.versions);
        whole.weights.extend(rank.weights);
    }
    Ok(whole)
}

fn run_rank(
    job: &Job,
    id: cavalcade_units::DeviceId,
    steps: u64,
    meter: &Arc<dyn Meter>,
    transport: Arc<dyn Transport>,
) -> Result<ThreadRun, RunError> {
    let device =
        Device::new(id, job.clone(), Arc::clone(&transport), Arc::clone(meter), None, true)?;
    let servers = Servers::on(id, job, job.n_steps(steps), &transport, false);
    let mut run = ThreadRun::default();
    let transport = &*transport;
    let at_work = AtWork { job, id, device: &device, servers: &servers, meter, transport };
    run_steps(&at_work, steps, &mut |over| {
        let outcome = device.take_outcome(over.report);
        let mut captured = Captured::default();
        if job.waves.is_none() {
            captured = Captured { gradients: outcome.gradients, weights: device.owned_weights() };
        }
        run.steps.push((outcome.loss, captured));
        Ok(())
    })?;
    run.versions = servers.take_log();
    run.weights = servers.weights();
    Ok(run)
}
