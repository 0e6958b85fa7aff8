//! Rates of data.

use crate::quantity::{Kind, ParseQuantityError};
use crate::{Bytes, Nanos};
use std::fmt;
use std::str::FromStr;

/// Bytes a second, always above zero. Parses `10 Gbit/s` (network usage) and `1.2 GB/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(f64);

impl Bandwidth {
    /// From bytes a second.
    ///
    /// # Panics
    /// If the rate is not finite and above zero.
    pub fn from_bytes_per_second(rate: f64) -> Self {
        assert!(rate.is_finite() && rate > 0.0, "a bandwidth is above zero, not {rate}");
        Self(rate)
    }

    /// In bytes a second.
    pub fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// How long `bytes` occupy a link of this bandwidth.
    pub fn time_for(self, bytes: Bytes) -> Nanos {
        Nanos::from_secs_f64(bytes.0 as f64 / self.0)
    }
}

const KIND: Kind = Kind {
    wanted: "a bandwidth above zero",
    example: "`10 Gbit/s`",
    units: &[
        ("kbit/s", 125.0),
        ("Mbit/s", 125e3),
        ("Gbit/s", 125e6),
        ("B/s", 1.0),
        ("kB/s", 1e3),
        ("MB/s", 1e6),
        ("GB/s", 1e9),
        ("KiB/s", 1024.0),
        ("MiB/s", 1_048_576.0),
        ("GiB/s", 1_073_741_824.0),
    ],
};

impl FromStr for Bandwidth {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rate = KIND.parse(text)?;
        if rate > 0.0 { Ok(Self(rate)) } else { Err(KIND.refuse(text)) }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 * 8.0;
        let text = match bits {
            _ if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
            _ if bits >= 1e6 => format!("{:.1} Mbit/s", bits / 1e6),
            _ => format!("{:.1} kbit/s", bits / 1e3),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::Bandwidth;
    use crate::{Bytes, Nanos};

    #[test]
    fn bits_and_bytes_are_told_apart() {
        let bits: Bandwidth = "10 Gbit/s".parse().unwrap();
        let bytes: Bandwidth = "1.25 GB/s".parse().unwrap();
        assert_eq!(bits, bytes);
        assert_eq!(bits.to_string(), "10.00 Gbit/s");
        assert_eq!(bits.time_for(Bytes(1250)), Nanos(1000));
        assert!("0 Gbit/s".parse::<Bandwidth>().is_err());
    }
}
