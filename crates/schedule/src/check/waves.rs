//! With servers: every change is handed over once, all holders of a part exchange it around the
//! same waves, and weights are merged where they hold exactly the waves before.
//!
//! HetPipe's rule (Park et al., USENIX ATC 2020, section 5): the last micro-batch of a wave starts
//! with weights that lack at most `lag` waves of any replica.

use super::error::{CheckError, place};
use crate::op::{Op, Pass};
use crate::tables::{BucketId, Exchange, Schedule};
use cavalcade_units::{ChunkId, DeviceId};
use std::collections::BTreeMap;

pub(super) fn check(schedule: &Schedule) -> Result<(), CheckError> {
    let Some(length) = schedule.wave else {
        return match schedule.exchanges.is_empty() {
            true => Ok(()),
            false => Err(fault("there are exchanges, but no `wave` says when".to_owned())),
        };
    };
    table(schedule, length).map_err(fault)?;
    let places = schedule.places_on_paths();
    (0..schedule.programs.len()).try_for_each(|device| program(schedule, device, length, &places))
}

fn fault(problem: String) -> CheckError {
    CheckError::Misplaced { place: "the tables".to_owned(), problem }
}

type OfBucket<'a> = BTreeMap<ChunkId, Vec<&'a Exchange>>;

fn table(schedule: &Schedule, length: u32) -> Result<(), String> {
    if schedule.staleness.is_none() {
        return Err("waves are of schedules without a flush, and none says its staleness".into());
    }
    if length == 0 {
        return Err("a wave has at least one micro-batch".to_owned());
    }
    let mut n_waves = BTreeMap::new();
    let counts = schedule.microbatches_of_paths();
    for (path_idx, (path, n)) in schedule.paths.iter().zip(counts).enumerate() {
        if !n.is_multiple_of(length) || n == 0 {
            return Err(format!(
                "path {path_idx} has {n} micro-batches, no whole waves of {length}"
            ));
        }
        path.iter().for_each(|&chunk| _ = n_waves.insert(chunk, n / length));
    }
    let mut entries: BTreeMap<BucketId, OfBucket> = BTreeMap::new();
    for entry in &schedule.exchanges {
        entries.entry(entry.bucket).or_default().entry(entry.chunk).or_default().push(entry);
    }
    for (idx, bucket) in schedule.buckets.iter().enumerate() {
        let found = entries.remove(&BucketId(idx as u32)).unwrap_or_default();
        if !found.keys().eq(bucket.holders.iter()) {
            return Err(format!("bucket {idx} is not exchanged by exactly its holders"));
        }
        let is_on = |path: &&Vec<ChunkId>| {
            path.iter().filter(|chunk| bucket.holders.contains(chunk)).count() > 1
        };
        if schedule.paths.iter().any(|path| is_on(&path)) {
            return Err(format!(
                "bucket {idx} is held twice on one path; without a flush its copies would drift \
                 apart"
            ));
        }
        for (chunk, entries) in &found {
            let mut since = 0;
            for entry in entries {
                if entry.since != since || entry.wave < since {
                    return Err(format!(
                        "bucket {idx} is handed over by chunk {chunk} for waves {}..={}, but wave \
                         {since} is next",
                        entry.since, entry.wave
                    ));
                }
                since = entry.wave.saturating_add(1);
            }
            if n_waves.get(chunk) != Some(&since) {
                return Err(format!(
                    "bucket {idx} is handed over by chunk {chunk} up to wave {since}, which is \
                     not its last"
                ));
            }
        }
        let terms = |entries: &Vec<&Exchange>| -> Vec<(u32, u32)> {
            entries.iter().map(|entry| (entry.wave, entry.lag)).collect()
        };
        let mut all = found.values().map(terms);
        let first = all.next();
        if all.any(|other| Some(&other) != first.as_ref()) {
            return Err(format!("bucket {idx} is exchanged around other waves by other holders"));
        }
    }
    Ok(())
}

/// How far a chunk is as its device's program goes on.
#[derive(Default)]
struct Progress {
    applied: u32,
    updated: u32,
    begun: u32,
}

fn program(
    schedule: &Schedule,
    device_idx: usize,
    length: u32,
    places: &[u32],
) -> Result<(), CheckError> {
    let mut progress: BTreeMap<ChunkId, Progress> = BTreeMap::new();
    for (op_idx, &op) in schedule.programs[device_idx].iter().enumerate() {
        let misplaced = |problem: String| {
            let place = place(DeviceId::from_idx(device_idx), op_idx, op);
            Err(CheckError::Misplaced { place, problem })
        };
        match op {
            Op::Compute { pass, chunk, microbatch } => {
                let at = progress.entry(chunk).or_default();
                let counter = match pass {
                    Pass::Forward => &mut at.begun,
                    Pass::Update => &mut at.updated,
                    Pass::Apply => &mut at.applied,
                    _ => continue,
                };
                if places[microbatch.idx()] != *counter {
                    return misplaced(format!(
                        "with servers, micro-batches follow each other in order, and number \
                         {counter} of its path is next"
                    ));
                }
                *counter += 1;
            }
            Op::Push(id) => {
                let entry = &schedule.exchanges[id.idx()];
                let at = progress.entry(entry.chunk).or_default();
                if at.updated < entry.wave.saturating_add(1).saturating_mul(length) {
                    return misplaced(format!("wave {} has not made all its changes", entry.wave));
                }
            }
            Op::Merge(id) => {
                let entry = &schedule.exchanges[id.idx()];
                let at = progress.entry(entry.chunk).or_default();
                let (applied, begun) = (entry.wave * length, (entry.wave + 1) * length - 1);
                if at.applied != applied || at.begun != begun {
                    return misplaced(format!(
                        "it belongs right before the last micro-batch of wave {} begins, when the \
                         changes of the waves before, and no others, have been added",
                        entry.wave
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
