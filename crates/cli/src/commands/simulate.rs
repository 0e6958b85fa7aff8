//! `cavalcade simulate`: a plan on a cluster that need not be there.

use crate::arguments::Simulate;
use crate::times::span;
use crate::{exit, output};
use anyhow::{Context, Result, anyhow};
use cavalcade::{
    Nanos, Simulation, SimulationFiles, SimulationPasses, Trouble, chrome_trace, simulation_json,
    simulation_svg,
};
use std::path::Path;

pub(crate) fn run(arguments: &Simulate) -> Result<u8> {
    let files = SimulationFiles {
        plan: arguments.plan.clone(),
        model: arguments.model.clone(),
        cluster: arguments.cluster.clone(),
        profile: arguments.profile.clone(),
    };
    let passes = SimulationPasses {
        split_backward: arguments.split_backward,
        recompute: arguments.recompute,
        offload: arguments.offload,
        reduction: arguments.reduce.parse().map_err(|error| anyhow!("--reduce: {error}"))?,
    };
    let simulation = Simulation::new(&files, passes, &trouble(arguments)?)?;
    if let Some(path) = &arguments.svg {
        write("--svg", path, &simulation_svg(&simulation)?)?;
    }
    if let Some(path) = &arguments.trace {
        let Simulation { schedule, cluster, prediction, .. } = &simulation;
        let trace = chrome_trace(schedule, cluster, &prediction.trace, None);
        write("--trace", path, &trace.to_string())?;
    }
    if arguments.json {
        output::print(&simulation_json(&simulation).to_string());
    } else {
        output::print(&report(&simulation));
    }
    Ok(exit::OK)
}

fn write(flag: &str, path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("{flag} {} cannot be written", path.display()))
}

fn trouble(arguments: &Simulate) -> Result<Trouble> {
    let parts = |flag: &str, text: &str, form: &str| {
        let parts = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        parts.ok_or_else(|| anyhow!("{flag}: `{text}` is not {form}"))
    };
    let mut trouble =
        Trouble { seed: arguments.seed, jitter: arguments.jitter, ..Trouble::default() };
    for text in &arguments.slow {
        let form = "DEVICE=FACTOR, such as b=1.5";
        let (device, factor) = parts("--slow", text, form)?;
        let factor = factor.parse().map_err(|_| anyhow!("--slow: `{text}` is not {form}"))?;
        trouble.slow.push((device, factor));
    }
    for text in &arguments.dies {
        let (device, at) = parts("--dies", text, "DEVICE=TIME, such as b=120ms")?;
        trouble.dies.push((device, span("--dies", &at)?));
    }
    for text in &arguments.stalls {
        trouble.stalls.push(stall(text)?);
    }
    Ok(trouble)
}

fn stall(text: &str) -> Result<(String, String, Nanos, Option<Nanos>)> {
    let wrong = || anyhow!("--stalls: `{text}` is not FROM,TO=TIME[+TIME], such as a,b=120ms+50ms");
    let (ends, times) = text.split_once('=').ok_or_else(wrong)?;
    let (from, to) = ends.split_once(',').ok_or_else(wrong)?;
    let (at, lasts) = match times.split_once('+') {
        Some((at, lasts)) => (at, Some(span("--stalls", lasts)?)),
        None => (times, None),
    };
    Ok((from.to_owned(), to.to_owned(), span("--stalls", at)?, lasts))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn report(simulation: &Simulation) -> String {
    let prediction = &simulation.prediction;
    let mut facts = vec![
        ("step", prediction.step_time.to_string()),
        (
            "per second",
            format!("{:.0} {}", simulation.tokens_per_second(), simulation.model.unit()),
        ),
        (
            "utilization (MFU)",
            simulation
                .utilization()
                .map_or_else(|| "unknown: a device has no `flops`".to_owned(), percent),
        ),
        ("bubble", percent(prediction.bubble_fraction)),
        ("exposed communication", percent(simulation.exposed_fraction())),
    ];
    if let Some((link, busy, bytes)) = simulation.busiest_link() {
        facts.push(("busiest link", format!("{link}: {} busy, {bytes} a step", percent(busy))));
    }
    let shares = simulation.critical_shares();
    let mut labels = ["limited by", "then", ""].into_iter();
    for ((what, share), label) in shares.iter().zip(&mut labels) {
        facts.push((label, format!("{what}: {} of the critical path", percent(*share))));
    }
    let n_simulated = simulation.working().count();
    let n_devices = simulation.n_devices();
    let mut text = String::new();
    if n_devices > n_simulated {
        text = format!("{n_devices} devices, of which {n_simulated} stand for all\n\n");
    }
    for (name, value) in facts {
        text += &format!("{name:<22} {value}\n");
    }
    let rows: Vec<Vec<String>> = simulation
        .working()
        .map(|device| {
            let used = prediction.devices[device.idx()];
            let memory = simulation.cluster.device(device).memory;
            vec![
                simulation.name(device).to_owned(),
                used.busy.to_string(),
                used.idle.to_string(),
                used.exposed.to_string(),
                prediction.peak_bytes[device.idx()].to_string(),
                memory.map_or_else(|| "no limit".to_owned(), |memory| memory.to_string()),
            ]
        })
        .collect();
    let head = ["device", "busy", "idle", "exposed", "peak", "memory"];
    text + "\n" + &output::table(&head, &rows)
}
