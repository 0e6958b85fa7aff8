//! A rank: joins the run, drives one device through all steps, reports.

use crate::device::Device;
use crate::error::RunError;
use crate::job::Job;
use crate::pacing::Pacer;
use crate::protocol::{FromCoordinator, FromWorker, Hello, StepReport, Welcome, decode, encode};
use crate::servers::Servers;
use crate::steps::{AtWork, Over, run_steps};
use cavalcade_cluster::Cluster;
use cavalcade_engine::Trace;
use cavalcade_profile::Meter;
use cavalcade_transport::{
    Clock, ControlReceiver, ControlSender, ControlStream, Deadline, Links, Listener, Mesh, Secret,
    SystemClock, Throttle, Transport,
};
use cavalcade_units::{DeviceId, Nanos, Rank};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Times that the clocks are compared; the quickest answer counts.
const N_PINGS: usize = 8;

/// Where a worker stands, as launchers say it.
#[derive(Clone, Debug)]
pub struct Place {
    /// `RANK`.
    pub rank: Rank,
    /// `WORLD_SIZE`.
    pub world_size: usize,
    /// `MASTER_ADDR` and `MASTER_PORT`.
    pub master: SocketAddr,
    /// The run's secret.
    pub secret: Secret,
    /// Address on which this worker listens to its peers.
    pub bind: IpAddr,
    /// How long to wait for the coordinator and the peers.
    pub join_timeout: Nanos,
}

/// Joins the run at `place` and works until it ends. `build` makes the job from what the
/// coordinator decided.
///
/// # Errors
/// Whatever ends the run on this rank; the coordinator has then been told, if it is still there.
pub fn work(
    place: &Place,
    hello: Hello,
    cluster: &Cluster,
    meter: Arc<dyn Meter>,
    build: impl FnOnce(&Welcome) -> Result<Job, String>,
) -> Result<(), RunError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let deadline = Deadline::after(Arc::clone(&clock), place.join_timeout);
    let stream = ControlStream::connect(place.master, &place.secret, place.rank, &deadline)?;
    let (coordinator, reader) = stream.split();
    let session = Session { place, cluster, meter, coordinator: coordinator.clone(), clock };
    let outcome = session.join_and_run(hello, reader, &deadline, build);
    if let Err(error) = &outcome {
        // Whatever goes wrong with a connection may be because its other end has gone.
        let is_echo = matches!(error, RunError::Transport(_));
        let message = error.to_string();
        // If the coordinator has gone there is nobody left to tell.
        let _ = say(&coordinator, &FromWorker::Failed { message, is_echo });
    }
    outcome
}

fn say(coordinator: &ControlSender, message: &FromWorker) -> Result<(), RunError> {
    Ok(coordinator.send(&encode(message))?)
}

fn hear(reader: &mut ControlReceiver) -> Result<FromCoordinator, RunError> {
    let message = decode(&reader.recv()?)
        .map_err(|e| RunError::Setup(format!("the coordinator speaks another protocol: {e}")))?;
    match message {
        FromCoordinator::Abort { reason } => Err(RunError::Aborted { reason }),
        message => Ok(message),
    }
}

struct Session<'a> {
    place: &'a Place,
    cluster: &'a Cluster,
    meter: Arc<dyn Meter>,
    coordinator: ControlSender,
    clock: Arc<dyn Clock>,
}

impl Session<'_> {
    fn join_and_run(
        &self,
        hello: Hello,
        mut reader: ControlReceiver,
        deadline: &Deadline,
        build: impl FnOnce(&Welcome) -> Result<Job, String>,
    ) -> Result<(), RunError> {
        let clock_offset = self.compare_clocks(&mut reader)?;
        say(&self.coordinator, &FromWorker::Hello(hello))?;
        let welcome = match hear(&mut reader)? {
            FromCoordinator::Welcome(welcome) => welcome,
            other => return Err(unexpected(&other)),
        };
        let job = build(&welcome).map_err(RunError::Setup)?;
        let devices = job.devices();
        let device_id = *devices.get(self.place.rank.idx()).ok_or_else(|| {
            let (rank, n) = (self.place.rank, devices.len());
            RunError::Setup(format!("rank {rank} has no device: the plan uses {n}"))
        })?;
        let links = match welcome.is_paced {
            true => Links::emulated(Arc::clone(&self.clock), self.throttles(device_id, &devices)),
            false => Links::unlimited(),
        };
        let listener = Listener::bind(Some(SocketAddr::new(self.place.bind, 0)))?;
        let address = listener.local_addr()?;
        say(&self.coordinator, &FromWorker::Ready { schedule_hash: job.schedule_hash(), address })?;
        let peers = match hear(&mut reader)? {
            FromCoordinator::Go { addresses } => addresses,
            other => return Err(unexpected(&other)),
        };
        let secret = self.place.secret.clone();
        let mesh = Mesh { rank: self.place.rank, peers, secret, links };
        let transport: Arc<dyn Transport> = Arc::new(mesh.connect(listener, deadline)?);
        watch(reader, Arc::clone(&transport));
        let pacer =
            (welcome.is_paced && self.cluster.device(device_id).speed.is_some()).then_some(Pacer);
        let device = Device::new(
            device_id,
            job.clone(),
            Arc::clone(&transport),
            Arc::clone(&self.meter),
            pacer,
            welcome.captures,
        )?;
        self.run(&job, &device, device_id, &welcome, clock_offset, &transport)?;
        transport.shutdown();
        Ok(())
    }

    /// How far the coordinator's clock is ahead of this one, in nanoseconds.
    fn compare_clocks(&self, reader: &mut ControlReceiver) -> Result<i128, RunError> {
        let mut best: Option<(Nanos, i128)> = None;
        for _ in 0..N_PINGS {
            let asked = self.meter.now();
            say(&self.coordinator, &FromWorker::Ping)?;
            let theirs = match hear(reader)? {
                FromCoordinator::Pong { now } => i128::from(now),
                other => return Err(unexpected(&other)),
            };
            let trip = self.meter.now() - asked;
            let middle = i128::from(asked.0 + trip.0 / 2);
            if best.is_none_or(|(quickest, _)| trip < quickest) {
                best = Some((trip, theirs - middle));
            }
        }
        Ok(best.expect("there is at least one ping").1)
    }

    /// The emulated links from this device to every rank.
    fn throttles(&self, from: DeviceId, devices: &[DeviceId]) -> Vec<Throttle> {
        let link = |&to: &DeviceId| {
            let link = self.cluster.link(from, to);
            Throttle {
                latency: link.map_or(Nanos::ZERO, |link| link.latency),
                bandwidth: link.and_then(|link| link.bandwidth),
            }
        };
        devices.iter().map(link).collect()
    }

    fn run(
        &self,
        job: &Job,
        device: &Device,
        id: DeviceId,
        welcome: &Welcome,
        clock_offset: i128,
        transport: &Arc<dyn Transport>,
    ) -> Result<(), RunError> {
        let n_steps = job.n_steps(welcome.steps);
        let servers = Servers::on(id, job, n_steps, transport, welcome.is_elastic);
        let (servers, meter, transport) = (&servers, &self.meter, &**transport);
        let mut report =
            |over| self.report((job, device, id), servers, welcome.captures, clock_offset, over);
        let at_work = AtWork { job, id, device, servers, meter, transport };
        run_steps(&at_work, welcome.steps, &mut report)?;
        let mut weights = servers.weights();
        if job.waves.is_none() {
            weights = device.owned_weights();
        }
        say(&self.coordinator, &FromWorker::Versions(servers.take_log()))?;
        say(&self.coordinator, &FromWorker::Weights(weights))?;
        say(&self.coordinator, &FromWorker::Done)
    }

    fn report(
        &self,
        (job, device, id): (&Job, &Device, DeviceId),
        servers: &Servers,
        captures: bool,
        clock_offset: i128,
        over: Over,
    ) -> Result<(), RunError> {
        let step = over.report;
        let outcome = device.take_outcome(step);
        let peak_bytes = self.meter.peak_bytes();
        let capacity = job.costs.cluster().device(id).memory;
        if let Some(capacity) = capacity.filter(|&capacity| peak_bytes > capacity) {
            let (device, found) = (id, peak_bytes);
            return Err(RunError::OutOfMemory { device, step, found, capacity });
        }
        let on_their_clock = |now: Nanos| (i128::from(now.0) + clock_offset).max(0) as u64;
        let records = over.trace.iter().flat_map(Trace::iter).map(|(action, record)| {
            (action.0, on_their_clock(record.start), on_their_clock(record.end))
        });
        let ended = over.trace.as_ref().map_or_else(|| self.meter.now(), Trace::end);
        let report = StepReport {
            step,
            loss: outcome.loss,
            grad_norm: outcome.grad_norm,
            records: records.collect(),
            peak_bytes: peak_bytes.0,
            overrun: outcome.overrun.0,
            began: on_their_clock(over.began),
            ended: on_their_clock(ended),
            versions: servers.take_log(),
        };
        say(&self.coordinator, &FromWorker::Step(report))?;
        if captures {
            let weights = device.owned_weights();
            let gradients = outcome.gradients;
            say(&self.coordinator, &FromWorker::Captured { step, gradients, weights })?;
        }
        Ok(())
    }
}

/// Waits for the coordinator to say stop (or to vanish), and then wakes every waiting lane.
fn watch(mut reader: ControlReceiver, transport: Arc<dyn Transport>) {
    std::thread::spawn(move || {
        let reason = match hear(&mut reader) {
            Err(RunError::Aborted { reason }) => reason,
            _ => "the coordinator is gone".to_owned(),
        };
        transport.abort(&reason);
    });
}

fn unexpected(message: &FromCoordinator) -> RunError {
    let name = match message {
        FromCoordinator::Pong { .. } => "Pong",
        FromCoordinator::Welcome(_) => "Welcome",
        FromCoordinator::Go { .. } => "Go",
        FromCoordinator::Abort { .. } => "Abort",
    };
    RunError::Setup(format!("the coordinator sent {name} out of turn; are all ranks one version?"))
}
