//! Where messages wait until somebody asks for them.

use crate::error::TransportError;
use crate::tag::Tag;
use cavalcade_units::Rank;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};

/// The messages received by one rank, by sender and tag, and which senders are lost.
#[derive(Debug)]
pub(crate) struct Mailbox {
    owner: Rank,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queues: HashMap<(Rank, Tag), VecDeque<Vec<u8>>>,
    lost: HashMap<Rank, String>,
    closed: Option<String>,
}

impl Mailbox {
    pub(crate) fn new(owner: Rank) -> Self {
        Self { owner, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a mailbox")
    }

    /// Puts a message in. What comes for a closed mailbox or from a lost sender is dropped.
    pub(crate) fn push(&self, from: Rank, tag: Tag, payload: Vec<u8>) {
        let mut state = self.lock();
        if state.closed.is_none() && !state.lost.contains_key(&from) {
            state.queues.entry((from, tag)).or_default().push_back(payload);
            self.changed.notify_all();
        }
    }

    /// Waits for the next message of that sender with that tag.
    pub(crate) fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError> {
        let mut state = self.lock();
        loop {
            self.closed_error(&state)?;
            if let Some(payload) = state.take(from, tag) {
                return Ok(payload);
            }
            check_peer(&state, from)?;
            state = self.changed.wait(state).expect("nothing panics while it holds a mailbox");
        }
    }

    /// An error if nothing can be exchanged with `peer` any more.
    pub(crate) fn check(&self, peer: Rank) -> Result<(), TransportError> {
        let state = self.lock();
        self.closed_error(&state)?;
        check_peer(&state, peer)
    }

    /// An error if this mailbox was closed.
    pub(crate) fn check_open(&self) -> Result<(), TransportError> {
        self.closed_error(&self.lock())
    }

    fn closed_error(&self, state: &State) -> Result<(), TransportError> {
        match &state.closed {
            Some(reason) => {
                Err(TransportError::Closed { rank: self.owner, reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Fails every wait on `peer`, now and later. The first reason stays.
    pub(crate) fn lose(&self, peer: Rank, reason: &str) {
        self.lock().lost.entry(peer).or_insert_with(|| reason.to_owned());
        self.changed.notify_all();
    }

    /// Fails every wait, now and later. The first reason stays; says whether this was the first.
    pub(crate) fn close(&self, reason: &str) -> bool {
        let mut state = self.lock();
        let is_first = state.closed.is_none();
        if is_first {
            state.closed = Some(reason.to_owned());
            state.queues.clear();
            self.changed.notify_all();
        }
        is_first
    }
}

impl State {
    /// The oldest message of a queue; an emptied queue goes, for tags don't come again.
    fn take(&mut self, from: Rank, tag: Tag) -> Option<Vec<u8>> {
        let queue = self.queues.get_mut(&(from, tag))?;
        let payload = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&(from, tag));
        }
        payload
    }
}

fn check_peer(state: &State, peer: Rank) -> Result<(), TransportError> {
    match state.lost.get(&peer) {
        Some(reason) => Err(TransportError::PeerLost { rank: peer, reason: reason.clone() }),
        None => Ok(()),
    }
}
