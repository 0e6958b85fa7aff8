//! Virtual parameter servers: what has been pushed when, and which pulls wait for it.
//!
//! ```text
//! push    start -- bytes/rate --> end -- latency --> arrival
//! pull    start -- latency --> asked ..... waits for pushes ..... -- bytes/rate -- latency --> end
//! ```
//!
//! A server takes no time of its own: it adds up what came while the devices compute.

use crate::flows::Moved;
use cavalcade_schedule::{BucketId, CheckedSchedule};
use cavalcade_units::{ChunkId, DeviceId, ExchangeId, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// All servers of one world.
pub(crate) struct Servers {
    /// By bucket and holder: the waves that have been pushed, with their arrival, ascending.
    arrived: HashMap<(BucketId, ChunkId), Vec<(u32, Nanos)>>,
    /// Pulls that were asked for at a time and wait for pushes.
    waiting: Vec<(ExchangeId, Nanos)>,
    /// When each pair's own link is free again.
    free: HashMap<(DeviceId, DeviceId), Nanos>,
    /// Messages that begin later: until then their links are others'.
    later: BinaryHeap<Reverse<(Nanos, Moved)>>,
}

impl Servers {
    /// None for a schedule without any.
    pub(crate) fn of(schedule: &CheckedSchedule) -> Option<Self> {
        let is_there = !schedule.schedule().exchanges.is_empty();
        is_there.then(|| Self {
            arrived: HashMap::new(),
            waiting: Vec::new(),
            free: HashMap::new(),
            later: BinaryHeap::new(),
        })
    }

    /// Takes the link of a pair for `busy` from `start` on, or later if it is not free by then;
    /// returns from when on.
    pub(crate) fn take_link(
        &mut self,
        ends: (DeviceId, DeviceId),
        start: Nanos,
        busy: Nanos,
    ) -> Nanos {
        let free = self.free.entry(ends).or_default();
        let start = start.max(*free);
        *free = start + busy;
        start
    }

    /// Keeps a message until it begins.
    pub(crate) fn put_off(&mut self, what: Moved, start: Nanos) {
        self.later.push(Reverse((start, what)));
    }

    /// Takes the next message that begins at or before `next`, the time of the next event, if any.
    pub(crate) fn begun_by(&mut self, next: Option<Nanos>) -> Option<(Nanos, Moved)> {
        let &Reverse((at, _)) = self.later.peek()?;
        if next.is_some_and(|next| next < at) {
            return None;
        }
        self.later.pop().map(|Reverse(due)| due)
    }

    /// Notes a push; returns the pulls that can be answered now, and from when on.
    pub(crate) fn pushed(
        &mut self,
        schedule: &CheckedSchedule,
        id: ExchangeId,
        arrival: Nanos,
    ) -> Vec<(ExchangeId, Nanos)> {
        let entry = &schedule.schedule().exchanges[id.idx()];
        self.arrived.entry((entry.bucket, entry.chunk)).or_default().push((entry.wave, arrival));
        let mut answers = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (pull, asked) in waiting {
            match self.answered(schedule, pull, asked) {
                Some(at) => answers.push((pull, at)),
                None => self.waiting.push((pull, asked)),
            }
        }
        answers
    }

    /// Notes a pull that the server hears at `asked`; returns from when on it is answered, if the
    /// pushes that it needs have been made.
    pub(crate) fn asked(
        &mut self,
        schedule: &CheckedSchedule,
        id: ExchangeId,
        asked: Nanos,
    ) -> Option<Nanos> {
        let answered = self.answered(schedule, id, asked);
        if answered.is_none() {
            self.waiting.push((id, asked));
        }
        answered
    }

    fn answered(&self, schedule: &CheckedSchedule, id: ExchangeId, asked: Nanos) -> Option<Nanos> {
        let entry = &schedule.schedule().exchanges[id.idx()];
        let least = entry.least();
        if least == 0 {
            return Some(asked);
        }
        let holders = &schedule.schedule().buckets[entry.bucket.idx()].holders;
        let arrivals = holders.iter().map(|&chunk| {
            let waves = self.arrived.get(&(entry.bucket, chunk))?;
            waves.iter().find(|(wave, _)| wave + 1 >= least).map(|&(_, at)| at)
        });
        let latest = arrivals.collect::<Option<Vec<Nanos>>>()?.into_iter().max();
        Some(asked.max(latest.unwrap_or_default()))
    }
}
