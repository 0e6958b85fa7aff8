//! The schedules: each a small pure function from a [`Layout`] to a [`ComputeOrder`].

mod chimera;
mod dualpipe_v;
mod even;
mod fits;
mod folded;
mod gpipe;
mod hetpipe;
mod interleaved;
mod janus;
mod kind;
mod one_f_one_b;
mod skip;
mod solve;
mod v_memory;
mod walk;
mod zb_v;
mod zero_bubble;

pub use fits::{LayoutError, fits};
pub use kind::{Form, Kind, Shape, UnknownKind};
pub use one_f_one_b::WarmUp;

use crate::order::{ComputeOrder, Layout};

/// The order of all passes for `layout` under `kind`.
///
/// # Errors
/// If the layout does not have the form that the kind needs; see [`fits()`].
pub fn generate(kind: Kind, layout: &Layout) -> Result<ComputeOrder, LayoutError> {
    fits(kind, &layout.pipelines)?;
    Ok(match kind {
        Kind::GPipe => gpipe::order(layout),
        Kind::OneFOneB | Kind::Dapple { .. } | Kind::Geo { .. } => one_f_one_b::order(kind, layout),
        Kind::Interleaved => interleaved::order(layout),
        Kind::Chimera => chimera::order(layout),
        Kind::ZbH1 | Kind::ZbH2 => zero_bubble::order(kind, layout),
        Kind::ZbV | Kind::VHalf | Kind::VMin | Kind::DualPipeV => folded::order(kind, layout),
        Kind::HetPipe { .. } => hetpipe::order(kind, layout),
        Kind::Janus => janus::order(layout),
        Kind::Solve { most } => solve::order(most, layout),
        Kind::Skip { percent, swaps } => skip::order(percent, swaps, layout),
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, WarmUp, generate};
    use crate::order::most_in_flight;
    use crate::{ComputeOrder, Layout, Options, build, check};
    use cavalcade_units::DeviceId;
    use std::fmt::Write;

    const KINDS: [Kind; 22] = [
        Kind::GPipe,
        Kind::OneFOneB,
        Kind::Dapple { policy: WarmUp::A, most: 3 },
        Kind::Dapple { policy: WarmUp::B, most: u32::MAX },
        Kind::Dapple { policy: WarmUp::B, most: 5 },
        Kind::Geo { cut: 2, extra: 3 },
        Kind::Interleaved,
        Kind::Chimera,
        Kind::ZbH1,
        Kind::ZbH2,
        Kind::ZbV,
        Kind::VHalf,
        Kind::VMin,
        Kind::DualPipeV,
        Kind::HetPipe { wave: None },
        Kind::HetPipe { wave: Some(1) },
        Kind::HetPipe { wave: Some(6) },
        Kind::Janus,
        Kind::Solve { most: u32::MAX },
        Kind::Solve { most: 3 },
        Kind::Skip { percent: 25, swaps: true },
        Kind::Skip { percent: 50, swaps: false },
    ];

    /// The passes of every device, without transfers and the end of the step; chunks are named
    /// where a device has several.
    fn passes(order: &ComputeOrder) -> String {
        let is_one_each = order.chunks.len() == order.programs.len();
        let mut text = String::new();
        for program in &order.programs {
            for &(pass, chunk, microbatch) in program {
                let letter = pass.letter();
                let chunk = if is_one_each { String::new() } else { chunk.to_string() };
                write!(text, "{chunk}{letter}{microbatch} ").unwrap();
            }
            text = text.trim_end().to_owned() + "\n";
        }
        text
    }

    #[test]
    fn goldens() {
        for kind in KINDS {
            let mut text = String::new();
            for (n_stages, microbatches) in [(1, 3), (2, 4), (4, 8), (4, 2), (4, 6), (8, 16)] {
                let layout = Layout::even(kind, n_stages, 2, microbatches);
                let Ok(order) = generate(kind, &layout) else { continue };
                writeln!(text, "{kind}, {n_stages} devices, {microbatches} micro-batches").unwrap();
                text += &passes(&order);
                text.push('\n');
            }
            let name = kind.to_string().replace(':', "-");
            let path = format!("{}/goldens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
            expect_test::expect_file![path].assert_eq(&text);
        }
    }

    /// Hops twice as long as a pass, but for those between the two devices in the middle, which are
    /// four times as long.
    #[test]
    fn goldens_with_delays() {
        for word in ["solve:3", "solve", "skip:25"] {
            let kind: Kind = word.parse().unwrap();
            let mut text = String::new();
            for (n_devices, microbatches) in [(2, 4), (4, 8), (8, 8)] {
                let mut layout = Layout::even(kind, n_devices, 1, microbatches);
                let devices = || (0..n_devices).map(DeviceId);
                let pairs = devices().flat_map(|from| devices().map(move |to| (from, to)));
                let is_far =
                    |a: DeviceId, b: DeviceId| (a.0 < n_devices / 2) != (b.0 < n_devices / 2);
                let delay = |(a, b)| ((a, b), if is_far(a, b) { 4 } else { 2 });
                layout.ticks.delays = pairs.map(delay).collect();
                let order = generate(kind, &layout).unwrap();
                let end = order.makespan().unwrap();
                writeln!(text, "{kind}, {n_devices} devices, {microbatches} micro-batches: {end}")
                    .unwrap();
                text += &passes(&order);
                text.push('\n');
            }
            let name = word.replace(':', "-");
            let path = format!("{}/goldens/{name}-far.txt", env!("CARGO_MANIFEST_DIR"));
            expect_test::expect_file![path].assert_eq(&text);
        }
    }

    #[test]
    fn in_flight_is_what_the_order_does() {
        for kind in KINDS {
            for (n_devices, n_chunks, microbatches) in sizes(kind) {
                let layout = Layout::even(kind, n_devices, n_chunks, microbatches);
                let Ok(order) = generate(kind, &layout) else { continue };
                for (pipeline, path) in layout.pipelines.iter().zip(&order.paths) {
                    for (stage_idx, &own) in path.iter().enumerate() {
                        let of_chunk = order.programs.iter().flatten().filter(|op| op.1 == own);
                        let most = most_in_flight(of_chunk.map(|op| op.0));
                        let said = kind.in_flight(stage_idx as u32, pipeline.shape());
                        let place = format!("{kind} {n_devices} {n_chunks} {microbatches}");
                        // By ticks, an order may stay below.
                        let is_limit = matches!(kind, Kind::Solve { .. } | Kind::Skip { .. });
                        let is_right = most == said || is_limit && most < said;
                        assert!(is_right, "{place}: stage {stage_idx}: {most}, not {said}");
                    }
                }
            }
        }
    }

    /// Devices, chunks a device, micro-batches; fewer sizes for kinds that search.
    fn sizes(kind: Kind) -> impl Iterator<Item = (u32, u32, u32)> {
        let searches = matches!(kind, Kind::Solve { .. } | Kind::Skip { .. });
        let (v_max, rounds) = if searches { (1, 1) } else { (4, 3) };
        let sizes = (1..=8).flat_map(move |p| (1..=v_max).map(move |v| (p, v)));
        sizes.flat_map(move |(p, v)| (1..=rounds * p + 1).map(move |m| (p, v, m)))
    }

    #[test]
    fn whole_schedules_pass_the_check() {
        let mut n_sound = 0;
        for kind in KINDS {
            for (n_devices, n_chunks, microbatches) in sizes(kind) {
                let layout = Layout::even(kind, n_devices, n_chunks, microbatches);
                let is_legal = kind != Kind::Chimera || (n_devices % 2 == 0 && microbatches >= 2);
                let order = generate(kind, &layout);
                assert_eq!(order.is_ok(), is_legal, "{kind} {n_devices} {microbatches}");
                let Ok(order) = order else { continue };
                let checked = check(
                    build(order, &Options { clip_gradients: true, ..Options::default() }),
                    None,
                );
                if let Err(e) = checked {
                    panic!("{kind} {n_devices} {n_chunks} {microbatches}: {e}")
                }
                n_sound += 1;
            }
        }
        assert!(n_sound > 3000, "{n_sound}");
    }
}
