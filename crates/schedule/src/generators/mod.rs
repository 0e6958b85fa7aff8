//! The schedules: each a small pure function from a [`Layout`] to a [`ComputeOrder`].

mod gpipe;
mod one_f_one_b;

use crate::order::{ComputeOrder, Layout};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A kind of schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forwards, then all backwards (GPipe, Huang et al. 2019).
    GPipe,
    /// One forward, one backward after a warm-up (PipeDream-flush; DAPPLE's early backward).
    OneFOneB,
}

impl Kind {
    /// Every kind, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::GPipe, Self::OneFOneB];

    /// The kind's word in files and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneFOneB => "1f1b",
        }
    }

    /// Most micro-batches that stage `stage_idx` of `n_stages` keeps a stash of at once.
    pub fn in_flight(self, stage_idx: u32, n_stages: u32, n_microbatches: u32) -> u32 {
        match self {
            Self::GPipe => n_microbatches,
            Self::OneFOneB => (n_stages - stage_idx).min(n_microbatches),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A word that names no kind of schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{found}` is not a kind of schedule; the kinds are {}",
    Kind::ALL.map(Kind::word).join(", ")
)]
pub struct UnknownKind {
    /// What was read.
    pub found: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = || UnknownKind { found: text.to_owned() };
        Self::ALL.into_iter().find(|kind| kind.word() == text).ok_or_else(found)
    }
}

/// The order of all passes for `layout` under `kind`.
pub fn generate(kind: Kind, layout: &Layout) -> ComputeOrder {
    match kind {
        Kind::GPipe => gpipe::order(layout),
        Kind::OneFOneB => one_f_one_b::order(layout),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, generate};
    use crate::{Layout, Options, Pipeline, Stage, build, check};
    use cavalcade_units::DeviceId;
    use std::fmt::Write;

    fn straight(n_stages: u32, microbatches: u32) -> Layout {
        let stage = |i| Stage { device: DeviceId(i), layers: i..i + 1 };
        let stages = (0..n_stages).map(stage).collect();
        let pipelines = vec![Pipeline { stages, microbatches }];
        Layout { n_layers: n_stages, n_devices: n_stages, ties: Vec::new(), pipelines }
    }

    /// The passes of every stage, without transfers and the end of the step.
    fn passes(kind: Kind, n_stages: u32, microbatches: u32) -> String {
        let order = generate(kind, &straight(n_stages, microbatches));
        let mut text = String::new();
        for program in &order.programs {
            for &(pass, _, microbatch) in program {
                let letter = if pass == crate::Pass::Forward { 'F' } else { 'B' };
                write!(text, "{letter}{microbatch} ").unwrap();
            }
            text = text.trim_end().to_owned() + "\n";
        }
        text
    }

    #[test]
    fn goldens() {
        for kind in Kind::ALL {
            let mut text = String::new();
            for (n_stages, microbatches) in [(1, 3), (2, 4), (4, 8), (4, 2), (8, 16)] {
                writeln!(text, "{kind}, {n_stages} stages, {microbatches} micro-batches").unwrap();
                text += &passes(kind, n_stages, microbatches);
                text.push('\n');
            }
            let path = format!("{}/goldens/{kind}.txt", env!("CARGO_MANIFEST_DIR"));
            expect_test::expect_file![path].assert_eq(&text);
        }
    }

    #[test]
    fn in_flight_is_what_the_order_does() {
        for kind in Kind::ALL {
            for (n_stages, microbatches) in [(1, 3), (2, 4), (4, 8), (4, 2), (8, 16)] {
                let order = generate(kind, &straight(n_stages, microbatches));
                for (stage_idx, program) in order.programs.iter().enumerate() {
                    let (mut now, mut most) = (0i64, 0);
                    for (pass, ..) in program {
                        now += if *pass == crate::Pass::Forward { 1 } else { -1 };
                        most = most.max(now);
                    }
                    let said = kind.in_flight(stage_idx as u32, n_stages, microbatches);
                    assert_eq!(most, i64::from(said), "{kind} stage {stage_idx} of {n_stages}");
                }
            }
        }
    }

    #[test]
    fn whole_schedules_pass_the_check() {
        for kind in Kind::ALL {
            let order = generate(kind, &straight(4, 8));
            check(build(order, Options { clip_gradients: true }), None).unwrap();
        }
    }
}
