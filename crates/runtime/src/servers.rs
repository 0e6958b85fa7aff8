//! Parameter servers: each a part of the parameters, on the rank of the device that the schedule
//! names.
//!
//! ```text
//! holder's rank                         server's rank
//! push   -- (2, step, exchange) -->     a thread a holder: sum of the wave's changes
//! pull   -- (3, step, exchange) -->     a thread a holder: at least this many waves
//!        <-- (4, step, exchange) --     version, weights
//! ```
//!
//! What a server has is always a whole number of waves of all holders: a wave is added when the
//! last of them has brought it. So a version is a number, and the weights of a version have the
//! same bits whatever the timing.

use crate::error::RunError;
use crate::job::Job;
use crate::lock::lock;
use crate::protocol::Values;
use crate::server_rule::ServedWeights;
use crate::versions::VersionEvent;
use cavalcade_schedule::BucketId;
use cavalcade_transport::{Tag, Transport, TransportError, decode_f32s, encode_f32s};
use cavalcade_units::{ChunkId, DeviceId, ExchangeId, Rank};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The kinds of traffic with servers.
const PUSH: u8 = 2;
const ASK: u8 = 3;
const ANSWER: u8 = 4;

/// One server.
struct Server {
    bucket: BucketId,
    holders: Vec<ChunkId>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    served: ServedWeights,
    /// Waves that are in.
    version: u64,
    /// By last wave of an exchange, what each holder has brought.
    brought: BTreeMap<u64, Vec<Option<Vec<f32>>>>,
    /// By holder, the first wave that it has not brought.
    next: Vec<u64>,
    /// Which holders still take part.
    is_here: Vec<bool>,
    is_closed: bool,
}

impl Server {
    fn bring(&self, holder: usize, wave: u64, sum: Vec<f32>) {
        let mut state = lock(&self.state);
        let n_holders = self.holders.len();
        let of_wave = state.brought.entry(wave).or_insert_with(|| vec![None; n_holders]);
        of_wave[holder] = Some(sum);
        state.next[holder] = wave + 1;
        self.complete(&mut state);
    }

    /// A holder takes no part any more: nobody waits for it. The first wave that lacks its changes;
    /// none if it had left before.
    fn leave(&self, holder: usize) -> Option<u64> {
        let mut state = lock(&self.state);
        let was_here = std::mem::replace(&mut state.is_here[holder], false);
        self.complete(&mut state);
        was_here.then(|| state.next[holder])
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_all();
    }

    /// Adds all waves that every holder that is here has brought.
    fn complete(&self, state: &mut State) {
        while let Some((&wave, brought)) = state.brought.first_key_value() {
            let is_whole =
                brought.iter().zip(&state.is_here).all(|(sum, is_here)| sum.is_some() || !is_here);
            if !is_whole {
                break;
            }
            let brought = state.brought.remove(&wave).expect("it was just there");
            let changes: Vec<Vec<f32>> = brought.into_iter().flatten().collect();
            state.served.step(&changes);
            state.version = wave + 1;
        }
        self.changed.notify_all();
    }

    /// Waits for a version of at least `least` waves; none if the run is over.
    fn at_least(&self, least: u64) -> Option<(u64, Vec<f32>)> {
        let mut state = lock(&self.state);
        while state.version < least && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let is_there = state.version >= least;
        is_there.then(|| (state.version, state.served.weights.clone()))
    }
}

/// The servers on one rank.
pub(crate) struct Servers {
    servers: Vec<Arc<Server>>,
    job: Job,
    transport: Arc<dyn Transport>,
    n_steps: u64,
    is_elastic: bool,
    log: Mutex<Vec<VersionEvent>>,
}

impl Servers {
    /// Those of `device`, with the initial weights; none if no server is on it. `n_steps` is how
    /// often the schedule is run.
    pub(crate) fn on(
        device: DeviceId,
        job: &Job,
        n_steps: u64,
        transport: &Arc<dyn Transport>,
        is_elastic: bool,
    ) -> Self {
        let schedule = job.schedule.schedule();
        let buckets = schedule.buckets.iter().enumerate();
        let buckets = buckets.filter(|(_, bucket)| bucket.server == Some(device));
        let servers = buckets.map(|(idx, bucket)| {
            let weights = job.initial_weights(BucketId(idx as u32));
            let state = State {
                served: ServedWeights::new(job.settings.servers, weights),
                version: 0,
                next: vec![0; bucket.holders.len()],
                brought: BTreeMap::new(),
                is_here: vec![true; bucket.holders.len()],
                is_closed: false,
            };
            Arc::new(Server {
                bucket: BucketId(idx as u32),
                holders: bucket.holders.clone(),
                state: Mutex::new(state),
                changed: Condvar::new(),
            })
        });
        let servers = servers.collect();
        let transport = Arc::clone(transport);
        let log = Mutex::default();
        Self { servers, job: job.clone(), transport, n_steps, is_elastic, log }
    }

    /// Serves until every holder has brought and asked for all that the run has; returns then, or
    /// on the first error.
    pub(crate) fn serve(&self) -> Result<(), RunError> {
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for server in &self.servers {
                for holder in 0..server.holders.len() {
                    threads.push(scope.spawn(move || self.hear_pushes(server, holder)));
                    threads.push(scope.spawn(move || self.answer_pulls(server, holder)));
                }
            }
            let outcomes =
                threads.into_iter().map(|thread| thread.join().unwrap_or(Err(RunError::LaneGone)));
            outcomes.reduce(Result::and).unwrap_or(Ok(()))
        })
    }

    /// Takes what was logged since the last time.
    pub(crate) fn take_log(&self) -> Vec<VersionEvent> {
        std::mem::take(&mut lock(&self.log))
    }

    /// The weights of all servers here, by logical name.
    pub(crate) fn weights(&self) -> Values {
        let mut values = Values::new();
        for server in &self.servers {
            let state = lock(&server.state);
            values.extend(self.job.named(server.bucket, &state.served.weights));
        }
        values
    }

    fn hear_pushes(&self, server: &Server, holder: usize) -> Result<(), RunError> {
        let outcome = self.each_exchange(server, holder, &mut |from, tag, wave, _| {
            let sum = decode_f32s(&self.transport.recv(from, Tag::new(PUSH, tag.0, tag.1))?)?;
            let expected = lock(&server.state).served.weights.len();
            if sum.len() != expected {
                return Err(RunError::WrongPush { from, found: sum.len(), expected });
            }
            server.bring(holder, wave, sum);
            Ok(())
        });
        self.concluded(outcome, &|| {
            // All that it had sent before has been heard.
            if let Some(wave) = server.leave(holder) {
                let (chunk, bucket) = (server.holders[holder].0, server.bucket.0);
                lock(&self.log).push(VersionEvent::Left { chunk, bucket, wave });
            }
        })
    }

    fn answer_pulls(&self, server: &Server, holder: usize) -> Result<(), RunError> {
        let outcome = self.each_exchange(server, holder, &mut |from, tag, wave, least| {
            self.transport.recv(from, Tag::new(ASK, tag.0, tag.1))?;
            let Some((version, weights)) = server.at_least(least) else { return Ok(()) };
            let (chunk, bucket) = (server.holders[holder].0, server.bucket.0);
            lock(&self.log).push(VersionEvent::Pulled { chunk, bucket, wave, version });
            let mut answer = version.to_le_bytes().to_vec();
            answer.extend(encode_f32s(&weights));
            self.transport.send(from, Tag::new(ANSWER, tag.0, tag.1), answer)?;
            Ok(())
        });
        self.concluded(outcome, &|| {})
    }

    /// A holder that is lost leaves, if others may go on without it; any other error ends all.
    fn concluded(&self, outcome: Result<(), RunError>, leave: &dyn Fn()) -> Result<(), RunError> {
        let is_lost = matches!(&outcome, Err(RunError::Transport(TransportError::PeerLost { .. })));
        if is_lost && self.is_elastic {
            leave();
            return Ok(());
        }
        if let Err(error) = &outcome {
            self.servers.iter().for_each(|server| server.close());
            self.transport.abort(&error.to_string());
        }
        outcome
    }

    /// Calls `each` with the holder's rank, step and exchange, wave, and least version, for all
    /// exchanges of the run.
    fn each_exchange(
        &self,
        server: &Server,
        holder: usize,
        each: &mut dyn FnMut(Rank, (u32, u32), u64, u64) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let schedule = self.job.schedule.schedule();
        let chunk = server.holders[holder];
        let from = self.job.ranks()[schedule.chunks[chunk.idx()].device.idx()];
        let from = from.expect("a holder has work, so it has a rank");
        for step in 0..self.n_steps {
            for (idx, entry) in schedule.exchanges.iter().enumerate() {
                let wave = self.job.wave(step, entry.wave);
                if (entry.bucket, entry.chunk) == (server.bucket, chunk)
                    && !self.job.is_beyond(wave)
                {
                    let least = wave.saturating_sub(u64::from(entry.lag));
                    each(from, (step as u32, idx as u32), wave, least)?;
                }
            }
        }
        Ok(())
    }
}

/// Hands a wave's sum to its server.
pub(crate) fn push(
    transport: &dyn Transport,
    server: Rank,
    (step, id): (u64, ExchangeId),
    sum: &[f32],
) -> Result<(), RunError> {
    Ok(transport.send(server, Tag::new(PUSH, step as u32, id.0), encode_f32s(sum))?)
}

/// Asks a server, and waits for its answer: a version and its weights.
pub(crate) fn pull(
    transport: &dyn Transport,
    server: Rank,
    (step, id): (u64, ExchangeId),
) -> Result<(u64, Vec<f32>), RunError> {
    transport.send(server, Tag::new(ASK, step as u32, id.0), Vec::new())?;
    let answer = transport.recv(server, Tag::new(ANSWER, step as u32, id.0))?;
    let Some((version, weights)) = answer.split_first_chunk() else {
        return Err(RunError::Setup(format!(
            "the server on rank {server} answered {} bytes, less than a version number; are all \
             ranks one version?",
            answer.len()
        )));
    };
    Ok((u64::from_le_bytes(*version), decode_f32s(weights)?))
}
