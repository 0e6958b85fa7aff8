//! Random layouts: pipelines of unlike depth, unlike cuts and unlike shares, for every kind.

use cavalcade_schedule::{Form, Kind, Layout, Pipeline, Servers, Stage, Ticks, Tie, WarmUp, Waves};
use cavalcade_units::DeviceId;
use proptest::prelude::*;
use proptest::sample::subsequence;

/// Any layout of up to `pipelines_max` pipelines over up to 9 layers, tied or not.
pub fn layouts(pipelines_max: usize) -> impl Strategy<Value = Layout> {
    (1u32..=9, any::<bool>()).prop_flat_map(move |(n_layers, is_tied)| {
        let pipeline = (cuts(n_layers), 1u32..=6);
        prop::collection::vec(pipeline, 1..=pipelines_max)
            .prop_map(move |pipelines| layout(n_layers, is_tied, pipelines))
    })
}

/// Any kind of schedule with a layout that fits it.
pub fn cases(pipelines_max: usize) -> impl Strategy<Value = (Kind, Layout)> {
    (kinds(), layouts(pipelines_max), any::<u32>())
        .prop_map(|(kind, layout, choice)| (kind, fitted(kind, layout, choice)))
}

/// Any layout of pipelines without a flush whose replicas exchange with servers, and how.
pub fn wave_cases(pipelines_max: usize) -> impl Strategy<Value = (Kind, Layout, Waves)> {
    let servers = prop_oneof![
        Just(Servers::Local),
        (1u32..4).prop_map(|n| Servers::RoundRobin((0..n).map(DeviceId).collect())),
    ];
    (layouts(pipelines_max), 1u32..5, 0u32..4, 1u32..5, servers).prop_map(
        |(mut layout, length, distance, n_waves, servers)| {
            // A tie would be held twice by a pipeline.
            layout.ties.clear();
            layout.n_devices = layout.n_devices.max(4);
            for pipeline in &mut layout.pipelines {
                pipeline.microbatches = length * n_waves;
            }
            (Kind::HetPipe { wave: Some(length) }, layout, Waves { length, distance, servers })
        },
    )
}

fn kinds() -> impl Strategy<Value = Kind> {
    let policy = prop_oneof![Just(WarmUp::A), Just(WarmUp::B)];
    prop_oneof![
        2 => prop::sample::select(Kind::ALL.to_vec()),
        1 => (policy, 1u32..6).prop_map(|(policy, most)| Kind::Dapple { policy, most }),
        1 => (1u32..5, 1u32..4).prop_map(|(cut, extra)| Kind::Geo { cut, extra }),
        1 => (1u32..6).prop_map(|wave| Kind::HetPipe { wave: Some(wave) }),
        1 => (1u32..5).prop_map(|most| Kind::Solve { most }),
        1 => (0u32..70, any::<bool>()).prop_map(|(percent, swaps)| Kind::Skip { percent, swaps }),
    ]
}

/// `layout` changed to the form that `kind` needs.
fn fitted(kind: Kind, mut layout: Layout, choice: u32) -> Layout {
    match kind.form() {
        Form::Apart => {}
        Form::Folded => {
            let pipelines = std::mem::take(&mut layout.pipelines);
            for pipeline in pipelines {
                let mut pipeline = evened(pipeline, &mut layout);
                let n_stages = pipeline.stages.len();
                for idx in n_stages / 2..n_stages {
                    pipeline.stages[idx].device = pipeline.stages[n_stages - 1 - idx].device;
                }
                layout.pipelines.push(pipeline);
            }
        }
        Form::Alike => cut_alike(&mut layout, choice),
        Form::Round => layout.pipelines.iter_mut().for_each(|p| fold(p, choice as usize)),
        Form::Mirrored => {
            let pipelines = std::mem::take(&mut layout.pipelines);
            for pipeline in pipelines {
                let down = evened(pipeline, &mut layout);
                let up = mirrored(&down, 1 + choice % 7);
                layout.pipelines.extend([down, up]);
            }
        }
    }
    layout
}

/// Cuts all pipelines as the first one, each on devices of its own; or, for some choices, the
/// second stages on one device for all.
fn cut_alike(layout: &mut Layout, choice: u32) {
    let model = layout.pipelines[0].stages.clone();
    layout.n_devices = 0;
    for pipeline_idx in 0..layout.pipelines.len() {
        let mut stages = model.clone();
        for (stage_idx, stage) in stages.iter_mut().enumerate() {
            let is_shared = pipeline_idx > 0 && stage_idx == 1 && choice.is_multiple_of(3);
            stage.device = match is_shared {
                true => layout.pipelines[0].stages[1].device,
                false => DeviceId(layout.n_devices),
            };
            layout.n_devices += u32::from(!is_shared);
        }
        layout.pipelines[pipeline_idx].stages = stages;
    }
}

/// Puts the stages of `pipeline` on some of its devices, round after round.
fn fold(pipeline: &mut Pipeline, choice: usize) {
    let n_stages = pipeline.stages.len();
    let divisors: Vec<usize> = (1..=n_stages).filter(|n| n_stages.is_multiple_of(*n)).collect();
    let n_devices = divisors[choice % divisors.len()];
    for idx in n_devices..n_stages {
        pipeline.stages[idx].device = pipeline.stages[idx - n_devices].device;
    }
}

/// `pipeline` with an even number of stages: the last two are joined, or the only one is split,
/// for which a model of one layer gets a second.
fn evened(mut pipeline: Pipeline, layout: &mut Layout) -> Pipeline {
    let stages = &mut pipeline.stages;
    if stages.len() == 1 {
        layout.n_layers = layout.n_layers.max(2);
        stages[0].layers = 0..1;
        stages.push(Stage { device: DeviceId(layout.n_devices), layers: 1..layout.n_layers });
        layout.n_devices += 1;
    } else if stages.len() % 2 == 1 {
        let last = stages.pop().expect("there are at least three");
        stages.last_mut().expect("there are two more").layers.end = last.layers.end;
    }
    pipeline
}

fn mirrored(down: &Pipeline, microbatches: u32) -> Pipeline {
    let devices = down.stages.iter().rev().map(|stage| stage.device);
    let stages = devices.zip(&down.stages);
    let stages = stages.map(|(device, stage)| Stage { device, layers: stage.layers.clone() });
    Pipeline { stages: stages.collect(), microbatches }
}

/// Where to cut `0..n_layers` into consecutive, non-empty runs.
fn cuts(n_layers: u32) -> impl Strategy<Value = Vec<u32>> {
    let inner: Vec<u32> = (1..n_layers).collect();
    let n_inner = inner.len();
    subsequence(inner, 0..=n_inner.min(4))
}

fn layout(n_layers: u32, is_tied: bool, pipelines: Vec<(Vec<u32>, u32)>) -> Layout {
    let mut n_devices = 0;
    let mut pipeline = |(cuts, microbatches): (Vec<u32>, u32)| {
        let mut bounds = vec![0];
        bounds.extend(cuts);
        bounds.push(n_layers);
        let stages = bounds.windows(2).map(|pair| {
            n_devices += 1;
            Stage { device: DeviceId(n_devices - 1), layers: pair[0]..pair[1] }
        });
        Pipeline { stages: stages.collect(), microbatches }
    };
    let pipelines = pipelines.into_iter().map(&mut pipeline).collect();
    let is_tied = is_tied && n_layers > 1;
    let ties = is_tied.then(|| Tie { layers: vec![0, n_layers - 1] }).into_iter().collect();
    Layout { n_layers, n_devices, ties, pipelines, ticks: Ticks::default() }
}
