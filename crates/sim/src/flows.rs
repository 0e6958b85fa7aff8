//! Messages under way that share resources.
//!
//! A flow's rate changes only when one that it shares with starts, ends or stops. Until then its
//! end is known, so each change computes the rates anew (of those that can notice: the flows that
//! hang together by resources) and puts the new ends into a heap. An end that became wrong is told
//! by its flow's generation, and dropped when it comes up.
//!
//! ```text
//! rate   |####|          |####|
//!        |####|##########|####|        a second flow has come and gone: two changes, three ends
//!        '---- bytes -----------'
//! ```
//!
//! Several changes at one point of time are settled together. Ends are whole nanoseconds, rounded;
//! bytes are fractions in between.

use crate::max_min::{Demand, MaxMin};
use cavalcade_units::{Bandwidth, Bytes, DeviceId, ExchangeId, Nanos, TransferId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moved {
    /// A value, from device to device.
    Transfer(TransferId),
    /// What a push brings to its server.
    Push(ExchangeId),
    /// What a server answers.
    Pull(ExchangeId),
}

/// A message on its way over shared resources.
struct Flow {
    what: Moved,
    ends: (DeviceId, DeviceId),
    legs: Vec<usize>,
    limit: f64,
    /// Bytes that were left at `since`.
    left: f64,
    rate: f64,
    since: Nanos,
    is_stopped: bool,
    /// Counts changes of rate, over all flows that had this place.
    generation: u32,
    /// The last settling that saw it.
    seen: u32,
}

/// What is to be sent.
pub(crate) struct Message {
    pub(crate) what: Moved,
    pub(crate) ends: (DeviceId, DeviceId),
    pub(crate) legs: Vec<usize>,
    pub(crate) limit: Option<Bandwidth>,
    pub(crate) bytes: Bytes,
}

/// All flows, and when the next of them ends.
pub(crate) struct Flows {
    shares: MaxMin,
    flows: Vec<Flow>,
    free: Vec<usize>,
    /// By resource, the flows that pass it.
    on: Vec<Vec<usize>>,
    ends: BinaryHeap<Reverse<(Nanos, usize, u32)>>,
    /// Resources on which something changed since rates were settled.
    changed: Vec<usize>,
    n_settled: u32,
    rates: Vec<f64>,
}

impl Flows {
    /// No flows over resources of these capacities.
    pub(crate) fn new(capacity: impl Iterator<Item = Bandwidth>) -> Self {
        let shares = MaxMin::new(capacity.map(Bandwidth::bytes_per_second).collect());
        Self {
            on: vec![Vec::new(); shares.n_resources()],
            shares,
            flows: Vec::new(),
            free: Vec::new(),
            ends: BinaryHeap::new(),
            changed: Vec::new(),
            n_settled: 0,
            rates: Vec::new(),
        }
    }

    /// Begins to send at `now`; a stopped message stands still.
    pub(crate) fn start(&mut self, message: Message, is_stopped: bool, now: Nanos) {
        let Message { what, ends, legs, limit, bytes } = message;
        let limit = limit.map_or(f64::INFINITY, Bandwidth::bytes_per_second);
        let (left, rate, since) = (bytes.0 as f64, 0.0, now);
        self.changed.extend(&legs);
        let flow =
            Flow { what, ends, legs, limit, left, rate, since, is_stopped, generation: 0, seen: 0 };
        let place = match self.free.pop() {
            Some(place) => {
                let generation = self.flows[place].generation;
                self.flows[place] = Flow { generation, ..flow };
                place
            }
            None => {
                self.flows.push(flow);
                self.flows.len() - 1
            }
        };
        self.flows[place].legs.iter().for_each(|&leg| self.on[leg].push(place));
    }

    /// Lets those flows stand still that `is_stopped` says it of, by their two ends, and all
    /// others go on.
    pub(crate) fn stop(&mut self, is_stopped: impl Fn((DeviceId, DeviceId)) -> bool) {
        for flow in &mut self.flows {
            let stands = is_stopped(flow.ends);
            if flow.is_stopped != stands {
                flow.is_stopped = stands;
                self.changed.extend(&flow.legs);
            }
        }
    }

    /// Whether rates have to be settled before time goes on.
    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// When the next flow ends, if nothing changes before.
    pub(crate) fn next_end(&mut self) -> Option<Nanos> {
        while let Some(&Reverse((end, place, generation))) = self.ends.peek() {
            if self.flows[place].generation == generation {
                return Some(end);
            }
            self.ends.pop();
        }
        None
    }

    /// Takes out the flow that [`Self::next_end`] spoke of.
    pub(crate) fn end_next(&mut self) -> Option<Moved> {
        self.next_end()?;
        let Reverse((_, place, _)) = self.ends.pop()?;
        let flow = &mut self.flows[place];
        flow.generation = flow.generation.wrapping_add(1);
        let what = flow.what;
        for leg in std::mem::take(&mut flow.legs) {
            self.on[leg].retain(|&other| other != place);
            self.changed.push(leg);
        }
        self.free.push(place);
        Some(what)
    }

    /// Settles the rates of all flows that a change since the last time can have touched.
    pub(crate) fn settle(&mut self, now: Nanos) {
        self.n_settled = self.n_settled.wrapping_add(1);
        let mut touched = Vec::new();
        // Breadth first: a flow hands the change on to all that it passes.
        while let Some(leg) = self.changed.pop() {
            for idx in 0..self.on[leg].len() {
                let flow = &mut self.flows[self.on[leg][idx]];
                if flow.seen != self.n_settled {
                    flow.seen = self.n_settled;
                    touched.push(self.on[leg][idx]);
                    self.changed.extend(flow.legs.iter().filter(|&&other| other != leg));
                }
            }
        }
        touched.sort_unstable();
        touched.retain(|&place| {
            let flow = &mut self.flows[place];
            if flow.is_stopped {
                flow.go_on(0.0, now);
            }
            !flow.is_stopped
        });
        let demands: Vec<_> = touched.iter().map(|&place| self.flows[place].demand()).collect();
        let mut rates = std::mem::take(&mut self.rates);
        self.shares.share(&demands, &mut rates);
        for (&place, &rate) in touched.iter().zip(&rates) {
            let flow = &mut self.flows[place];
            if flow.rate != rate {
                flow.go_on(rate, now);
                let end = now + Nanos::from_secs_f64(flow.left / rate);
                self.ends.push(Reverse((end, place, flow.generation)));
            }
        }
        self.rates = rates;
    }
}

impl Flow {
    fn demand(&self) -> Demand<'_> {
        Demand { legs: &self.legs, limit: self.limit }
    }

    /// Goes on at another rate from `now` on.
    fn go_on(&mut self, rate: f64, now: Nanos) {
        let sent = self.rate * (now - self.since).as_secs_f64();
        self.left = (self.left - sent).max(0.0);
        self.since = now;
        self.rate = rate;
        self.generation = self.generation.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Flows, Message, Moved};
    use cavalcade_units::{Bandwidth, Bytes, DeviceId, Nanos, TransferId};
    use proptest::prelude::*;

    /// Sends `messages` (beginning, bytes, legs, limit) over three resources and gives what each
    /// was sent, by adding up all rates over all times, and the largest rate that there was.
    fn sent(messages: &[(u64, u64, Vec<usize>, Option<f64>)], rates: &[f64]) -> Vec<(f64, f64)> {
        let rate = |rate: f64| Bandwidth::from_bytes_per_second(rate * 1e9);
        let mut flows = Flows::new(rates.iter().copied().map(rate));
        let mut sent = vec![(0.0, 0.0); messages.len()];
        let mut starts: Vec<usize> = (0..messages.len()).collect();
        starts.sort_by_key(|&idx| std::cmp::Reverse(messages[idx].0));
        let mut now = Nanos::ZERO;
        let mut n_ended = 0;
        while n_ended < messages.len() {
            flows.settle(now);
            let start = starts.last().map(|&idx| Nanos(messages[idx].0));
            let next = flows.next_end().into_iter().chain(start).min().expect("some are left");
            for flow in flows.flows.iter().filter(|flow| !flow.legs.is_empty()) {
                let Moved::Transfer(id) = flow.what else { continue };
                let (bytes, fastest) = &mut sent[id.idx()];
                *bytes += flow.rate * (next - now).as_secs_f64();
                *fastest = flow.rate.max(*fastest);
            }
            now = next;
            while flows.next_end() == Some(now) {
                flows.end_next().expect("it was seen");
                n_ended += 1;
            }
            while let Some(idx) = starts.pop_if(|&mut idx| Nanos(messages[idx].0) == now) {
                let (_, bytes, legs, limit) = &messages[idx];
                let message = Message {
                    what: Moved::Transfer(TransferId(idx as u32)),
                    ends: (DeviceId(0), DeviceId(1)),
                    legs: legs.clone(),
                    limit: limit.map(rate),
                    bytes: Bytes(*bytes),
                };
                flows.start(message, false, now);
            }
        }
        sent
    }

    proptest! {
        /// What is sent is what was to be sent, but for the rounding of the end.
        #[test]
        fn no_byte_is_lost_or_made(
            messages in proptest::collection::vec(
                (
                    0..3000_u64,
                    1..5000_u64,
                    proptest::sample::subsequence(vec![0, 1, 2], 1..=3),
                    proptest::option::of(0.1..4.0),
                ),
                1..12,
            ),
            rates in proptest::collection::vec(0.2..5.0, 3),
        ) {
            for ((_, bytes, ..), (sent, fastest)) in messages.iter().zip(sent(&messages, &rates)) {
                // An end is off by at most half a nanosecond of its own rate; and each other end
                // that is hands that on.
                let off = (sent - *bytes as f64).abs();
                prop_assert!(off <= fastest * 1e-9 * messages.len() as f64, "{sent} of {bytes}");
            }
        }
    }
}
