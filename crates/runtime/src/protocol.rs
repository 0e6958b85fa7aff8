//! What coordinator and workers say to each other over the authenticated control connection.
//!
//! ```text
//! worker                               coordinator
//!   Ping*                             <->  Pong*    the offset of the two clocks
//!   Hello    version, config, corpus  -->           a difference is named and stops the run
//!                                     <--  Welcome  plan, profile, what to capture
//!   Ready    schedule hash, address   -->           a difference is named and stops the run
//!                                     <--  Go       all addresses
//!   (Step, Captured?)*, Versions, Weights, Done  -->           or Failed
//!                                     <--  Abort    at any time
//! ```
//!
//! The encoding is postcard's. `Hello` begins with the version, and `Ping`, `Pong` and `Hello` stay
//! the first variants, so that another version is recognised.

use crate::versions::VersionEvent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromWorker {
    Ping,
    Hello(Hello),
    Ready {
        schedule_hash: String,
        address: SocketAddr,
    },
    Step(StepReport),
    /// What a step left of the parameters that this rank owns, when captured.
    Captured {
        step: u64,
        /// Before clipping.
        gradients: Values,
        /// After the optimizer.
        weights: Values,
    },
    /// The final values of the parameters that this rank owns or serves.
    Weights(Values),
    /// What the parameter servers here have logged since the last step.
    Versions(Vec<VersionEvent>),
    Done,
    Failed {
        message: String,
        /// Whether the cause is that another rank has gone.
        is_echo: bool,
    },
}

/// What the coordinator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromCoordinator {
    Pong { now: u64 },
    Welcome(Welcome),
    Go { addresses: Vec<SocketAddr> },
    Abort { reason: String },
}

/// What a worker introduces itself with: all ranks must have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the program.
    pub version: String,
    /// Hash of the resolved configuration.
    pub config_hash: String,
    /// Hash of the training text.
    pub corpus_hash: String,
    /// What was hashed of the configuration, a `key = value` each, so that a difference can be
    /// named.
    pub config: Vec<String>,
}

/// What the coordinator decided for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The plan, in its text form.
    pub plan: String,
    /// The profile, in its text form.
    pub profile: String,
    /// Steps to run; those of the configuration, or fewer.
    pub steps: u64,
    /// Whether emulated devices and links take as long as they would.
    pub is_paced: bool,
    /// Whether to send gradients and weights after every step.
    pub captures: bool,
    /// Whether replicas go on without one that is lost.
    pub is_elastic: bool,
}

/// Values by the logical name of their parameter.
pub type Values = BTreeMap<String, Vec<f32>>;

/// What one rank did in one step, or in one wave where a step has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepReport {
    pub(crate) step: u64,
    /// Sum of this rank's micro-batch losses, each weighted by its share of the global batch.
    pub(crate) loss: f64,
    /// Norm of the whole gradient before clipping, if it was computed.
    pub(crate) grad_norm: Option<f64>,
    /// (action, start, end) in nanoseconds on the coordinator's clock.
    pub(crate) records: Vec<(u32, u64, u64)>,
    /// Most bytes alive in the process so far.
    pub(crate) peak_bytes: u64,
    /// Nanoseconds by which passes overran their emulated duration: the host was too busy.
    pub(crate) overrun: u64,
    /// When the step that this is, or is in, began here, on the coordinator's clock.
    pub(crate) began: u64,
    /// When it was over here, on the same clock.
    pub(crate) ended: u64,
    /// What the parameter servers here have logged.
    pub(crate) versions: Vec<VersionEvent>,
}

/// Encodes a message.
pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("these types have no form that postcard cannot write")
}

/// Decodes a message; the error says no more than that it is not one.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, postcard::Error> {
    postcard::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::{FromWorker, decode, encode};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn garbage_is_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = decode::<FromWorker>(&bytes);
        }
    }

    #[test]
    fn messages_round_trip() {
        let message = FromWorker::Failed { message: "out of memory".to_owned(), is_echo: false };
        assert_eq!(decode::<FromWorker>(&encode(&message)).unwrap(), message);
    }
}
