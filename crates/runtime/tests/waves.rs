//! Replicas without a flush: the mathematics of waves against closed recurrences in one process,
//! and every run against the replay of its log.

mod support;

use cavalcade_nn::{ChunkOutput, network_chunk};
use cavalcade_plan::{Placement, Waves};
use cavalcade_runtime::{
    Combine, Job, OptimizerSettings, ServerOptimizer, ServerSettings, ThreadRun, Values,
    VersionEvent, replay, run_threads,
};
use cavalcade_schedule::Kind;
use cavalcade_units::MicrobatchId;
use proptest::prelude::*;
use support::{Case, close, meter};

/// Replicas with these cuts, waves of `length`, `per_step` waves between two drains.
fn case(cuts: &[&[u32]], length: u32, per_step: u32, distance: u32, waves: u64) -> Case {
    let pipelines: Vec<(&[u32], u32)> =
        cuts.iter().map(|&cuts| (cuts, length * per_step)).collect();
    Case {
        kind: Kind::HetPipe { wave: Some(length) },
        tied: false,
        clip_norm: None,
        optimizer: OptimizerSettings::Sgd,
        steps: waves,
        waves: Some(Waves { distance, servers: Placement::Local }),
        ..Case::new(&pipelines)
    }
}

fn run(job: &Job) -> ThreadRun {
    run_threads(job, job.settings.steps, &meter()).expect("the run ends well")
}

/// The gradient of micro-batch `sample / 2` at `weights`, by one chunk with all layers.
struct OneProcess {
    chunk: Box<dyn cavalcade_nn::Chunk>,
    job: Job,
}

impl OneProcess {
    fn new(job: &Job) -> Self {
        let chunk = network_chunk(&job.network, 0..job.model.n_layers(), job.settings.seed);
        Self { chunk, job: job.clone() }
    }

    fn gradient(&mut self, weights: &[f32], first_sample: u64) -> (f64, Vec<f32>) {
        self.chunk.set_weights(weights).expect("they are as many");
        let (samples, seed) = (&self.job.samples, self.job.settings.seed);
        let input = samples.data(seed, first_sample, 2);
        let targets = Some(samples.targets(seed, first_sample, 2));
        let output = self.chunk.forward(MicrobatchId(0), input, targets, 1.0).expect("it fits");
        let ChunkOutput::Loss(loss) = output else { panic!("it ends in the loss") };
        self.chunk.backward(MicrobatchId(0), None).expect("it is in flight");
        let gradient = self.chunk.gradients().to_vec();
        self.chunk.zero_gradients();
        (loss, gradient)
    }

    fn named(&self, weights: &[f32]) -> Values {
        let params = self.chunk.params().iter();
        params.map(|param| (param.name.clone(), weights[param.range()].to_vec())).collect()
    }
}

/// Plain SGD, one micro-batch after the other.
#[test]
fn one_replica_with_one_in_flight_is_sequential_sgd_to_the_last_bit() {
    for (cuts, per_step) in [(&[][..], 3), (&[2][..], 4), (&[1, 3][..], 12)] {
        let job = case(&[cuts], 1, per_step, 0, 12).job();
        let found = run(&job);
        let mut one = OneProcess::new(&job);
        let mut weights = one.chunk.weights().to_vec();
        for wave in 0..12 {
            let (loss, gradient) = one.gradient(&weights, wave * 2);
            let rate = job.settings.learning_rate.at(wave) as f32;
            weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= rate * g);
            assert_eq!(found.steps[wave as usize].0.to_bits(), loss.to_bits(), "wave {wave}");
        }
        assert_eq!(found.weights, one.named(&weights), "{cuts:?}");
    }
}

/// `w_p = w_0 + u_1 + ... + u_(p - Nm)`, whatever the stages, the drains and the distance.
#[test]
fn one_replica_follows_the_delayed_recurrence() {
    for (cuts, distance) in [(&[][..], 0), (&[2][..], 0), (&[1, 2, 4][..], 1), (&[1, 3][..], 3)] {
        let length = 4;
        let job = case(&[cuts], length, 5, distance, 5).job();
        let found = run(&job);
        let mut one = OneProcess::new(&job);
        let initial = one.chunk.weights().to_vec();
        let mut updates: Vec<Vec<f32>> = Vec::new();
        let add = |weights: &mut Vec<f32>, updates: &[Vec<f32>]| {
            for update in updates {
                weights.iter_mut().zip(update).for_each(|(w, u)| *w += u);
            }
        };
        for p in 0..u64::from(length) * 5 {
            let mut weights = initial.clone();
            add(&mut weights, &updates[..(p as usize + 1).saturating_sub(length as usize)]);
            let (_, gradient) = one.gradient(&weights, p * 2);
            let rate = job.settings.learning_rate.at(p / u64::from(length)) as f32;
            updates.push(gradient.iter().map(|g| -(rate * g)).collect());
        }
        let mut weights = initial;
        add(&mut weights, &updates);
        let difference = close(&found.weights, &one.named(&weights));
        assert!(difference < 1e-6, "{cuts:?}: {difference:e}");
    }
}

/// One micro-batch a wave and no distance: every replica's gradient at the same weights, summed or
/// averaged.
#[test]
fn no_distance_and_one_in_flight_is_synchronous_sgd() {
    for (combine, share) in [(Combine::Sum, 1.0), (Combine::Average, 1.0 / 3.0)] {
        let servers = ServerSettings { combine, ..ServerSettings::default() };
        let case = Case { servers, ..case(&[&[2], &[1, 4], &[]], 1, 4, 0, 8) };
        let job = case.job();
        let found = run(&job);
        let mut one = OneProcess::new(&job);
        let mut weights = one.chunk.weights().to_vec();
        for wave in 0..8 {
            let rate = job.settings.learning_rate.at(wave) as f32;
            let at = weights.clone();
            let mut mean = 0.0;
            for replica in 0..3 {
                let (loss, gradient) = one.gradient(&at, (wave * 3 + replica) * 2);
                mean += loss / 3.0;
                weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= share * rate * g);
            }
            let loss = found.steps[wave as usize].0;
            assert!((loss - mean).abs() < 1e-5 * mean, "wave {wave}: {loss}, expected {mean}");
        }
        let difference = close(&found.weights, &one.named(&weights));
        assert!(difference < 1e-5, "{combine:?}: {difference:e}");
    }
}

fn equals_its_replay(case: &Case) -> Result<(), TestCaseError> {
    let job = case.job();
    let found = run(&job);
    let replayed = replay(&job, &found.versions).expect("its log is one of a run");
    for (wave, ((loss, _), expected)) in found.steps.iter().zip(&replayed.losses).enumerate() {
        prop_assert!((loss - expected).abs() < 1e-5 * expected, "wave {wave}: {loss}, {expected}");
    }
    let difference = close(&found.weights, &replayed.weights);
    prop_assert!(difference < 1e-5, "{case:?}: {difference:e}");
    let length = u64::from(job.schedule.schedule().wave.expect("there are waves"));
    let distance = u64::from(case.waves.expect("there are waves").distance);
    let staleness = replayed.staleness;
    prop_assert!(staleness.local < length, "{staleness:?}");
    prop_assert!(staleness.global <= (distance + 1) * length + length - 2, "{staleness:?}");
    prop_assert!(staleness.waves_ahead <= distance + 1, "{staleness:?}");
    Ok(())
}

#[test]
fn every_optimizer_on_either_side_replays() {
    let adam = ServerOptimizer::Adam { rate: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8 };
    for optimizer in [ServerOptimizer::Add, ServerOptimizer::Momentum { beta: 0.9 }, adam] {
        for local in [OptimizerSettings::Sgd, Case::new(&[]).optimizer] {
            let servers = ServerSettings { combine: Combine::Average, optimizer };
            let case = case(&[&[1, 3], &[2]], 3, 3, 1, 7);
            equals_its_replay(&Case { servers, optimizer: local, ..case }).expect("it replays");
        }
    }
}

#[test]
fn servers_in_turn_over_the_nodes_replay() {
    let waves = Some(Waves { distance: 0, servers: Placement::RoundRobin });
    equals_its_replay(&Case { waves, ..case(&[&[1, 3], &[2]], 2, 4, 0, 4) }).expect("it replays");
}

#[test]
fn a_convolutional_network_replays() {
    let on_images = true;
    equals_its_replay(&Case { on_images, ..case(&[&[1, 3], &[2]], 3, 3, 1, 7) })
        .expect("it replays");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_run_equals_the_replay_of_its_log(
        cuts in prop::collection::vec(prop::sample::subsequence(vec![1u32, 2, 3, 4], 0..=3), 1..4),
        length in 1u32..5, per_step in 1u32..4, distance in 0u32..3, waves in 1u64..7, seed: u64,
    ) {
        let cuts: Vec<&[u32]> = cuts.iter().map(Vec::as_slice).collect();
        equals_its_replay(&Case { seed, ..case(&cuts, length, per_step, distance, waves) })?;
    }
}

#[test]
fn a_log_that_cannot_be_is_refused() {
    let job = case(&[&[2], &[2]], 2, 3, 0, 3).job();
    let log = run(&job).versions;
    let message = |log: &[VersionEvent]| replay(&job, log).unwrap_err().to_string();
    assert!(message(&log[1..]).contains("no entry"), "{}", message(&log[1..]));
    let mut early = log.clone();
    for event in &mut early {
        if let VersionEvent::Pulled { wave: 2, version, .. } = event {
            *version = 1;
        }
    }
    assert!(message(&early).contains("allows 2 to 2"), "{}", message(&early));
}

/// A run in which every pull got the oldest weights that it may: both bounds are reached, and the
/// replay of it is one.
#[test]
fn the_oldest_weights_that_are_allowed_reach_the_bounds() {
    for (length, distance) in [(1, 0), (3, 0), (2, 1), (3, 2)] {
        let job = case(&[&[2], &[]], length, 8, distance, 8).job();
        let oldest = |exchange: &cavalcade_schedule::Exchange| VersionEvent::Pulled {
            chunk: exchange.chunk.0,
            bucket: exchange.bucket.0,
            wave: u64::from(exchange.wave),
            version: u64::from(exchange.least()),
        };
        let log: Vec<_> = job.schedule.schedule().exchanges.iter().map(oldest).collect();
        let staleness = replay(&job, &log).expect("a run may go so").staleness;
        let (length, distance) = (u64::from(length), u64::from(distance));
        assert_eq!(staleness.local, length - 1);
        assert_eq!(staleness.global, (distance + 1) * length + length - 2);
        // With one in flight a wave is complete before the next begins.
        assert_eq!(staleness.waves_ahead, distance + u64::from(length > 1));
    }
}
