//! How replicas without a flush stay together: HetPipe's waves and parameter servers.

use crate::{Plan, PlanError};
use cavalcade_schedule::Kind;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Wave Synchronous Parallel (HetPipe, Park et al., USENIX ATC 2020, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    /// By how many waves replicas may be apart (D).
    pub distance: u32,
    /// Where the servers of the parameters are.
    pub servers: Placement,
}

/// Where parameter servers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Those of a stage with the stage itself, of the first pipeline that has it.
    #[default]
    Local,
    /// Layers in turn over the nodes, on the first device of each that works.
    RoundRobin,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Local => "local",
            Self::RoundRobin => "round-robin",
        })
    }
}

/// A word that names no placement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is not a placement of servers; use local or round-robin")]
pub struct UnknownPlacement {
    /// What was read.
    pub found: String,
}

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "local" => Ok(Self::Local),
            "round-robin" => Ok(Self::RoundRobin),
            _ => Err(UnknownPlacement { found: text.to_owned() }),
        }
    }
}

impl Plan {
    /// The same plan with replicas that exchange waves.
    ///
    /// # Errors
    /// The schedule is not `hetpipe:N`, or the pipelines do not have the same number of waves of
    /// `N` micro-batches.
    pub fn with_waves(self, waves: Waves) -> Result<Self, PlanError> {
        let Kind::HetPipe { wave: Some(length) } = self.schedule() else {
            return Err(PlanError::NoWaves { schedule: self.schedule().to_string() });
        };
        let first = self.pipelines()[0].microbatches();
        for (pipeline, found) in self.pipelines().iter().map(|p| p.microbatches()).enumerate() {
            if found != first || !found.is_multiple_of(length) {
                return Err(PlanError::UnevenWaves { pipeline, found, first, length });
            }
        }
        let mut plan = self;
        plan.waves = Some(waves);
        Ok(plan)
    }

    /// How replicas exchange waves; none if they sum their gradients, or there is no exchange.
    pub fn waves(&self) -> Option<Waves> {
        self.waves
    }

    /// The number of waves of a step and the micro-batches of each, if there are waves.
    pub fn waves_of_step(&self) -> Option<(u32, u32)> {
        let Kind::HetPipe { wave: Some(length) } = self.schedule() else { return None };
        self.waves.map(|_| (self.pipelines()[0].microbatches() / length, length))
    }
}
