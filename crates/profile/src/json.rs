//! The file of a profile: JSON, version 2, units in the names of the fields.

use crate::{LayerProfile, LinkProfile, ParamBytes, Profile, ProfileError};
use cavalcade_units::{Bandwidth, Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const VERSION: u64 = 2;

#[derive(Deserialize)]
struct Header {
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    version: u64,
    model: String,
    microbatch_size: u32,
    sequence: u32,
    optimizer_ns_per_million: u64,
    bytes_per_parameter: ParamBytesEntry,
    base_bytes: u64,
    loopback_latency_ns: u64,
    loopback_bytes_per_second: u64,
    op_overhead_ns: u64,
    /// Absent from files written before it was measured.
    #[serde(default)]
    jitter: f64,
    layers: Vec<LayerEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamBytesEntry {
    weights: u64,
    gradients: u64,
    optimizer: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerEntry {
    name: String,
    forward_ns: u64,
    backward_ns: u64,
    backward_input_ns: u64,
    backward_weight_ns: u64,
    saved_bytes: u64,
    deferred_bytes: u64,
    workspace_bytes: u64,
    split_workspace_bytes: u64,
    output_bytes: u64,
}

impl Profile {
    /// Reads the text of a profile.
    ///
    /// # Errors
    /// Not JSON of this form, another version, or a value that makes no sense.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        let Header { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(ProfileError::Version { found: version, legal: VERSION });
        }
        let file: ProfileFile = serde_json::from_str(text)?;
        above_zero("microbatch_size", u64::from(file.microbatch_size))?;
        above_zero("sequence", u64::from(file.sequence))?;
        above_zero("loopback_bytes_per_second", file.loopback_bytes_per_second)?;
        if !(file.jitter >= 0.0 && file.jitter.is_finite()) {
            return Err(ProfileError::Value {
                field: "jitter",
                found: file.jitter.to_string(),
                legal: "a number of at least 0",
            });
        }
        above_zero("the number of layers", file.layers.len() as u64)?;
        Ok(Self {
            model: file.model,
            microbatch_size: file.microbatch_size,
            sequence: file.sequence,
            layers: file.layers.into_iter().map(LayerProfile::from).collect(),
            optimizer_per_million: Nanos(file.optimizer_ns_per_million),
            param_bytes: ParamBytes {
                weights: file.bytes_per_parameter.weights,
                gradients: file.bytes_per_parameter.gradients,
                optimizer: file.bytes_per_parameter.optimizer,
            },
            base: Bytes(file.base_bytes),
            loopback: LinkProfile {
                latency: Nanos(file.loopback_latency_ns),
                bandwidth: Bandwidth::from_bytes_per_second(file.loopback_bytes_per_second as f64),
            },
            op_overhead: Nanos(file.op_overhead_ns),
            jitter: file.jitter,
        })
    }

    /// The text of this profile's file. The bandwidth is kept to a whole byte a second.
    pub fn to_json(&self) -> String {
        let bytes_per_second = self.loopback.bandwidth.bytes_per_second().round() as u64;
        let file = ProfileFile {
            version: VERSION,
            model: self.model.clone(),
            microbatch_size: self.microbatch_size,
            sequence: self.sequence,
            optimizer_ns_per_million: self.optimizer_per_million.0,
            bytes_per_parameter: ParamBytesEntry {
                weights: self.param_bytes.weights,
                gradients: self.param_bytes.gradients,
                optimizer: self.param_bytes.optimizer,
            },
            base_bytes: self.base.0,
            loopback_latency_ns: self.loopback.latency.0,
            loopback_bytes_per_second: bytes_per_second.max(1),
            op_overhead_ns: self.op_overhead.0,
            jitter: self.jitter,
            layers: self.layers.iter().map(LayerEntry::from).collect(),
        };
        serde_json::to_string_pretty(&file).expect("a struct of plain fields is always JSON") + "\n"
    }

    /// Reads a profile's file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Profile::from_json`], with the file's name.
    pub fn read(path: &Path) -> Result<Self, ProfileError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ProfileError::File { path: path.to_owned(), source })?;
        Self::from_json(&text).map_err(|error| ProfileError::InFile {
            path: path.to_owned(),
            source: Box::new(error),
        })
    }

    /// Writes a profile's file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), ProfileError> {
        fs::write(path, self.to_json())
            .map_err(|source| ProfileError::File { path: path.to_owned(), source })
    }
}

fn above_zero(field: &'static str, value: u64) -> Result<(), ProfileError> {
    if value > 0 {
        return Ok(());
    }
    Err(ProfileError::Value { field, found: value.to_string(), legal: "above zero" })
}

impl From<LayerEntry> for LayerProfile {
    fn from(entry: LayerEntry) -> Self {
        Self {
            name: entry.name,
            forward: Nanos(entry.forward_ns),
            backward: Nanos(entry.backward_ns),
            backward_input: Nanos(entry.backward_input_ns),
            backward_weight: Nanos(entry.backward_weight_ns),
            saved: Bytes(entry.saved_bytes),
            deferred: Bytes(entry.deferred_bytes),
            workspace: Bytes(entry.workspace_bytes),
            split_workspace: Bytes(entry.split_workspace_bytes),
            output: Bytes(entry.output_bytes),
        }
    }
}

impl From<&LayerProfile> for LayerEntry {
    fn from(layer: &LayerProfile) -> Self {
        Self {
            name: layer.name.clone(),
            forward_ns: layer.forward.0,
            backward_ns: layer.backward.0,
            backward_input_ns: layer.backward_input.0,
            backward_weight_ns: layer.backward_weight.0,
            saved_bytes: layer.saved.0,
            deferred_bytes: layer.deferred.0,
            workspace_bytes: layer.workspace.0,
            split_workspace_bytes: layer.split_workspace.0,
            output_bytes: layer.output.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;
    use crate::costs::tests::profile;

    #[test]
    fn a_profile_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        profile().write(&path).unwrap();
        assert_eq!(Profile::read(&path).unwrap(), profile());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = profile().to_json();
        for (old, new, wanted) in [
            ("\"version\": 2", "\"version\": 1", "version 1; this build reads version 2: measure"),
            ("\"version\": 2", "\"version\": 3", "version 3; this build reads version 2: measure"),
            ("\"sequence\": 128", "\"sequence\": 0", "sequence of the profile is 0"),
            ("\"op_overhead_ns\"", "\"overhead\"", "unknown field `overhead`"),
            ("\"saved_bytes\": 100,", "", "missing field `saved_bytes`"),
        ] {
            assert!(text.contains(old), "{old}");
            let error = Profile::from_json(&text.replacen(old, new, 1)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn an_error_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let absent = Profile::read(&path).unwrap_err().to_string();
        std::fs::write(&path, "{}").unwrap();
        let empty = Profile::read(&path).unwrap_err().to_string();
        for error in [absent, empty] {
            assert!(error.contains("profile.json"), "{error}");
        }
    }
}
