//! `cavalcade simulate`: the example, faults by seed, and bad input.

use expect_test::expect;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A model of two equal blocks, without an embedding's or a head's weight in the arithmetic.
const MODEL: &str = r#"{"model_type": "gpt2", "vocab_size": 64, "n_positions": 128, "n_embd": 64,
    "n_head": 4, "n_layer": 6, "tie_word_embeddings": false}"#;

const CLUSTER: &str = r#"
device = [{ name = "a", flops = "1 TFLOP/s" }, { name = "b", flops = "1 TFLOP/s" },
          { name = "c", flops = "1 TFLOP/s" }, { name = "d", flops = "1 TFLOP/s" }]
[link]
latency = "1 ms"
bandwidth = "1 Gbit/s"
"#;

fn plan(pipelines: &[[&str; 2]]) -> String {
    let pipeline = |[first, second]: &[&str; 2]| {
        format!(
            "[[pipeline]]\nmicrobatches = 8\nstage = [{{ device = \"{first}\", layers = \"0..4\" }}, \
             {{ device = \"{second}\", layers = \"4..8\" }}]\n"
        )
    };
    let head = "version = 1\nschedule = \"1f1b\"\nmicrobatch_size = 1\n";
    head.to_owned() + &pipelines.iter().map(pipeline).collect::<String>()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new(plan: &str, cluster: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is a place for it");
        for (name, text) in [("plan", plan), ("model", MODEL), ("cluster", cluster)] {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        }
        Self(folder)
    }

    fn run(&self, more: &[&str]) -> (Option<i32>, String, String) {
        let files = ["--plan", "plan", "--model", "model", "--cluster", "cluster"];
        simulate(self.0.path(), &[&files, more].concat())
    }

    fn json(&self, more: &[&str]) -> Value {
        let (code, stdout, stderr) = self.run(&[more, &["--json"]].concat());
        assert_eq!((code, &stderr[..]), (Some(0), ""));
        serde_json::from_str(&stdout).expect("it is JSON")
    }
}

fn simulate(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
    let output = command.current_dir(folder).arg("simulate").args(arguments).output();
    let output = output.expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("it is a number")
}

#[test]
fn the_example_is_simulated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/two-sites");
    let files = ["--plan", "plan.toml", "--model", "model.json", "--cluster", "cluster.toml"];
    let (code, stdout, stderr) = simulate(&folder, &files);
    assert_eq!((code, &stderr[..]), (Some(0), ""));
    expect![[r#"
        step                   5.35 s
        per second             6128 tokens
        utilization (MFU)      6.7 %
        bubble                 85.9 %
        exposed communication  60.4 %
        busiest link           uplink of site `here`, out: 31.4 % busy, 200.0 MiB a step
        limited by             collectives of a100-0 and rtx: 48.5 % of the critical path
        then                   messages from rtx to v100-1: 19.7 % of the critical path
                               messages from v100-1 to rtx: 18.7 % of the critical path

        device      busy    idle  exposed       peak     memory
        ------  --------  ------  -------  ---------  ---------
        a100-0  771.2 ms  4.58 s   2.60 s  46.00 GiB  80.00 GiB
        a100-1  771.2 ms  4.58 s   2.67 s  39.32 GiB  80.00 GiB
        v100-0  594.1 ms  4.75 s   2.61 s   9.61 GiB  16.00 GiB
        v100-1  594.1 ms  4.75 s   4.24 s   8.08 GiB  16.00 GiB
        rtx       1.03 s  4.32 s   4.03 s   5.29 GiB  24.00 GiB
    "#]]
    .assert_eq(&stdout);
}

/// Two replicas on four like devices: one is simulated for both, and nothing but that changes.
#[test]
fn symmetric_replicas_are_simulated_once() {
    let plan = plan(&[["a", "b"], ["c", "d"]]);
    let folded = Files::new(&plan, CLUSTER).json(&[]);
    // A device that is no slower, and yet another one.
    let whole = Files::new(&plan, CLUSTER).json(&["--slow", "a=1", "--jitter", "0"]);
    let named = CLUSTER.replace("name = \"d\"", "memory = \"1 TiB\", name = \"d\"");
    let unlike = Files::new(&plan, &named).json(&[]);
    assert_eq!(folded["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!(unlike["devices"].as_array().map(Vec::len), Some(4));
    assert_eq!(whole["devices"].as_array().map(Vec::len), Some(4));
    for found in [&unlike, &whole] {
        for key in ["step", "n_devices", "tokens_per_second", "mfu", "bubble_fraction"] {
            assert_eq!(folded[key], found[key], "{key}");
        }
        assert_eq!(folded["devices"][0]["peak_bytes"], found["devices"][0]["peak_bytes"]);
    }
}

/// Three forwards' products of every token, over what the devices could do in the step.
#[test]
fn utilization_is_the_models_work_over_the_clusters() {
    let found = Files::new(&plan(&[["a", "b"]]), CLUSTER).json(&[]);
    let work = 6.0 * (24.0 * 64.0 * 64.0 + 4.0 * 128.0 * 64.0) + 2.0 * 64.0 * 64.0;
    let seconds = number(&found["step"]) / 1e3;
    let expected = 3.0 * work * 8.0 * 128.0 / (seconds * 2e12);
    assert!((number(&found["mfu"]) / expected - 1.0).abs() < 1e-9);
    let tokens = 8.0 * 128.0 / seconds;
    assert!((number(&found["tokens_per_second"]) / tokens - 1.0).abs() < 1e-9);
    assert!(found["limited_by"]["what"].as_str().expect("it is text").starts_with("messages"));
}

#[test]
fn trouble_comes_by_seed_and_ends_in_a_verdict() {
    let files = Files::new(&plan(&[["a", "b"]]), CLUSTER);
    let jitter = |seed| number(&files.json(&["--jitter", "0.5", "--seed", seed])["step"]);
    assert_eq!(jitter("1"), jitter("1"));
    assert!(jitter("1") != jitter("2"));
    let plain = number(&files.json(&[])["step"]);
    assert!(number(&files.json(&["--slow", "b=1000"])["step"]) > plain);
    let (code, stdout, stderr) = files.run(&["--dies", "b=5ms"]);
    assert_eq!((code, &stdout[..]), (Some(4), ""));
    expect![[r#"
        error: the run ends early: `b` died at 5.0 ms; nothing could go on after 6.2 ms, when 36 of 68 ops of the step were done; `a` waits in op 20 (R10) for `b`, which died
    "#]].assert_eq(&stderr);
    let (code, _, stderr) = files.run(&["--stalls", "a,b=3ms"]);
    assert_eq!(code, Some(4));
    expect![[r#"
        error: the run ends early: the link from `a` to `b` stalled at 3.0 ms; nothing could go on after 3.1 ms, when 18 of 68 ops of the step were done; `a` waits in op 7 (S3) for the link from `a` to `b`, which stalled; `b` waits in op 8 (R3) for the link from `a` to `b`, which stalled
    "#]].assert_eq(&stderr);
    let later = number(&files.json(&["--stalls", "a,b=3ms+40ms"])["step"]);
    assert!(later <= plain, "the stall is over before the step that is measured");
}

/// Recomputation costs a forward of every micro-batch and gives back memory.
#[test]
fn passes_can_be_added() {
    let files = Files::new(&plan(&[["a", "b"]]), CLUSTER);
    let plain = files.json(&[]);
    let again = files.json(&["--recompute", "--offload", "1"]);
    let peak = |found: &Value| number(&found["devices"][0]["peak_bytes"]);
    let busy = |found: &Value| number(&found["devices"][0]["busy"]);
    assert!(peak(&again) < peak(&plain) && busy(&again) > 1.3 * busy(&plain));
    let split = files.json(&["--split-backward"]);
    assert!((busy(&split) / busy(&plain) - 1.0).abs() < 1e-3);
    assert_eq!(files.run(&["--offload", "1"]).0, Some(2));
}

/// Of two holders the ring sends halves, the others whole gradients; and a folded plan is summed as
/// the whole one is.
#[test]
fn gradients_are_summed_as_asked() {
    let files = Files::new(&plan(&[["a", "b"], ["c", "d"]]), CLUSTER);
    let step = |more: &[&str]| number(&files.json(more)["step"]);
    assert_eq!(step(&[]), step(&["--reduce", "ring"]));
    for way in ["tree", "server"] {
        assert!(step(&["--reduce", way]) > step(&[]), "{way}");
        assert_eq!(step(&["--reduce", way]), step(&["--reduce", way, "--slow", "a=1"]), "{way}");
    }
}

#[test]
fn pictures_are_written_beside_the_report() {
    let files = Files::new(&plan(&[["a", "b"]]), CLUSTER);
    let (code, ..) = files.run(&["--svg", "step.svg", "--trace", "step.json"]);
    assert_eq!(code, Some(0));
    let read = |name| std::fs::read_to_string(files.0.path().join(name)).expect("it is there");
    assert!(read("step.svg").contains("class=\"label end\">a</text>"));
    let trace: Value = serde_json::from_str(&read("step.json")).expect("it is JSON");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| !events.is_empty()));
}

#[test]
fn bad_input_is_one_line_and_its_exit_code() {
    let good = plan(&[["a", "b"]]);
    let mut text = String::new();
    let mut add = |files: &Files, more: &[&str]| {
        let (code, stdout, stderr) = files.run(more);
        assert_eq!((&stdout[..], stderr.lines().count()), ("", 1), "{stderr}");
        text += &format!("{} {stderr}", code.expect("it ends by itself"));
    };
    add(&Files::new("version = 1", CLUSTER), &[]);
    add(&Files::new(&good.replace("4..8", "4..7"), CLUSTER), &[]);
    add(&Files::new(&good.replace("\"a\"", "\"z\""), CLUSTER), &[]);
    add(&Files::new(&good, &CLUSTER.replace("flops = \"1 TFLOP/s\"", "speed = 1")), &[]);
    add(&Files::new(&good, &CLUSTER.replace("1 TFLOP/s", "fast")), &[]);
    let lame = "efficiency = 2, flops = \"1 TFLOP/s\"";
    add(&Files::new(&good, &CLUSTER.replace("flops = \"1 TFLOP/s\"", lame)), &[]);
    let small = "memory = \"1 MiB\", flops = \"1 TFLOP/s\"";
    add(&Files::new(&good, &CLUSTER.replace("flops = \"1 TFLOP/s\"", small)), &[]);
    let files = Files::new(&good, CLUSTER);
    for more in [
        ["--slow", "a"],
        ["--slow", "z=2"],
        ["--slow", "a=-1"],
        ["--jitter", "11"],
        ["--dies", "a=soon"],
        ["--stalls", "a=1ms"],
        ["--stalls", "a,a=1ms"],
        ["--profile", "nowhere.json"],
        ["--svg", "no/where.svg"],
        ["--reduce", "star"],
    ] {
        add(&files, &more);
    }
    expect![[r#"
        2 error: plan: not a plan: TOML parse error at line 1, column 1 | 1 | version = 1 | ^ missing field `schedule`
        2 error: plan: stage 1 of pipeline 0, its last, ends at layer 7, but the model has 8 layers; end it at 8
        2 error: plan: stage 0 of pipeline 0 is on `z`, which the cluster does not have; its devices are a, b, c, d
        2 error: cluster: nothing says how fast `a` is; give it `flops`, such as "312 TFLOP/s", or measure a profile with `cavalcade probe` and name it with --profile
        2 error: cluster: device `a`, flops: `fast` is not a rate of arithmetic above zero; write a number and a unit, such as `312 TFLOP/s`
        2 error: cluster: device `a` has efficiency 2; write a share above 0 and at most 1, or leave it out for all of its flops
        3 error: no plan fits: `a` may need 13.2 MiB during device 0, op 5 (0B0), but has 1.0 MiB; give it fewer layers or micro-batches in flight, or more memory
        2 error: --slow: `a` is not DEVICE=FACTOR, such as b=1.5
        2 error: `z` is no device; the devices are a, b, c, d
        2 error: device 0 is slower by -1; write a factor above 0, such as 1.5
        2 error: a jitter of 11; write a number from 0 to 10, such as 0.1 for a tenth
        2 error: --dies: `soon` is no time; write `1.5`, in ms, or `800us`
        2 error: --stalls: `a=1ms` is not FROM,TO=TIME[+TIME], such as a,b=120ms+50ms
        2 error: device 0 has no link to itself that could stall; name two devices
        2 error: cannot access the profile nowhere.json: No such file or directory (os error 2); check the path and its permissions
        2 error: --svg no/where.svg cannot be written: No such file or directory (os error 2)
        2 error: --reduce: `star` is no way to sum gradients; the ways are ring, tree, server
    "#]].assert_eq(&text);
}
