//! What all transports share: a mailbox, and an outbox for each peer.

use crate::error::TransportError;
use crate::frame::FRAME_BYTES_MAX;
use crate::mailbox::Mailbox;
use crate::outbox::Outbox;
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::Rank;
use std::sync::Arc;
use std::thread;

/// One rank's end of all its connections.
pub(crate) struct Endpoint {
    rank: Rank,
    mailbox: Arc<Mailbox>,
    /// By the peer's rank; none at the own.
    outboxes: Vec<Option<Outbox>>,
}

impl Endpoint {
    pub(crate) fn new(rank: Rank, mailbox: Arc<Mailbox>, outboxes: Vec<Option<Outbox>>) -> Self {
        Self { rank, mailbox, outboxes }
    }

    fn check_rank(&self, rank: Rank) -> Result<(), TransportError> {
        let world_size = self.world_size();
        if rank.idx() < world_size {
            Ok(())
        } else {
            Err(TransportError::NoSuchRank { rank, world_size })
        }
    }

    fn each_outbox(&self) -> impl Iterator<Item = &Outbox> {
        self.outboxes.iter().flatten()
    }
}

impl Transport for Endpoint {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.outboxes.len()
    }

    fn send(&self, to: Rank, tag: Tag, payload: Vec<u8>) -> Result<(), TransportError> {
        self.check_rank(to)?;
        if payload.len() > FRAME_BYTES_MAX {
            return Err(TransportError::TooLarge { len: payload.len(), max: FRAME_BYTES_MAX });
        }
        self.mailbox.check(to)?;
        match &self.outboxes[to.idx()] {
            Some(outbox) => {
                outbox.send(tag, payload);
                // The link may have been busy for long. (A peer that is gone by now may have
                // received it.)
                self.mailbox.check_open()
            }
            None => {
                self.mailbox.push(to, tag, payload);
                Ok(())
            }
        }
    }

    fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError> {
        self.check_rank(from)?;
        self.mailbox.recv(from, tag)
    }

    fn shutdown(&self) {
        if self.mailbox.close("it was shut down") {
            self.each_outbox().for_each(Outbox::goodbye);
            self.each_outbox().for_each(Outbox::join);
        }
    }

    fn abort(&self, reason: &str) {
        self.mailbox.close(reason);
        self.each_outbox().for_each(|outbox| outbox.abort(reason));
    }
}

impl Drop for Endpoint {
    /// The peers must not wait for somebody who is gone. Nothing is waited for here.
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort("a thread of it panicked");
        } else if self.mailbox.close("it was dropped") {
            self.each_outbox().for_each(Outbox::goodbye);
        }
    }
}
