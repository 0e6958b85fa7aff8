//! What can go wrong between ranks.

use crate::auth::AuthError;
use crate::control::COORDINATOR;
use crate::door::Rejected;
use crate::frame::FrameError;
use crate::tag::Tag;
use cavalcade_units::Rank;
use std::io;
use std::net::SocketAddr;

/// A failure of a message, a connection or a collective.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The peer's end of a connection is gone, so that nothing more can come from it.
    #[error(
        "{} is lost: {reason}; its log says why, restart the run from its last checkpoint",
        name(*rank)
    )]
    PeerLost {
        /// Who is lost.
        rank: Rank,
        /// What was seen of it.
        reason: String,
    },
    /// This rank's own transport was shut down or aborted.
    #[error("the transport of rank {rank} is closed: {reason}")]
    Closed {
        /// Whose transport it is.
        rank: Rank,
        /// What the closing call said.
        reason: String,
    },
    /// A message to or from a rank that isn't part of the run.
    #[error("there is no rank {rank}: this run has the ranks 0 to {last}", last = world_size - 1)]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// How many ranks the run has.
        world_size: usize,
    },
    /// A payload above the limit.
    #[error("a message of {len} bytes is above the limit of {max}; send it in pieces")]
    TooLarge {
        /// Bytes of the payload.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A payload whose length is no multiple of four.
    #[error("{len} bytes are no whole number of f32, expected {expected}")]
    NotF32s {
        /// Bytes found.
        len: usize,
        /// What would have been right.
        expected: String,
    },
    /// A group of a collective that its caller can't be part of.
    #[error("rank {rank} cannot join a collective over the group {group:?}: {why}")]
    BadGroup {
        /// Who called the collective.
        rank: Rank,
        /// The group as given.
        group: Vec<u32>,
        /// What is wrong with it.
        why: String,
    },
    /// Two members of a collective disagree about how much there is to reduce or gather.
    #[error(
        "the collective {tag} does not match: rank {rank} has {ours} bytes and rank {peer} has \
         {theirs}; all members must call it with the same tag and the same shape"
    )]
    LengthMismatch {
        /// Who noticed.
        rank: Rank,
        /// The member it differs from.
        peer: Rank,
        /// The collective's tag.
        tag: Tag,
        /// Bytes of `rank`.
        ours: u64,
        /// Bytes of `peer`.
        theirs: u64,
    },
    /// A connection didn't pass the proof of the secret.
    #[error("the connection with {addr} was refused: {source}")]
    Auth {
        /// The other end.
        addr: SocketAddr,
        /// Why.
        source: AuthError,
    },
    /// The deadline came before all peers were connected.
    #[error(
        "rank {rank} was not joined by rank {} in time{}; \
         check that those ranks run and reach this machine",
        list(missing),
        last_rejection(rejected)
    )]
    MeshIncomplete {
        /// Who was waiting.
        rank: Rank,
        /// Who did not come.
        missing: Vec<Rank>,
        /// The connections refused meanwhile.
        rejected: Vec<Rejected>,
    },
    /// The deadline came while `what` was waited for.
    #[error("{what} took longer than allowed; check that the other side runs, or allow more time")]
    Timeout {
        /// What was waited for.
        what: String,
    },
    /// A frame that this version doesn't understand.
    #[error("the connection with {addr} is broken: {source}")]
    Frame {
        /// The other end.
        addr: SocketAddr,
        /// What was read.
        source: FrameError,
    },
    /// The operating system refused something.
    #[error("{what} failed: {source}")]
    Io {
        /// What was tried, with its address.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl TransportError {
    /// An [`TransportError::Io`] maker, for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

fn name(rank: Rank) -> String {
    if rank == COORDINATOR { "the coordinator".to_owned() } else { format!("rank {rank}") }
}

fn list(ranks: &[Rank]) -> String {
    ranks.iter().map(Rank::to_string).collect::<Vec<_>>().join(", ")
}

fn last_rejection(rejected: &[Rejected]) -> String {
    match rejected.last() {
        Some(last) => format!(" ({} connections were refused, the last: {last})", rejected.len()),
        None => String::new(),
    }
}
