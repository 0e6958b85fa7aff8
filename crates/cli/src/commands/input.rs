//! What several commands begin with: the configuration, the data, the profile, the workers.

use crate::arguments::ConfigArguments;
use crate::memory::ProcessMeter;
use crate::output;
use crate::place;
use anyhow::{Context, Result, bail};
use cavalcade::{
    Config, ConfigError, Dataset, Error, Interrupt, Launch, Meter, Prepared, Profile, Secret,
    check_address, probe,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration that is used when none is named.
const DEFAULT: &str = "examples/motley.toml";

/// Reads the configuration. Overridden paths are relative to the current folder, as the shell
/// completes them; those in the file are relative to the file.
pub(crate) fn config(arguments: &ConfigArguments) -> Result<Config> {
    let path = match &arguments.config {
        Some(path) => path.clone(),
        None => default_config()?,
    };
    let here = std::env::current_dir().context("the current folder cannot be read")?;
    let overrides: Vec<String> =
        arguments.set.iter().map(|text| absolute_override(text, &here)).collect();
    match Config::read(&path, &overrides) {
        // A message names the override as it was typed, not as it was completed.
        Err(ConfigError::Override { text, problem }) => {
            let typed = overrides.iter().position(|made| *made == text);
            let text = typed.map_or(text, |idx| arguments.set[idx].clone());
            Err(Error::from(ConfigError::Override { text, problem }).into())
        }
        other => Ok(other.map_err(Error::from)?),
    }
}

fn default_config() -> Result<PathBuf> {
    let here = std::env::current_dir().context("the current folder cannot be read")?;
    let found = here.ancestors().map(|folder| folder.join(DEFAULT)).find(|path| path.is_file());
    found.with_context(|| {
        format!("no CONFIG given, and no {DEFAULT} here or in a folder above; name a configuration")
    })
}

fn absolute_override(text: &str, here: &Path) -> String {
    match text.split_once('=') {
        Some((key @ ("data.path" | "profile"), value))
            if !value.trim_start().starts_with(['[', '"', '\'']) =>
        {
            format!("{key}={}", here.join(value.trim()).display())
        }
        _ => text.to_owned(),
    }
}

/// A run that is ready to start: with the profile that the configuration names, or one measured
/// now.
pub(crate) fn prepare(config: Config, meter: &ProcessMeter) -> Result<Prepared> {
    if config.launch.port != 0 {
        let address = SocketAddr::new(config.launch.bind, config.launch.port);
        check_address(address).map_err(Error::from)?;
    }
    let data = Dataset::read(&config)?;
    let profile = match &config.profile {
        Some(path) => Profile::read(path).map_err(Error::from)?,
        None => probe(&config, &data, meter, &mut |_| {})?,
    };
    Ok(Prepared::new(config, data, profile)?)
}

/// How the workers of a run whose resolved configuration is at `config` are started.
///
/// Where a launcher has set `RANK`, this process is rank 0's: it coordinates at the address that
/// all were told, starts its own worker, and waits for the others to come by themselves.
pub(crate) fn launch(config: &Config, resolved: &Path, n_ranks: usize) -> Result<Launch> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let mut launch = Launch {
        program,
        arguments: vec!["worker".to_owned(), resolved.display().to_string()],
        bind: config.launch.bind,
        port: config.launch.port,
        secret: Secret::generate(),
        external_ranks: config.launch.external_ranks.clone(),
        join_timeout: config.launch.join_timeout,
    };
    if !launch.external_ranks.is_empty() {
        // Whoever starts a rank by hand must know the secret beforehand.
        launch.secret = place::secret().context("launch.external_ranks is set")?;
    }
    if let Some(place) = place::from_environment()? {
        if place.world_size != n_ranks {
            bail!("WORLD_SIZE={}, but the plan uses {n_ranks} devices", place.world_size);
        }
        launch.bind = place.master.ip();
        launch.port = place.master.port();
        launch.secret = place.secret;
        launch.external_ranks = (1..n_ranks as u32).collect();
    }
    Ok(launch)
}

/// A handle that Ctrl-C and a termination signal raise.
pub(crate) fn interrupt() -> Result<Interrupt> {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    ctrlc::set_handler(move || {
        if raised.is_raised() {
            // The second time somebody is in a hurry.
            std::process::exit(4);
        }
        output::remark("interrupted: ending the workers");
        raised.raise();
    })
    .context("the signal handler cannot be set")?;
    Ok(interrupt)
}

/// The meter of this process, also as a shared handle.
pub(crate) fn meter() -> (Arc<ProcessMeter>, Arc<dyn Meter>) {
    let meter = Arc::new(ProcessMeter::start());
    let shared: Arc<dyn Meter> = Arc::clone(&meter) as Arc<dyn Meter>;
    (meter, shared)
}

/// A folder that is gone when this is.
pub(crate) struct TemporaryFolder {
    pub(crate) path: PathBuf,
}

impl TemporaryFolder {
    /// One for `what`, of this process alone.
    pub(crate) fn create(what: &str) -> Result<Self> {
        let name = format!("cavalcade-{what}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be taken away is left to the system's own cleaning of its temporary folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
