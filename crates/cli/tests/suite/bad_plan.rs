//! Configurations whose every word is legal and that make no sense together: sizes, devices,
//! layers, memory. Refused as in `bad_input`.

use crate::bad_input::{check, motley, refusal};
use crate::support::{Configuration, Room};
use expect_test::expect;

#[test]
fn sizes_that_make_no_sense() {
    check(
        motley().set("train.steps", 0),
        expect!["2: error: c.toml: train.steps: 0 steps; at least 1 is needed"],
    );
    check(
        motley().set("train.global_batch", 7),
        expect![[r#"
        2: error: c.toml: train.global_batch: 7 sequences do not divide into
        micro-batches of 2; use 6 or 8"#]],
    );
    check(
        motley().set("train.global_batch", 0),
        expect!["2: error: c.toml: train.global_batch: 0 sequences; at least 1 is needed"],
    );
    check(
        motley().set("train.microbatch", 0),
        expect!["2: error: c.toml: train.microbatch: 0 sequences; at least 1 is needed"],
    );
    check(
        motley().set("train.global_batch", 2),
        expect![[r#"
        2: error: c.toml: train.global_batch: 1 micro-batches of 2 for 2 pipelines; each
        pipeline needs at least one"#]],
    );
    check(
        motley().set("model.heads", 3),
        expect![[r#"
        2: error: c.toml: model: width 16 does not divide into 3 heads; use a multiple
        of 3"#]],
    );
    check(
        motley().set("model.layers", 0),
        expect!["2: error: c.toml: model: layers is 0; use a value from 1 to 4096"],
    );
    check(
        motley().set("device.1.speed", 0.0),
        expect![[r#"
        2: error: c.toml: device: device `b` has speed 0; write a number above 0 and at
        most 1000, or leave it out for full speed"#]],
    );
    check(
        motley().set("train.clip_norm", -1.0),
        expect!["2: error: c.toml: train.clip_norm: -1 is not a number above 0"],
    );
}

#[test]
fn devices_and_pipelines() {
    check(
        Configuration::new(&[]),
        expect![[r#"
        2: error: c.toml: device: the cluster has no devices; add a `[[device]]` with a
        name"#]],
    );
    check(
        motley().set("pipeline.1.devices", vec!["d"]),
        expect![[r#"
        2: error: c.toml: pipeline[1].devices: there is no device `d`; the devices are
        a, b, c"#]],
    );
    check(
        motley().set("pipeline.1.devices", vec!["b"]),
        expect![[r#"
        2: error: c.toml: pipeline[1].devices: `b` already has a stage in pipeline[0]; a
        device has one stage, the devices are a, b, c"#]],
    );
    check(
        motley().set("pipeline.0.devices", vec!["a", "a"]),
        expect![[r#"
        2: error: c.toml: pipeline[0].devices: `a` already has a stage in pipeline[0]; a
        device has one stage, the devices are a, b, c"#]],
    );
    check(
        motley().set("device.1.name", "a"),
        expect![[r#"
        2: error: c.toml: device: two devices are named `a`; give each device a name of
        its own"#]],
    );
    check(
        motley().set("pipeline.1.microbatches", 0),
        expect![[r#"
        2: error: c.toml: pipeline 1 takes 0 micro-batches of a step; give it at least
        1, or remove the pipeline"#]],
    );
    check(
        motley().set("pipeline.1.microbatches", 4),
        expect![[r#"
        2: error: c.toml: pipelines are given 4 micro-batches and 1 more need at least
        one each, but train.global_batch / train.microbatch is 4"#]],
    );
    check(
        motley().set("launch.external_ranks", vec![3]),
        expect!["2: error: c.toml: launch.external_ranks: there is no rank 3; the ranks are 0..3"],
    );
    check(
        Configuration::new(&[&["a", "b", "c", "d", "e"]]),
        expect![[r#"
            2: error: c.toml: pipeline[0] has 5 devices for 4 layers (embedding .. head);
            each needs at least one layer"#]],
    );
}

#[test]
fn layers_that_do_not_cover() {
    check(
        motley().layers(0, &["0..2", "3..4"]),
        expect![[r#"
        2: error: c.toml: stage 1 of pipeline 0 begins at layer 3, but layer 2 is the
        next; make it 2..4 or change the stage before it"#]],
    );
    check(
        motley().layers(0, &["0..2", "2..3"]),
        expect![[r#"
        2: error: c.toml: stage 1 of pipeline 0, its last, ends at layer 3, but the
        model has 4 layers; end it at 4"#]],
    );
    check(
        motley().layers(0, &["0..2", "2..99"]),
        expect![[r#"
        2: error: c.toml: stage 1 of pipeline 0, its last, ends at layer 99, but the
        model has 4 layers; end it at 4"#]],
    );
    check(
        motley().layers(0, &["1..2", "2..4"]),
        expect![[r#"
        2: error: c.toml: stage 0 of pipeline 0 begins at layer 1, but layer 0 is the
        next; make it 0..2 or change the stage before it"#]],
    );
    check(
        motley().layers(0, &["2..0", "2..4"]),
        expect![[r#"
        2: error: c.toml: stage 0 of pipeline 0 holds no layer (2..0); give it at least
        one, or remove the stage"#]],
    );
    check(
        motley().layers(0, &["0..4"]),
        expect![[r#"
        2: error: c.toml: pipeline[0].layers: ["0..4"] is not one range a device, such
        as "0..3"; 2 are needed"#]],
    );
    check(
        motley().layers(0, &["0-1", "2-3"]),
        expect![[r#"
        2: error: c.toml: pipeline[0].layers: ["0-1", "2-3"] is not one range a device,
        such as "0..3"; 2 are needed"#]],
    );
}

#[test]
fn layers_that_no_device_can_hold() {
    check(
        motley().set("device.2.memory", "1 KiB"),
        expect![[r#"
        3: error: no plan fits: pipeline[1] (c): layer 0 alone does not fit on any
        stage: on stage 0, the nearest, it needs N MiB of N MiB; use smaller or fewer
        micro-batches, or a device with more memory"#]],
    );
    check(
        motley().layers(1, &["0..4"]).set("device.2.memory", "1 KiB"),
        expect![[r#"
        3: error: no plan fits: `c` may need N MiB during device 2, op 1 (2B2), but has
        N MiB; give it fewer layers or micro-batches in flight, or more memory"#]],
    );
}

#[test]
fn schedules_that_nothing_can_be_trained_with() {
    check(
        motley().set("plan.schedule", "janus"),
        expect![[r#"
            2: error: c.toml: plan.schedule: `janus` is for objectives that hold gradients
            by the input, and no model's loss here has any; use another kind such as 1f1b,
            or draw this one with `cavalcade schedule`"#]],
    );
}

#[test]
fn a_word_that_is_no_schedule() {
    let room = Room::new(&motley().set("plan.schedule", "2f2b"));
    let said = refusal(&room, "");
    let start = "2: error: c.toml: plan.schedule: `2f2b` is not a kind of schedule; the kinds";
    assert!(said.starts_with(start) && said.contains("1f1b"), "{said}");
}

#[test]
fn passes_that_make_no_sense() {
    check(
        motley().set("plan.offload", 2),
        expect![[r#"
        2: error: c.toml: plan.offload: 2 passes ahead, but only inputs of chunks that
        recompute leave the device; set plan.recompute to "all", or this to 0"#]],
    );
    check(
        motley().set("plan.recompute", "some"),
        expect!["2: error: c.toml:32: unknown variant `some`, expected `none` or `all`"],
    );
    check(
        motley().set("plan.split_backward", "yes"),
        expect![[r#"2: error: c.toml:32: invalid type: string "yes", expected a boolean"#]],
    );
    check(
        motley().set("plan.reduce", "star"),
        expect![[r#"
        2: error: c.toml: plan.reduce: `star` is no way to sum gradients; the ways are
        ring, tree, server"#]],
    );
}
