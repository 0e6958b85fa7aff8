//! `cargo xtask figures`: the default run, several times, as a table for docs/benchmarks.
//!
//! Each row is one run of the release build, as a user would start it; the last rows are minimum,
//! median and maximum. Every run is shown.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What is kept of one run.
pub(crate) struct Row {
    seconds: f64,
    pub(crate) predicted_ms: f64,
    pub(crate) measured_ms: f64,
    /// Of the rank whose peak is furthest from its prediction.
    pub(crate) peak_error: f64,
    val_loss: f64,
    tokens_per_s: f64,
}

impl Row {
    fn cells(&self) -> [f64; 6] {
        let step_error = (self.measured_ms / self.predicted_ms - 1.0) * 100.0;
        [
            self.seconds,
            self.predicted_ms,
            self.measured_ms,
            step_error,
            self.peak_error * 100.0,
            self.val_loss,
        ]
    }
}

/// Runs `train` `n_runs` times and prints the table.
pub(crate) fn run(root: &Path, n_runs: usize) -> Result<(), String> {
    release_build(root)?;
    println!("{} | commit {}\n", machine(), commit(root));
    println!(
        "| run | wall s | predicted ms | measured ms | step error % | peak error % | val loss |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for n in 1..=n_runs {
        let row = train(root, &[], &n.to_string())?;
        println!("{}", line(&n.to_string(), &row.cells()));
        rows.push(row);
    }
    for (name, pick) in [("min", 0), ("median", (n_runs - 1) / 2), ("max", n_runs - 1)] {
        let column = |idx: usize| {
            let mut values: Vec<f64> = rows.iter().map(|row| row.cells()[idx]).collect();
            values.sort_by(f64::total_cmp);
            values[pick]
        };
        println!("{}", line(name, &std::array::from_fn(column)));
    }
    let rates: Vec<String> = rows.iter().map(|row| format!("{:.0}", row.tokens_per_s)).collect();
    println!("\ntokens a second by run: {}", rates.join(", "));
    Ok(())
}

fn line(name: &str, cells: &[f64; 6]) -> String {
    let [wall, predicted, measured, step, peak, loss] = cells;
    format!(
        "| {name} | {wall:.0} | {predicted:.1} | {measured:.1} | {step:+.1} | {peak:+.1} | \
         {loss:.3} |"
    )
}

/// Builds what is measured.
pub(crate) fn release_build(root: &Path) -> Result<(), String> {
    let build = Command::new("cargo").args(["build", "--release"]).current_dir(root).status();
    match build {
        Ok(status) if status.success() => Ok(()),
        _ => Err("the release build failed".to_owned()),
    }
}

/// One run of `train` with more `arguments`.
pub(crate) fn train(root: &Path, arguments: &[&str], name: &str) -> Result<Row, String> {
    let id = std::process::id();
    let out = std::env::temp_dir().join(format!("cavalcade-{id}-{}", name.replace(':', "-")));
    let start = Instant::now();
    let output = Command::new(root.join("target/release/cavalcade"))
        .arg("train")
        .args(arguments)
        .args(["--json", "--out"])
        .arg(&out)
        .current_dir(root)
        .output()
        .map_err(|e| format!("the run cannot be started: {e}"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(format!("run {name} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(out.join("summary.json")).map_err(|e| e.to_string())?;
    let _ = std::fs::remove_dir_all(&out);
    let summary: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let number = |key: &str| summary[key].as_f64().ok_or(format!("summary.json lacks {key}"));
    let ranks = summary["ranks"].as_array().ok_or("summary.json lacks ranks")?;
    let error = |rank: &Value| {
        let predicted = rank["predicted_peak_bytes"].as_f64().unwrap_or(f64::NAN);
        rank["measured_peak_bytes"].as_f64().unwrap_or(f64::NAN) / predicted - 1.0
    };
    let peak_error = ranks.iter().map(error).max_by(|a, b| a.abs().total_cmp(&b.abs()));
    Ok(Row {
        seconds,
        predicted_ms: number("predicted_step_ms")?,
        measured_ms: number("measured_step_ms")?,
        peak_error: peak_error.unwrap_or(f64::NAN),
        val_loss: number("val_loss")?,
        tokens_per_s: number("tokens_per_s")?,
    })
}

pub(crate) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} | {cores} cores", model.map_or("unknown processor", |(_, name)| name))
}

pub(crate) fn commit(root: &Path) -> String {
    let output =
        Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root).output();
    output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
