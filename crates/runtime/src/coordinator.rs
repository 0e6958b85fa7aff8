//! The other end of the control connections: brings the ranks together, collects what they
//! report, and ends the run for all when one fails.
//!
//! One loop over one channel of events, so every decision is made in one place and in order. Where
//! the events come from: `events`.

use crate::error::LaunchError;
use crate::events::Event;
use crate::protocol::{FromCoordinator, FromWorker, Hello, StepReport, Values, Welcome, encode};
use crate::versions::VersionEvent;
use cavalcade_engine::{Record, Trace};
use cavalcade_schedule::ActionId;
use cavalcade_transport::ControlSender;
use cavalcade_units::{Bytes, Nanos, Rank};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// After the first sign of trouble, how long to wait for its cause to show itself.
const GRACE: Duration = Duration::from_millis(1500);

/// How likely a sign of trouble is its cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Blame {
    /// A rank complains of another, or ends after it has complained.
    Echo,
    /// A connection is gone, and nothing else is known of its rank.
    Lost,
    /// A process has ended as one whose part has failed, but has not told of it.
    Ended,
    Certain,
}

/// What the coordinator knows of the run.
pub(crate) struct Facts {
    pub(crate) n_ranks: usize,
    /// Names of the ranks' devices.
    pub(crate) devices: Vec<String>,
    pub(crate) hello: Hello,
    pub(crate) welcome: Welcome,
    pub(crate) schedule_hash: String,
    pub(crate) n_actions: usize,
    pub(crate) join_timeout: Nanos,
    /// By rank, the pipelines that it works for.
    pub(crate) pipelines: Vec<BTreeSet<u32>>,
    /// By rank, whether parameter servers are on it.
    pub(crate) serves: Vec<bool>,
}

/// A step, or a wave where a step has several, as all ranks together report it. Of a wave that does
/// not end a step the trace is empty.
#[derive(Clone, Debug)]
pub struct StepSummary {
    /// Counted from 0.
    pub step: u64,
    /// Mean loss over the global batch.
    pub loss: f64,
    /// Norm of the whole gradient before clipping, if it was computed.
    pub grad_norm: Option<f64>,
    /// When each action ran, on the coordinator's clock.
    pub trace: Trace,
    /// By rank, the most bytes alive so far.
    pub peak_bytes: Vec<Bytes>,
    /// By rank, by how much passes overran their emulated duration.
    pub overrun: Vec<Nanos>,
    /// When the step began, or the one that this wave is in, on the coordinator's clock.
    pub began: Nanos,
    /// When the last rank was done with it.
    pub ended: Nanos,
    /// What the parameter servers have logged.
    pub versions: Vec<VersionEvent>,
}

/// What is captured of a step for `verify`.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// Gradients before clipping.
    pub gradients: Values,
    /// Weights after the optimizer.
    pub weights: Values,
}

/// Follows a run from outside.
pub trait Observer {
    /// The coordinator listens at `address`; whoever starts a rank by hand needs it.
    fn listening(&mut self, address: SocketAddr) {
        let _ = address;
    }

    /// All ranks have joined; the first step begins.
    ///
    /// # Errors
    /// A message, to end the run.
    fn started(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// A step is over on all ranks.
    ///
    /// # Errors
    /// A message, to end the run.
    fn step(&mut self, step: &StepSummary) -> Result<(), String>;

    /// The run goes on without these ranks, of which one was lost.
    fn left(&mut self, ranks: &[Rank], why: &str) {
        let _ = (ranks, why);
    }

    /// What the parameter servers have logged after the last step.
    ///
    /// # Errors
    /// A message, to end the run.
    fn versions(&mut self, versions: &[VersionEvent]) -> Result<(), String> {
        let _ = versions;
        Ok(())
    }

    /// What was captured of a step, when asked for.
    ///
    /// # Errors
    /// A message, to end the run.
    fn captured(&mut self, step: u64, captured: Captured) -> Result<(), String> {
        let _ = (step, captured);
        Ok(())
    }
}

/// The state of the loop.
pub(crate) struct Coordinator<'a> {
    facts: Facts,
    events: Receiver<Event>,
    observer: &'a mut dyn Observer,
    writers: Vec<Option<ControlSender>>,
    addresses: Vec<Option<SocketAddr>>,
    steps: BTreeMap<u64, Vec<Option<StepReport>>>,
    captured: BTreeMap<u64, (usize, Captured)>,
    weights: Values,
    is_done: Vec<bool>,
    /// Ranks without which the run goes on.
    is_gone: Vec<bool>,
    /// Events that came while a cause was looked for.
    backlog: VecDeque<Event>,
}

impl<'a> Coordinator<'a> {
    pub(crate) fn new(
        facts: Facts,
        events: Receiver<Event>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let n_ranks = facts.n_ranks;
        Self {
            facts,
            events,
            observer,
            writers: (0..n_ranks).map(|_| None).collect(),
            addresses: vec![None; n_ranks],
            steps: BTreeMap::new(),
            captured: BTreeMap::new(),
            weights: Values::new(),
            is_done: vec![false; n_ranks],
            is_gone: vec![false; n_ranks],
            backlog: VecDeque::new(),
        }
    }

    /// Runs to the end; returns the final weights.
    pub(crate) fn run(mut self) -> Result<Values, LaunchError> {
        let outcome = self.follow();
        if let Err(error) = &outcome {
            let abort = encode(&FromCoordinator::Abort { reason: error.to_string() });
            for writer in self.writers.iter().flatten() {
                // A rank that cannot be told has already gone.
                let _ = writer.send(&abort);
            }
        }
        outcome.map(|()| self.weights)
    }

    fn follow(&mut self) -> Result<(), LaunchError> {
        let deadline = Instant::now() + Duration::from(self.facts.join_timeout);
        while self.is_done.iter().zip(&self.is_gone).any(|(done, gone)| !done && !gone) {
            let has_started = self.addresses.iter().all(Option::is_some);
            let event = if let Some(event) = self.backlog.pop_front() {
                event
            } else if has_started {
                self.events.recv().map_err(|_| LaunchError::Interrupted)?
            } else {
                match self.events.recv_deadline(deadline) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout) => return Err(self.not_joined()),
                    Err(RecvTimeoutError::Disconnected) => return Err(LaunchError::Interrupted),
                }
            };
            self.handle(event)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), LaunchError> {
        match event {
            Event::Joined(rank, writer) => self.writers[rank.idx()] = Some(writer),
            Event::Interrupted => return Err(LaunchError::Interrupted),
            Event::Said(rank, FromWorker::Failed { message, is_echo: false }) => {
                let error = self.failed(rank, message);
                self.go_on_without(rank, error)?;
            }
            Event::Exited { rank, .. } | Event::Lost(rank) if self.is_done[rank.idx()] => {}
            Event::Exited { rank, .. } | Event::Lost(rank) | Event::Said(rank, _)
                if self.is_gone[rank.idx()] => {}
            // Its last words may still be on their way: its reader tells when there are no more.
            Event::Exited { rank, is_success: true, .. } if self.writers[rank.idx()].is_some() => {}
            trouble @ (Event::Exited { .. }
            | Event::Lost(_)
            | Event::Said(_, FromWorker::Failed { .. })) => {
                let (rank, error) = self.find_cause(trouble);
                match rank {
                    Some(rank) => self.go_on_without(rank, error)?,
                    None => return Err(error),
                }
            }
            Event::Said(rank, said) => self.hear(rank, said)?,
        }
        Ok(())
    }

    fn hear(&mut self, rank: Rank, said: FromWorker) -> Result<(), LaunchError> {
        match said {
            FromWorker::Hello(hello) => {
                let ours = self.facts.hello.clone();
                self.same(rank, "version", hello.version, ours.version)?;
                if let Some((found, expected)) = first_difference(&hello.config, &ours.config) {
                    self.same(rank, "the setting", found, expected)?;
                }
                self.same(rank, "configuration", hello.config_hash, ours.config_hash)?;
                self.same(rank, "training text", hello.corpus_hash, ours.corpus_hash)?;
                let welcome = FromCoordinator::Welcome(self.facts.welcome.clone());
                self.tell(rank, &welcome);
            }
            FromWorker::Ready { schedule_hash, address } => {
                let ours = self.facts.schedule_hash.clone();
                self.same(rank, "schedule", schedule_hash, ours)?;
                self.addresses[rank.idx()] = Some(address);
                let addresses: Option<Vec<_>> = self.addresses.iter().copied().collect();
                if let Some(addresses) = addresses {
                    let go = FromCoordinator::Go { addresses };
                    (0..self.facts.n_ranks).for_each(|r| self.tell(Rank::from_idx(r), &go));
                    self.observer.started().map_err(LaunchError::Observer)?;
                }
            }
            FromWorker::Step(report) => self.step(rank, report)?,
            FromWorker::Captured { step, gradients, weights } => {
                let (n, captured) = self.captured.entry(step).or_default();
                captured.gradients.extend(gradients);
                captured.weights.extend(weights);
                *n += 1;
                if *n == self.facts.n_ranks {
                    let (_, captured) = self.captured.remove(&step).expect("it was just there");
                    self.observer.captured(step, captured).map_err(LaunchError::Observer)?;
                }
            }
            FromWorker::Weights(weights) => self.weights.extend(weights),
            FromWorker::Versions(versions) => {
                self.observer.versions(&versions).map_err(LaunchError::Observer)?;
            }
            FromWorker::Done => self.is_done[rank.idx()] = true,
            FromWorker::Ping | FromWorker::Failed { .. } => {}
        }
        Ok(())
    }

    fn step(&mut self, rank: Rank, report: StepReport) -> Result<(), LaunchError> {
        let step = report.step;
        let n_ranks = self.facts.n_ranks;
        let reports = self.steps.entry(step).or_insert_with(|| vec![None; n_ranks]);
        reports[rank.idx()] = Some(report);
        self.conclude(step)
    }

    /// Tells of a step that all ranks that are here have reported.
    fn conclude(&mut self, step: u64) -> Result<(), LaunchError> {
        let n_ranks = self.facts.n_ranks;
        let Some(reports) = self.steps.get(&step) else { return Ok(()) };
        if reports.iter().zip(&self.is_gone).any(|(report, gone)| report.is_none() && !gone) {
            return Ok(());
        }
        let reports = self.steps.remove(&step).expect("it was just there");
        // Of a pipeline that was lost on the way nothing counts.
        let share = self.share_of_reported(&reports);
        let mut peak_bytes = vec![Bytes::ZERO; n_ranks];
        for (peak, report) in peak_bytes.iter_mut().zip(&reports) {
            *peak = report.as_ref().map_or(Bytes::ZERO, |report| Bytes(report.peak_bytes));
        }
        let reports: Vec<StepReport> = reports.into_iter().flatten().collect();
        let mut trace = Trace::empty(self.facts.n_actions);
        for (action, start, end) in reports.iter().flat_map(|report| &report.records) {
            if (*action as usize) < self.facts.n_actions {
                let record = Record { start: Nanos(*start), end: Nanos(*end.max(start)) };
                trace.set(ActionId(*action), record);
            }
        }
        let summary = StepSummary {
            step,
            loss: reports.iter().map(|report| report.loss).sum::<f64>() / share,
            grad_norm: reports.iter().find_map(|report| report.grad_norm),
            trace,
            peak_bytes,
            overrun: reports.iter().map(|report| Nanos(report.overrun)).collect(),
            began: Nanos(reports.iter().map(|report| report.began).min().unwrap_or_default()),
            ended: Nanos(reports.iter().map(|report| report.ended).max().unwrap_or_default()),
            versions: reports.iter().flat_map(|report| report.versions.clone()).collect(),
        };
        self.observer.step(&summary).map_err(LaunchError::Observer)
    }

    /// The share of the pipelines of which every rank has reported.
    fn share_of_reported(&self, reports: &[Option<StepReport>]) -> f64 {
        let all: BTreeSet<u32> = self.facts.pipelines.iter().flatten().copied().collect();
        let missing =
            reports.iter().zip(&self.facts.pipelines).filter(|(report, _)| report.is_none());
        let missing: BTreeSet<u32> = missing.flat_map(|(_, of)| of.iter().copied()).collect();
        1.0 - missing.len() as f64 / all.len().max(1) as f64
    }

    /// Goes on without the pipeline of a rank that is lost, if that can be; otherwise the run ends
    /// with `error`.
    fn go_on_without(&mut self, rank: Rank, error: LaunchError) -> Result<(), LaunchError> {
        let lost = &self.facts.pipelines[rank.idx()];
        let of_lost = |idx: &usize| !self.facts.pipelines[*idx].is_disjoint(lost);
        let leaving: Vec<usize> = (0..self.facts.n_ranks).filter(of_lost).collect();
        let has_started = self.addresses.iter().all(Option::is_some);
        let is_needed = leaving.iter().any(|&idx| self.facts.serves[idx]);
        if !self.facts.welcome.is_elastic || !has_started || is_needed {
            return Err(error);
        }
        let abort = FromCoordinator::Abort { reason: error.to_string() };
        for &idx in &leaving {
            self.is_gone[idx] = true;
            self.tell(Rank::from_idx(idx), &abort);
        }
        let ranks: Vec<Rank> = leaving.into_iter().map(Rank::from_idx).collect();
        self.observer.left(&ranks, &error.to_string());
        let steps: Vec<u64> = self.steps.keys().copied().collect();
        steps.into_iter().try_for_each(|step| self.conclude(step))
    }

    fn same(
        &self,
        rank: Rank,
        what: &'static str,
        found: String,
        expected: String,
    ) -> Result<(), LaunchError> {
        match found == expected {
            true => Ok(()),
            false => Err(LaunchError::Mismatch { rank, what, found, expected }),
        }
    }

    fn tell(&self, rank: Rank, message: &FromCoordinator) {
        if let Some(writer) = &self.writers[rank.idx()] {
            // A rank that cannot be told has gone; its reader reports that.
            let _ = writer.send(&encode(message));
        }
    }

    /// One dead rank makes others lose their connection to it, and their complaints may arrive
    /// first: waits a little for the rank that is to blame.
    /// The rank is none if no rank is to blame.
    fn find_cause(&mut self, first: Event) -> (Option<Rank>, LaunchError) {
        let deadline = Instant::now() + GRACE;
        let mut has_told = vec![false; self.facts.n_ranks];
        let mut best: Option<(Blame, LaunchError)> = None;
        let mut next = Some(first);
        while let Some(event) = next {
            let is_trouble = match &event {
                Event::Joined(..) => false,
                Event::Said(_, said) => matches!(said, FromWorker::Failed { .. }),
                _ => true,
            };
            if !is_trouble {
                self.backlog.push_back(event);
            } else if let Some(found) = self.blame(event, &mut has_told)
                && best.as_ref().is_none_or(|(blame, _)| found.0 > *blame)
            {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|(blame, _)| *blame == Blame::Certain) {
                break;
            }
            next = self.events.recv_deadline(deadline).ok();
        }
        let error = best.expect("the first event is a sign of trouble").1;
        let rank = match &error {
            LaunchError::WorkerDied { rank, .. } | LaunchError::WorkerFailed { rank, .. } => {
                Some(*rank)
            }
            _ => None,
        };
        (rank, error)
    }

    /// How likely `event` is the cause. `has_told` notes which ranks have complained of others.
    fn blame(&self, event: Event, has_told: &mut [bool]) -> Option<(Blame, LaunchError)> {
        let died = |rank: Rank, status, message| {
            let device = self.device(rank);
            LaunchError::WorkerDied { rank, device, status, message }
        };
        Some(match event {
            Event::Interrupted => (Blame::Certain, LaunchError::Interrupted),
            Event::Exited { rank, .. } if self.is_done[rank.idx()] => return None,
            Event::Exited { rank, status, is_success, has_run_failed, last_words } => {
                // A worker that has told of its error exits too.
                let blame = match (is_success || has_run_failed, has_told[rank.idx()]) {
                    (false, _) => Blame::Certain,
                    (true, false) => Blame::Ended,
                    (true, true) => Blame::Echo,
                };
                (blame, died(rank, status, last_words))
            }
            Event::Said(rank, FromWorker::Failed { message, is_echo }) => {
                has_told[rank.idx()] |= is_echo;
                let blame = if is_echo { Blame::Echo } else { Blame::Certain };
                (blame, self.failed(rank, message))
            }
            Event::Lost(rank) => {
                let blame = if has_told[rank.idx()] { Blame::Echo } else { Blame::Lost };
                (blame, died(rank, "its connection is gone".to_owned(), None))
            }
            Event::Joined(..) | Event::Said(..) => return None,
        })
    }

    fn failed(&self, rank: Rank, message: String) -> LaunchError {
        LaunchError::WorkerFailed { rank, device: self.device(rank), message }
    }

    fn device(&self, rank: Rank) -> String {
        self.facts.devices.get(rank.idx()).cloned().unwrap_or_default()
    }

    fn not_joined(&self) -> LaunchError {
        let missing = (0..self.facts.n_ranks).filter(|&rank| self.addresses[rank].is_none());
        let missing: Vec<String> = missing.map(|rank| rank.to_string()).collect();
        LaunchError::NotJoined {
            waited: self.facts.join_timeout.to_string(),
            missing: missing.join(", "),
        }
    }
}

/// The first entries that differ, of two lists in the same order of keys.
fn first_difference(found: &[String], expected: &[String]) -> Option<(String, String)> {
    let n = found.len().max(expected.len());
    let at = |entries: &[String], idx: usize| {
        entries.get(idx).map_or_else(|| "nothing more".to_owned(), |entry| format!("`{entry}`"))
    };
    (0..n).map(|idx| (at(found, idx), at(expected, idx))).find(|(ours, theirs)| ours != theirs)
}
