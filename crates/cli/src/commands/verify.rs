//! `cavalcade verify`: the planned run against one process on the whole batch.

use super::input;
use super::progress::Quiet;
use super::train::plan_table;
use crate::arguments::Verify;
use crate::{exit, output, place};
use anyhow::{Context, Result};
use cavalcade::Trainer;

pub(crate) fn run(arguments: &Verify) -> Result<u8> {
    if place::from_environment()?.is_some_and(|place| place.rank.0 != 0) {
        return super::worker::run(&arguments.config);
    }
    let mut config = input::config(&arguments.config)?;
    let interrupt = input::interrupt()?;
    config.settings.steps = config.settings.steps.max(arguments.steps);
    let (meter, shared) = input::meter();
    let prepared = input::prepare(config, &meter)?;
    if !arguments.json {
        output::print(&plan_table(&prepared));
    }
    let folder = input::TemporaryFolder::create("verify")?;
    let resolved = folder.path.join("config.toml");
    std::fs::write(&resolved, prepared.config.to_toml())
        .with_context(|| format!("{} cannot be written", resolved.display()))?;
    let n_ranks = prepared.job.devices().len();
    let launch = input::launch(&prepared.config, &resolved, n_ranks)?;
    let trainer = Trainer::new(prepared, shared, interrupt);
    let mut quiet = Quiet::new(launch.external_ranks.clone());
    let verification = trainer.verify(&launch, arguments.steps, arguments.tolerance, &mut quiet)?;
    if arguments.json {
        output::print(&serde_json::to_string(&verification)?);
    } else {
        let rows: Vec<Vec<String>> = verification
            .steps
            .iter()
            .map(|step| {
                vec![
                    step.step.to_string(),
                    format!("{:.6}", step.loss),
                    format!("{:.2e}", step.loss_difference),
                    format!("{:.2e}", step.gradient_difference),
                    format!("{:.2e}", step.weight_difference),
                    if step.clipped { "yes" } else { "no" }.to_owned(),
                ]
            })
            .collect();
        let head = ["step", "loss", "d loss", "d gradient", "d weights", "clipped"];
        output::print(&format!("\n{}\n", output::table(&head, &rows)));
        let verdict = if verification.passed { "equal" } else { "NOT equal" };
        output::print(&format!(
            "{verdict} to one process within {:e}: relative difference of the loss; L2 of the \
             difference over L2 of the whole for the gradient (before clipping) and the weights; \
             each step begins with the same weights",
            verification.tolerance
        ));
    }
    Ok(if verification.passed { exit::OK } else { exit::CHECK_FAILED })
}
