//! What goes wrong, by seed: compute times that vary, devices that are slow or die, links that
//! stall.
//!
//! A draw depends on the seed, the step and the action alone, never on what was drawn before it,
//! so a seed gives one trace whatever the order of events.

use cavalcade_schedule::ActionId;
use cavalcade_units::{DeviceId, Nanos};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use std::fmt;
use thiserror::Error;

/// A point of time that never comes.
const NEVER: Nanos = Nanos(u64::MAX);

/// A wish for trouble; [`Self::check`] makes it one that a world can have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Of the jitter.
    pub seed: u64,
    /// Standard deviation of every compute time over its mean, which stays what it costs:
    /// a log-normal factor of mean 1. Zero for none.
    pub jitter: f64,
    /// Devices whose compute times are longer by a factor, such as `(2, 1.5)`.
    pub stragglers: Vec<(DeviceId, f64)>,
    /// What breaks, in any order.
    pub faults: Vec<Fault>,
}

/// Something breaks. Times are the world's, from the beginning of its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// From `at` on, nothing that the device does ends any more, and no byte leaves it. What left
    /// before arrives.
    DeviceDies {
        /// Which.
        device: DeviceId,
        /// When.
        at: Nanos,
    },
    /// From `at` on, no byte moves from one device to another; what the link has already taken
    /// arrives. Collectives do not notice: they are no messages of pairs.
    LinkStalls {
        /// The sending device.
        from: DeviceId,
        /// The receiving device.
        to: DeviceId,
        /// When.
        at: Nanos,
        /// How long. None: for ever.
        lasts: Option<Nanos>,
    },
}

impl Fault {
    /// When it happens.
    pub fn at(self) -> Nanos {
        match self {
            Self::DeviceDies { at, .. } | Self::LinkStalls { at, .. } => at,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeviceDies { device, at } => write!(f, "device {device} died at {at}"),
            Self::LinkStalls { from, to, at, .. } => {
                write!(f, "the link from device {from} to device {to} stalled at {at}")
            }
        }
    }
}

/// A disturbance that makes no sense.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DisturbanceError {
    /// The jitter is no spread.
    #[error("a jitter of {found}; write a number from 0 to 10, such as 0.1 for a tenth")]
    Jitter {
        /// What was found.
        found: f64,
    },
    /// A straggler's factor is none.
    #[error("device {device} is slower by {found}; write a factor above 0, such as 1.5")]
    Factor {
        /// Whose.
        device: DeviceId,
        /// What was found.
        found: f64,
    },
    /// A device is not there.
    #[error("there is no device {found} to disturb; the devices are 0..{n_devices}")]
    NoDevice {
        /// What was found.
        found: DeviceId,
        /// How many there are.
        n_devices: usize,
    },
    /// A link of a device to itself.
    #[error("device {device} has no link to itself that could stall; name two devices")]
    OneEnd {
        /// Which.
        device: DeviceId,
    },
}

/// A checked disturbance.
#[derive(Clone, Debug)]
pub struct Trouble {
    draws: ChaCha8Rng,
    jitter: Option<LogNormal<f64>>,
    factors: Vec<f64>,
    dies_at: Vec<Nanos>,
    faults: Vec<Fault>,
}

impl Disturbance {
    /// What it means on `n_devices` devices.
    ///
    /// # Errors
    /// A device that is not there; a jitter or a factor out of its range.
    pub fn check(&self, n_devices: usize) -> Result<Trouble, DisturbanceError> {
        let known = |device: DeviceId| match device.idx() < n_devices {
            true => Ok(()),
            false => Err(DisturbanceError::NoDevice { found: device, n_devices }),
        };
        if !(0.0..=10.0).contains(&self.jitter) {
            return Err(DisturbanceError::Jitter { found: self.jitter });
        }
        let mut factors = vec![1.0; n_devices];
        for &(device, found) in &self.stragglers {
            known(device)?;
            if !(found > 0.0 && found.is_finite()) {
                return Err(DisturbanceError::Factor { device, found });
            }
            factors[device.idx()] *= found;
        }
        let mut dies_at = vec![NEVER; n_devices];
        for &fault in &self.faults {
            match fault {
                Fault::DeviceDies { device, at } => {
                    known(device)?;
                    dies_at[device.idx()] = dies_at[device.idx()].min(at);
                }
                Fault::LinkStalls { from, to, .. } => {
                    known(from)?;
                    known(to)?;
                    if from == to {
                        return Err(DisturbanceError::OneEnd { device: from });
                    }
                }
            }
        }
        let mut faults = self.faults.clone();
        faults.sort_by_key(|fault| fault.at());
        let spread = |jitter| LogNormal::from_mean_cv(1.0, jitter).expect("it is within its range");
        let jitter = (self.jitter > 0.0).then(|| spread(self.jitter));
        let draws = ChaCha8Rng::seed_from_u64(self.seed);
        Ok(Trouble { draws, jitter, factors, dies_at, faults })
    }
}

impl Trouble {
    /// Of how many devices it is.
    pub fn n_devices(&self) -> usize {
        self.factors.len()
    }

    /// What `cost` becomes on `device`.
    pub(crate) fn slowed(
        &self,
        step: u32,
        device: DeviceId,
        action: ActionId,
        cost: Nanos,
    ) -> Nanos {
        let mut factor = self.factors[device.idx()];
        if let Some(jitter) = &self.jitter {
            let mut draws = self.draws.clone();
            draws.set_stream(u64::from(step) << 32 | u64::from(action.0));
            factor *= jitter.sample(&mut draws);
        }
        if factor == 1.0 { cost } else { Nanos((cost.0 as f64 * factor).round() as u64) }
    }

    /// Whether `device` is dead after `at`; what it ends at its last moment has ended.
    pub(crate) fn is_dead_after(&self, device: DeviceId, at: Nanos) -> bool {
        at > self.dies_at[device.idx()]
    }

    /// When `device` dies, if it ever does.
    pub(crate) fn death(&self, device: DeviceId) -> Option<Fault> {
        let at = self.dies_at[device.idx()];
        (at < NEVER).then_some(Fault::DeviceDies { device, at })
    }

    /// The faults that stop the bytes between two devices, in order of time, and until when.
    fn stops(
        &self,
        (sender, receiver): (DeviceId, DeviceId),
    ) -> impl Iterator<Item = (Fault, Nanos)> {
        self.faults.iter().filter_map(move |&fault| match fault {
            Fault::DeviceDies { device, .. } => (device == sender).then_some((fault, NEVER)),
            Fault::LinkStalls { from, to, at, lasts } => {
                let until = lasts.map_or(NEVER, |lasts| Nanos(at.0.saturating_add(lasts.0)));
                ((from, to) == (sender, receiver)).then_some((fault, until))
            }
        })
    }

    /// Whether bytes between two devices stand still at `now`.
    pub(crate) fn is_stopped(&self, ends: (DeviceId, DeviceId), now: Nanos) -> bool {
        self.stops(ends).any(|(fault, until)| fault.at() <= now && now < until)
    }

    /// The fault after which no byte between two devices ever moves again.
    pub(crate) fn last_stop(&self, ends: (DeviceId, DeviceId)) -> Option<Fault> {
        self.stops(ends).find(|&(_, until)| until == NEVER).map(|(fault, _)| fault)
    }

    /// When a link that is busy for `busy` from `start` on is done; none for never.
    pub(crate) fn sent(
        &self,
        ends: (DeviceId, DeviceId),
        start: Nanos,
        busy: Nanos,
    ) -> Option<Nanos> {
        let (mut now, mut left) = (start, busy);
        for (fault, until) in self.stops(ends) {
            let is_in_time = now + left <= fault.at() && now < fault.at();
            if until <= now || is_in_time {
                continue;
            }
            if until == NEVER {
                return None;
            }
            left = left.saturating_sub(fault.at().saturating_sub(now));
            now = until;
        }
        Some(now + left)
    }

    /// When some link stops or goes on, in order.
    pub(crate) fn changes(&self) -> Vec<Nanos> {
        let times = self.faults.iter().flat_map(|fault| match *fault {
            Fault::DeviceDies { at, .. } | Fault::LinkStalls { at, lasts: None, .. } => [at, NEVER],
            Fault::LinkStalls { at, lasts: Some(lasts), .. } => {
                [at, Nanos(at.0.saturating_add(lasts.0))]
            }
        });
        let mut times: Vec<Nanos> = times.filter(|&at| at < NEVER).collect();
        times.sort_unstable();
        times
    }
}
