//! Colors that can be told apart on paper, in gray, and without seeing red and green apart: blues
//! for forward, oranges for backward, greens for weight gradients, from dark to light by chunk.

use cavalcade_schedule::Pass;

/// Red, green, blue.
#[derive(Clone, Copy)]
struct Rgb([f64; 3]);

/// From dark to light.
fn range(pass: Pass) -> [Rgb; 2] {
    let [dark, light] = match pass {
        Pass::Forward => [[38.0, 84.0, 150.0], [178.0, 208.0, 240.0]],
        Pass::Recompute => [[98.0, 110.0, 166.0], [205.0, 208.0, 236.0]],
        Pass::Adjoint => [[88.0, 60.0, 140.0], [214.0, 196.0, 238.0]],
        Pass::DoubleBackward => [[150.0, 52.0, 110.0], [240.0, 190.0, 218.0]],
        Pass::Backward | Pass::BackwardInput => [[196.0, 92.0, 18.0], [253.0, 214.0, 160.0]],
        Pass::BackwardWeight => [[30.0, 112.0, 92.0], [172.0, 220.0, 204.0]],
        Pass::Update | Pass::Apply => [[70.0, 78.0, 88.0], [176.0, 184.0, 192.0]],
    };
    [Rgb(dark), Rgb(light)]
}

/// Fill and text color of the `idx`-th of `n` chunks of a device.
pub(super) fn of(pass: Pass, idx: usize, n: usize) -> (String, &'static str) {
    let [dark, light] = range(pass);
    // A single chunk is neither the darkest nor the lightest.
    let share = if n < 2 { 0.25 } else { idx as f64 / (n - 1) as f64 };
    let mix = |i: usize| dark.0[i] + (light.0[i] - dark.0[i]) * share;
    let [r, g, b] = [mix(0), mix(1), mix(2)];
    let is_light = 0.299 * r + 0.587 * g + 0.114 * b > 150.0;
    (format!("#{:02x}{:02x}{:02x}", r as u8, g as u8, b as u8), if is_light { INK } else { "#fff" })
}

/// Text.
pub(super) const INK: &str = "#1d2733";
/// Secondary text.
pub(super) const FAINT: &str = "#66727f";
/// A device that waits.
pub(super) const IDLE: &str = "#eef1f4";
/// Lines of the axis.
pub(super) const RULE: &str = "#c9d0d8";
/// Transfers.
pub(super) const ARROW: &str = "#4b5866";
/// Collectives.
pub(super) const SUM: &str = "#7d5ba6";
