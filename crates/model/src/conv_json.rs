//! `config.json` of a convolutional network, read and written. The form is ours, in words that
//! Hugging Face uses for classifiers of images; unknown fields are ignored, as in a GPT's.

use crate::{ConvConfig, ModelError};
use serde::{Deserialize, Serialize};

pub(crate) const MODEL_TYPE: &str = "conv";

#[derive(Serialize, Deserialize)]
struct ConfigFile {
    model_type: String,
    image_size: usize,
    num_channels: usize,
    conv_sizes: Vec<usize>,
    hidden_sizes: Vec<usize>,
    num_labels: usize,
}

impl ConvConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// Not JSON of this form, or illegal sizes.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let file: ConfigFile = serde_json::from_str(text)?;
        let config = Self {
            image: file.image_size,
            channels: file.num_channels,
            convolutions: file.conv_sizes,
            hidden: file.hidden_sizes,
            classes: file.num_labels,
        };
        config.check()?;
        Ok(config)
    }

    /// The text of a `config.json`.
    pub fn to_json(&self) -> String {
        let file = ConfigFile {
            model_type: MODEL_TYPE.to_owned(),
            image_size: self.image,
            num_channels: self.channels,
            conv_sizes: self.convolutions.clone(),
            hidden_sizes: self.hidden.clone(),
            num_labels: self.classes,
        };
        serde_json::to_string_pretty(&file).expect("a struct of plain fields is always JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use crate::ConvConfig;
    use crate::conv_config::tests::small;

    #[test]
    fn a_config_survives_its_text() {
        assert_eq!(ConvConfig::from_json(&small().to_json()).unwrap(), small());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let text = small().to_json();
        for (old, new, wanted) in [
            ("\"num_labels\": 5", "\"labels\": 5", "missing field `num_labels`"),
            ("\"image_size\": 8", "\"image_size\": 9", "an image of 9 x 9 pixels cannot be halved"),
            ("\"num_labels\": 5", "\"num_labels\": \"five\"", "invalid type: string"),
        ] {
            assert!(text.contains(old), "{old} in {text}");
            let error = ConvConfig::from_json(&text.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
