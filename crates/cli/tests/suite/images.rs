//! A convolutional network on images, through every command that takes a configuration.

use crate::bad_input::check;
use crate::process::{run, workers};
use crate::support::{Configuration, Room};
use expect_test::expect;
use toml::{Table, Value};

/// Two replicas of two stages, of a network of four layers.
fn square() -> Configuration {
    let model = "kind = 'conv'\nimage = 8\nconvolutions = [4, 6]\nhidden = [16]\nclasses = 5";
    let data = "images = 200\nnoise = 0.5\nvalidation = 0.2";
    let table = |text: &str| Value::Table(text.parse::<Table>().unwrap());
    Configuration::new(&[&["a", "b"], &["c", "d"]])
        .set("model", table(model))
        .set("data", table(data))
        .set("train.validation_windows", 40)
}

fn json(room: &Room, name: &str) -> serde_json::Value {
    serde_json::from_str(&room.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_run_learns_to_tell_classes_apart() {
    let room = Room::new(&square().set("train.steps", 40));
    let said = run(room.cavalcade("train c.toml --out r")).ok();
    assert!(workers(&room).is_empty());
    for part in [
        "convolutions [4, 6] on 8 x 8 x 3 images, fully connected [16], 5 classes: ",
        "training images: 160, with noise 0.5",
        "nats an image, accuracy ",
        " images/s",
        "written to r",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    assert!(!said.stdout.contains("sample:") && !said.stdout.contains("token"), "{}", said.stdout);
    assert!(said.stderr.contains(" images/s"), "{}", said.stderr);

    let summary = json(&room, "r/summary.json");
    let number = |key: &str| summary[key].as_f64().unwrap();
    assert!(number("val_loss") < number("first_loss") - 0.5, "{summary}");
    assert!((0.5..=1.0).contains(&number("val_accuracy")), "{summary}");
    let metrics = room.read("r/metrics.jsonl");
    let last: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    assert_eq!(last["tokens"], 40 * 8, "an image is one prediction");

    let model = json(&room, "r/model/config.json");
    assert_eq!((&model["model_type"], &model["num_labels"]), (&"conv".into(), &5.into()));
    let names = ["r/model/model.safetensors", "r/model/tokenizer.json"];
    assert_eq!(room.there(&names), names[..1]);

    // The resolved configuration is the same run again.
    let again = "train r/config.toml --out r2 --json --set profile=r/profile.json";
    run(room.cavalcade(again)).ok();
    let bytes =
        |name: &str| std::fs::read(room.path(name).join("model/model.safetensors")).unwrap();
    assert!(bytes("r") == bytes("r2"), "the same weights");

    let refused = run(room.cavalcade("generate --model r/model --prompt=the"));
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    expect![[r#"
        error: r/model/config.json: the model tells classes of images apart; only a
        language model, trained with model.kind = "gpt", continues a text"#]]
    .assert_eq(&room.masked(&refused.stderr));
}

#[test]
fn a_run_of_other_images_is_another_run() {
    let room = Room::new(&square().set("train.steps", 2));
    let loss = |more: &str| {
        let ended = run(room.cavalcade(&format!("train c.toml --json {more}"))).ok();
        ended.last_json()["final_loss"].as_f64().unwrap()
    };
    let first = loss("--out r1");
    assert_eq!(first, loss("--out r2"));
    assert_ne!(first, loss("--out r3 --set data.noise=0.6"));
    assert_ne!(first, loss("--out r4 --set seed=2"));
}

#[test]
fn every_sort_of_plan_equals_one_process() {
    for configuration in [
        square(),
        square().layers(0, &["0..1", "1..4"]).layers(1, &["0..3", "3..4"]),
        square().set("plan.schedule", "zb-h1"),
        square().set("plan.recompute", "all").set("plan.offload", 1),
        square().set("train.clip_norm", 0.1),
    ] {
        let room = Room::new(&configuration);
        let result = run(room.cavalcade("verify c.toml --steps 3 --json")).ok().last_json();
        assert_eq!(result["passed"], true, "{result}");
    }
}

#[test]
fn replicas_that_exchange_waves_are_the_same_as_their_replay() {
    let waves = square()
        .set("sync.mode", "wsp")
        .set("sync.in_flight", 2)
        .set("train.clip_norm", 0)
        .set("train.steps", 10);
    let room = Room::new(&waves);
    run(room.cavalcade("train c.toml --out r --json")).ok();
    let replayed = run(room.cavalcade("replay r --json")).ok().last_json();
    assert_eq!((&replayed["passed"], &replayed["waves"]), (&true.into(), &10.into()));
}

#[test]
fn a_profile_is_measured_and_simulated_with() {
    let room = Room::new(&square().set("train.steps", 1));
    let said = run(room.cavalcade("probe c.toml --out p.json")).ok().stdout;
    for part in ["features.0", "features.3", "classifier.0", "classifier.3", "2 x 1 images"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    run(room.cavalcade("train c.toml --out r --json --set profile=p.json")).ok();
    assert_eq!(json(&room, "p.json"), json(&room, "r/profile.json"));

    let devices: String = ["a", "b", "c", "d"].map(device).concat();
    room.write("cluster.toml", devices);
    let simulate = "simulate --plan r/plan.toml --model r/model/config.json --cluster cluster.toml";
    let said = run(room.cavalcade(&format!("{simulate} --profile p.json"))).ok().stdout;
    assert!(said.contains(" images\n"), "{said}");
    let refused = run(room.cavalcade(simulate));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    expect![[r#"
        error: only a GPT's times can be counted; measure a profile of this network with
        `cavalcade probe` and name it with --profile"#]]
    .assert_eq(&room.masked(&refused.stderr));
}

fn device(name: &str) -> String {
    format!("[[device]]\nname = \"{name}\"\n")
}

#[test]
fn the_example_trains() {
    let room = Room::new(&square());
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/conv.toml");
    let train = format!("train {example} --out r --json --set train.steps=3");
    let summary = run(room.cavalcade(&train)).ok().last_json();
    assert!(summary["val_accuracy"].is_number(), "{summary}");
}

#[test]
fn keys_of_the_other_kind_are_refused() {
    check(
        square().set("model.width", 64),
        expect![[r#"
        2: error: c.toml: model.width: this is a key of model.kind = "gpt", but the kind
        is "conv", whose keys are image, channels, convolutions, hidden, classes; remove
        it, or change the kind"#]],
    );
    check(
        square().set("data.path", "text.txt"),
        expect![[r#"
        2: error: c.toml: data.path: this is a key of data.kind = "text", but the kind
        is "synthetic", whose keys are images, noise; remove it, or change the kind"#]],
    );
    check(
        square().set("data.kind", "text"),
        expect![[r#"
        2: error: c.toml: data.kind: a model of kind "conv" learns from images; use
        "synthetic""#]],
    );
    let gpt = || Configuration::new(&[&["a"]]);
    check(
        gpt().set("model.classes", 10),
        expect![[r#"
        2: error: c.toml: model.classes: this is a key of model.kind = "conv", but the
        kind is "gpt", whose keys are layers, width, heads, context, tied, bias; remove
        it, or change the kind"#]],
    );
    check(
        gpt().set("data.noise", 0.5),
        expect![[r#"
        2: error: c.toml: data.noise: this is a key of data.kind = "synthetic", but the
        kind is "text", whose keys are path, tokenizer; remove it, or change the kind"#]],
    );
    check(
        gpt().set("data.kind", "synthetic"),
        expect![[
            r#"2: error: c.toml: data.kind: a model of kind "gpt" learns from text; use "text""#
        ]],
    );
    check(
        gpt().set("model.kind", "vgg"),
        expect!["2: error: c.toml:12: unknown variant `vgg`, expected `gpt` or `conv`"],
    );
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    check(
        square().set("model.image", 10),
        expect![[r#"
        2: error: c.toml: model: an image of 10 x 10 pixels cannot be halved 2 times,
        once a convolution; use a multiple of 2^2, or fewer convolutions"#]],
    );
    check(
        square().set("model.convolutions", Vec::<i64>::new()),
        expect![[r#"
        2: error: c.toml: model: the number of convolutions is 0; use a value from 1 to
        4096"#]],
    );
    check(
        square().set("model.convolutions", 3),
        expect!["2: error: c.toml:22: invalid type: integer `3`, expected a list"],
    );
    check(
        square().set("data.noise", -1.0),
        expect!["2: error: c.toml: data.noise: -1 is not a number of at least 0"],
    );
    check(
        square().set("data.images", 2),
        expect![[r#"
        2: error: a validation share of 0.2 of 2 images leaves a set without an image;
        use more images"#]],
    );
    check(
        square().set("data.validation", 0.0),
        expect!["2: error: c.toml: data.validation: 0 is not a share above 0 and at most 0.5"],
    );
}

#[test]
fn micro_batches_cannot_leave_stages_out() {
    check(
        square().set("plan.schedule", "skip:25"),
        expect![[r#"
        2: error: c.toml: plan.schedule: `skip:25` lets micro-batches leave stages out,
        and in a model of kind "conv" no stage takes what another one takes; use another
        kind such as 1f1b"#]],
    );
}
