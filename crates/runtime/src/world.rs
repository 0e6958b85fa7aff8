//! The real world: a thread a lane, and a channel on which they report what has finished.
//!
//! ```text
//! interpreter --start--> lane's queue --> lane's thread: Device::run --finished--> interpreter
//! ```

use crate::device::Device;
use crate::error::RunError;
use cavalcade_engine::{Action, Finished, Record, World};
use cavalcade_profile::Meter;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

/// The lanes of one device.
pub(crate) struct RealWorld {
    lanes: Vec<Sender<(Action, u64)>>,
    finished: Receiver<Result<Finished, RunError>>,
    step: u64,
}

impl RealWorld {
    /// Starts one thread a lane in `scope`; they end when the world is dropped.
    pub(crate) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        device: &'env Device,
        n_lanes: usize,
        meter: &Arc<dyn Meter>,
    ) -> Self {
        let (report, finished) = unbounded();
        let lanes = (0..n_lanes).map(|_| {
            let (queue, actions) = unbounded();
            let (report, meter) = (report.clone(), Arc::clone(meter));
            let _: ScopedJoinHandle<'_, ()> =
                scope.spawn(move || lane(device, &*meter, &actions, &report));
            queue
        });
        Self { lanes: lanes.collect(), finished, step: 0 }
    }

    /// Says which step the next actions belong to.
    pub(crate) fn begin_step(&mut self, step: u64) {
        self.step = step;
    }
}

fn lane(
    device: &Device,
    meter: &dyn Meter,
    actions: &Receiver<(Action, u64)>,
    report: &Sender<Result<Finished, RunError>>,
) {
    for (action, step) in actions {
        let start = meter.now();
        let outcome = catch_unwind(AssertUnwindSafe(|| device.run(action.op, step)))
            .unwrap_or_else(|panic| Err(RunError::Bug { message: message(&*panic) }));
        let record = Record { start, end: meter.now() };
        let is_over = outcome.is_err();
        let finished = outcome.map(|()| Finished { id: action.id, record });
        // The interpreter has gone if another lane failed: nothing is left to be done then.
        if report.send(finished).is_err() || is_over {
            return;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

impl World for RealWorld {
    type Error = RunError;

    fn start(&mut self, action: Action) -> Result<(), RunError> {
        let queue = &self.lanes[action.lane.0 as usize];
        // A lane ends when an op of it fails, and has then said why.
        queue.send((action, self.step)).map_err(|_| {
            self.finished.try_iter().find_map(Result::err).unwrap_or(RunError::LaneGone)
        })
    }

    fn next(&mut self) -> Result<Finished, RunError> {
        self.finished.recv().map_err(|_| RunError::LaneGone)?
    }
}
