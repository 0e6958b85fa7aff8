//! `cargo xtask schedules`: every kind of schedule on four emulated devices, predicted and
//! measured, as a table for docs/benchmarks.
//!
//! All runs use one profile, measured at the beginning, and the same four equal devices, slow
//! enough that the host has time left.

use crate::figures::{commit, machine, release_build, train};
use std::fs;
use std::path::Path;
use std::process::Command;

const THERE: &str = r#"["a", "b", "c", "d"]"#;
const ROUND: &str = r#"["a", "b", "c", "d", "a", "b", "c", "d"]"#;
const FOLDED: &str = r#"["a", "b", "c", "d", "d", "c", "b", "a"]"#;
const BACK: &str = r#"["d", "c", "b", "a"]"#;

/// Kinds, and the devices of the pipelines that they want.
const KINDS: [(&str, &[&str]); 14] = [
    ("gpipe", &[THERE]),
    ("1f1b", &[THERE]),
    ("1f1b:a2", &[THERE]),
    ("1f1b:b", &[THERE]),
    ("geo:2+2", &[THERE]),
    ("interleaved", &[ROUND]),
    ("chimera", &[THERE, BACK]),
    ("zb-h1", &[THERE]),
    ("zb-h2", &[THERE]),
    ("zb-v", &[FOLDED]),
    ("v-half", &[FOLDED]),
    ("v-min", &[FOLDED]),
    ("dualpipe-v", &[FOLDED]),
    ("solve", &[THERE]),
];

/// Layers over which 4 stages and 8 chunks can be equal: 16 with the embedding and the head.
const MODEL: &str = "model = { layers = 14, width = 128, heads = 4, context = 64 }";

struct Row {
    kind: &'static str,
    predicted_ms: f64,
    measured_ms: f64,
    peak_error: f64,
}

/// Trains `n_steps` steps with each kind on devices of `speed` and prints the table.
pub(crate) fn run(root: &Path, n_steps: usize, speed: f64) -> Result<(), String> {
    release_build(root)?;
    let folder = std::env::temp_dir().join(format!("cavalcade-schedules-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    println!("{} | commit {} | speed {speed}, {n_steps} steps\n", machine(), commit(root));
    let rows = rows(root, &folder, n_steps, speed);
    let _ = fs::remove_dir_all(&folder);
    let rows = rows?;
    let place = |value: fn(&Row) -> f64, row: &Row| {
        1 + rows.iter().filter(|other| value(other) < value(row)).count()
    };
    let head = "| schedule | predicted ms | measured ms | error % | place predicted | measured";
    println!("\n{head} | worst rank's peak error % |");
    println!("|---|---|---|---|---|---|---|");
    for row in &rows {
        println!(
            "| {} | {:.1} | {:.1} | {:+.1} | {} | {} | {:+.1} |",
            row.kind,
            row.predicted_ms,
            row.measured_ms,
            (row.measured_ms / row.predicted_ms - 1.0) * 100.0,
            place(|row| row.predicted_ms, row),
            place(|row| row.measured_ms, row),
            row.peak_error * 100.0,
        );
    }
    Ok(())
}

fn rows(root: &Path, folder: &Path, n_steps: usize, speed: f64) -> Result<Vec<Row>, String> {
    let profile = folder.join("profile.json");
    // A copy, as a change of the text would change the model.
    fs::copy(root.join("README.md"), folder.join("text.md")).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for (kind, pipelines) in KINDS {
        let path = folder.join("c.toml");
        let text = configuration(kind, pipelines, n_steps, speed);
        fs::write(&path, text).map_err(|e| e.to_string())?;
        if !profile.exists() {
            probe(root, &path, &profile)?;
        }
        let set = format!("profile={}", profile.display());
        let arguments = [&path.display().to_string()[..], "--set", &set];
        let row = train(root, &arguments, kind)?;
        println!("{kind}: {:.1} ms predicted, {:.1} measured", row.predicted_ms, row.measured_ms);
        rows.push(Row {
            kind,
            predicted_ms: row.predicted_ms,
            measured_ms: row.measured_ms,
            peak_error: row.peak_error,
        });
    }
    Ok(rows)
}

fn configuration(kind: &str, pipelines: &[&str], n_steps: usize, speed: f64) -> String {
    let mut text = format!(
        "seed = 1\n{MODEL}\ndata = {{ path = \"text.md\" }}\n\
         train = {{ steps = {n_steps}, global_batch = 12, microbatch = 1 }}\n\
         plan = {{ schedule = \"{kind}\" }}\n"
    );
    for devices in pipelines {
        text += &format!("[[pipeline]]\ndevices = {devices}\n");
    }
    for name in ["a", "b", "c", "d"] {
        text += &format!("[[device]]\nname = \"{name}\"\nspeed = {speed}\n");
    }
    text + "[link]\nlatency = \"200 us\"\nbandwidth = \"2 Gbit/s\"\n"
}

fn probe(root: &Path, configuration: &Path, out: &Path) -> Result<(), String> {
    let status = Command::new(root.join("target/release/cavalcade"))
        .arg("probe")
        .arg(configuration)
        .arg("--out")
        .arg(out)
        .current_dir(root)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err("the probe failed".to_owned()),
    }
}
