//! A schedule by itself: generated or read, checked, and simulated on equal devices.
//!
//! No model and no cluster: the times are those of one micro-batch on one whole stage, and chunks
//! share them equally. A stage is what one of the pipeline's devices holds, so with `p` devices and
//! `l` layers a chunk of `c` layers takes the share `c p / l` of it.
//!
//! Shares need not be whole nanoseconds. The simulation therefore counts in parts of `1 / l` of a
//! nanosecond, in which all of them are, and closed forms come out exactly.

use cavalcade_engine::{Record, Trace, interpret};
use cavalcade_schedule::{
    CheckError, CheckedSchedule, CollectiveKind, Kind, Layout, LayoutError, MemoryModel, Op,
    Options, Pass, Schedule, StageTicks, TextError, Ticks, Value, build, check, generate,
};
use cavalcade_sim::{Costs, LinkCost, Stalled, VirtualWorld};
use cavalcade_units::{Bytes, ChunkId, DeviceId, Nanos};
use std::collections::BTreeSet;
use thiserror::Error;

/// More stages than any pipeline has.
const STAGES_MAX: u64 = 4096;
/// More than any search for ways through them ends with soon.
const SKIPPED_STAGES_MAX: u64 = 128;
/// More ops than there is patience for.
const OPS_MAX: u64 = 4_000_000;

/// Times of one micro-batch on one whole stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTimes {
    /// Its forward.
    pub forward: Nanos,
    /// The input part of its backward.
    pub backward_input: Nanos,
    /// The weight part of its backward; a whole backward takes both.
    pub backward_weight: Nanos,
    /// From the end of a pass until what it sends has arrived; any number of messages may be on
    /// their way at once.
    pub link: Nanos,
}

impl StageTimes {
    /// Of one pass: a recompute is a forward, an adjoint an input backward, and the backward of an
    /// adjoint a whole backward.
    fn of(self, pass: Pass) -> Nanos {
        match pass {
            Pass::Forward | Pass::Recompute => self.forward,
            Pass::BackwardInput | Pass::Adjoint => self.backward_input,
            Pass::BackwardWeight => self.backward_weight,
            Pass::Backward | Pass::DoubleBackward => self.backward(),
            Pass::Update | Pass::Apply => Nanos::ZERO,
        }
    }

    /// A whole backward.
    pub fn backward(self) -> Nanos {
        Nanos(self.backward_input.0.saturating_add(self.backward_weight.0))
    }
}

impl Default for StageTimes {
    /// A backward of two parts as long as a forward each, over free links.
    fn default() -> Self {
        let pass = Nanos(1_000_000);
        Self { forward: pass, backward_input: pass, backward_weight: pass, link: Nanos::ZERO }
    }
}

/// A size of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleSize {
    /// Devices of the pipeline; each holds one stage, or several chunks.
    pub stages: u64,
    /// Micro-batches of the step.
    pub microbatches: u64,
    /// Chunks a device, where the kind has several.
    pub chunks: u64,
}

/// A schedule that was checked and simulated.
#[derive(Clone, Debug)]
pub struct ScheduleStudy {
    schedule: CheckedSchedule,
    /// In ticks of `1 / n_layers` nanoseconds.
    ticks: Trace,
    peaks: Vec<Bytes>,
}

/// A schedule that cannot be studied.
#[derive(Debug, Error)]
pub enum StudyError {
    /// A count is zero.
    #[error("there are 0 {what}; use at least 1")]
    Zero {
        /// Of what.
        what: &'static str,
    },
    /// A schedule would be too large.
    #[error("{found} {what} are too many; the limit is {most}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many there would be.
        found: u64,
        /// How many there may be.
        most: u64,
    },
    /// Too few micro-batches for two directions.
    #[error("chimera needs at least 2 micro-batches, one in each direction; there is 1")]
    OneDirection,
    /// Times that add up to more than the clock can show.
    #[error("the times are too long to be added up; use shorter ones")]
    TooLong,
    /// The kind cannot run over this number of stages.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A text that is no schedule.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A schedule that does not pass the check.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A simulation that does not end.
    #[error(transparent)]
    Stalled(#[from] Stalled),
}

impl ScheduleStudy {
    /// The schedule of `kind` at this size.
    ///
    /// # Errors
    /// If the size is zero or too large, or the kind cannot run over it.
    pub fn of_kind(kind: Kind, size: ScheduleSize, times: StageTimes) -> Result<Self, StudyError> {
        let layout = layout(kind, size, times)?;
        Self::new(build(generate(kind, &layout)?, &Options::default()), times)
    }

    /// The schedule in `text`, in the text form of [`Schedule`].
    ///
    /// # Errors
    /// If the text is no schedule, is too large, or does not pass the check.
    pub fn of_text(text: &str, times: StageTimes) -> Result<Self, StudyError> {
        let schedule: Schedule = text.parse()?;
        within("chunks", schedule.chunks.len() as u64, STAGES_MAX)?;
        within("devices", schedule.programs.len() as u64, STAGES_MAX)?;
        within("ops", schedule.n_ops() as u64, OPS_MAX)?;
        Self::new(schedule, times)
    }

    fn new(schedule: Schedule, times: StageTimes) -> Result<Self, StudyError> {
        let schedule = check(schedule, None)?;
        let costs = EqualDevices::new(schedule.schedule(), times)?;
        let devices: Vec<_> = (0..schedule.n_devices()).map(DeviceId::from_idx).collect();
        let mut world = VirtualWorld::new(&schedule, &costs, vec![Nanos::ZERO; devices.len()]);
        let ticks = interpret(&schedule, &devices, &mut world)?;
        let peaks = world.peaks();
        Ok(Self { schedule, ticks, peaks })
    }

    /// The schedule.
    pub fn schedule(&self) -> &CheckedSchedule {
        &self.schedule
    }

    /// How long one step takes, in milliseconds.
    pub fn makespan_ms(&self) -> f64 {
        self.ms(self.ticks.makespan())
    }

    /// Idle time over makespan, over all devices.
    pub fn bubble_fraction(&self) -> f64 {
        self.ticks.bubble_fraction(&self.schedule, self.ticks.makespan())
    }

    /// The share of the makespan that one device is idle.
    pub fn idle_fraction(&self, device: DeviceId) -> f64 {
        let busy = self.ticks.busy(&self.schedule, device).0 as f64;
        1.0 - busy / self.ticks.makespan().0.max(1) as f64
    }

    /// By device, the most micro-batches stashed at once; a chunk's counts as its share of a
    /// stage.
    pub fn peak_stash(&self) -> Vec<f64> {
        self.peaks.iter().map(|peak| peak.0 as f64 / self.n_layers() as f64).collect()
    }

    /// Values that move between devices in a step.
    pub fn n_messages(&self) -> usize {
        self.schedule.schedule().transfers.len()
    }

    /// When every op runs, to the nanosecond.
    pub fn trace(&self) -> Trace {
        let nanos = |ticks: Nanos| Nanos(ticks.0 / self.n_layers());
        let mut trace = Trace::empty(self.schedule.n_actions());
        for (action, record) in self.ticks.iter() {
            trace.set(action, Record { start: nanos(record.start), end: nanos(record.end) });
        }
        trace
    }

    /// When every op runs, in the study's own ticks: see [`Self::ms`].
    pub(crate) fn ticks(&self) -> &Trace {
        &self.ticks
    }

    /// Ticks in milliseconds.
    pub(crate) fn ms(&self, ticks: Nanos) -> f64 {
        ticks.0 as f64 / self.n_layers() as f64 / 1e6
    }

    /// Layers of the model; 1 for the schedule without anything, which takes no time.
    fn n_layers(&self) -> u64 {
        u64::from(self.schedule.schedule().n_layers.max(1))
    }
}

/// The kinds that a comparison shows, with the warm-ups that this size and these times suggest.
pub fn compared_kinds(size: ScheduleSize, times: StageTimes) -> Vec<Kind> {
    let half = |n: u64| u32::try_from(n.div_ceil(2)).unwrap_or(u32::MAX).max(1);
    let slot = times.forward.0.saturating_add(times.backward().0).max(1);
    let ahead = times.link.0.saturating_mul(2).div_ceil(slot).max(1);
    let geo = Kind::Geo { cut: half(size.stages), extra: u32::try_from(ahead).unwrap_or(u32::MAX) };
    let dapple = |policy, most| Kind::Dapple { policy, most };
    vec![
        Kind::GPipe,
        Kind::OneFOneB,
        dapple(cavalcade_schedule::WarmUp::A, half(size.stages)),
        dapple(cavalcade_schedule::WarmUp::B, u32::MAX),
        geo,
        Kind::Interleaved,
        Kind::Chimera,
        Kind::ZbH1,
        Kind::ZbH2,
        Kind::ZbV,
        Kind::VHalf,
        Kind::VMin,
        Kind::DualPipeV,
        Kind::HetPipe { wave: None },
        Kind::Janus,
        Kind::Solve { most: u32::MAX },
    ]
}

fn within(what: &'static str, found: u64, most: u64) -> Result<(), StudyError> {
    if found <= most { Ok(()) } else { Err(StudyError::TooLarge { what, found, most }) }
}

fn layout(kind: Kind, size: ScheduleSize, times: StageTimes) -> Result<Layout, StudyError> {
    let n_chunks = kind.chunks_per_device(size.chunks);
    for (what, count) in
        [("stages", size.stages), ("micro-batches", size.microbatches), ("chunks", n_chunks)]
    {
        if count == 0 {
            return Err(StudyError::Zero { what });
        }
    }
    let n_chunks_in_all = size.stages.saturating_mul(n_chunks);
    within("stages", size.stages, STAGES_MAX)?;
    within("chunks", n_chunks_in_all, STAGES_MAX)?;
    let cuts = if size.stages == 1 { 0 } else { n_chunks_in_all - 1 };
    // Skipping looks at every pair of devices.
    if matches!(kind, Kind::Skip { .. }) {
        within("stages that can be skipped", size.stages, SKIPPED_STAGES_MAX)?;
    }
    // Passes of a chunk, and ends of messages over a cut.
    let (passes, ends) = match kind {
        _ if kind.is_second_order() => (4, 8),
        _ if kind.splits_backward() || !kind.has_flush() => (3, 4),
        _ => (2, 4),
    };
    let n_ops = size.microbatches.saturating_mul(passes * n_chunks_in_all + ends * cuts);
    within("ops", n_ops, OPS_MAX)?;
    if kind == Kind::Chimera && size.microbatches == 1 {
        return Err(StudyError::OneDirection);
    }
    let count = |n: u64| u32::try_from(n).expect("it is within the limit of ops");
    let mut layout =
        Layout::even(kind, count(size.stages), count(n_chunks), count(size.microbatches));
    layout.ticks = ticks(kind, &layout, times);
    Ok(layout)
}

/// The times for kinds that weigh them, all of which have one chunk a device.
fn ticks(kind: Kind, layout: &Layout, times: StageTimes) -> Ticks {
    let stage = StageTicks {
        forward: times.forward.0,
        backward: times.backward().0,
        backward_input: times.backward_input.0,
        backward_weight: times.backward_weight.0,
    };
    let devices = || (0..layout.n_devices).map(DeviceId);
    let all_pairs = || devices().flat_map(|from| devices().map(move |to| (from, to)));
    let next = |n: u32| (1..n).map(|to| (DeviceId(to - 1), DeviceId(to)));
    let neighbors = || next(layout.n_devices).flat_map(|(a, b)| [(a, b), (b, a)]);
    let pairs: Vec<_> = match kind {
        Kind::Skip { .. } => all_pairs().collect(),
        _ => neighbors().collect(),
    };
    Ticks {
        stages: layout.pipelines.iter().map(|p| vec![stage; p.stages.len()]).collect(),
        delays: pairs.into_iter().map(|pair| (pair, times.link.0)).collect(),
    }
}

/// Equal devices: a pass takes what its layers' share of a stage takes, a stash weighs as much in
/// parts of `1 / n_layers`, and all else is free.
struct EqualDevices {
    times: StageTimes,
    n_layers: u64,
    /// By chunk, its layers times the devices of its path.
    shares: Vec<u64>,
}

impl EqualDevices {
    fn new(schedule: &Schedule, times: StageTimes) -> Result<Self, StudyError> {
        let mut shares = vec![0; schedule.chunks.len()];
        let all: Vec<ChunkId> = (0..schedule.chunks.len()).map(ChunkId::from_idx).collect();
        for path in &schedule.paths {
            let device = |chunk: &ChunkId| schedule.chunks[chunk.idx()].device;
            // A path with detours may leave devices out that others visit.
            let whole = if schedule.detours.is_some() { &all } else { path };
            let n_devices = whole.iter().map(device).collect::<BTreeSet<_>>().len() as u64;
            for chunk in path {
                let layers = &schedule.chunks[chunk.idx()].layers;
                shares[chunk.idx()] = u64::from(layers.end - layers.start) * n_devices;
            }
        }
        let n_layers = u64::from(schedule.n_layers);
        // No step is longer than all of its ops one after the other.
        let most = shares.iter().copied().max().unwrap_or(0).max(n_layers);
        let longest = times.forward.max(times.backward()).max(times.link);
        let bound = u128::from(most) * u128::from(longest.0) * schedule.n_ops() as u128;
        if bound > u128::from(u64::MAX) {
            return Err(StudyError::TooLong);
        }
        Ok(Self { times, n_layers, shares })
    }
}

impl MemoryModel for EqualDevices {
    fn bytes(&self, _: DeviceId, value: Value) -> Bytes {
        match value {
            Value::Stash { chunk, .. } => Bytes(self.shares[chunk.idx()]),
            _ => Bytes::ZERO,
        }
    }
    fn workspace(&self, _: DeviceId, _: Op) -> Bytes {
        Bytes::ZERO
    }
    fn capacity(&self, _: DeviceId) -> Option<Bytes> {
        None
    }
}

impl Costs for EqualDevices {
    fn compute(&self, _: DeviceId, op: Op) -> Nanos {
        match op {
            Op::Compute { pass, chunk, .. } => self.times.of(pass) * self.shares[chunk.idx()],
            _ => Nanos::ZERO,
        }
    }
    fn link(&self, _: DeviceId, _: DeviceId) -> LinkCost {
        LinkCost { latency: self.times.link * self.n_layers, bandwidth: None }
    }
    fn collective(&self, _: CollectiveKind, _: &[DeviceId]) -> Nanos {
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::{ScheduleSize, ScheduleStudy, StageTimes, StudyError};
    use cavalcade_schedule::Kind;
    use cavalcade_units::Nanos;

    fn size(stages: u64, microbatches: u64, chunks: u64) -> ScheduleSize {
        ScheduleSize { stages, microbatches, chunks }
    }

    #[test]
    fn closed_forms_come_out_exactly_though_chunks_take_fractions_of_a_nanosecond() {
        let times = StageTimes {
            forward: Nanos(1000),
            backward_input: Nanos(501),
            backward_weight: Nanos(500),
            link: Nanos::ZERO,
        };
        let study = ScheduleStudy::of_kind(Kind::Interleaved, size(4, 8, 3), times).unwrap();
        let expected = 8.0 * 2001.0 + 3.0 * 2001.0 / 3.0;
        assert_eq!(study.makespan_ms(), expected / 1e6);
        let idle = 3.0 * 2001.0 / 3.0;
        assert!((study.bubble_fraction() - idle / expected).abs() < 1e-12);
        // p (1 + (p - 1)/(p v)) whole stages at the first device.
        assert_eq!(study.peak_stash()[0], 5.0);
        assert_eq!(study.n_messages(), 2 * 11 * 8);
    }

    #[test]
    fn a_printed_schedule_reads_back_to_the_same_study() {
        let times = StageTimes { link: Nanos(300_000), ..StageTimes::default() };
        for kind in Kind::ALL {
            let made = ScheduleStudy::of_kind(kind, size(4, 6, 2), times).unwrap();
            let text = made.schedule().schedule().to_string();
            let read = ScheduleStudy::of_text(&text, times).unwrap();
            assert_eq!(read.trace(), made.trace(), "{kind}");
            assert_eq!(read.peak_stash(), made.peak_stash(), "{kind}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused_before_anything_is_made() {
        let refused = |kind, size| {
            let times = StageTimes::default();
            ScheduleStudy::of_kind(kind, size, times).unwrap_err().to_string()
        };
        let huge = u64::MAX;
        expect_test::expect!["there are 0 stages; use at least 1"]
            .assert_eq(&refused(Kind::GPipe, size(0, 1, 1)));
        expect_test::expect!["there are 0 chunks; use at least 1"]
            .assert_eq(&refused(Kind::Interleaved, size(2, 2, 0)));
        expect_test::expect!["18446744073709551615 stages are too many; the limit is 4096"]
            .assert_eq(&refused(Kind::GPipe, size(huge, huge, huge)));
        expect_test::expect!["6000000 ops are too many; the limit is 4000000"]
            .assert_eq(&refused(Kind::OneFOneB, size(4, 300_000, 1)));
        expect_test::expect!["chimera needs an even number of stages; pipeline 0 has 3"]
            .assert_eq(&refused(Kind::Chimera, size(3, 4, 1)));
        expect_test::expect![
            "chimera needs at least 2 micro-batches, one in each direction; there is 1"
        ]
        .assert_eq(&refused(Kind::Chimera, size(4, 1, 1)));
        let endless = StageTimes { forward: Nanos(u64::MAX), ..StageTimes::default() };
        let refused = ScheduleStudy::of_kind(Kind::GPipe, size(4, 4, 1), endless).unwrap_err();
        assert!(matches!(refused, StudyError::TooLong), "{refused}");
    }

    #[test]
    fn a_schedule_without_anything_takes_no_time() {
        let study = ScheduleStudy::of_text("cavalcade schedule 1\n", StageTimes::default());
        let study = study.unwrap();
        assert_eq!((study.makespan_ms(), study.bubble_fraction()), (0.0, 0.0));
        assert_eq!(study.trace().iter().count(), 0);
    }

    #[test]
    fn a_text_that_deadlocks_is_refused_with_the_cycle() {
        let made = ScheduleStudy::of_kind(Kind::OneFOneB, size(2, 2, 1), StageTimes::default());
        let text = made.unwrap().schedule().schedule().to_string();
        let swapped = text.replace("R0 1F0 1B0 S2 R1 1F1 1B1 S3", "R1 1F1 1B1 S3 R0 1F0 1B0 S2");
        assert_ne!(text, swapped);
        // The first device waits for the backward of micro-batch 0 before it sends micro-batch 1.
        let waiting = swapped.replace("0F0 S0 0F1 S1 R2 0B0 R3 0B1", "0F0 S0 R2 0B0 0F1 S1 R3 0B1");
        let error = ScheduleStudy::of_text(&waiting, StageTimes::default()).unwrap_err();
        assert!(error.to_string().starts_with("deadlock: "), "{error}");
    }
}
