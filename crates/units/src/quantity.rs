//! Splitting `12.5 MiB` into a number and a unit: shared by every quantity of this crate.

use thiserror::Error;

/// A text that is not a quantity of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is not {wanted}; write a number and a unit, such as {example}")]
pub struct ParseQuantityError {
    /// The text that was read.
    pub found: String,
    /// What it should have been, with its article.
    pub wanted: &'static str,
    /// A legal text.
    pub example: &'static str,
}

/// What a quantity calls itself in messages, and the units it accepts with their factors.
pub(crate) struct Kind {
    pub(crate) wanted: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [(&'static str, f64)],
}

impl Kind {
    /// The error for `text`.
    pub(crate) fn refuse(&self, text: &str) -> ParseQuantityError {
        let Self { wanted, example, .. } = *self;
        ParseQuantityError { found: text.to_owned(), wanted, example }
    }

    /// Parses `text` into a finite, non-negative count of the kind's base unit.
    pub(crate) fn parse(&self, text: &str) -> Result<f64, ParseQuantityError> {
        let fail = || self.refuse(text);
        let text_trimmed = text.trim();
        let split = text_trimmed
            .find(|c: char| c.is_ascii_alphabetic() || c == 'µ')
            .filter(|&at| !text_trimmed[at..].starts_with(['e', 'E']))
            .ok_or_else(fail)?;
        let (number, unit) = text_trimmed.split_at(split);
        let number: f64 = number.trim().parse().map_err(|_| fail())?;
        let (_, factor) = self.units.iter().find(|(name, _)| *name == unit).ok_or_else(fail)?;
        let value = number * factor;
        if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(fail()) }
    }
}
