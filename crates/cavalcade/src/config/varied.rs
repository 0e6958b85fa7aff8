//! Other configurations made of one: what comparisons are between.

use super::file::{CombineWord, ConfigFile, OptimizerWord, PipelineFile, SyncWord};
use super::{Config, ConfigError, overrides};
use cavalcade_units::DeviceId;
use toml::Table;

impl Config {
    /// The same with other values of these keys.
    ///
    /// # Errors
    /// If they make no sense, as when a file says so.
    pub fn varied(&self, values: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let mut table = Table::try_from(&self.file).expect("the file was read from TOML");
        for (key, value) in values {
            overrides::apply(&mut table, &format!("{key}={value}"))?;
        }
        let file: Result<ConfigFile, toml::de::Error> = table.try_into();
        let file = file.map_err(|error| ConfigError::Override {
            text: values.iter().map(|(key, value)| format!("{key}={value}")).collect(),
            problem: error.message().to_owned(),
        })?;
        Self::check(file, &self.path)
    }

    /// The nodes of its cluster, in the order of their first devices.
    pub fn nodes(&self) -> Vec<String> {
        let mut nodes: Vec<String> = Vec::new();
        for device in self.cluster.devices() {
            if !nodes.iter().any(|node| node == device.node()) {
                nodes.push(device.node().to_owned());
            }
        }
        nodes
    }

    /// The same with the devices of these nodes alone.
    ///
    /// # Errors
    /// If what is left makes no sense.
    pub fn narrowed(&self, nodes: &[&str]) -> Result<Self, ConfigError> {
        let mut file = self.file.clone();
        let stays = |name: &str| {
            let device = self.cluster.device_named(name);
            device.is_some_and(|device| nodes.contains(&self.cluster.device(device).node()))
        };
        file.device.retain(|device| stays(&device.name));
        file.links.retain(|link| stays(&link.from) && stays(&link.to));
        Self::check(file, &self.path)
    }

    /// The same with the whole model on each of these devices, which take one micro-batch a step
    /// each and sum their gradients: under plain SGD a sample moves the weights as far as with
    /// replicas that add up their changes.
    ///
    /// # Errors
    /// If that makes no sense.
    pub fn one_stage_each(&self, devices: &[DeviceId]) -> Result<Self, ConfigError> {
        let mut file = self.file.clone();
        let replica = |device: &DeviceId| PipelineFile {
            devices: vec![self.cluster.device(*device).name.clone()],
            layers: None,
            microbatches: Some(1),
        };
        file.pipeline = devices.iter().map(replica).collect();
        file.plan.allocation = None;
        file.plan.schedule = "gpipe".to_owned();
        file.sync.mode = SyncWord::Flush;
        file.sync.elastic = false;
        file.train.global_batch = file.train.microbatch * devices.len() as u32;
        if file.sync.combine == CombineWord::Sum && file.optimizer.kind == OptimizerWord::Sgd {
            // Replicas that add up their changes move as far a sample as a mean of gradients does
            // at a rate that many times as high (the linear scaling rule: Goyal et al. 2017).
            file.optimizer.learning_rate *= devices.len() as f64;
            file.optimizer.learning_rate_floor *= devices.len() as f64;
        }
        Self::check(file, &self.path)
    }
}
