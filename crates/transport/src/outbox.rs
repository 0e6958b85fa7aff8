//! What is on its way to one peer.
//!
//! A thread of its own holds each message until it is due and hands it to the [`Sink`], so that a
//! sender never waits for a receiver. Without an emulated link and with a sink that cannot block
//! there is no thread.

use crate::clock::Clock;
use crate::error::TransportError;
use crate::tag::Tag;
use crate::throttle::{Link, Links};
use cavalcade_units::{Bytes, Nanos, Rank};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// The far end of an outbox. A failure is the sink's to report, to the sender's mailbox.
pub(crate) trait Sink: Send + Sync {
    /// Gives a message to the peer.
    fn deliver(&self, tag: Tag, payload: Vec<u8>);

    /// Tells the peer that nothing more will come.
    fn goodbye(&self);

    /// Tells the peer why nothing more will come, without waiting for a delivery in progress.
    fn abort(&self, reason: &str);
}

/// Messages to one peer, behind its emulated link.
pub(crate) struct Outbox {
    sink: Arc<dyn Sink>,
    link: Option<(Mutex<Link>, Arc<dyn Clock>)>,
    queue: Option<Queue>,
}

struct Queue {
    items: Sender<Item>,
    is_aborted: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Item {
    Message { due_at: Nanos, tag: Tag, payload: Vec<u8> },
    Goodbye,
}

impl Outbox {
    /// To `peer` through `sink`; `blocks` says whether a delivery may have to wait.
    pub(crate) fn start(
        peer: Rank,
        sink: Arc<dyn Sink>,
        links: &Links,
        blocks: bool,
    ) -> Result<Self, TransportError> {
        let link = links.to(peer).map(|(link, clock)| (Mutex::new(link), clock));
        let queue = if blocks || link.is_some() {
            let clock = link.as_ref().map(|(_, clock)| Arc::clone(clock));
            Some(Queue::start(peer, Arc::clone(&sink), clock)?)
        } else {
            None
        };
        Ok(Self { sink, link, queue })
    }

    /// Returns once the link is free again.
    pub(crate) fn send(&self, tag: Tag, payload: Vec<u8>) {
        match (&self.queue, &self.link) {
            (None, _) => self.sink.deliver(tag, payload),
            (Some(queue), None) => queue.put(Item::Message { due_at: Nanos::ZERO, tag, payload }),
            (Some(queue), Some((link, clock))) => {
                let mut link = link.lock().expect("nothing panics while it holds a link");
                let now = clock.now();
                let slot = link.admit(now, Bytes(payload.len() as u64));
                // Under the lock, for the order in the queue is the order on the link.
                queue.put(Item::Message { due_at: slot.due_at, tag, payload });
                drop(link);
                if slot.free_at > now {
                    clock.sleep_until(slot.free_at);
                }
            }
        }
    }

    /// Says goodbye behind the last message, without waiting for it.
    pub(crate) fn goodbye(&self) {
        match &self.queue {
            Some(queue) => queue.put(Item::Goodbye),
            None => self.sink.goodbye(),
        }
    }

    /// Drops what was not delivered yet.
    pub(crate) fn abort(&self, reason: &str) {
        if let Some(queue) = &self.queue {
            queue.is_aborted.store(true, Ordering::Release);
        }
        self.sink.abort(reason);
        // The thread may be waiting for an item.
        self.goodbye();
    }

    /// Waits until the goodbye was delivered.
    pub(crate) fn join(&self) {
        let Some(queue) = &self.queue else { return };
        let thread = queue.thread.lock().expect("nothing panics while it holds a handle").take();
        if let Some(thread) = thread {
            thread.join().expect("a sink does not panic");
        }
    }
}

impl Queue {
    fn start(
        peer: Rank,
        sink: Arc<dyn Sink>,
        clock: Option<Arc<dyn Clock>>,
    ) -> Result<Self, TransportError> {
        let (items, received) = unbounded();
        let is_aborted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_aborted);
        let thread = thread::Builder::new()
            .name(format!("to rank {peer}"))
            .spawn(move || drain(&received, &*sink, clock.as_deref(), &flag))
            .map_err(TransportError::io("starting a thread"))?;
        Ok(Self { items, is_aborted, thread: Mutex::new(Some(thread)) })
    }

    fn put(&self, item: Item) {
        // It fails only behind a goodbye, where there is nobody to receive it.
        let _ = self.items.send(item);
    }
}

fn drain(
    items: &Receiver<Item>,
    sink: &dyn Sink,
    clock: Option<&dyn Clock>,
    is_aborted: &AtomicBool,
) {
    for item in items {
        let is_aborted = || is_aborted.load(Ordering::Acquire);
        match item {
            _ if is_aborted() => return,
            Item::Message { due_at, tag, payload } => {
                if let Some(clock) = clock {
                    clock.sleep_until(due_at);
                }
                if is_aborted() {
                    return;
                }
                sink.deliver(tag, payload);
            }
            Item::Goodbye => return sink.goodbye(),
        }
    }
}
