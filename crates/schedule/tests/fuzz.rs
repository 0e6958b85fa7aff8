//! Fuzzing of the text parser and the check: whatever is done to the text of a sound schedule, it
//! is refused, or it is a schedule that prints, reads back and finishes.
//!
//! A few thousand texts a run of the tests; `PROPTEST_CASES=100000 cargo test -p cavalcade-schedule
//! --test fuzz` for more.

mod finishing;

use cavalcade_schedule::{Options, Schedule, build, check, generate};
use cavalcade_testkit::layouts::{cases, wave_cases};
use cavalcade_units::ChunkId;
use finishing::runs_to_the_end;
use proptest::prelude::*;

/// One change of a text; the numbers are indices, modulo what there is.
#[derive(Clone, Debug)]
enum Damage {
    DropLine(usize),
    DoubleLine(usize),
    SwapLines(usize, usize),
    DropWord(usize),
    DoubleWord(usize),
    SwapWords(usize),
    Borrow { from: usize, to: usize },
    Number { word: usize, number: u32 },
    Byte { at: usize, byte: u8 },
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0usize..100_000;
    prop_oneof![
        1 => at().prop_map(Damage::DropLine),
        1 => at().prop_map(Damage::DoubleLine),
        1 => (at(), at()).prop_map(|(a, b)| Damage::SwapLines(a, b)),
        3 => at().prop_map(Damage::DropWord),
        3 => at().prop_map(Damage::DoubleWord),
        5 => at().prop_map(Damage::SwapWords),
        5 => (at(), at()).prop_map(|(from, to)| Damage::Borrow { from, to }),
        5 => (at(), prop_oneof![8 => 0u32..12, 1 => any::<u32>()])
            .prop_map(|(word, number)| Damage::Number { word, number }),
        1 => (at(), 32u8..127).prop_map(|(at, byte)| Damage::Byte { at, byte }),
    ]
}

impl Damage {
    fn apply(&self, lines: &mut Vec<Vec<String>>) {
        let words: Vec<(usize, usize)> = lines
            .iter()
            .enumerate()
            .flat_map(|(line, words)| (0..words.len()).map(move |word| (line, word)))
            .collect();
        if words.is_empty() {
            return;
        }
        let n_lines = lines.len();
        let word = |at: usize| words[at % words.len()];
        match *self {
            Self::DropLine(at) => drop(lines.remove(at % n_lines)),
            Self::DoubleLine(at) => lines.insert(at % n_lines, lines[at % n_lines].clone()),
            Self::SwapLines(a, b) => lines.swap(a % n_lines, b % n_lines),
            Self::DropWord(at) => drop(lines[word(at).0].remove(word(at).1)),
            Self::DoubleWord(at) => {
                let (line, at) = word(at);
                let copy = lines[line][at].clone();
                lines[line].insert(at, copy);
            }
            Self::SwapWords(at) => {
                let (line, at) = word(at);
                let next = (at + 1) % lines[line].len();
                lines[line].swap(at, next);
            }
            Self::Borrow { from, to } => {
                let ((from_line, from), (to_line, to)) = (word(from), word(to));
                lines[to_line][to] = lines[from_line][from].clone();
            }
            Self::Number { word: at, number } => {
                let (line, at) = word(at);
                lines[line][at] = renumbered(&lines[line][at], number);
            }
            Self::Byte { at, byte } => {
                let (line, word) = word(at);
                let mut bytes = lines[line][word].clone().into_bytes();
                let place = at % bytes.len().max(1);
                if let Some(old) = bytes.get_mut(place) {
                    *old = byte;
                }
                lines[line][word] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
}

/// `word` with its last number, if it has one, replaced.
fn renumbered(word: &str, number: u32) -> String {
    let is_digit = |c: char| c.is_ascii_digit();
    let Some(end) = word.rfind(is_digit) else { return word.to_owned() };
    let start = word[..end].rfind(|c| !is_digit(c)).map_or(0, |at| at + 1);
    format!("{}{number}{}", &word[..start], &word[end + 1..])
}

proptest! {
    #[test]
    fn damaged_schedules_are_refused_or_finish(
        (kind, layout) in cases(2),
        recompute: bool,
        clip_gradients: bool,
        mutants in prop::collection::vec(prop::collection::vec(damage(), 1..4), 12),
        seed: u64,
    ) {
        let order = generate(kind, &layout).expect("it fits");
        let recompute = if recompute { vec![ChunkId(0)] } else { Vec::new() };
        let options = Options { recompute, clip_gradients, ..Options::default() };
        damaged(&build(order, &options), mutants, seed)?;
    }

    #[test]
    fn so_are_damaged_schedules_with_servers(
        (kind, layout, waves) in wave_cases(2),
        mutants in prop::collection::vec(prop::collection::vec(damage(), 1..4), 12),
        seed: u64,
    ) {
        let order = generate(kind, &layout).expect("it fits");
        let options = Options { waves: Some(waves), ..Options::default() };
        damaged(&build(order, &options), mutants, seed)?;
    }
}

fn damaged(
    whole: &Schedule,
    mutants: Vec<Vec<Damage>>,
    seed: u64,
) -> Result<(), proptest::test_runner::TestCaseError> {
    let text = whole.to_string();
    for damages in mutants {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let mut lines: Vec<Vec<String>> = text.lines().map(words).collect();
        damages.iter().for_each(|damage| damage.apply(&mut lines));
        let damaged = lines.iter().map(|words| words.join(" ") + "\n").collect::<String>();
        let Ok(schedule) = damaged.parse::<Schedule>() else { continue };
        prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule.clone()));
        let Ok(checked) = check(schedule, None) else { continue };
        prop_assert!(runs_to_the_end(&checked, seed), "{damaged}");
    }
    Ok(())
}
