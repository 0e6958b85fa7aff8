//! Schedules and ops as text.

use super::VERSION;
use crate::op::Op;
use crate::tables::{CollectiveKind, Exchange, ParamUnit, Schedule};
use crate::value::Value;
use std::fmt;

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute { pass, chunk, microbatch } => {
                write!(f, "{chunk}{}{microbatch}", pass.letter())
            }
            Self::Send(id) => write!(f, "S{id}"),
            Self::Recv(id) => write!(f, "R{id}"),
            Self::Collective(id) => write!(f, "C{id}"),
            Self::Push(id) => write!(f, "P{id}"),
            Self::Pull(id) => write!(f, "Q{id}"),
            Self::Merge(id) => write!(f, "M{id}"),
            Self::OptimizerStep { chunk } => write!(f, "{chunk}U"),
            Self::Offload { chunk, microbatch } => write!(f, "{chunk}O{microbatch}"),
            Self::Prefetch { chunk, microbatch } => write!(f, "{chunk}P{microbatch}"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cavalcade schedule {VERSION}")?;
        if !self.name.is_empty() {
            writeln!(f, "name {}", self.name)?;
        }
        writeln!(f, "layers {}", self.n_layers)?;
        if let Some(bound) = self.staleness {
            writeln!(f, "staleness {bound}")?;
        }
        if let Some(length) = self.wave {
            writeln!(f, "wave {length}")?;
        }
        if let Some(most) = self.detours {
            writeln!(f, "detours {most}")?;
        }
        if self.second_order {
            writeln!(f, "second-order")?;
        }
        if self.copies > 0 {
            writeln!(f, "copies {}", self.copies)?;
        }
        for tie in &self.ties {
            writeln!(f, "tie{}", list(&tie.layers, ""))?;
        }
        for chunk in &self.chunks {
            write!(f, "chunk d{} {}..{}", chunk.device, chunk.layers.start, chunk.layers.end)?;
            writeln!(f, "{}", if chunk.recompute { " recompute" } else { "" })?;
        }
        for path in &self.paths {
            writeln!(f, "path{}", list(path, ""))?;
        }
        write!(f, "microbatches")?;
        for run in self.microbatches.chunk_by(|a, b| a == b) {
            write!(f, " {}*{}", run[0], run.len())?;
        }
        writeln!(f)?;
        for bucket in &self.buckets {
            let holders = list(&bucket.holders, "");
            match &bucket.unit {
                ParamUnit::Layers(l) => write!(f, "bucket {}..{} :{holders}", l.start, l.end)?,
                ParamUnit::Tie(tie) => write!(f, "bucket tie{tie} :{holders}")?,
            }
            match bucket.server {
                Some(server) => writeln!(f, " @d{server}")?,
                None => writeln!(f)?,
            }
        }
        for transfer in &self.transfers {
            let (letter, chunk, microbatch) = match transfer.value {
                Value::Activation { chunk, microbatch } => ('A', chunk, microbatch),
                Value::Gradient { chunk, microbatch } => ('G', chunk, microbatch),
                Value::Adjoint { chunk, microbatch } => ('J', chunk, microbatch),
                Value::Tangent { chunk, microbatch } => ('T', chunk, microbatch),
                // Only these travel: `check` refuses the others. Printing must not fail.
                other => return writeln!(f, "# {other} does not travel"),
            };
            let (from, to) = (transfer.from, transfer.to);
            writeln!(f, "transfer {letter}{chunk}.{microbatch} d{from}>d{to}")?;
        }
        for group in &self.groups {
            writeln!(f, "group{}", list(group, "d"))?;
        }
        for collective in &self.collectives {
            let group = collective.group;
            match collective.kind {
                CollectiveKind::SumGradients(b) => writeln!(f, "collective sum {} @{group}", b.0)?,
                CollectiveKind::GradNorm => writeln!(f, "collective norm @{group}")?,
            }
        }
        for Exchange { chunk, bucket, wave, since, lag } in &self.exchanges {
            let bucket = bucket.0;
            writeln!(f, "exchange chunk {chunk} bucket {bucket} waves {since}..={wave} lag {lag}")?;
        }
        for (device_idx, program) in self.programs.iter().enumerate() {
            writeln!(f, "device {device_idx}:{}", list(program, ""))?;
        }
        Ok(())
    }
}

fn list<T: fmt::Display>(items: &[T], prefix: &str) -> String {
    items.iter().map(|item| format!(" {prefix}{item}")).collect()
}
