//! Nothing dropped and nothing done twice: layers, passes, transfers, gradient sums, steps.

use super::error::CheckError;
use crate::op::{Op, Pass};
use crate::tables::{BucketId, CollectiveKind, ParamUnit, Schedule};
use cavalcade_units::{ChunkId, DeviceId};
use std::collections::{BTreeSet, HashMap};

pub(super) fn check(schedule: &Schedule) -> Result<(), CheckError> {
    paths(schedule)?;
    counts(schedule)?;
    buckets(schedule)
}

fn paths(schedule: &Schedule) -> Result<(), CheckError> {
    for (path_idx, path) in schedule.paths.iter().enumerate() {
        if let Some(most) = schedule.detours {
            detour(schedule, path_idx, most)?;
            continue;
        }
        let mut expected = 0;
        for &chunk in path {
            let layers = &schedule.chunks[chunk.idx()].layers;
            if layers.start != expected {
                return Err(gap(schedule, path_idx, chunk, expected));
            }
            expected = layers.end;
        }
        if expected != schedule.n_layers {
            let chunk = path.last().copied().unwrap_or(ChunkId(0));
            return Err(gap(schedule, path_idx, chunk, expected));
        }
    }
    Ok(())
}

/// A path that may leave out `most` layers and change their order.
fn detour(schedule: &Schedule, path: usize, most: u32) -> Result<(), CheckError> {
    let fault = |problem: String| Err(CheckError::Detour { path, problem });
    let layers_of = |chunk: &ChunkId| schedule.chunks[chunk.idx()].layers.clone();
    let chunks = &schedule.paths[path];
    let mut seen = vec![false; schedule.n_layers as usize];
    for layer in chunks.iter().flat_map(layers_of) {
        if std::mem::replace(&mut seen[layer as usize], true) {
            return fault(format!("layer {layer} is visited twice; a path visits a layer once"));
        }
    }
    let n_skipped = seen.iter().filter(|&&is_seen| !is_seen).count();
    if n_skipped > most as usize {
        return fault(format!("{n_skipped} layers are left out; the plan allows {most}"));
    }
    let begins = chunks.first().is_some_and(|chunk| layers_of(chunk).start == 0);
    let ends = chunks.last().is_some_and(|chunk| layers_of(chunk).end == schedule.n_layers);
    match begins && ends {
        true => Ok(()),
        false => fault("it must begin with the first layer and end with the last".to_owned()),
    }
}

fn gap(schedule: &Schedule, path: usize, chunk: ChunkId, expected: u32) -> CheckError {
    let layers = schedule.chunks.get(chunk.idx()).map_or(0..0, |c| c.layers.clone());
    CheckError::Layers {
        path,
        chunk: chunk.0,
        start: layers.start,
        end: layers.end,
        expected,
        n_layers: schedule.n_layers,
    }
}

/// Every op that the tables call for is in the programs exactly once.
fn counts(schedule: &Schedule) -> Result<(), CheckError> {
    let mut found: Found = HashMap::with_capacity(schedule.n_ops());
    for (device_idx, program) in schedule.programs.iter().enumerate() {
        for &op in program {
            *found.entry((DeviceId::from_idx(device_idx), op)).or_default() += 1;
        }
    }
    for (microbatch_idx, &path) in schedule.microbatches.iter().enumerate() {
        let microbatch = cavalcade_units::MicrobatchId::from_idx(microbatch_idx);
        for &chunk in &schedule.paths[path as usize] {
            let device = schedule.chunks[chunk.idx()].device;
            let op = |pass| Op::Compute { pass, chunk, microbatch };
            let parts = [Pass::BackwardInput, Pass::BackwardWeight];
            let is_split = parts.into_iter().any(|pass| found.contains_key(&(device, op(pass))));
            for pass in passes(schedule, chunk, is_split) {
                once(&mut found, device, op(pass), &|| {
                    let pass = pass.word();
                    format!("the {pass} of chunk {chunk} for micro-batch {microbatch}")
                })?;
            }
            let moves = [Op::Offload { chunk, microbatch }, Op::Prefetch { chunk, microbatch }];
            if moves.iter().any(|&op| found.contains_key(&(device, op))) {
                let name = format!("of chunk {chunk} for micro-batch {microbatch}");
                once(&mut found, device, moves[0], &|| format!("the offload {name}"))?;
                once(&mut found, device, moves[1], &|| format!("the prefetch {name}"))?;
            }
        }
    }
    for (idx, transfer) in schedule.transfers.iter().enumerate() {
        let id = cavalcade_units::TransferId::from_idx(idx);
        once(&mut found, transfer.from, Op::Send(id), &|| format!("the send of transfer {id}"))?;
        once(&mut found, transfer.to, Op::Recv(id), &|| format!("the receive of transfer {id}"))?;
    }
    for (idx, collective) in schedule.collectives.iter().enumerate() {
        let id = cavalcade_units::CollectiveId::from_idx(idx);
        for &device in &schedule.groups[collective.group.idx()] {
            once(&mut found, device, Op::Collective(id), &|| {
                format!("collective {id} on device {device}")
            })?;
        }
    }
    for (idx, exchange) in schedule.exchanges.iter().enumerate() {
        let id = cavalcade_units::ExchangeId::from_idx(idx);
        let device = schedule.chunks[exchange.chunk.idx()].device;
        for (op, word) in [(Op::Push(id), "push"), (Op::Pull(id), "pull"), (Op::Merge(id), "merge")]
        {
            once(&mut found, device, op, &|| format!("the {word} of exchange {id}"))?;
        }
    }
    let stepping = if schedule.staleness.is_none() { &schedule.chunks[..] } else { &[] };
    for (idx, chunk) in stepping.iter().enumerate() {
        let id = ChunkId::from_idx(idx);
        let step = Op::OptimizerStep { chunk: id };
        once(&mut found, chunk.device, step, &|| format!("the optimizer step of chunk {id}"))?;
    }
    match found.iter().min_by_key(|((device, op), _)| (*device, op.to_string())) {
        None => Ok(()),
        Some(((device, op), &found)) => {
            let what = format!("{op} on device {device}, which no table calls for,");
            Err(CheckError::Count { what, found, expected: 0 })
        }
    }
}

type Found = HashMap<(DeviceId, Op), usize>;

/// Takes an op that must be there once off the list of what was found.
fn once(
    found: &mut Found,
    device: DeviceId,
    op: Op,
    what: &dyn Fn() -> String,
) -> Result<(), CheckError> {
    match found.remove(&(device, op)).unwrap_or(0) {
        1 => Ok(()),
        found => Err(CheckError::Count { what: what(), found, expected: 1 }),
    }
}

/// The passes that a chunk takes over each micro-batch whose path visits it.
fn passes(schedule: &Schedule, chunk: ChunkId, is_split: bool) -> impl Iterator<Item = Pass> {
    let recomputes = schedule.chunks[chunk.idx()].recompute;
    let (second_order, is_flushless) = (schedule.second_order, schedule.staleness.is_some());
    Pass::ALL.into_iter().filter(move |pass| match pass {
        Pass::Forward => true,
        Pass::Recompute => recomputes,
        Pass::Adjoint | Pass::DoubleBackward => second_order,
        Pass::Backward => !is_split,
        Pass::BackwardInput | Pass::BackwardWeight => is_split,
        Pass::Update | Pass::Apply => is_flushless,
    })
}

/// Buckets split the parameters such that every copy is found, and every copy gets the sum.
fn buckets(schedule: &Schedule) -> Result<(), CheckError> {
    let fault = |bucket, problem| Err(CheckError::Bucket { bucket, problem });
    let mut owner_of_layer = vec![None; schedule.n_layers as usize];
    let mut seen_ties = BTreeSet::new();
    for (idx, bucket) in schedule.buckets.iter().enumerate() {
        let holds = |chunk: &crate::tables::Chunk| match &bucket.unit {
            ParamUnit::Layers(layers) => {
                chunk.layers.start < layers.end && layers.start < chunk.layers.end
            }
            ParamUnit::Tie(tie) => {
                schedule.ties[*tie as usize].layers.iter().any(|l| chunk.layers.contains(l))
            }
        };
        let holders: Vec<ChunkId> = (0..schedule.chunks.len())
            .filter(|&c| holds(&schedule.chunks[c]))
            .map(ChunkId::from_idx)
            .collect();
        if holders != bucket.holders {
            return fault(idx, format!("its holders are {holders:?}, not {:?}", bucket.holders));
        }
        match &bucket.unit {
            ParamUnit::Tie(tie) => {
                if !seen_ties.insert(*tie) {
                    return fault(idx, format!("tie {tie} is in an earlier bucket too"));
                }
            }
            ParamUnit::Layers(layers) => {
                for layer in layers.clone() {
                    if let Some(other) = owner_of_layer[layer as usize].replace(idx) {
                        return fault(idx, format!("layer {layer} is in bucket {other} too"));
                    }
                }
                let cut = holders.iter().find(|c| {
                    let own = &schedule.chunks[c.idx()].layers;
                    own.start > layers.start || own.end < layers.end
                });
                if let Some(chunk) = cut {
                    return fault(idx, format!("chunk {chunk} holds only some of its layers"));
                }
            }
        }
        sums(schedule, idx)?;
    }
    let held = |layer: &u32| schedule.chunks.iter().any(|c| c.layers.contains(layer));
    let lost = (0..schedule.n_layers).filter(held).find(|&l| owner_of_layer[l as usize].is_none());
    if let Some(layer) = lost {
        return fault(schedule.buckets.len(), format!("layer {layer} is in no bucket"));
    }
    let ties = 0..schedule.ties.len() as u32;
    match ties.filter(|_| !schedule.chunks.is_empty()).find(|tie| !seen_ties.contains(tie)) {
        Some(tie) => fault(schedule.buckets.len(), format!("tie {tie} is in no bucket")),
        None => Ok(()),
    }
}

/// A bucket with several holders is summed once, by exactly their devices.
fn sums(schedule: &Schedule, bucket: usize) -> Result<(), CheckError> {
    let wanted = CollectiveKind::SumGradients(BucketId(bucket as u32));
    let is_sum = |c: &&crate::tables::Collective| c.kind == wanted;
    let sums: Vec<_> = schedule.collectives.iter().filter(is_sum).collect();
    let holders = &schedule.buckets[bucket].holders;
    let expected = usize::from(schedule.is_summed(BucketId(bucket as u32)));
    if sums.len() != expected {
        let what = format!("the sum of the gradients of bucket {bucket}");
        return Err(CheckError::Count { what, found: sums.len(), expected });
    }
    let devices: BTreeSet<DeviceId> =
        holders.iter().map(|c| schedule.chunks[c.idx()].device).collect();
    match sums.first() {
        Some(sum) if !schedule.groups[sum.group.idx()].iter().eq(&devices) => {
            let problem = format!("it is held by devices {devices:?} but summed by others");
            Err(CheckError::Bucket { bucket, problem })
        }
        _ => Ok(()),
    }
}
