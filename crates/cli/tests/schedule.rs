//! `cavalcade schedule`, from outside.

use expect_test::expect;
use serde_json::Value;
use std::process::Command;

/// Exit code, standard output, standard error.
fn schedule(arguments: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
    let output = command.arg("schedule").args(arguments.split_whitespace()).output();
    let output = output.expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text").trim_end().to_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(arguments: &str) -> Value {
    let (code, stdout, stderr) = schedule(&format!("{arguments} --format json"));
    assert_eq!((code, &stderr[..]), (Some(0), ""), "{arguments}");
    serde_json::from_str(&stdout).expect("it is JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("it is a number")
}

#[test]
fn json_has_the_closed_forms() {
    for (arguments, makespan, idle) in [
        ("gpipe --stages 4 --microbatches 8 --forward 1 --backward-weight 1", 33.0, 9.0),
        ("1f1b --stages 4 --microbatches 8 --forward 1", 33.0, 9.0),
        ("interleaved --stages 4 --microbatches 8 --chunks 3", 27.0, 3.0),
        (
            "chimera --stages 4 --microbatches 8 --backward-input 0.5 --backward-weight 0.5",
            18.0,
            2.0,
        ),
        ("zb-h1 --stages 4 --microbatches 8", 27.0, 3.0),
        ("zb-v --stages 4 --microbatches 8", 25.5, 1.5),
        ("dualpipe-v --stages 4 --microbatches 8", 25.5, 1.5),
        ("v-half --stages 4 --microbatches 8", 28.0, 4.0),
        ("v-min --stages 4 --microbatches 8", 29.5, 5.5),
        ("hetpipe --stages 4 --microbatches 8", 33.0, 9.0),
        (
            "janus --stages 4 --microbatches 8 --forward 2 --backward-input 2 --backward-weight 0",
            76.0,
            12.0,
        ),
    ] {
        let found = json(arguments);
        assert!((number(&found["makespan"]) - makespan).abs() < 1e-9, "{arguments}");
        assert!((number(&found["bubble_fraction"]) - idle / makespan).abs() < 1e-9, "{arguments}");
        let ops = found["ops"].as_array().expect("it is a list");
        let last = ops.iter().map(|op| number(&op["end"])).fold(0.0, f64::max);
        assert!((last - makespan).abs() < 1e-9, "{arguments}");
    }
    let peaks = &json("1f1b --stages 4 --microbatches 8")["peak_stash"];
    assert_eq!(peaks.to_string(), "[4.0,3.0,2.0,1.0]");
    let peaks = &json("interleaved --stages 4 --microbatches 8 --chunks 3")["peak_stash"];
    assert_eq!(number(&peaks[0]), 5.0);
}

#[test]
fn a_schedule_that_was_printed_is_read_as_a_file() {
    let folder = tempfile::tempdir().expect("there is a place for it");
    let path = folder.path().join("mine.txt");
    let path = path.to_str().expect("the path is text");
    for kind in ["1f1b", "interleaved", "chimera"] {
        let (code, stdout, stderr) =
            schedule(&format!("{kind} --stages 4 --microbatches 6 --out {path}"));
        assert_eq!((code, &stdout[..], &stderr[..]), (Some(0), "", ""), "{kind}");
        let made = json(&format!("{kind} --stages 4 --microbatches 6"));
        assert_eq!(json(&format!("file --input {path}")), made, "{kind}");
    }
}

#[test]
fn other_forms_are_what_they_say() {
    let (_, svg, _) = schedule("chimera --stages 4 --microbatches 8 --format svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{svg}");
    let (_, trace, _) = schedule("1f1b --stages 2 --microbatches 2 --format trace");
    let trace: Value = serde_json::from_str(&trace).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("it is a list");
    let named = |name| events.iter().filter(|event| event["name"] == name).count();
    assert_eq!((named("0F0"), named("1B1")), (1, 1));
}

#[test]
fn a_comparison_shows_every_kind() {
    expect![[r#"
        schedule     makespan  bubble  worst stash  messages
        -----------  --------  ------  -----------  --------
        gpipe        33.00 ms  27.3 %         8.00        48
        1f1b         33.00 ms  27.3 %         4.00        48
        1f1b:a2      69.00 ms  65.2 %         2.00        48
        1f1b:b       33.00 ms  27.3 %         7.00        48
        geo:2+1      33.00 ms  27.3 %         5.00        48
        interleaved  28.50 ms  15.8 %         5.50       112
        chimera      30.00 ms  20.0 %         4.00        48
        zb-h1        27.00 ms  11.1 %         4.00        48
        zb-h2        27.00 ms  11.1 %         7.00        48
        zb-v         25.50 ms   5.9 %         4.00        96
        v-half       28.00 ms  14.3 %         3.50        96
        v-min        29.50 ms  18.6 %         2.00        96
        dualpipe-v   25.50 ms   5.9 %         4.50        96
        hetpipe      33.00 ms  27.3 %         4.00        48
        janus        65.00 ms  26.2 %         5.00        96
        solve        27.00 ms  11.1 %         4.00        48"#]]
    .assert_eq(&schedule("compare --stages 4 --microbatches 8").1);
    let rows = json("compare --stages 3 --microbatches 8");
    let kinds = rows.as_array().expect("it is a list");
    assert_eq!(kinds.len(), 16);
    assert!(kinds[6]["error"].as_str().expect("it says why").contains("even number of stages"));
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let mut text = String::new();
    for arguments in [
        "zigzag --stages 2 --microbatches 2",
        "chimera --stages 3 --microbatches 4",
        "chimera --stages 4 --microbatches 1",
        "gpipe --stages 0 --microbatches 4",
        "gpipe --stages 4 --microbatches 0",
        "gpipe --microbatches 4",
        "1f1b --stages 4 --microbatches 99999999999",
        "1f1b --stages 99999999999 --microbatches 1",
        "gpipe --stages 4 --microbatches 4 --chunks 2",
        "1f1b --stages 4 --microbatches 8 --forward soon",
        "1f1b --stages 4 --microbatches 8 --forward 500000000min",
        "file",
        "file --input nowhere.txt",
        "gpipe --stages 2 --microbatches 2 --input mine.txt",
        "compare --stages 0 --microbatches 1",
        "compare --stages 4 --microbatches 8 --format svg",
    ] {
        let (code, stdout, stderr) = schedule(arguments);
        assert_eq!((code, &stdout[..]), (Some(2), ""), "{arguments}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        text += &stderr;
        text.push('\n');
    }
    expect![[r#"
        error: `zigzag` is not a kind of schedule; the kinds are gpipe, 1f1b, 1f1b:aN, 1f1b:b, 1f1b:bN, geo:CUT+N, interleaved, chimera, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe-v, hetpipe, hetpipe:N, janus, solve, solve:N, skip:PERCENT, skip:PERCENT:straight, file, compare
        error: chimera needs an even number of stages; pipeline 0 has 3
        error: chimera needs at least 2 micro-batches, one in each direction; there is 1
        error: there are 0 stages; use at least 1
        error: there are 0 micro-batches; use at least 1
        error: --stages P says how many devices there are
        error: 1999999999980 ops are too many; the limit is 4000000
        error: 99999999999 stages are too many; the limit is 4096
        error: --chunks is for `interleaved`; a device of gpipe has no choice of chunks
        error: --forward: `soon` is no time; write `1.5`, in ms, or `800us`
        error: the times are too long to be added up; use shorter ones
        error: --input FILE names the schedule to read
        error: nowhere.txt: No such file or directory (os error 2)
        error: --input is for `cavalcade schedule file`
        error: there are 0 stages; use at least 1
        error: a comparison is a table: --format text or json
    "#]].assert_eq(&text);
}
