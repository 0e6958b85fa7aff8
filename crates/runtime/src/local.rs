//! All ranks as threads of one process: for tests, and for whoever embeds the library.

use crate::coordinator::Captured;
use crate::device::Device;
use crate::error::RunError;
use crate::job::Job;
use crate::world::RealWorld;
use cavalcade_engine::interpret;
use cavalcade_profile::Meter;
use cavalcade_transport::{InProcess, Transport};
use std::sync::Arc;

/// Runs `steps` steps of `job` on threads without pacing; returns for each step the loss and what
/// was captured.
///
/// # Errors
/// The first error of any rank.
pub fn run_threads(
    job: &Job,
    steps: u64,
    meter: &Arc<dyn Meter>,
) -> Result<Vec<(f64, Captured)>, RunError> {
    let devices = job.devices();
    let transports = InProcess::group(devices.len());
    let outcomes: Vec<Result<Vec<(f64, Captured)>, RunError>> = std::thread::scope(|scope| {
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
    let mut whole: Vec<(f64, Captured)> = vec![Default::default(); steps as usize];
    for rank in outcomes {
        for (sum, part) in whole.iter_mut().zip(rank?) {
            sum.0 += part.0;
            sum.1.gradients.extend(part.1.gradients);
            sum.1.weights.extend(part.1.weights);
        }
    }
    Ok(whole)
}

fn run_rank(
    job: &Job,
    id: cavalcade_units::DeviceId,
    steps: u64,
    meter: &Arc<dyn Meter>,
    transport: Arc<dyn Transport>,
) -> Result<Vec<(f64, Captured)>, RunError> {
    let device = Device::new(id, job.clone(), transport, Arc::clone(meter), None, true)?;
    let n_lanes = job.schedule.lanes(id).len();
    std::thread::scope(|scope| {
        let mut world = RealWorld::start(scope, &device, n_lanes, meter);
        (0..steps)
            .map(|step| {
                world.begin_step(step);
                interpret(&job.schedule, &[id], &mut world)?;
                let outcome = device.take_outcome();
                let weights = device.owned_weights();
                Ok((outcome.loss, Captured { gradients: outcome.gradients, weights }))
            })
            .collect()
    })
}
