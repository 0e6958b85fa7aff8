//! How the gradients of a bucket are summed over its holders.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The way in which a group sums what each member has, so that all of them have the sum. Its text
/// form is what files and the command line say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Piece by piece along a ring (Patarasuk and Yuan 2009).
    #[default]
    Ring,
    /// Up a binary tree and down again (FireCaffe, Iandola et al. 2016).
    Tree,
    /// At the group's first member, which all send to and which sends the sum back.
    Server,
}

impl Reduction {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Ring, Self::Tree, Self::Server];

    /// What [`FromStr`] takes.
    pub const FORMS: &str = "ring, tree, server";
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Server => "server",
        })
    }
}

/// A word that names no way of summing gradients.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is no way to sum gradients; the ways are {}", Reduction::FORMS)]
pub struct UnknownReduction {
    /// What was read.
    pub found: String,
}

impl FromStr for Reduction {
    type Err = UnknownReduction;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|reduction| reduction.to_string() == text);
        known.ok_or_else(|| UnknownReduction { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Reduction;

    #[test]
    fn words_round_trip_and_others_are_refused() {
        for reduction in Reduction::ALL {
            assert_eq!(reduction.to_string().parse(), Ok(reduction));
        }
        assert_eq!(Reduction::ALL.map(|word| word.to_string()).join(", "), Reduction::FORMS);
        for word in ["", "Ring", "tree ", "ring,tree"] {
            word.parse::<Reduction>().unwrap_err();
        }
        expect_test::expect!["`star` is no way to sum gradients; the ways are ring, tree, server"]
            .assert_eq(&"star".parse::<Reduction>().unwrap_err().to_string());
    }
}
