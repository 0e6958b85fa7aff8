//! Keeps replicas without a flush together: after each wave every chunk hands the sum of its
//! changes to the servers of its parameters, and before the last micro-batch of each wave it takes
//! what the servers have by then.
//!
//! ```text
//! waves of 2, lag 0, first stage
//! Q0 F0 M0 F1 Q1  B0 U0 A0 F2  B1 U1 P0 A1 M1 F3 Q2  B2 ...
//!                                  |   ^        `---- asked for early: it comes while others run
//!                                  `---'  the server answers when all have handed over wave 0
//! ```
//!
//! Wave Synchronous Parallel (HetPipe, Park et al., USENIX ATC 2020, section 5): mini-batch
//! `k * Nm`, the last of wave `k - 1`, waits until `k - D - 1` waves of every replica are in; the
//! others of the wave go on. Ours differs in what a pull brings: whole waves of all replicas
//! alone, so that the order of sums is fixed, and asked for a wave ahead.

use crate::op::{Op, Pass};
use crate::tables::{BucketId, Exchange, Schedule};
use cavalcade_units::{ChunkId, DeviceId, ExchangeId};
use std::collections::HashMap;

/// A way to keep replicas together: when they exchange what, and how far apart they may be.
pub trait Synchronize {
    /// Micro-batches of a wave.
    fn wave(&self) -> u32;

    /// How many waves before wave `wave` a bucket's weights may lack when the last micro-batch of
    /// that wave begins; none if the bucket is not exchanged around this wave: its changes then
    /// wait for the next exchange, at the latest the one of the last wave.
    fn lag(&self, bucket: BucketId, wave: u32) -> Option<u32>;
}

/// Wave Synchronous Parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waves {
    /// Micro-batches of a wave: as many as a pipeline has in flight.
    pub length: u32,
    /// By how many waves replicas may be apart (HetPipe's D).
    pub distance: u32,
    /// Where the servers are.
    pub servers: Servers,
}

/// Where the parameter servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Servers {
    /// The server of each part of the parameters is on the device that holds it in the first of
    /// the replicas (HetPipe's ED-local, where that node holds it in all of them).
    Local,
    /// Layer after layer over these devices.
    RoundRobin(Vec<DeviceId>),
}

impl Synchronize for Waves {
    fn wave(&self) -> u32 {
        self.length
    }

    fn lag(&self, _: BucketId, _: u32) -> Option<u32> {
        Some(self.distance)
    }
}

/// Gives every bucket its server.
pub(super) fn place(schedule: &mut Schedule, servers: &Servers) {
    for (idx, bucket) in schedule.buckets.iter_mut().enumerate() {
        bucket.server = Some(match servers {
            Servers::Local => schedule.chunks[bucket.holders[0].idx()].device,
            Servers::RoundRobin(devices) => devices[idx % devices.len()],
        });
    }
}

/// Inserts the exchanges. Micro-batches after the last whole wave are in none.
pub(super) fn insert(schedule: &mut Schedule, sync: &dyn Synchronize) {
    let length = sync.wave().max(1);
    schedule.wave = Some(length);
    let places = schedule.places_on_paths();
    let ids = enter(schedule, sync);
    let exchanges = std::mem::take(&mut schedule.exchanges);
    for (device_idx, program) in schedule.programs.iter_mut().enumerate() {
        let device = DeviceId::from_idx(device_idx);
        let mut whole = Vec::with_capacity(program.len());
        let of = |chunk: ChunkId, wave: u32| ids.get(&(chunk, wave)).into_iter().flatten().copied();
        let chunks = schedule.chunks.iter().enumerate().filter(|(_, c)| c.device == device);
        for (chunk, _) in chunks {
            whole.extend(of(ChunkId::from_idx(chunk), 0).map(Op::Pull));
        }
        for &op in program.iter() {
            let (pass, chunk, microbatch) = match op {
                Op::Compute { pass, chunk, microbatch } => (pass, chunk, microbatch),
                _ => {
                    whole.push(op);
                    continue;
                }
            };
            let place = places[microbatch.idx()];
            let last_of = (place % length == length - 1).then_some(place / length);
            if let (Pass::Forward, Some(wave)) = (pass, last_of) {
                whole.extend(of(chunk, wave).map(Op::Merge));
            }
            whole.push(op);
            match (pass, last_of) {
                (Pass::Forward, Some(wave)) => whole.extend(of(chunk, wave + 1).map(Op::Pull)),
                (Pass::Update, Some(wave)) => whole.extend(of(chunk, wave).map(Op::Push)),
                _ => {}
            }
        }
        *program = whole;
    }
    schedule.exchanges = exchanges;
}

/// Fills the table of exchanges; returns them by chunk and wave.
fn enter(
    schedule: &mut Schedule,
    sync: &dyn Synchronize,
) -> HashMap<(ChunkId, u32), Vec<ExchangeId>> {
    let length = sync.wave().max(1);
    let counts = schedule.microbatches_of_paths();
    let mut ids: HashMap<(ChunkId, u32), Vec<ExchangeId>> = HashMap::new();
    let mut table = Vec::new();
    for (path, count) in schedule.paths.iter().zip(counts) {
        let n_waves = count / length;
        for &chunk in path {
            for bucket in schedule.buckets_of(chunk) {
                let mut since = 0;
                for wave in 0..n_waves {
                    let is_last = wave + 1 == n_waves;
                    let lag = sync.lag(bucket, wave).or(is_last.then_some(wave));
                    let Some(lag) = lag else { continue };
                    ids.entry((chunk, wave)).or_default().push(ExchangeId::from_idx(table.len()));
                    table.push(Exchange { chunk, bucket, wave, since, lag });
                    since = wave + 1;
                }
            }
        }
    }
    schedule.exchanges = table;
    ids
}
