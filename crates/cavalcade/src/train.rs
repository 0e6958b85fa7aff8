//! A training run from a configuration to a folder with a model in it. The binary calls this and
//! adds nothing but printing.

use crate::config::Config;
use crate::dataset::Dataset;
use crate::error::{Error, Failure};
use crate::generate::Generator;
use crate::prepare::{self, Prepared};
use crate::report::{RankSummary, StepMetrics, Summary, chrome_trace};
use crate::run_folder::RunFolder;
use crate::verify::{Comparison, Verification};
use crate::whole::{accuracy, mean_loss, whole_chunk};
use cavalcade_engine::Trace;
use cavalcade_model::Network;
use cavalcade_plan::Plan;
use cavalcade_profile::{Meter, Profile};
use cavalcade_runtime::{
    Interrupt, Launch, LaunchError, Observer, Place, StepSummary, Values, VersionEvent, Welcome,
    launch, work,
};
use cavalcade_units::{Nanos, Rank};
use std::net::SocketAddr;
use std::sync::Arc;

/// Follows a run while it goes on.
pub trait Follower {
    /// The coordinator listens at `address`: whoever starts a rank by hand needs it.
    fn listening(&mut self, address: SocketAddr);
    /// A step is over.
    fn step(&mut self, metrics: &StepMetrics);
    /// The run goes on without these ranks, of which one was lost.
    fn left(&mut self, ranks: &[Rank], why: &str) {
        let _ = (ranks, why);
    }
}

/// Runs what was prepared.
pub struct Trainer {
    prepared: Prepared,
    meter: Arc<dyn Meter>,
    interrupt: Interrupt,
}

/// A finished run.
pub struct Trained {
    /// Predicted against measured.
    pub summary: Summary,
    /// The trained model, if it is one of text.
    pub generator: Option<Generator>,
    /// When each action of the last step ran that was reported whole.
    pub last_trace: Option<Trace>,
}

impl Trainer {
    /// A run of `prepared`, timed by `meter`, that ends when `interrupt` is raised.
    pub fn new(prepared: Prepared, meter: Arc<dyn Meter>, interrupt: Interrupt) -> Self {
        Self { prepared, meter, interrupt }
    }

    /// What will be run.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Trains and fills `folder`.
    ///
    /// # Errors
    /// The first thing that went wrong; no worker is left and no file is half-written. If the
    /// run could not begin, the folder is taken back.
    pub fn train(
        &self,
        how: &Launch,
        folder: &mut RunFolder,
        follower: &mut dyn Follower,
    ) -> Result<Trained, Error> {
        let mut recorder = Recorder::new(&self.prepared, folder, follower);
        let steps = self.prepared.config.settings.steps;
        let outcome = self.launch(how, self.welcome(steps, true, false), &mut recorder);
        let measured = (recorder.steps, recorder.last, recorder.overrun);
        match outcome {
            // What goes wrong from here on is no fault of the input.
            Ok(weights) => self
                .conclude(weights, measured, folder)
                .map_err(|error| LaunchError::Observer(error.to_string()).into()),
            Err(error) => {
                if error.failure() == Failure::BadInput {
                    folder.take_back();
                }
                Err(error)
            }
        }
    }

    /// Writes what a finished run leaves behind.
    fn conclude(
        &self,
        weights: Values,
        (steps, last, overrun): (Vec<StepMetrics>, Option<StepSummary>, Nanos),
        folder: &RunFolder,
    ) -> Result<Trained, Error> {
        let Prepared { model, data, config, .. } = &self.prepared;
        let chunk = whole_chunk(model, &weights)?;
        let held_out = data.held_out(config.validation_windows);
        let val_loss = mean_loss(&*chunk, &held_out)?;
        let val_accuracy = match model {
            Network::Gpt(_) => None,
            Network::Conv(_) => Some(accuracy(&*chunk, &held_out)?),
        };
        let (steps, last) = (&steps[..], last.as_ref());
        let measured = Measured { steps, last, overrun, val_loss, val_accuracy };
        let summary = measured.summary(&self.prepared);
        folder.write_model(&self.prepared, weights)?;
        let trace = chrome_trace(
            &self.prepared.job.schedule,
            &config.cluster,
            &self.prepared.prediction.trace,
            last.map(|step| &step.trace),
        );
        folder.write_trace(&trace)?;
        folder.write_summary(&summary)?;
        let generator = match (model, data) {
            (Network::Gpt(model), Dataset::Text(text)) => {
                Some(Generator::of_chunk(model.clone(), text.tokenizer().clone(), chunk))
            }
            _ => None,
        };
        let last_trace = last.map(|step| step.trace.clone());
        Ok(Trained { summary, generator, last_trace })
    }

    /// Runs `steps` steps beside one process on the whole batch.
    ///
    /// # Errors
    /// If the run fails, or if its micro-batches do not all visit all layers in order, which is
    /// what one process does; a difference is no error but in the result.
    pub fn verify(
        &self,
        how: &Launch,
        steps: u64,
        tolerance: f64,
        follower: &mut dyn Follower,
    ) -> Result<Verification, Error> {
        let schedule = self.prepared.job.schedule.schedule();
        if self.prepared.job.waves.is_some() {
            return Err(Error::Argument(
                "replicas that exchange waves do not compute what one process on the whole batch \
                 does; train, and let `cavalcade replay RUN` redo the run in one process"
                    .to_owned(),
            ));
        }
        if schedule.detours.is_some() {
            return Err(Error::Argument(format!(
                "micro-batches of the schedule `{}` take their own ways through the layers; one \
                 process takes all through all layers in order, so there is nothing to compare: \
                 verify with another plan.schedule, such as 1f1b",
                schedule.name
            )));
        }
        let mut comparison = Comparison::new(&self.prepared, follower);
        self.launch(how, self.welcome(steps, false, true), &mut comparison)?;
        Ok(Verification::new(comparison.steps, tolerance))
    }

    fn launch(
        &self,
        how: &Launch,
        welcome: Welcome,
        observer: &mut dyn Observer,
    ) -> Result<Values, Error> {
        let prepared = &self.prepared;
        prepared.config.can_be_emulated()?;
        let hello = prepare::hello(&prepared.config, &prepared.data);
        let meter = Arc::clone(&self.meter);
        Ok(launch(how, &prepared.job, hello, welcome, meter, &self.interrupt, observer)?)
    }

    fn welcome(&self, steps: u64, is_paced: bool, captures: bool) -> Welcome {
        Welcome {
            plan: self.prepared.plan_text(),
            profile: self.prepared.profile.to_json(),
            steps,
            is_paced,
            captures,
            is_elastic: self.prepared.config.sync.elastic,
        }
    }
}

/// Works as one rank of a run whose coordinator is elsewhere.
///
/// # Errors
/// Whatever ends the run on this rank.
pub fn serve_rank(
    config: &Config,
    data: &Dataset,
    place: &Place,
    meter: Arc<dyn Meter>,
) -> Result<(), Error> {
    let model = prepare::model(config, data)?;
    let network = model.model();
    let hello = prepare::hello(config, data);
    let cluster = &config.cluster;
    let build = |welcome: &Welcome| {
        let profile = Profile::from_json(&welcome.profile).map_err(|e| e.to_string())?;
        let plan =
            Plan::from_toml(&welcome.plan, &prepare::cluster_names(config), network.n_layers())
                .map_err(|e| e.to_string())?;
        prepare::job(config, &model, data, &plan, &profile).map_err(|e| e.to_string())
    };
    Ok(work(place, hello, cluster, meter, build)?)
}

/// Turns what the ranks report into metrics, and writes them.
struct Recorder<'a> {
    prepared: &'a Prepared,
    folder: &'a mut RunFolder,
    follower: &'a mut dyn Follower,
    steps: Vec<StepMetrics>,
    /// The latest step that has a trace.
    last: Option<StepSummary>,
    last_ended: Option<Nanos>,
    /// Time by which emulated devices were held up by the host, over all ranks and steps.
    overrun: Nanos,
}

impl<'a> Recorder<'a> {
    fn new(
        prepared: &'a Prepared,
        folder: &'a mut RunFolder,
        follower: &'a mut dyn Follower,
    ) -> Self {
        let (steps, last, last_ended, overrun) = (Vec::new(), None, None, Nanos::ZERO);
        Self { prepared, folder, follower, steps, last, last_ended, overrun }
    }

    fn metrics(&self, step: &StepSummary) -> StepMetrics {
        let began = self.last_ended.unwrap_or(step.began);
        let step_time = step.ended.saturating_sub(began);
        let job = &self.prepared.job;
        let per_step = job.reported_batch() * self.prepared.model.predictions() as u64;
        let learning_rate = self.prepared.config.settings.learning_rate;
        StepMetrics {
            step: step.step + 1,
            loss: step.loss,
            grad_norm: step.grad_norm,
            lr: learning_rate.at(step.step),
            tokens: (step.step + 1) * per_step,
            step_ms: step_time.as_millis_f64(),
            tokens_per_s: per_step as f64 / step_time.as_secs_f64().max(1e-9),
            bubble: self.bubble(step, step_time),
        }
    }
}

impl Recorder<'_> {
    /// The share of a step that devices stood idle. Waves are not drawn apart: all of a step have
    /// the share of the whole, and those of one that is not over have none.
    fn bubble(&self, step: &StepSummary, step_time: Nanos) -> Option<f64> {
        let schedule = &self.prepared.job.schedule;
        let has_times = step.trace.iter().next().is_some();
        let time =
            if self.prepared.job.waves.is_some() { step.trace.makespan() } else { step_time };
        has_times.then(|| step.trace.bubble_fraction(schedule, time))
    }
}

impl Observer for Recorder<'_> {
    fn listening(&mut self, address: SocketAddr) {
        self.follower.listening(address);
    }

    fn left(&mut self, ranks: &[Rank], why: &str) {
        self.follower.left(ranks, why);
    }

    fn versions(&mut self, versions: &[VersionEvent]) -> Result<(), String> {
        self.folder.add_versions(versions).map_err(|e| e.to_string())
    }

    fn step(&mut self, step: &StepSummary) -> Result<(), String> {
        let metrics = self.metrics(step);
        self.folder.add_metrics(&metrics).map_err(|e| e.to_string())?;
        self.follower.step(&metrics);
        self.steps.push(metrics);
        self.overrun += step.overrun.iter().copied().sum();
        self.folder.add_versions(&step.versions).map_err(|e| e.to_string())?;
        self.last_ended = Some(step.ended);
        if step.trace.iter().next().is_some() {
            self.last = Some(step.clone());
        }
        Ok(())
    }
}

/// What was measured over a run.
struct Measured<'a> {
    steps: &'a [StepMetrics],
    last: Option<&'a StepSummary>,
    overrun: Nanos,
    val_loss: f64,
    val_accuracy: Option<f64>,
}

impl Measured<'_> {
    fn summary(&self, prepared: &Prepared) -> Summary {
        let prediction = &prepared.prediction;
        let seconds = self.steps.iter().map(|step| step.step_ms).sum::<f64>() / 1e3;
        // The first step also fills caches and the allocator; with a single one it has to do.
        let steady = if self.steps.len() > 1 { &self.steps[1..] } else { self.steps };
        let devices = prepared.job.devices();
        let available = seconds * devices.len() as f64;
        let ranks = prepare::device_names(prepared).into_iter().zip(&devices).enumerate();
        let peaks = self.last.map(|last| &last.peak_bytes[..]).unwrap_or_default();
        Summary {
            version: 1,
            steps: self.steps.len() as u64,
            first_loss: self.steps.first().map_or(f64::NAN, |step| step.loss),
            final_loss: self.steps.last().map_or(f64::NAN, |step| step.loss),
            val_loss: self.val_loss,
            val_accuracy: self.val_accuracy,
            tokens_per_s: self.steps.last().map_or(0.0, |step| step.tokens as f64) / seconds,
            predicted_step_ms: prepared.predicted_report_ms(),
            measured_step_ms: match prepared.job.waves {
                // Replicas report waves as they come; only their mean says how fast they are.
                Some(_) => seconds * 1e3 / self.steps.len().max(1) as f64,
                None => median(steady.iter().map(|step| step.step_ms)),
            },
            predicted_bubble: prediction.bubble_fraction,
            measured_bubble: median(steady.iter().filter_map(|step| step.bubble)),
            seconds,
            host_overrun: self.overrun.as_secs_f64() / available.max(1e-9),
            ranks: ranks
                .map(|(rank, (device, id))| RankSummary {
                    rank: rank as u32,
                    device,
                    predicted_peak_bytes: prediction.peak_bytes[id.idx()].0,
                    measured_peak_bytes: peaks.get(rank).map_or(0, |bytes| bytes.0),
                })
                .collect(),
        }
    }
}

/// The middle value, or the mean of the two in the middle; not a number if there is none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
