//! A schedule as a drawing: a row a device, time from left to right.
//!
//! ```text
//! 1f1b                                        idle   stash
//! device 0  [0][1]......[ 0  ][2][ 1  ]       27 %     2      boxes: passes, by micro-batch
//!              \   \   /                                      arrows: transfers
//! device 1     [0][ 0  ][1][ 1  ]             27 %     1
//!           0    5    10 ms
//! legend
//! ```
//!
//! Everything is placed by numbers in this file; fonts are the reader's, so nothing depends on the
//! width of a text but the space that is kept for it.

use super::colors::{self, ARROW, FAINT, IDLE, INK, RULE, SUM};
use super::figure::{Figure, Row};
use super::{Drawn, passes, percent, short, unit};
use crate::schedule_study::{ScheduleStudy, StudyError};
use crate::simulation::Simulation;
use cavalcade_schedule::{Op, Pass};
use cavalcade_units::{ChunkId, DeviceId, Nanos};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// More passes cannot be told apart.
const PASSES_MAX: u64 = 20_000;
const LEFT: f64 = 84.0;
/// From the end of the rows to that of the last column, if its entries are short.
const BESIDE: f64 = 104.0;
/// The margin after it.
const RIGHT: f64 = 12.0;
const TOP: f64 = 84.0;
const ROW: f64 = 28.0;
/// The height of a collective's bar.
const FOOT: f64 = 6.0;
const PITCH: f64 = 44.0;

struct Picture<'a> {
    figure: &'a Figure<'a>,
    /// Where time begins: room for the names.
    left: f64,
    /// From the end of the rows to that of the last column.
    beside: f64,
    /// Pixels a tick.
    scale: f64,
    /// By chunk: its place among the chunks of its device, and how many there are.
    places: HashMap<ChunkId, (usize, usize)>,
    body: String,
}

/// The passes that take time: an update may take none.
fn boxes(figure: &Figure<'_>) -> impl Iterator<Item = Drawn> {
    passes(figure.schedule, figure.ticks).filter(|drawn| drawn.end > drawn.start)
}

/// A member's part in a collective that takes time.
struct Bar {
    device: DeviceId,
    start: Nanos,
    end: Nanos,
}

fn collectives<'a>(figure: &'a Figure<'_>) -> impl Iterator<Item = Bar> + 'a {
    let (schedule, ticks) = (figure.schedule, figure.ticks);
    let bars = ticks.iter().filter_map(move |(action, record)| {
        let Op::Collective(id) = schedule.op(action) else { return None };
        let begun = schedule.members(id).iter().filter_map(|&member| ticks.get(member));
        let start = begun.map(|record| record.start).max()?;
        Some(Bar { device: schedule.device_of(action), start, end: record.end })
    });
    bars.filter(|bar| bar.end > bar.start)
}

/// Draws the schedule.
///
/// # Errors
/// If it has too many passes for a drawing.
pub fn schedule_svg(study: &ScheduleStudy) -> Result<String, StudyError> {
    drawing(&Figure::of_study(study))
}

/// Draws the step that was simulated: the devices that have work.
///
/// # Errors
/// If it has too many passes for a drawing.
pub fn simulation_svg(simulation: &Simulation) -> Result<String, StudyError> {
    drawing(&Figure::of_simulation(simulation))
}

fn drawing(figure: &Figure<'_>) -> Result<String, StudyError> {
    let n_passes = boxes(figure).count() as u64;
    if n_passes > PASSES_MAX {
        let what = "passes in a drawing";
        return Err(StudyError::TooLarge { what, found: n_passes, most: PASSES_MAX });
    }
    let mut picture = Picture::new(figure);
    picture.head();
    picture.rows();
    picture.collectives();
    picture.transfers();
    boxes(figure).for_each(|drawn| picture.pass(&drawn));
    picture.axis();
    let width = picture.legend();
    Ok(picture.framed(width))
}

impl<'a> Picture<'a> {
    fn new(figure: &'a Figure<'a>) -> Self {
        let span = figure.ticks.makespan().0.max(1) as f64;
        let shortest = boxes(figure).map(|drawn| (drawn.end - drawn.start).0).min();
        let shortest = shortest.unwrap_or(1) as f64;
        // The shortest pass has room for its number, if that makes no giant of the whole.
        let width = (span / shortest * 20.0).clamp(560.0, 2400.0);
        let schedule = figure.schedule.schedule();
        let mut places = HashMap::new();
        for device_idx in 0..schedule.programs.len() {
            let chunks: Vec<ChunkId> = schedule.chunks_on(DeviceId::from_idx(device_idx)).collect();
            places.extend(chunks.iter().enumerate().map(|(i, &c)| (c, (i, chunks.len()))));
        }
        let longest = |text: fn(&Row) -> &str| {
            let lengths = figure.rows.iter().map(|row| text(row).chars().count());
            7.0 * lengths.max().unwrap_or(0) as f64
        };
        let left = LEFT.max(20.0 + longest(|row| &row.name));
        let beside = BESIDE.max(70.0 + longest(|row| &row.beside));
        Self { figure, left, beside, scale: width / span, places, body: String::new() }
    }

    fn x(&self, ticks: Nanos) -> f64 {
        self.left + ticks.0 as f64 * self.scale
    }

    fn y(&self, device: DeviceId) -> f64 {
        TOP + self.figure.row_of.get(&device).map_or(0.0, |&row| row as f64) * PITCH
    }

    fn right(&self) -> f64 {
        self.x(self.figure.ticks.makespan())
    }

    fn bottom(&self) -> f64 {
        TOP + self.figure.rows.len() as f64 * PITCH - (PITCH - ROW)
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let written = self.body.write_fmt(element).and_then(|()| self.body.write_char('\n'));
        written.expect("a string takes any text");
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        self.put(format_args!(r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#));
    }

    fn head(&mut self) {
        let title = self.figure.schedule.schedule().name.clone();
        self.text((self.left, 30.0), "title", &title);
        self.text((self.left, 50.0), "facts", &self.figure.facts());
        let right = self.right();
        self.text((right + 58.0, TOP - 10.0), "faint end", "idle");
        self.text((right + self.beside, TOP - 10.0), "faint end", self.figure.column);
    }

    fn rows(&mut self) {
        let (left, right) = (self.left, self.right());
        let width = right - left;
        for (idx, row) in self.figure.rows.iter().enumerate() {
            let y = TOP + idx as f64 * PITCH;
            let middle = y + ROW / 2.0 + 4.5;
            self.put(format_args!(
                r#"<rect x="{left}" y="{y:.1}" width="{width:.1}" height="{ROW}" class="idle"/>"#
            ));
            self.text((left - 12.0, middle), "label end", &row.name);
            self.text((right + 58.0, middle), "label end", &percent(row.idle));
            self.text((right + self.beside, middle), "label end", &row.beside);
        }
    }

    /// A bar at the foot of each member's row while a collective moves its bytes: from when the
    /// last of them has begun it.
    fn collectives(&mut self) {
        for bar in collectives(self.figure) {
            let (x, y) = (self.x(bar.start), self.y(bar.device) + ROW - FOOT);
            let width = (self.x(bar.end) - x).max(0.5);
            self.put(format_args!(
                r#"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{FOOT}" class="sum"/>"#
            ));
        }
    }

    /// An arrow from where a value leaves to where it has arrived; under the boxes, so that one
    /// which passes over other devices does not cover them.
    fn transfers(&mut self) {
        let schedule = self.figure.schedule;
        let sends = self.figure.ticks.iter().filter_map(|(action, record)| {
            let device = schedule.device_of(action);
            match schedule.op_on(device, action) {
                Op::Send(id) => Some((id, record.start)),
                _ => None,
            }
        });
        let sends: Vec<_> = sends.collect();
        // Where arrows would stand closer than their heads are wide, they are hairs.
        let room =
            (self.right() - self.left) * schedule.n_devices() as f64 / sends.len().max(1) as f64;
        let class = if room < 14.0 { "hair" } else { "arrow" };
        for (id, leaves) in sends {
            let transfer = &schedule.schedule().transfers[id.idx()];
            let Some(arrived) = self.figure.ticks.get(schedule.ends(id).1) else { continue };
            let goes_down = transfer.to > transfer.from;
            let (from, to) = (self.y(transfer.from), self.y(transfer.to));
            let (from, to) = if goes_down { (from + ROW, to) } else { (from, to + ROW) };
            let (x1, x2) = (self.x(leaves), self.x(arrived.end));
            // The head stops short of the box, so that its tip does.
            let to = if goes_down { to - 1.0 } else { to + 1.0 };
            self.put(format_args!(
                r#"<line x1="{x1:.1}" y1="{from:.1}" x2="{x2:.1}" y2="{to:.1}" class="{class}"/>"#
            ));
        }
    }

    fn pass(&mut self, drawn: &Drawn) {
        let (idx, n_chunks) = self.places[&drawn.chunk];
        let (fill, ink) = colors::of(drawn.pass, idx, n_chunks);
        let (x, y) = (self.x(drawn.start), self.y(drawn.device));
        let width = self.x(drawn.end) - x;
        // A hair of space between boxes, if they are wide enough to spare it.
        let w = if width > 4.0 { width - 1.0 } else { width };
        self.put(format_args!(
            r#"<rect x="{x:.2}" y="{y:.1}" width="{w:.2}" height="{ROW}" rx="2" fill="{fill}"/>"#
        ));
        // All of a picture's numbers have the same room, so that none is left out for its length.
        let n_digits = self.figure.schedule.schedule().microbatches.len().to_string().len();
        if width >= 7.0 * n_digits as f64 + 2.0 {
            let number = drawn.microbatch;
            let (x, y) = (x + w / 2.0, y + ROW / 2.0 + 4.0);
            self.put(format_args!(
                r#"<text x="{x:.1}" y="{y:.1}" class="number" fill="{ink}">{number}</text>"#
            ));
        }
    }

    fn axis(&mut self) {
        let makespan = self.figure.step_ms;
        let (unit, factor) = unit(makespan);
        let whole = makespan * factor;
        let step = nice_step(whole / ((self.right() - self.left) / 90.0));
        let (left, right, y) = (self.left, self.right(), self.bottom() + 12.0);
        self.put(format_args!(
            r#"<line x1="{left}" y1="{y:.1}" x2="{right:.1}" y2="{y:.1}" stroke="{RULE}"/>"#
        ));
        let n_ticks = if step > 0.0 { (whole / step + 1e-9) as usize } else { 0 };
        for tick in 0..=n_ticks {
            let value = tick as f64 * step;
            let x = left + if whole > 0.0 { value / whole * (right - left) } else { 0.0 };
            let end = y + 5.0;
            self.put(format_args!(
                r#"<line x1="{x:.1}" y1="{y:.1}" x2="{x:.1}" y2="{end:.1}" stroke="{RULE}"/>"#
            ));
            self.text((x, y + 18.0), "faint middle", &short(value));
        }
        self.text((self.left - 12.0, y + 18.0), "faint end", &format!("time, {unit}"));
    }

    /// Swatches and what they mean; returns the width that they need.
    fn legend(&mut self) -> f64 {
        let n_chunks = self.places.values().map(|&(_, n)| n).max().unwrap_or(1);
        let (mut x, y) = (self.left, self.bottom() + 52.0);
        let by = match self.figure.schedule.schedule().paths.len() {
            _ if n_chunks == 1 => "",
            0 | 1 => ", by chunk of the device",
            _ => ", by pipeline",
        };
        let used: BTreeSet<Pass> = boxes(self.figure).map(|drawn| drawn.pass).collect();
        for pass in Pass::ALL.into_iter().filter(|pass| used.contains(pass)) {
            for idx in 0..n_chunks.min(12) {
                let (fill, _) = colors::of(pass, idx, n_chunks);
                self.put(format_args!(
                    r#"<rect x="{x:.1}" y="{y:.1}" width="16" height="14" rx="2" fill="{fill}"/>"#
                ));
                x += 18.0;
            }
            let word = format!("{}{by}", pass.word());
            self.text((x + 6.0, y + 11.0), "facts", &word);
            x += 24.0 + 6.4 * word.len() as f64;
        }
        if collectives(self.figure).next().is_some() {
            let y = y + 4.0;
            self.put(format_args!(
                r#"<rect x="{x:.1}" y="{y:.1}" width="16" height="{FOOT}" class="sum"/>"#
            ));
            self.text((x + 24.0, y + 7.0), "facts", "collective");
            x += 100.0;
        }
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="16" height="14" rx="2" class="idle"/>"#
        ));
        self.text((x + 24.0, y + 11.0), "facts", "idle");
        x += 66.0;
        let (middle, tip) = (y + 7.0, x + 22.0);
        self.put(format_args!(
            r#"<line x1="{x:.1}" y1="{middle:.1}" x2="{tip:.1}" y2="{middle:.1}" class="arrow"/>"#
        ));
        self.text((x + 32.0, y + 11.0), "facts", "transfer");
        x + 90.0
    }

    fn framed(self, legend_width: f64) -> String {
        let width = (self.right() + self.beside + RIGHT).max(legend_width).ceil();
        let height = (self.bottom() + 86.0).ceil();
        let sum = match collectives(self.figure).next() {
            Some(_) => format!("\n.sum {{ fill: {SUM}; }}"),
            None => String::new(),
        };
        let title = escaped(&self.figure.schedule.schedule().name);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">
<title>{title}</title>
<defs><marker id="head" viewBox="0 0 6 6" refX="5" refY="3"
 markerWidth="5" markerHeight="5" orient="auto">
<path d="M0 0.5 L6 3 L0 5.5 z" fill="{ARROW}"/></marker></defs>
<style>
.title {{ font-size: 18px; font-weight: bold; fill: {INK}; }}
.facts {{ font-size: 12.5px; fill: {INK}; }}
.label {{ font-size: 12.5px; fill: {INK}; }}
.faint {{ font-size: 11.5px; fill: {FAINT}; }}
.number {{ font-size: 11.5px; text-anchor: middle; }}
.end {{ text-anchor: end; }}
.middle {{ text-anchor: middle; }}
.idle {{ fill: {IDLE}; }}{sum}
.hair {{ stroke: {ARROW}; stroke-width: 0.5; stroke-opacity: 0.55; }}
.arrow {{ stroke: {ARROW}; stroke-width: 0.9; marker-end: url(#head); }}
</style>
<rect width="{width}" height="{height}" fill="#fff"/>
{}</svg>
"##,
            self.body
        )
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least `wanted`.
fn nice_step(wanted: f64) -> f64 {
    if wanted <= 0.0 {
        return 0.0;
    }
    let power = 10f64.powf(wanted.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|&step| step >= wanted * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Text that cannot end the element it stands in; a schedule's name may be anything.
fn escaped(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control()).collect::<String>();
    printable.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{nice_step, schedule_svg};
    use crate::schedule_study::{ScheduleSize, ScheduleStudy, StageTimes};
    use cavalcade_schedule::Kind;
    use cavalcade_units::Nanos;
    use std::collections::BTreeSet;

    fn study(kind: Kind, microbatches: u64) -> ScheduleStudy {
        let size = ScheduleSize { stages: 2, microbatches, chunks: 2 };
        let times = StageTimes { link: Nanos(200_000), ..StageTimes::default() };
        ScheduleStudy::of_kind(kind, size, times).unwrap()
    }

    #[test]
    fn a_drawing_looks_as_it_did() {
        let svg = schedule_svg(&study(Kind::Interleaved, 2)).unwrap();
        expect_test::expect_file!["../../goldens/interleaved.svg"].assert_eq(&svg);
    }

    #[test]
    fn everything_is_drawn_once() {
        for kind in Kind::ALL {
            let study = study(kind, 6);
            let svg = schedule_svg(&study).unwrap();
            let figure = super::Figure::of_study(&study);
            let n_passes = super::boxes(&figure).count();
            let swatches = swatches(kind, &figure);
            assert_eq!(svg.matches("rx=\"2\" fill").count(), n_passes + swatches, "{kind}");
            assert_eq!(svg.matches("class=\"number\"").count(), n_passes, "{kind}");
            // The last one is the legend's.
            let n_arrows = svg.matches("class=\"arrow\"").count() - 1;
            assert_eq!(n_arrows, study.n_messages(), "{kind}");
        }
    }

    fn swatches(kind: Kind, figure: &super::Figure<'_>) -> usize {
        let n_passes = super::boxes(figure).map(|drawn| drawn.pass).collect::<BTreeSet<_>>().len();
        let has_two = kind.shares_devices();
        if has_two { 2 * n_passes } else { n_passes }
    }

    #[test]
    fn a_name_cannot_break_the_drawing() {
        let text = study(Kind::GPipe, 2).schedule().schedule().to_string();
        let named = text.replace("name gpipe", "name <b>&\u{7}");
        let study = ScheduleStudy::of_text(&named, StageTimes::default()).unwrap();
        let svg = schedule_svg(&study).unwrap();
        assert!(svg.contains("<title>&lt;b&gt;&amp;</title>"), "{svg}");
    }

    #[test]
    fn too_many_passes_are_no_drawing() {
        let error = schedule_svg(&study(Kind::GPipe, 6000)).unwrap_err().to_string();
        expect_test::expect!["24000 passes in a drawing are too many; the limit is 20000"]
            .assert_eq(&error);
    }

    #[test]
    fn ticks_are_round_numbers() {
        let steps = [0.0, 0.7, 1.0, 1.2, 3.0, 7.0, 42.0].map(nice_step);
        assert_eq!(steps, [0.0, 1.0, 1.0, 2.0, 5.0, 10.0, 50.0]);
    }
}
