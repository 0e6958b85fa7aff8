//! The kinds of schedule that a plan may ask for.

use crate::PlanError;
use std::fmt;
use std::str::FromStr;

/// In which order a stage works through its micro-batches. The orders themselves are generated
/// by `schedule`, which knows no plans; the words are the same there and here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleKind {
    /// All forwards, then all backwards (GPipe, Huang et al. 2019).
    GPipe,
    /// One forward, one backward after a warm-up (PipeDream-flush; DAPPLE's early backward).
    OneFOneB,
}

impl ScheduleKind {
    /// Every kind, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::GPipe, Self::OneFOneB];

    /// The kind's word in files and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneFOneB => "1f1b",
        }
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for ScheduleKind {
    type Err = PlanError;
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let kind = Self::ALL.into_iter().find(|kind| kind.word() == text);
        kind.ok_or_else(|| PlanError::UnknownSchedule { found: text.to_owned() })
    }
}
