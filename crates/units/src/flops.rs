//! Rates of arithmetic.

use crate::Nanos;
use crate::quantity::{Kind, ParseQuantityError};
use std::fmt;
use std::str::FromStr;

/// Floating-point operations a second, always above zero. Parses `312 TFLOP/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct FlopRate(f64);

impl FlopRate {
    /// From operations a second.
    ///
    /// # Panics
    /// If the rate is not finite and above zero.
    pub fn from_flops_per_second(rate: f64) -> Self {
        assert!(rate.is_finite() && rate > 0.0, "a rate is above zero, not {rate}");
        Self(rate)
    }

    /// In operations a second.
    pub fn flops_per_second(self) -> f64 {
        self.0
    }

    /// How long `flops` operations take.
    pub fn time_for(self, flops: u64) -> Nanos {
        Nanos::from_secs_f64(flops as f64 / self.0)
    }
}

const KIND: Kind = Kind {
    wanted: "a rate of arithmetic above zero",
    example: "`312 TFLOP/s`",
    units: &[
        ("FLOP/s", 1.0),
        ("MFLOP/s", 1e6),
        ("GFLOP/s", 1e9),
        ("TFLOP/s", 1e12),
        ("PFLOP/s", 1e15),
    ],
};

impl FromStr for FlopRate {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rate = KIND.parse(text)?;
        if rate > 0.0 { Ok(Self(rate)) } else { Err(KIND.refuse(text)) }
    }
}

impl fmt::Display for FlopRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            rate if rate >= 1e15 => format!("{:.2} PFLOP/s", rate / 1e15),
            rate if rate >= 1e12 => format!("{:.1} TFLOP/s", rate / 1e12),
            rate if rate >= 1e9 => format!("{:.1} GFLOP/s", rate / 1e9),
            rate => format!("{:.1} MFLOP/s", rate / 1e6),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::FlopRate;
    use crate::Nanos;

    #[test]
    fn rates_have_units_and_are_above_zero() {
        let rate: FlopRate = "312 TFLOP/s".parse().unwrap();
        assert_eq!(rate.time_for(312_000_000), Nanos(1000));
        assert_eq!(rate.to_string(), "312.0 TFLOP/s");
        for text in ["0 TFLOP/s", "312", "312 TFLOPS", "-1 GFLOP/s"] {
            let error = text.parse::<FlopRate>().unwrap_err().to_string();
            assert!(error.ends_with("such as `312 TFLOP/s`"), "{error}");
        }
    }
}
