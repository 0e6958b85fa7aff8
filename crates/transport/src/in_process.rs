//! Ranks that are threads of one process: for tests, and for checking a plan against one device.

use crate::endpoint::Endpoint;
use crate::error::TransportError;
use crate::mailbox::Mailbox;
use crate::outbox::{Outbox, Sink};
use crate::tag::Tag;
use crate::throttle::Links;
use crate::transport::Transport;
use cavalcade_units::Rank;
use std::sync::Arc;

/// One rank of a group within this process.
pub struct InProcess(Endpoint);

impl InProcess {
    /// `n` ranks, all connected. Give each to a thread of its own.
    ///
    /// # Panics
    /// Never: without emulated links no threads are started.
    pub fn group(n: usize) -> Vec<Self> {
        Self::group_with(&vec![Links::unlimited(); n]).expect("without links no thread is started")
    }

    /// One rank for each entry of `links`, which are its links to the others.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the system refuses a thread for a link.
    pub fn group_with(links: &[Links]) -> Result<Vec<Self>, TransportError> {
        let ranks = || (0..links.len()).map(Rank::from_idx);
        let mailboxes: Vec<_> = ranks().map(|rank| Arc::new(Mailbox::new(rank))).collect();
        ranks()
            .zip(links)
            .map(|(rank, links)| {
                let outbox_to = |to: Rank| {
                    let mailbox = Arc::clone(&mailboxes[to.idx()]);
                    Outbox::start(to, Arc::new(ToMailbox { from: rank, mailbox }), links, false)
                };
                let outboxes = ranks()
                    .map(|to| (to != rank).then(|| outbox_to(to)).transpose())
                    .collect::<Result<_, _>>()?;
                Ok(Self(Endpoint::new(rank, Arc::clone(&mailboxes[rank.idx()]), outboxes)))
            })
            .collect()
    }
}

struct ToMailbox {
    from: Rank,
    mailbox: Arc<Mailbox>,
}

impl Sink for ToMailbox {
    fn deliver(&self, tag: Tag, payload: Vec<u8>) {
        self.mailbox.push(self.from, tag, payload);
    }

    fn goodbye(&self) {
        self.mailbox.lose(self.from, "it shut down");
    }

    fn abort(&self, reason: &str) {
        self.mailbox.lose(self.from, &format!("it aborted: {reason}"));
    }
}

impl Transport for InProcess {
    fn rank(&self) -> Rank {
        self.0.rank()
    }
    fn world_size(&self) -> usize {
        self.0.world_size()
    }
    fn send(&self, to: Rank, tag: Tag, payload: Vec<u8>) -> Result<(), TransportError> {
        self.0.send(to, tag, payload)
    }
    fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError> {
        self.0.recv(from, tag)
    }
    fn shutdown(&self) {
        self.0.shutdown();
    }
    fn abort(&self, reason: &str) {
        self.0.abort(reason);
    }
}
