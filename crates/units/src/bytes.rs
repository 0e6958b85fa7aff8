//! Amounts of memory.

use crate::quantity::{Kind, ParseQuantityError};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

/// A number of bytes. Prints with binary units and parses both binary and decimal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Bytes of `n` elements of `f32`.
    pub const fn of_f32(n: usize) -> Self {
        Self(n as u64 * 4)
    }

    /// `self - other`, or zero where that would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

const KIND: Kind = Kind {
    wanted: "an amount of memory",
    example: "`64 MiB`",
    units: &[
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
    ],
};

impl FromStr for Bytes {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        KIND.parse(text).map(|value| Self(value.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        let text = match self.0 {
            0..1024 => format!("{} B", self.0),
            1024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
            1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
            _ => format!("{:.2} GiB", value / 1_073_741_824.0),
        };
        f.pad(&text)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0 * times)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn text_is_parsed_and_printed() {
        for (text, bytes, printed) in [
            ("64 MiB", 67_108_864, "64.0 MiB"),
            ("1.5GiB", 1_610_612_736, "1.50 GiB"),
            ("2 GB", 2_000_000_000, "1.86 GiB"),
            ("17 B", 17, "17 B"),
        ] {
            let parsed: Bytes = text.parse().unwrap();
            assert_eq!((parsed.0, parsed.to_string().as_str()), (bytes, printed));
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_remedy() {
        for text in ["", "64", "-1 MiB", "MiB", "1 mib", "1e999 B", "NaN GiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            assert!(error.contains("`64 MiB`"), "{text}: {error}");
        }
    }
}
