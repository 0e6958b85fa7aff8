//! `config.json`, whichever family it is of: `model_type` says.

use crate::{ConvConfig, GptConfig, ModelError, Network, conv_json};
use serde::Deserialize;
use std::fs;
use std::path::Path;

#[derive(Deserialize)]
struct Header {
    model_type: Option<String>,
}

impl Network {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// As [`GptConfig::from_json`] and [`ConvConfig::from_json`].
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let Header { model_type } = serde_json::from_str(text)?;
        match model_type.as_deref() {
            Some(conv_json::MODEL_TYPE) => ConvConfig::from_json(text).map(Self::Conv),
            _ => GptConfig::from_json(text).map(Self::Gpt),
        }
    }

    /// The text of a `config.json`.
    pub fn to_json(&self) -> String {
        match self {
            Self::Gpt(config) => config.to_json(),
            Self::Conv(config) => config.to_json(),
        }
    }

    /// Reads a `config.json`.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Network::from_json`], with the file's name.
    pub fn read(path: &Path) -> Result<Self, ModelError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ModelError::File { path: path.to_owned(), source })?;
        Self::from_json(&text)
            .map_err(|error| ModelError::InFile { path: path.to_owned(), source: Box::new(error) })
    }
}

#[cfg(test)]
mod tests {
    use crate::conv_config::tests::small;
    use crate::{GptConfig, Network};

    #[test]
    fn a_network_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let gpt = |tied, bias| GptConfig::new(65, 16, 32, 4, 2, tied, bias).map(Network::Gpt);
        for network in [gpt(true, false), gpt(false, true), Ok(Network::Conv(small()))] {
            let network = network.unwrap();
            std::fs::write(&path, network.to_json()).unwrap();
            assert_eq!(Network::read(&path).unwrap(), network);
        }
    }

    #[test]
    fn an_error_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, r#"{"model_type": "llama"}"#).unwrap();
        let error = Network::read(&path).unwrap_err().to_string();
        assert!(error.contains("config.json: the model config lacks vocab_size"), "{error}");
    }
}
