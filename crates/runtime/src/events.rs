//! Where the coordinator's events come from: the acceptor, a reader a rank, the interrupt.
//!
//! These threads only put events into the channel; what follows from them is decided in
//! `coordinator`. The watcher of child processes is in `launch`.

use crate::lock::lock;
use crate::protocol::{FromCoordinator, FromWorker, decode, encode};
use cavalcade_profile::Meter;
use cavalcade_transport::{
    ControlListener, ControlReceiver, ControlSender, ControlStream, Deadline, Secret,
    TransportError,
};
use cavalcade_units::Rank;
use crossbeam_channel::Sender;
use std::sync::{Arc, Mutex};

/// What happened.
pub(crate) enum Event {
    Joined(Rank, ControlSender),
    Said(Rank, FromWorker),
    /// The connection is gone.
    Lost(Rank),
    /// The process has ended, with its exit status and its last words.
    Exited {
        rank: Rank,
        status: String,
        /// Whether it is the status of a worker that has done all it had to.
        is_success: bool,
        /// Whether it is the status of a worker whose part of the run has failed.
        has_run_failed: bool,
        last_words: Option<String>,
    },
    Interrupted,
}

/// Accepts workers until all have come, and starts a reader for each.
pub(crate) fn accept(
    mut listener: ControlListener,
    secret: Secret,
    n_ranks: usize,
    deadline: Deadline,
    meter: Arc<dyn Meter>,
    events: Sender<Event>,
) {
    std::thread::spawn(move || {
        let mut seen = vec![false; n_ranks];
        while seen.iter().any(|seen| !seen) {
            match listener.accept(&secret, &deadline) {
                // A second process of the same rank, or one beyond the world, is turned away.
                Ok((stream, rank)) => {
                    if let Some(seen) = seen.get_mut(rank.idx()).filter(|seen| !**seen) {
                        *seen = true;
                        join(stream, rank, &meter, &events);
                    }
                }
                // A stranger keeps nobody out.
                Err(TransportError::Auth { .. }) => {}
                Err(_) => return,
            }
        }
    });
}

fn join(stream: ControlStream, rank: Rank, meter: &Arc<dyn Meter>, events: &Sender<Event>) {
    let (writer, reader) = stream.split();
    let (meter, sender, pongs) = (Arc::clone(meter), events.clone(), writer.clone());
    if events.send(Event::Joined(rank, writer)).is_ok() {
        std::thread::spawn(move || read(reader, &pongs, rank, &*meter, &sender));
    }
}

fn read(
    mut reader: ControlReceiver,
    pongs: &ControlSender,
    rank: Rank,
    meter: &dyn Meter,
    events: &Sender<Event>,
) {
    while let Ok(bytes) = reader.recv() {
        let said = match decode(&bytes) {
            Ok(FromWorker::Ping) => {
                // Answered here and at once: the worker takes the time.
                let pong = FromCoordinator::Pong { now: meter.now().0 };
                if pongs.send(&encode(&pong)).is_err() {
                    break;
                }
                continue;
            }
            Ok(said) => said,
            Err(error) => {
                let message = format!("it speaks another protocol: {error}");
                FromWorker::Failed { message, is_echo: false }
            }
        };
        if events.send(Event::Said(rank, said)).is_err() {
            return;
        }
    }
    // If nobody listens any more the run is over.
    let _ = events.send(Event::Lost(rank));
}

/// Makes a handle by which a signal handler can interrupt the run.
#[derive(Clone, Default)]
pub struct Interrupt {
    events: Arc<Mutex<(bool, Option<Sender<Event>>)>>,
}

impl Interrupt {
    /// Ends the run that is under way, or the next one at once.
    pub fn raise(&self) {
        let mut state = lock(&self.events);
        state.0 = true;
        if let Some(events) = &state.1 {
            let _ = events.send(Event::Interrupted);
        }
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        lock(&self.events).0
    }

    pub(crate) fn attach(&self, events: Sender<Event>) {
        let mut state = lock(&self.events);
        if state.0 {
            let _ = events.send(Event::Interrupted);
        }
        state.1 = Some(events);
    }
}
