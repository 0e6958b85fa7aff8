//! What the halves of a backward cost: times and sizes of their own, and not those of a whole one.

mod support;

use cavalcade_lower::{OpCosts, lower};
use cavalcade_model::{GptConfig, Model};
use cavalcade_plan::{Pipeline, Plan, Stage};
use cavalcade_schedule::{Kind, MemoryModel, Op, Options, Pass, Value};
use cavalcade_units::{Bytes, ChunkId, DeviceId, MicrobatchId, Nanos};
use support::{Sizes, cluster, profile};

/// Embedding and block on one device, block and head on the next.
const SIZES: [Sizes; 4] = [
    (10, 40, 9000, 700, 6),
    (100, 50, 9000, 500, 6),
    (100, 50, 9000, 500, 6),
    (20, 500, 9000, 1, 0),
];

fn costs(kind: Kind, split_backward: bool) -> (OpCosts, Model) {
    let config = GptConfig::new(11, 4, 8, 2, 2, false, false).expect("it is legal");
    let model = Model::gpt(&config);
    let stages = vec![Stage::new(DeviceId(0), 0..2), Stage::new(DeviceId(1), 2..4)];
    let plan = Plan::new(vec![Pipeline::new(stages, 3)], 1, kind, 4, 2).expect("it is legal");
    let options = Options { split_backward, ..Options::default() };
    let (profile, cluster) = (profile(&model, &SIZES), cluster(2));
    let schedule = lower(&plan, &model, &profile, &cluster, &options);
    (OpCosts::new(&schedule, &model, &profile, &cluster), model)
}

fn op(pass: Pass, chunk: u32) -> Op {
    Op::Compute { pass, chunk: ChunkId(chunk), microbatch: MicrobatchId(0) }
}

fn stash(costs: &OpCosts, chunk: u32) -> Bytes {
    let (chunk, microbatch) = (ChunkId(chunk), MicrobatchId(0));
    costs.bytes(DeviceId(chunk.0), Value::Stash { chunk, microbatch })
}

#[test]
fn each_half_takes_the_time_that_was_measured_for_it() {
    let (costs, _) = costs(Kind::ZbH1, false);
    let time = |pass| costs.arithmetic(DeviceId(0), op(pass, 0));
    assert_eq!(time(Pass::BackwardInput), Nanos(2 * 13));
    assert_eq!(time(Pass::BackwardWeight), Nanos(2 * 8));
    assert_eq!(time(Pass::Backward), Nanos(2 * 20));
}

#[test]
fn a_stash_has_another_size_between_the_halves() {
    for (kind, split_backward) in
        [(Kind::OneFOneB, false), (Kind::ZbH1, false), (Kind::OneFOneB, true)]
    {
        let (costs, _) = costs(kind, split_backward);
        assert_eq!([stash(&costs, 0), stash(&costs, 1)], [Bytes(10 + 100 + 6), Bytes(6 + 120)]);
        let between = |chunk| {
            let (chunk, microbatch) = (ChunkId(chunk), MicrobatchId(0));
            costs.updated(DeviceId(chunk.0), Value::Stash { chunk, microbatch })
        };
        assert_eq!([between(0), between(1)], [Bytes(40 + 50), Bytes(50 + 500)]);
    }
}

/// The gradients of all parameters at once are a whole backward's alone.
#[test]
fn a_half_needs_what_its_layers_were_measured_with() {
    let (split, model) = costs(Kind::ZbH1, false);
    let workspace =
        |costs: &OpCosts, pass, chunk: u32| costs.workspace(DeviceId(chunk), op(pass, chunk));
    for pass in [Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight] {
        assert_eq!(workspace(&split, pass, 0), Bytes(700));
        assert_eq!(workspace(&split, pass, 1), Bytes(500));
    }
    let (whole, _) = costs(Kind::OneFOneB, false);
    let n_params = |layer: u32| {
        let params = model.params_of(layer..layer + 1);
        params.iter().map(|param| param.spec.n_values()).sum::<usize>()
    };
    // The layer with the fewest parameters has the most beside them.
    let beside = Bytes(9000).saturating_sub(Bytes::of_f32(n_params(0).min(n_params(1))));
    let all = Bytes::of_f32(n_params(0) + n_params(1));
    assert_eq!(workspace(&whole, Pass::Backward, 0), beside + all);
}
