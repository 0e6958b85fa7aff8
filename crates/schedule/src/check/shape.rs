//! Every id is in its table and every op is on the device that owns what it works on.

use super::error::{CheckError, place};
use crate::op::Op;
use crate::tables::{CollectiveKind, ParamUnit, Schedule};
use cavalcade_units::{ChunkId, DeviceId, MicrobatchId};

pub(super) fn check(schedule: &Schedule) -> Result<(), CheckError> {
    tables(schedule)
        .map_err(|problem| CheckError::Misplaced { place: "the tables".to_owned(), problem })?;
    for (device_idx, program) in schedule.programs.iter().enumerate() {
        let device = DeviceId::from_idx(device_idx);
        for (op_idx, &op) in program.iter().enumerate() {
            placement(schedule, device, op).map_err(|problem| CheckError::Misplaced {
                place: place(device, op_idx, op),
                problem,
            })?;
        }
    }
    Ok(())
}

fn known<T>(table: &[T], idx: usize, what: &str) -> Result<(), String> {
    if idx < table.len() {
        Ok(())
    } else {
        Err(format!("there is no {what} {idx}; there are {}", table.len()))
    }
}

fn tables(schedule: &Schedule) -> Result<(), String> {
    let device = |id: DeviceId| known(&schedule.programs, id.idx(), "device");
    let chunk = |id: ChunkId| known(&schedule.chunks, id.idx(), "chunk");
    for (idx, entry) in schedule.chunks.iter().enumerate() {
        device(entry.device)?;
        if entry.layers.is_empty() || entry.layers.end > schedule.n_layers {
            return Err(format!(
                "chunk {idx} holds layers {:?} of a model of {}",
                entry.layers, schedule.n_layers
            ));
        }
    }
    for path in &schedule.paths {
        path.iter().try_for_each(|&c| chunk(c))?;
    }
    for &path in &schedule.microbatches {
        known(&schedule.paths, path as usize, "path")?;
    }
    for tie in &schedule.ties {
        if tie.layers.iter().any(|&layer| layer >= schedule.n_layers) {
            return Err(format!("a tie joins layers {:?} of {}", tie.layers, schedule.n_layers));
        }
    }
    for bucket in &schedule.buckets {
        bucket.holders.iter().try_for_each(|&c| chunk(c))?;
        match &bucket.unit {
            ParamUnit::Tie(tie) => known(&schedule.ties, *tie as usize, "tie")?,
            ParamUnit::Layers(layers) if layers.end > schedule.n_layers || layers.is_empty() => {
                return Err(format!("a bucket of layers {layers:?} of {}", schedule.n_layers));
            }
            ParamUnit::Layers(_) => {}
        }
    }
    for bucket in &schedule.buckets {
        bucket.server.map_or(Ok(()), device)?;
    }
    for exchange in &schedule.exchanges {
        chunk(exchange.chunk)?;
        known(&schedule.buckets, exchange.bucket.idx(), "bucket")?;
        if schedule.buckets[exchange.bucket.idx()].server.is_none() {
            return Err(format!("bucket {} is exchanged and has no server", exchange.bucket.0));
        }
    }
    for (idx, transfer) in schedule.transfers.iter().enumerate() {
        device(transfer.from)?;
        device(transfer.to)?;
        if transfer.from == transfer.to {
            return Err(format!("transfer {idx} has both ends on device {}", transfer.from));
        }
        let Some((maker, microbatch, _)) = transfer.value.message() else {
            return Err(format!("transfer {idx} moves {}, which never travels", transfer.value));
        };
        chunk(maker)?;
        known(&schedule.microbatches, microbatch.idx(), "micro-batch")?;
    }
    for group in &schedule.groups {
        group.iter().try_for_each(|&d| device(d))?;
        if !group.is_sorted_by(|a, b| a < b) || group.is_empty() {
            return Err("a group lists its devices once each, in ascending order".to_owned());
        }
    }
    for collective in &schedule.collectives {
        known(&schedule.groups, collective.group.idx(), "group")?;
        if let CollectiveKind::SumGradients(bucket) = collective.kind {
            known(&schedule.buckets, bucket.idx(), "bucket")?;
        }
    }
    Ok(())
}

fn placement(schedule: &Schedule, device: DeviceId, op: Op) -> Result<(), String> {
    let own_chunk = |chunk: ChunkId| {
        known(&schedule.chunks, chunk.idx(), "chunk")?;
        let owner = schedule.chunks[chunk.idx()].device;
        if owner == device { Ok(()) } else { Err(format!("chunk {chunk} is on device {owner}")) }
    };
    let end = |is_it: bool, id: u32, role: &str| {
        if is_it { Ok(()) } else { Err(format!("this device is not the {role} of transfer {id}")) }
    };
    match op {
        Op::Compute { chunk, microbatch, .. } => {
            own_chunk(chunk)?;
            known(&schedule.microbatches, microbatch.idx(), "micro-batch")?;
            on_path(schedule, chunk, microbatch)
        }
        Op::Send(id) => {
            known(&schedule.transfers, id.idx(), "transfer")?;
            end(schedule.transfers[id.idx()].from == device, id.0, "sender")
        }
        Op::Recv(id) => {
            known(&schedule.transfers, id.idx(), "transfer")?;
            end(schedule.transfers[id.idx()].to == device, id.0, "receiver")
        }
        Op::Collective(id) => {
            known(&schedule.collectives, id.idx(), "collective")?;
            let group = &schedule.groups[schedule.collectives[id.idx()].group.idx()];
            if group.contains(&device) {
                Ok(())
            } else {
                Err(format!("this device is not in the group of collective {id}"))
            }
        }
        Op::Push(id) | Op::Pull(id) | Op::Merge(id) => {
            known(&schedule.exchanges, id.idx(), "exchange")?;
            own_chunk(schedule.exchanges[id.idx()].chunk)
        }
        Op::OptimizerStep { chunk } => own_chunk(chunk),
        Op::Offload { chunk, microbatch } | Op::Prefetch { chunk, microbatch } => {
            own_chunk(chunk)?;
            known(&schedule.microbatches, microbatch.idx(), "micro-batch")?;
            if schedule.chunks[chunk.idx()].recompute {
                on_path(schedule, chunk, microbatch)
            } else {
                Err(format!("chunk {chunk} does not recompute, so it keeps no input to move"))
            }
        }
    }
}

fn on_path(schedule: &Schedule, chunk: ChunkId, microbatch: MicrobatchId) -> Result<(), String> {
    let path = schedule.microbatches[microbatch.idx()];
    if schedule.paths[path as usize].contains(&chunk) {
        Ok(())
    } else {
        Err(format!(
            "micro-batch {microbatch} takes path {path}, which does not visit chunk {chunk}"
        ))
    }
}
