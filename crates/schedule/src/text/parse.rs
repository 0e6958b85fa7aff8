//! Text to schedules. Syntax only: whether a schedule makes sense is for `check` to say.

use super::VERSION;
use crate::op::{Op, Pass};
use crate::tables::{
    Bucket, BucketId, Chunk, Collective, CollectiveKind, Exchange, ParamUnit, Schedule, Tie,
    Transfer,
};
use crate::value::Value;
use cavalcade_units::{
    ChunkId, CollectiveId, DeviceId, ExchangeId, GroupId, MicrobatchId, TransferId,
};
use std::ops::Range;
use std::str::FromStr;
use thiserror::Error;

/// A text that is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: found `{found}`, expected {expected}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub found: String,
    /// What should.
    pub expected: String,
}

const KEYWORDS: &str = "one of name, layers, staleness, wave, detours, second-order, copies, \
                        tie, chunk, path, microbatches, bucket, transfer, group, collective, \
                        exchange, device";
/// More micro-batches than any step has; a larger number is a slip of the pen.
const MICROBATCHES_MAX: usize = 1 << 24;
/// The same of layers, for each of which the check keeps an entry.
const LAYERS_MAX: u32 = 1 << 20;

impl FromStr for Schedule {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut schedule = Self::default();
        let mut seen_header = false;
        for (line_idx, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = |(found, expected): (String, String)| TextError {
                line: line_idx + 1,
                found,
                expected,
            };
            if seen_header {
                parse_line(&mut schedule, line).map_err(at)?;
            } else {
                header(line).map_err(at)?;
                seen_header = true;
            }
        }
        if seen_header {
            Ok(schedule)
        } else {
            Err(TextError {
                line: 1,
                found: "the end of the text".to_owned(),
                expected: format!("`cavalcade schedule {VERSION}`"),
            })
        }
    }
}

/// What was found and what was expected.
type Fault = (String, String);

fn fault(found: &str, expected: &str) -> Fault {
    (found.to_owned(), expected.to_owned())
}

fn header(line: &str) -> Result<(), Fault> {
    let wanted = format!("cavalcade schedule {VERSION}");
    if line.split_whitespace().eq(wanted.split_whitespace()) {
        Ok(())
    } else {
        let expected = format!("`{wanted}`: this build reads version {VERSION} only");
        Err(fault(line, &expected))
    }
}

fn parse_line(schedule: &mut Schedule, line: &str) -> Result<(), Fault> {
    let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let whole = |expected: &str| fault(line, expected);
    match keyword {
        "name" if !rest.is_empty() => rest.clone_into(&mut schedule.name),
        "name" => return Err(whole("`name WORD`")),
        "layers" => {
            let count = rest.parse().map_err(|_| whole("`layers N`"))?;
            if count > LAYERS_MAX {
                return Err(whole(&format!("at most {LAYERS_MAX} layers")));
            }
            schedule.n_layers = count;
        }
        "staleness" => {
            schedule.staleness = Some(rest.parse().map_err(|_| whole("`staleness N`"))?);
        }
        "wave" => {
            let length = rest.parse().ok().filter(|&length| length > 0);
            schedule.wave = Some(length.ok_or_else(|| whole("`wave N`, at least 1"))?);
        }
        "detours" => schedule.detours = Some(rest.parse().map_err(|_| whole("`detours N`"))?),
        "copies" => schedule.copies = rest.parse().map_err(|_| whole("`copies N`"))?,
        "second-order" if rest.is_empty() => schedule.second_order = true,
        "tie" => schedule.ties.push(Tie { layers: numbers(rest, "")? }),
        "chunk" => {
            schedule.chunks.push(chunk(rest).ok_or_else(|| whole("`chunk dN A..B [recompute]`"))?)
        }
        "path" => schedule.paths.push(numbers(rest, "")?.into_iter().map(ChunkId).collect()),
        "microbatches" => microbatches(schedule, rest)?,
        "bucket" => {
            let expected = "`bucket A..B : CHUNK... [@dN]` or `bucket tieN : CHUNK... [@dN]`";
            let (unit, holders) = rest.split_once(':').ok_or_else(|| whole(expected))?;
            let unit = param_unit(unit.trim()).ok_or_else(|| whole(expected))?;
            let (holders, server) = match holders.split_once('@') {
                Some((holders, server)) => match numbers(server, "d")?[..] {
                    [server] => (holders, Some(DeviceId(server))),
                    _ => return Err(whole(expected)),
                },
                None => (holders, None),
            };
            let holders = numbers(holders, "")?.into_iter().map(ChunkId).collect();
            schedule.buckets.push(Bucket { unit, holders, server });
        }
        "transfer" => {
            let expected = "`transfer A0.1 d0>d1`, with A, G, J or T for what moves";
            schedule.transfers.push(transfer(rest).ok_or_else(|| whole(expected))?);
        }
        "group" => schedule.groups.push(numbers(rest, "d")?.into_iter().map(DeviceId).collect()),
        "collective" => {
            let expected = "`collective sum BUCKET @GROUP` or `collective norm @GROUP`";
            schedule.collectives.push(collective(rest).ok_or_else(|| whole(expected))?);
        }
        "exchange" => {
            let expected = "`exchange chunk C bucket B waves A..=B lag N`";
            schedule.exchanges.push(exchange(rest).ok_or_else(|| whole(expected))?);
        }
        "device" => {
            let next = schedule.programs.len();
            let expected = format!("`device {next}: OP...` (devices are listed in order)");
            let (number, ops) = rest.split_once(':').ok_or_else(|| whole(&expected))?;
            if number.trim().parse() != Ok(next) {
                return Err(whole(&expected));
            }
            let ops: Result<_, Fault> = ops.split_whitespace().map(op).collect();
            schedule.programs.push(ops?);
        }
        _ => return Err(whole(KEYWORDS)),
    }
    Ok(())
}

fn numbers(text: &str, prefix: &str) -> Result<Vec<u32>, Fault> {
    let number = |word: &str| {
        let digits = word.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
        digits.ok_or_else(|| fault(word, &format!("a number such as {prefix}0")))
    };
    text.split_whitespace().map(number).collect()
}

fn range(text: &str) -> Option<Range<u32>> {
    let (start, end) = text.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

fn chunk(text: &str) -> Option<Chunk> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (device, layers, recompute) = match words[..] {
        [device, layers] => (device, layers, false),
        [device, layers, "recompute"] => (device, layers, true),
        _ => return None,
    };
    let device = DeviceId(device.strip_prefix('d')?.parse().ok()?);
    Some(Chunk { device, layers: range(layers)?, recompute })
}

fn microbatches(schedule: &mut Schedule, text: &str) -> Result<(), Fault> {
    for word in text.split_whitespace() {
        let run = word.split_once('*').and_then(|(path, count)| {
            let count: usize = count.parse().ok().filter(|&count| count <= MICROBATCHES_MAX)?;
            Some((path.parse::<u32>().ok()?, count))
        });
        let (path, count) = run.ok_or_else(|| {
            fault(word, &format!("PATH*COUNT with at most {MICROBATCHES_MAX} micro-batches"))
        })?;
        if schedule.microbatches.len() + count > MICROBATCHES_MAX {
            return Err(fault(word, &format!("at most {MICROBATCHES_MAX} micro-batches in all")));
        }
        schedule.microbatches.extend(std::iter::repeat_n(path, count));
    }
    Ok(())
}

fn param_unit(text: &str) -> Option<ParamUnit> {
    match text.strip_prefix("tie") {
        Some(tie) => Some(ParamUnit::Tie(tie.parse().ok()?)),
        None => Some(ParamUnit::Layers(range(text)?)),
    }
}

fn transfer(text: &str) -> Option<Transfer> {
    let (value, ends) = text.split_once(char::is_whitespace)?;
    let (letter, numbers) = value.split_at_checked(1)?;
    let (chunk, microbatch) = numbers.split_once('.')?;
    let chunk = ChunkId(chunk.parse().ok()?);
    let microbatch = MicrobatchId(microbatch.parse().ok()?);
    let value = match letter {
        "A" => Value::Activation { chunk, microbatch },
        "G" => Value::Gradient { chunk, microbatch },
        "J" => Value::Adjoint { chunk, microbatch },
        "T" => Value::Tangent { chunk, microbatch },
        _ => return None,
    };
    let (from, to) = ends.trim().split_once('>')?;
    let device = |end: &str| Some(DeviceId(end.strip_prefix('d')?.parse().ok()?));
    Some(Transfer { value, from: device(from)?, to: device(to)? })
}

fn collective(text: &str) -> Option<Collective> {
    let (what, group) = text.split_once('@')?;
    let group = GroupId(group.parse().ok()?);
    let kind = match what.split_whitespace().collect::<Vec<_>>()[..] {
        ["norm"] => CollectiveKind::GradNorm,
        ["sum", bucket] => CollectiveKind::SumGradients(BucketId(bucket.parse().ok()?)),
        _ => return None,
    };
    Some(Collective { kind, group })
}

fn exchange(text: &str) -> Option<Exchange> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ["chunk", chunk, "bucket", bucket, "waves", waves, "lag", lag] = words[..] else {
        return None;
    };
    let (since, wave) = waves.split_once("..=")?;
    Some(Exchange {
        chunk: ChunkId(chunk.parse().ok()?),
        bucket: BucketId(bucket.parse().ok()?),
        wave: wave.parse().ok()?,
        since: since.parse().ok()?,
        lag: lag.parse().ok()?,
    })
}

fn op(word: &str) -> Result<Op, Fault> {
    parse_op(word).ok_or_else(|| fault(word, "an op such as 2F0, 2B0, S4, R4, C0 or 2U"))
}

fn parse_op(word: &str) -> Option<Op> {
    let at = word.find(|c: char| c.is_ascii_alphabetic())?;
    let (chunk, rest) = word.split_at(at);
    let (letter, number) = rest.split_at(1);
    let chunk_id = || chunk.parse().ok().map(ChunkId);
    let microbatch_id = || number.parse().ok().map(MicrobatchId);
    match (letter, chunk.is_empty()) {
        ("U", false) if number.is_empty() => Some(Op::OptimizerStep { chunk: chunk_id()? }),
        ("O", false) => Some(Op::Offload { chunk: chunk_id()?, microbatch: microbatch_id()? }),
        ("P", false) => Some(Op::Prefetch { chunk: chunk_id()?, microbatch: microbatch_id()? }),
        (_, false) => {
            let pass = Pass::ALL.into_iter().find(|pass| letter.starts_with(pass.letter()))?;
            Some(Op::Compute { pass, chunk: chunk_id()?, microbatch: microbatch_id()? })
        }
        ("S", true) => Some(Op::Send(TransferId(number.parse().ok()?))),
        ("R", true) => Some(Op::Recv(TransferId(number.parse().ok()?))),
        ("P", true) => Some(Op::Push(ExchangeId(number.parse().ok()?))),
        ("Q", true) => Some(Op::Pull(ExchangeId(number.parse().ok()?))),
        ("M", true) => Some(Op::Merge(ExchangeId(number.parse().ok()?))),
        ("C", true) => Some(Op::Collective(CollectiveId(number.parse().ok()?))),
        _ => None,
    }
}
