//! Measures this machine for a model: layers, optimizer, the way between two processes.

use crate::config::Config;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::prepare;
use cavalcade_nn::profile_layers;
use cavalcade_profile::{LinkProfile, Meter, ParamBytes, Profile};
use cavalcade_runtime::{OptimizerSettings, RunError};
use cavalcade_transport::{
    Clock, Deadline, Links, Listener, Mesh, Secret, SystemClock, Tag, Tcp, Transport,
    TransportError,
};
use cavalcade_units::{Bandwidth, Nanos, Rank};
use crossbeam_channel::unbounded;
use std::sync::Arc;

/// Round trips of an empty message.
const N_TRIPS: u32 = 200;
/// Round trips of a large message.
const N_LARGE_TRIPS: u32 = 16;
/// Bytes of a large message: about an activation.
const LARGE: usize = 1 << 20;
/// How long two ends on this machine may take to find each other.
const JOIN_TIMEOUT: Nanos = Nanos(10_000_000_000);
/// Round trips from an interpreter to a lane and back.
const N_HANDOVERS: u32 = 2000;

/// The profile of `config`'s model on this machine, at its micro-batch size. `progress` is called
/// with a word on what comes next.
///
/// # Errors
/// If the model refuses the micro-batch or loopback connections are impossible.
pub fn probe(
    config: &Config,
    data: &Dataset,
    meter: &dyn Meter,
    progress: &mut dyn FnMut(&str),
) -> Result<Profile, Error> {
    let model = prepare::model(config, data)?;
    let base = meter.live_bytes();
    progress("layers");
    let measured =
        profile_layers(&model, config.microbatch as usize, meter).map_err(RunError::from)?;
    progress("links");
    let loopback = loopback(meter).map_err(RunError::from)?;
    progress("overheads");
    Ok(Profile {
        model: model.fingerprint(),
        microbatch_size: config.microbatch,
        sequence: model.predictions() as u32,
        layers: measured.layers,
        optimizer_per_million: measured.optimizer_per_million,
        param_bytes: param_bytes(config),
        base: base + measured.resident,
        loopback,
        op_overhead: handover(meter),
        jitter: measured.jitter,
    })
}

/// A message's way through the host: an empty one gives the latency, what a large one takes more
/// the bandwidth.
fn loopback(meter: &dyn Meter) -> Result<LinkProfile, TransportError> {
    let listeners = [Listener::bind(None)?, Listener::bind(None)?];
    let peers = vec![listeners[0].local_addr()?, listeners[1].local_addr()?];
    let secret = Secret::generate();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let deadline = Deadline::after(clock, JOIN_TIMEOUT);
    let (near, far) = std::thread::scope(|scope| {
        let [first, second] = listeners;
        let join = |rank, listener| -> Result<Tcp, TransportError> {
            let (peers, secret) = (peers.clone(), secret.clone());
            let links = Links::unlimited();
            Mesh { rank: Rank(rank), peers, secret, links }.connect(listener, &deadline)
        };
        let other = scope.spawn(move || join(1, second));
        let near = join(0, first)?;
        let far = other.join().expect("joining does not panic")?;
        Ok::<_, TransportError>((near, far))
    })?;
    let latency = one_way(&near, &far, 4, N_TRIPS, meter)?;
    let large = one_way(&near, &far, LARGE, N_LARGE_TRIPS, meter)?;
    let transfer = large.saturating_sub(latency).as_secs_f64().max(1e-9);
    let bandwidth = Bandwidth::from_bytes_per_second(LARGE as f64 / transfer);
    near.shutdown();
    far.shutdown();
    Ok(LinkProfile { latency, bandwidth })
}

/// Half the mean time of `n_trips` there and back with `n_bytes`.
fn one_way(
    near: &Tcp,
    far: &Tcp,
    n_bytes: usize,
    n_trips: u32,
    meter: &dyn Meter,
) -> Result<Nanos, TransportError> {
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Result<(), TransportError> {
            for trip in 0..n_trips {
                let payload = far.recv(Rank(0), Tag::new(0, n_bytes as u32, trip))?;
                far.send(Rank(0), Tag::new(0, n_bytes as u32, trip), payload)?;
            }
            Ok(())
        });
        let start = meter.now();
        for trip in 0..n_trips {
            near.send(Rank(1), Tag::new(0, n_bytes as u32, trip), vec![0; n_bytes])?;
            near.recv(Rank(1), Tag::new(0, n_bytes as u32, trip))?;
        }
        let took = meter.now() - start;
        echo.join().expect("an echo does not panic")?;
        Ok(Nanos(took.0 / u64::from(2 * n_trips)))
    })
}

/// What it takes to hand an op to another thread and hear that it is done.
fn handover(meter: &dyn Meter) -> Nanos {
    let (queue, ops) = unbounded::<u32>();
    let (report, finished) = unbounded();
    std::thread::scope(|scope| {
        scope.spawn(move || ops.iter().try_for_each(|op| report.send(op)));
        let start = meter.now();
        for op in 0..N_HANDOVERS {
            if queue.send(op).is_ok() {
                let _ = finished.recv();
            }
        }
        drop(queue);
        Nanos((meter.now() - start).0 / u64::from(N_HANDOVERS))
    })
}

/// What a worker keeps for each parameter: the flat weights and Burn's copy, the flat gradient,
/// and the optimizer's moments, all in `f32`.
fn param_bytes(config: &Config) -> ParamBytes {
    let optimizer = match config.settings.optimizer {
        OptimizerSettings::AdamW { .. } => 8,
        OptimizerSettings::Sgd => 0,
    };
    ParamBytes { weights: 8, gradients: 4, optimizer }
}
