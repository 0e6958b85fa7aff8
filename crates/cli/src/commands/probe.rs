//! `cavalcade probe`: measures this machine and writes a profile.

use super::input;
use crate::arguments::Probe;
use crate::{exit, output};
use anyhow::{Context, Result, bail};
use cavalcade::{Dataset, probe};
use indicatif::{ProgressBar, ProgressStyle};

/// Parts that `probe` announces.
const N_PARTS: u64 = 3;

pub(crate) fn run(arguments: &Probe) -> Result<u8> {
    let config = input::config(&arguments.config)?;
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("--out {}: there is no folder {}", arguments.out.display(), folder.display());
    }
    let (meter, _) = input::meter();
    let data = Dataset::read(&config)?;
    let bar = if output::is_watched() { ProgressBar::new(N_PARTS) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("measuring {msg:10} {bar:20} {pos}/{len}") {
        bar.set_style(style);
    }
    let profile = probe(&config, &data, &*meter, &mut |part| {
        bar.set_message(part.to_owned());
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    write(arguments, &profile.to_json())?;
    if arguments.json {
        output::print(profile.to_json().trim_end());
        return Ok(exit::OK);
    }
    let rows: Vec<Vec<String>> = profile
        .layers
        .iter()
        .map(|layer| {
            vec![
                layer.name.clone(),
                layer.forward.to_string(),
                layer.backward.to_string(),
                layer.backward_input.to_string(),
                layer.backward_weight.to_string(),
                layer.saved.to_string(),
                layer.workspace.to_string(),
            ]
        })
        .collect();
    let head = ["layer", "forward", "backward", "input part", "weight part", "saved", "workspace"];
    output::print(&output::table(&head, &rows));
    output::print(&format!(
        "\nmicro-batch {} x {} {}, one thread; optimizer {} a million parameters; \
         loopback {} and {}; {} an op beside its arithmetic\nwritten to {}",
        profile.microbatch_size,
        profile.sequence,
        config.model.unit(),
        profile.optimizer_per_million,
        profile.loopback.latency,
        profile.loopback.bandwidth,
        profile.op_overhead,
        arguments.out.display(),
    ));
    Ok(exit::OK)
}

fn write(arguments: &Probe, text: &str) -> Result<()> {
    let path = &arguments.out;
    std::fs::write(path, text)
        .with_context(|| format!("--out {} cannot be written", path.display()))
}
