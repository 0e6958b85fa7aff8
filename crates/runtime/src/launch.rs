//! Starts worker processes on this machine, runs the coordinator, and leaves nothing behind.

use crate::coordinator::{Coordinator, Facts, Observer};
use crate::error::LaunchError;
use crate::events::{Event, Interrupt, accept};
use crate::job::Job;
use crate::lock::lock;
use crate::protocol::{Hello, Values, Welcome};
use cavalcade_profile::Meter;
use cavalcade_transport::{ControlListener, Deadline, Secret, SystemClock};
use cavalcade_units::{DeviceId, Nanos, Rank};
use crossbeam_channel::{Sender, unbounded};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Lines of a worker's error stream that are kept for the message when it dies.
const LAST_WORDS: usize = 8;
/// With this a worker exits whose part of the run has failed.
const RUN_FAILED: i32 = 4;
/// How often ended workers are looked for.
const REAP_EVERY: Duration = Duration::from_millis(20);

/// How workers come to be.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program and arguments that make a worker; the rest is in its environment.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Address to listen on.
    pub bind: IpAddr,
    /// Port to listen on; 0 for any.
    pub port: u16,
    /// The run's secret.
    pub secret: Secret,
    /// Ranks that somebody else starts.
    pub external_ranks: Vec<u32>,
    /// How long to wait for all ranks.
    pub join_timeout: Nanos,
}

/// Whether the coordinator can listen at this address: asked before long work, such as measuring.
///
/// # Errors
/// If it is in use or not this machine's.
pub fn check_address(address: SocketAddr) -> Result<(), LaunchError> {
    listen(address).map(drop)
}

fn listen(address: SocketAddr) -> Result<ControlListener, LaunchError> {
    ControlListener::bind(address)
        .map_err(|e| LaunchError::Bind { address: address.to_string(), reason: e.to_string() })
}

/// Runs `job` on worker processes and returns the final weights.
///
/// # Errors
/// What went wrong first; no worker process is left then.
pub fn launch(
    launch: &Launch,
    job: &Job,
    hello: Hello,
    welcome: Welcome,
    meter: Arc<dyn Meter>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Values, LaunchError> {
    let wanted = SocketAddr::new(launch.bind, launch.port);
    let listener = listen(wanted)?;
    let address = listener
        .local_addr()
        .map_err(|e| LaunchError::Bind { address: wanted.to_string(), reason: e.to_string() })?;
    observer.listening(address);
    let devices = job.devices();
    let (sender, events) = unbounded();
    interrupt.attach(sender.clone());
    let deadline = Deadline::after(Arc::new(SystemClock::start()), launch.join_timeout);
    accept(listener, launch.secret.clone(), devices.len(), deadline, meter, sender.clone());
    let mut workers = Workers::default();
    for rank in 0..devices.len() as u32 {
        if !launch.external_ranks.contains(&rank) {
            workers.spawn(launch, Rank(rank), devices.len(), address)?;
        }
    }
    workers.watch(sender);
    let name = |&device: &DeviceId| job.costs.cluster().device(device).name.clone();
    let facts = Facts {
        n_ranks: devices.len(),
        devices: devices.iter().map(name).collect(),
        hello,
        welcome,
        schedule_hash: job.schedule_hash(),
        n_actions: job.schedule.n_actions(),
        join_timeout: launch.join_timeout,
        pipelines: devices.iter().map(|&device| job.pipelines_of(device)).collect(),
        serves: devices.iter().map(|&device| job.serves(device)).collect(),
    };
    Coordinator::new(facts, events, observer).run()
}

/// A worker process and the end of what it said.
struct Worker {
    rank: Rank,
    child: Child,
    /// Hears what it says until it ends.
    last_words: Option<JoinHandle<String>>,
}

/// The worker processes of a run; dropping them ends them.
#[derive(Default)]
struct Workers {
    running: Arc<Mutex<Vec<Worker>>>,
}

impl Workers {
    fn spawn(
        &mut self,
        launch: &Launch,
        rank: Rank,
        world_size: usize,
        address: SocketAddr,
    ) -> Result<(), LaunchError> {
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", world_size.to_string())
            .env("MASTER_ADDR", address.ip().to_string())
            .env("MASTER_PORT", address.port().to_string())
            .env("CAVALCADE_SECRET", launch.secret.to_hex())
            .env_remove("CAVALCADE_SECRET_FILE")
            // Its last words are told in one line.
            .env("RUST_BACKTRACE", "0")
            // A group of its own: Ctrl-C in the terminal is for the launcher, which ends the rest.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|reason| LaunchError::Spawn { rank, reason })?;
        let stderr = child.stderr.take();
        let last_words = stderr.map(|stderr| std::thread::spawn(move || last_words(stderr)));
        lock(&self.running).push(Worker { rank, child, last_words });
        Ok(())
    }

    /// Reports workers that end, until all have or the run is over.
    fn watch(&self, events: Sender<Event>) {
        let running = Arc::downgrade(&self.running);
        std::thread::spawn(move || {
            while let Some(running) = running.upgrade() {
                let mut workers = lock(&running);
                workers.retain_mut(|worker| match worker.child.try_wait() {
                    Ok(Some(status)) => {
                        // Its end has closed the stream, so the listener has heard all.
                        let said = worker.last_words.take().and_then(|words| words.join().ok());
                        let last_words = said.filter(|words| !words.is_empty());
                        let has_run_failed = status.code() == Some(RUN_FAILED);
                        let exited = Event::Exited {
                            rank: worker.rank,
                            is_success: status.success(),
                            has_run_failed,
                            status: describe(status),
                            last_words,
                        };
                        // If nobody listens any more the run is over.
                        let _ = events.send(exited);
                        false
                    }
                    Ok(None) => true,
                    Err(_) => false,
                });
                let is_over = workers.is_empty();
                drop(workers);
                drop(running);
                if is_over {
                    return;
                }
                std::thread::sleep(REAP_EVERY);
            }
        });
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in lock(&self.running).iter_mut() {
            // It may have ended by itself in the meantime: both calls are then harmless.
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

/// The last lines of `stderr`, in one.
fn last_words(stderr: ChildStderr) -> String {
    let mut words = VecDeque::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(line.trim().to_owned());
    }
    words.make_contiguous().join(" ")
}

fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => "killed by signal 9 (SIGKILL)".to_owned(),
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}
