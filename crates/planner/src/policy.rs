//! The names of the ways to group a cluster's devices into virtual workers.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How devices are grouped (HetPipe, Park et al. 2020, section on resource allocation). For its
/// cluster of four nodes with four devices V, R, G or Q each:
///
/// ```text
///   np     VVVV  RRRR  GGGG  QQQQ     activations stay in a node, virtual workers are unlike
///   ed     VRGQ  VRGQ  VRGQ  VRGQ     virtual workers are alike, activations cross nodes
///   hd     VVQQ  VVQQ  RRGG  RRGG     between the two
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `np`: each node is a virtual worker.
    NodePartition,
    /// `ed`: each virtual worker has one device of every node.
    EqualDistribution,
    /// `hd`: each virtual worker has half of a strong node and half of a weak one.
    HybridDistribution,
    /// `auto`: the best that is found by [`search`](crate::search()). Not one of HetPipe's.
    Auto,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::NodePartition, Self::EqualDistribution, Self::HybridDistribution, Self::Auto];

    fn word(self) -> &'static str {
        match self {
            Self::NodePartition => "np",
            Self::EqualDistribution => "ed",
            Self::HybridDistribution => "hd",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A word that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is not a policy; the policies are {}", Policy::ALL.map(Policy::word).join(", "))]
pub struct UnknownPolicy {
    /// What was read.
    pub found: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|policy| policy.word() == text);
        named.ok_or_else(|| UnknownPolicy { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::Policy;

    #[test]
    fn words_round_trip_and_others_are_refused() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let error = "NP".parse::<Policy>().unwrap_err().to_string();
        assert_eq!(error, "`NP` is not a policy; the policies are np, ed, hd, auto");
    }
}
