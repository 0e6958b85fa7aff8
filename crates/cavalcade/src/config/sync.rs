//! `[sync]`: how replicas stay together.

use super::ConfigError;
use super::file::{
    CombineWord, ConfigFile, Distance, DistanceWord, RecomputeWord, ServerWord, SyncWord,
};
use cavalcade_plan::Placement;
use cavalcade_runtime::{Combine, ServerOptimizer, ServerSettings};
use cavalcade_schedule::Kind;

/// More micro-batches than any pipeline keeps in flight; a larger number is a slip of the pen.
const IN_FLIGHT_MAX: u32 = 1024;
/// The same of waves between replicas.
const DISTANCE_MAX: u32 = 1024;

/// What the file says about replicas.
#[derive(Clone, Debug, Default)]
pub struct SyncConfig {
    /// How they exchange waves; none if they sum their gradients at the end of each step.
    pub waves: Option<WavesConfig>,
    /// Whether they go on without one that is lost.
    pub elastic: bool,
}

/// Replicas that exchange waves over parameter servers.
#[derive(Clone, Debug)]
pub struct WavesConfig {
    /// By how many waves they may be apart; none for the fewest that are about as fast as any while
    /// compute times vary as they were measured to.
    pub distance: Option<u32>,
    /// Micro-batches of a wave; none for as many as are fastest and have room.
    pub in_flight: Option<u32>,
    /// Where the servers are.
    pub servers: Placement,
}

type Fail<'a> = dyn Fn(&str, String) -> ConfigError + 'a;

/// The kind of schedule and how replicas stay together.
pub(super) fn sync(
    file: &ConfigFile,
    kind: Kind,
    fail: &Fail,
) -> Result<(Kind, SyncConfig), ConfigError> {
    let sync = &file.sync;
    let named = match kind {
        Kind::HetPipe { wave } => Some(wave),
        _ => None,
    };
    let is_default = kind == Kind::OneFOneB;
    let mode = match (sync.mode, named) {
        (SyncWord::Flush, Some(_)) => SyncWord::Wsp,
        (mode, _) => mode,
    };
    if mode == SyncWord::Flush {
        let elastic = sync.elastic;
        if elastic {
            let problem = "true, but without waves every replica is needed in every step; set \
                           sync.mode to \"wsp\", or this to false";
            return Err(fail("sync.elastic", problem.to_owned()));
        }
        return Ok((kind, SyncConfig { waves: None, elastic }));
    }
    if named.is_none() && !is_default {
        let problem = format!(
            "`{kind}` ends every step with a flush, and sync.mode exchanges waves without one; \
             leave plan.schedule out, or set sync.mode to \"flush\""
        );
        return Err(fail("plan.schedule", problem));
    }
    let asked = Some(sync.in_flight).filter(|&n| n != 0);
    let in_flight = match (mode, named.flatten(), asked) {
        (SyncWord::Async, None | Some(1), None | Some(1)) => Some(1),
        (SyncWord::Async, ..) => {
            let problem = "sync.mode \"async\" hands over every micro-batch before the next one \
                           begins: leave this out, or use \"wsp\"";
            return Err(fail("sync.in_flight", problem.to_owned()));
        }
        (_, Some(named), Some(asked)) if named != asked => {
            let problem = format!(
                "{asked}, but plan.schedule is `{kind}`; say how many are in flight in one place"
            );
            return Err(fail("sync.in_flight", problem));
        }
        (_, named, asked) => named.or(asked),
    };
    if file.plan.recompute == RecomputeWord::All {
        let problem = "\"all\", but without a flush a forward that runs again would meet newer \
                       weights than the first time; set it to \"none\"";
        return Err(fail("plan.recompute", problem.to_owned()));
    }
    if let Distance::Waves(found) = sync.distance
        && found > DISTANCE_MAX
    {
        let problem = format!("{found} waves; at most {DISTANCE_MAX} can be");
        return Err(fail("sync.distance", problem));
    }
    if let Some(found) = in_flight.filter(|&n| n > IN_FLIGHT_MAX) {
        let problem = format!("{found} micro-batches at once; at most {IN_FLIGHT_MAX} can be");
        return Err(fail("sync.in_flight", problem));
    }
    if file.train.clip_norm.is_some_and(|norm| norm != 0.0) {
        let problem = "the norm of a whole gradient is known only at a flush, and sync.mode \
                       exchanges waves without one; set train.clip_norm to 0";
        return Err(fail("train.clip_norm", problem.to_owned()));
    }
    // Only a model that can be tied has it filled in.
    let is_tied = file.model.tied == Some(true);
    let is_cut = file.plan.allocation.is_some()
        || file.pipeline.iter().any(|pipeline| pipeline.devices.len() > 1);
    if is_tied && is_cut {
        let problem = "true, but the two copies of a tied embedding on a pipeline would drift \
                       apart without a flush; set model.tied to false";
        return Err(fail("model.tied", problem.to_owned()));
    }
    let servers =
        sync.servers.parse::<Placement>().map_err(|e| fail("sync.servers", e.to_string()))?;
    let distance = match sync.distance {
        Distance::Waves(distance) => Some(distance),
        Distance::Word(DistanceWord::Auto) => None,
    };
    let waves = Some(WavesConfig { distance, in_flight, servers });
    let kind = Kind::HetPipe { wave: in_flight };
    Ok((kind, SyncConfig { waves, elastic: sync.elastic }))
}

/// What servers do.
pub(super) fn servers(file: &ConfigFile, fail: &Fail) -> Result<ServerSettings, ConfigError> {
    let sync = &file.sync;
    let share = |key: &str, value: f32| match (0.0..1.0).contains(&value) {
        true => Ok(value),
        false => Err(fail(key, format!("{value} is not at least 0 and below 1"))),
    };
    let positive = |key: &str, value: f32| match value > 0.0 && value.is_finite() {
        true => Ok(value),
        false => Err(fail(key, format!("{value} is not a number above 0"))),
    };
    let (beta1, beta2) = (share("sync.beta1", sync.beta1)?, share("sync.beta2", sync.beta2)?);
    let rate = positive("sync.learning_rate", sync.learning_rate)?;
    let epsilon = positive("sync.epsilon", sync.epsilon)?;
    Ok(ServerSettings {
        combine: match sync.combine {
            CombineWord::Sum => Combine::Sum,
            CombineWord::Average => Combine::Average,
        },
        optimizer: match sync.optimizer {
            ServerWord::Add => ServerOptimizer::Add,
            ServerWord::Momentum => ServerOptimizer::Momentum { beta: beta1 },
            ServerWord::Adam => ServerOptimizer::Adam { rate, beta1, beta2, epsilon },
        },
    })
}
