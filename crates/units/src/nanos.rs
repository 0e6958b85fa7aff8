//! Points and spans of time, in whole nanoseconds so that simulated time is exact and ordered.

use crate::quantity::{Kind, ParseQuantityError};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A span of time, or a point of time measured from an origin that the context names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// From seconds; negative and non-finite values become zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64)
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// In milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `self - other`, or zero where that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This span on a device `speed` times as fast as the one it was measured on.
    pub fn at_speed(self, speed: f64) -> Self {
        Self((self.0 as f64 / speed).round() as u64)
    }
}

const KIND: Kind = Kind {
    wanted: "a span of time",
    example: "`100 us`",
    units: &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)],
};

impl FromStr for Nanos {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        KIND.parse(text).map(|value| Self(value.round() as u64))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        let text = match self.0 {
            0..1_000 => format!("{} ns", self.0),
            1_000..1_000_000 => format!("{:.1} us", value / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
            _ => format!("{:.2} s", value / 1e9),
        };
        f.pad(&text)
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn text_is_parsed_and_printed() {
        for (text, nanos, printed) in [
            ("100 us", 100_000, "100.0 us"),
            ("1.5ms", 1_500_000, "1.5 ms"),
            ("2 s", 2_000_000_000, "2.00 s"),
            ("7 ns", 7, "7 ns"),
        ] {
            let parsed: Nanos = text.parse().unwrap();
            assert_eq!((parsed.0, parsed.to_string().as_str()), (nanos, printed));
        }
        assert!("5".parse::<Nanos>().is_err());
    }

    #[test]
    fn a_slower_device_takes_longer() {
        assert_eq!(Nanos(100).at_speed(0.25), Nanos(400));
    }
}
