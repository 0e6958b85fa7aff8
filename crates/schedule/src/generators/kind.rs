//! The kinds of schedule: their words, and how many micro-batches each keeps in flight.

use super::{
    WarmUp, chimera, folded, hetpipe, interleaved, janus, one_f_one_b, skip, solve, zero_bubble,
};
use crate::order::most_in_flight;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A kind of schedule. Its text form is what files and the command line say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All forwards, then all backwards (GPipe, Huang et al. 2019).
    GPipe,
    /// One forward, one backward after a warm-up (PipeDream-flush; DAPPLE's early backward).
    OneFOneB,
    /// 1F1B with another warm-up (DAPPLE, Fan et al. 2021): `1f1b:a8`, `1f1b:b`, `1f1b:b8`.
    Dapple {
        /// Which rule.
        policy: WarmUp,
        /// Most stashes that a stage has room for.
        most: u32,
    },
    /// 1F1B with more forwards ahead of a slow link (GeoPipe, 2025): `geo:2+3`.
    Geo {
        /// The first stage behind the link.
        cut: u32,
        /// How many forwards more the stages before it begin with.
        extra: u32,
    },
    /// 1F1B with several chunks a device (Megatron-LM, Narayanan et al. 2021).
    Interleaved,
    /// Two pipelines in opposite directions (Chimera, Li and Hoefler 2021).
    Chimera,
    /// 1F1B whose weight gradients fill the end of the step (ZB-H1, Qi et al. 2024).
    ZbH1,
    /// The same with twice the micro-batches in flight and next to no idle time (ZB-H2).
    ZbH2,
    /// Two chunks a device, down the devices and up again (ZB-V, Qi et al. 2024).
    ZbV,
    /// The same way in half the memory of 1F1B (V-Half, Qi et al. 2024).
    VHalf,
    /// The same way in a third of the memory of 1F1B (V-Min).
    VMin,
    /// The same way, forwards of one chunk beside backwards of the other (DeepSeek-AI 2025).
    DualPipeV,
    /// Mini-batches without a flush (HetPipe, Park et al. 2020): `hetpipe`, `hetpipe:4`.
    HetPipe {
        /// Mini-batches in a pipeline at once; none if as many as it has stages.
        wave: Option<u32>,
    },
    /// Four phases, for objectives with gradients by the input (JanusPipe, Wang et al. 2026).
    Janus,
    /// The shortest order found for the layout's ticks (CrossPipe, Chen et al. 2025): `solve`, or
    /// `solve:6`.
    Solve {
        /// Most stashes that a stage has room for; `u32::MAX` for as many as there are stages,
        /// which is what 1F1B's first stage holds.
        most: u32,
    },
    /// Every micro-batch its own way, without some of the stages (SkipPipe, Blagoev et al. 2025):
    /// `skip:25`, or `skip:25:straight`.
    Skip {
        /// Which share of the stages each micro-batch leaves out.
        percent: u32,
        /// Whether the others may come in another order; a straight one keeps it.
        swaps: bool,
    },
}

/// How the stages of a pipeline lie on its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every stage on a device of its own.
    Apart,
    /// Round after round over the devices.
    Round,
    /// Down the devices and up again.
    Folded,
    /// Pipelines in pairs, the second one over the devices of the first in the opposite order.
    Mirrored,
    /// All pipelines over the same devices with the same layers.
    Alike,
}

/// A pipeline as its schedule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its stages.
    pub n_stages: u32,
    /// The devices that they are on.
    pub n_devices: u32,
    /// The micro-batches that pass through it in a step.
    pub n_microbatches: u32,
}

impl Kind {
    /// Every kind that needs no numbers, in the order in which they are listed to people.
    pub const ALL: [Self; 13] = [
        Self::GPipe,
        Self::OneFOneB,
        Self::Interleaved,
        Self::Chimera,
        Self::ZbH1,
        Self::ZbH2,
        Self::ZbV,
        Self::VHalf,
        Self::VMin,
        Self::DualPipeV,
        Self::HetPipe { wave: None },
        Self::Janus,
        Self::Solve { most: u32::MAX },
    ];

    /// What [`FromStr`] takes: capitals stand for numbers.
    pub const FORMS: &str = "gpipe, 1f1b, 1f1b:aN, 1f1b:b, 1f1b:bN, geo:CUT+N, interleaved, \
                             chimera, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe-v, hetpipe, \
                             hetpipe:N, janus, solve, solve:N, skip:PERCENT, \
                             skip:PERCENT:straight";

    /// Whether it splits backwards into their two parts, or some of them.
    pub fn splits_backward(self) -> bool {
        matches!(self, Self::ZbH1 | Self::ZbH2 | Self::Solve { .. } | Self::Skip { .. })
            || self.form() == Form::Folded
    }

    /// Whether it may leave some backwards whole though it splits others.
    pub fn leaves_some_whole(self) -> bool {
        matches!(self, Self::Solve { .. } | Self::Skip { .. })
    }

    /// How it wants the stages to lie.
    pub fn form(self) -> Form {
        match self {
            Self::GPipe
            | Self::OneFOneB
            | Self::Dapple { .. }
            | Self::Geo { .. }
            | Self::ZbH1
            | Self::ZbH2
            | Self::HetPipe { .. }
            | Self::Janus
            | Self::Solve { .. } => Form::Apart,
            Self::Interleaved => Form::Round,
            Self::ZbV | Self::VHalf | Self::VMin | Self::DualPipeV => Form::Folded,
            Self::Chimera => Form::Mirrored,
            Self::Skip { .. } => Form::Alike,
        }
    }

    /// Whether it looks at the layout's ticks.
    pub fn weighs_ticks(self) -> bool {
        matches!(self, Self::Solve { .. } | Self::Skip { .. })
    }

    /// Chunks that each device holds of one pipeline, of which `wanted` are wanted where there is
    /// a choice.
    pub fn chunks_per_device(self, wanted: u64) -> u64 {
        match self.form() {
            Form::Round => wanted,
            Form::Folded => 2,
            Form::Apart | Form::Mirrored | Form::Alike => 1,
        }
    }

    /// Whether a device may serve several stages.
    pub fn shares_devices(self) -> bool {
        self.form() != Form::Apart
    }

    /// Whether a step ends with one optimizer step over all of its micro-batches.
    pub fn has_flush(self) -> bool {
        !matches!(self, Self::HetPipe { .. })
    }

    /// Whether it runs the passes of an objective that holds gradients by the input.
    pub fn is_second_order(self) -> bool {
        self == Self::Janus
    }

    /// Most micro-batches that stage `stage_idx` of a pipeline keeps at once, from their forward to
    /// the end of their backward. An upper limit for kinds whose order follows from ticks.
    ///
    /// # Panics
    /// If the pipeline has no such stage.
    pub fn in_flight(self, stage_idx: u32, shape: Shape) -> u32 {
        let Shape { n_stages, n_devices, n_microbatches } = shape;
        assert!(stage_idx < n_stages, "the pipeline has this stage");
        match self {
            Self::GPipe => n_microbatches,
            Self::OneFOneB | Self::Dapple { .. } | Self::Geo { .. } => {
                one_f_one_b::warm_up(self, stage_idx, n_stages, n_microbatches)
            }
            Self::Interleaved => {
                interleaved::in_flight(stage_idx, n_stages, n_devices, n_microbatches)
            }
            Self::Chimera => chimera::in_flight(stage_idx, n_stages, n_microbatches),
            Self::ZbH1 | Self::ZbH2 => {
                let passes = zero_bubble::passes(self, stage_idx, n_stages, n_microbatches);
                most_in_flight(passes.into_iter().map(|(pass, _)| pass))
            }
            Self::ZbV | Self::VHalf | Self::VMin | Self::DualPipeV => {
                folded::in_flight(self, stage_idx, n_stages, n_microbatches)
            }
            Self::HetPipe { .. } => hetpipe::in_flight(self, stage_idx, n_stages, n_microbatches),
            Self::Janus => janus::in_flight(stage_idx, n_stages, n_microbatches),
            Self::Solve { most } => solve::in_flight(most, n_stages, n_microbatches),
            Self::Skip { .. } => skip::in_flight(n_stages),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::GPipe => f.pad("gpipe"),
            Self::OneFOneB => f.pad("1f1b"),
            Self::Dapple { policy: WarmUp::A, most } => f.pad(&format!("1f1b:a{most}")),
            Self::Dapple { policy: WarmUp::B, most: u32::MAX } => f.pad("1f1b:b"),
            Self::Dapple { policy: WarmUp::B, most } => f.pad(&format!("1f1b:b{most}")),
            Self::Geo { cut, extra } => f.pad(&format!("geo:{cut}+{extra}")),
            Self::Interleaved => f.pad("interleaved"),
            Self::Chimera => f.pad("chimera"),
            Self::ZbH1 => f.pad("zb-h1"),
            Self::ZbH2 => f.pad("zb-h2"),
            Self::ZbV => f.pad("zb-v"),
            Self::VHalf => f.pad("v-half"),
            Self::VMin => f.pad("v-min"),
            Self::DualPipeV => f.pad("dualpipe-v"),
            Self::HetPipe { wave: None } => f.pad("hetpipe"),
            Self::HetPipe { wave: Some(wave) } => f.pad(&format!("hetpipe:{wave}")),
            Self::Janus => f.pad("janus"),
            Self::Solve { most: u32::MAX } => f.pad("solve"),
            Self::Solve { most } => f.pad(&format!("solve:{most}")),
            Self::Skip { percent, swaps: true } => f.pad(&format!("skip:{percent}")),
            Self::Skip { percent, swaps: false } => f.pad(&format!("skip:{percent}:straight")),
        }
    }
}

/// A word that names no kind of schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{found}` is not a kind of schedule; the kinds are {}", Kind::FORMS)]
pub struct UnknownKind {
    /// What was read.
    pub found: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| UnknownKind { found: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Kind> {
    let number = |digits: &str| digits.parse::<u32>().ok().filter(|&number| number > 0);
    let Some((word, rest)) = text.split_once(':') else {
        return Kind::ALL.into_iter().find(|kind| kind.to_string() == text);
    };
    match (word, rest.split_at_checked(1)?) {
        ("1f1b", ("a", most)) => Some(Kind::Dapple { policy: WarmUp::A, most: number(most)? }),
        ("1f1b", ("b", "")) => Some(Kind::Dapple { policy: WarmUp::B, most: u32::MAX }),
        ("1f1b", ("b", most)) => Some(Kind::Dapple { policy: WarmUp::B, most: number(most)? }),
        ("geo", _) => {
            let (cut, extra) = rest.split_once('+')?;
            Some(Kind::Geo { cut: number(cut)?, extra: number(extra)? })
        }
        ("hetpipe", _) => Some(Kind::HetPipe { wave: Some(number(rest)?) }),
        ("solve", _) => Some(Kind::Solve { most: number(rest)? }),
        ("skip", _) => {
            let straight = rest.strip_suffix(":straight");
            let percent = straight.unwrap_or(rest).parse().ok().filter(|&percent| percent < 100)?;
            Some(Kind::Skip { percent, swaps: straight.is_none() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn words_round_trip() {
        let numbered =
            ["1f1b:a3", "1f1b:b", "1f1b:b9", "geo:2+1", "hetpipe:4", "solve:4", "skip:25"];
        let numbered = numbered.map(str::to_owned);
        for word in Kind::ALL.map(|kind| kind.to_string()).into_iter().chain(numbered) {
            assert_eq!(word.parse::<Kind>().map(|kind| kind.to_string()), Ok(word));
        }
    }

    #[test]
    fn other_words_are_refused_with_the_kinds_that_there_are() {
        for word in [
            "", "1F1B", "1f1b:", "1f1b:a", "1f1b:a0", "1f1b:é", "geo:2", "geo:+1", "x:y", "solve:0",
        ] {
            word.parse::<Kind>().unwrap_err();
        }
        expect_test::expect!["`zigzag` is not a kind of schedule; the kinds are gpipe, 1f1b, 1f1b:aN, 1f1b:b, 1f1b:bN, geo:CUT+N, interleaved, chimera, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe-v, hetpipe, hetpipe:N, janus, solve, solve:N, skip:PERCENT, skip:PERCENT:straight"]
            .assert_eq(&"zigzag".parse::<Kind>().unwrap_err().to_string());
    }
}
