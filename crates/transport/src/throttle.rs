//! Emulated links: how long a message keeps a link busy, and when it arrives.
//!
//! ```text
//!  latency 3, 2 units of time a message, three messages handed over at once:
//!
//!  link     |1 1|2 2|3 3|            send returns at 2, 4 and 6
//!  arrives      . . .1. .2. .3       at 5, 7 and 9: latencies overlap, bandwidth doesn't
//! ```

use crate::clock::Clock;
use cavalcade_units::{Bandwidth, Bytes, Nanos, Rank};
use std::fmt;
use std::sync::Arc;

/// A link from this rank to one peer. The default costs nothing.
///
/// Every message is throttled, however small; its payload counts, its header doesn't.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttle {
    /// From the end of a message's sending to its arrival.
    pub latency: Nanos,
    /// Payload bytes a second, one message after the other; without one the link is never busy.
    pub bandwidth: Option<Bandwidth>,
}

impl Throttle {
    fn is_free(&self) -> bool {
        *self == Self::default()
    }
}

/// The links from one rank to all peers, and the clock they are emulated by.
#[derive(Clone)]
pub struct Links(Option<(Arc<dyn Clock>, Vec<Throttle>)>);

impl Links {
    /// As fast as the machine allows; no clock is read.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// One entry a peer, at the peer's rank; a missing one is not throttled.
    pub fn emulated(clock: Arc<dyn Clock>, by_peer: Vec<Throttle>) -> Self {
        Self(Some((clock, by_peer)))
    }

    /// The state of the link to `peer`, if it is throttled.
    pub(crate) fn to(&self, peer: Rank) -> Option<(Link, Arc<dyn Clock>)> {
        let (clock, by_peer) = self.0.as_ref()?;
        let throttle = *by_peer.get(peer.idx())?;
        (!throttle.is_free()).then(|| (Link::new(throttle), Arc::clone(clock)))
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Links(unlimited)"),
            Some((_, by_peer)) => f.debug_tuple("Links").field(by_peer).finish(),
        }
    }
}

/// A link in use.
#[derive(Debug)]
pub(crate) struct Link {
    throttle: Throttle,
    free_at: Nanos,
}

/// When a message has left the link, and when it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) free_at: Nanos,
    pub(crate) due_at: Nanos,
}

impl Link {
    pub(crate) fn new(throttle: Throttle) -> Self {
        Self { throttle, free_at: Nanos::ZERO }
    }

    /// Puts a message on the link behind those already there.
    pub(crate) fn admit(&mut self, now: Nanos, payload: Bytes) -> Slot {
        let busy = self.throttle.bandwidth.map_or(Nanos::ZERO, |rate| rate.time_for(payload));
        self.free_at = self.free_at.max(now) + busy;
        Slot { free_at: self.free_at, due_at: self.free_at + self.throttle.latency }
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, Throttle};
    use cavalcade_units::{Bytes, Nanos};

    fn slots(latency: u64, bandwidth: Option<&str>, sends: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let bandwidth = bandwidth.map(|text| text.parse().unwrap());
        let mut link = Link::new(Throttle { latency: Nanos(latency), bandwidth });
        let admit = |&(now, bytes)| link.admit(Nanos(now), Bytes(bytes));
        sends.iter().map(admit).map(|slot| (slot.free_at.0, slot.due_at.0)).collect()
    }

    #[test]
    fn messages_queue_for_bandwidth_and_overlap_in_latency() {
        let sends = [(0, 2), (0, 2), (1, 4), (50, 1)];
        assert_eq!(slots(3, Some("1 GB/s"), &sends), [(2, 5), (4, 7), (8, 11), (51, 54)]);
        assert_eq!(slots(3, None, &sends), [(0, 3), (0, 3), (1, 4), (50, 53)]);
    }
}
