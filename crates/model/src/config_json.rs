//! `config.json` in the words of Hugging Face's GPT-2, read and written.
//!
//! Fields that GPT-2's own files leave out have Hugging Face's defaults (tied, GELU by tanh,
//! epsilon 1e-5); `bias` is ours and is true when absent. Unknown fields are ignored, since those
//! files carry many that say nothing about the network.

use crate::{GptConfig, ModelError};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ConfigFile {
    model_type: Option<String>,
    vocab_size: Option<usize>,
    n_positions: Option<usize>,
    n_embd: Option<usize>,
    n_head: Option<usize>,
    n_layer: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n_inner: Option<usize>,
    tie_word_embeddings: Option<bool>,
    layer_norm_epsilon: Option<f64>,
    activation_function: Option<String>,
    bias: Option<bool>,
}

const MODEL_TYPE: &str = "gpt2";
const ACTIVATION: &str = "gelu_new";
const EPSILON: f64 = 1e-5;

impl GptConfig {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// Not JSON, fields missing (all are named), a variant that is not built, or illegal sizes.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let file: ConfigFile = serde_json::from_str(text)?;
        let missing: Vec<&str> = [
            ("model_type", file.model_type.is_none()),
            ("vocab_size", file.vocab_size.is_none()),
            ("n_positions", file.n_positions.is_none()),
            ("n_embd", file.n_embd.is_none()),
            ("n_head", file.n_head.is_none()),
            ("n_layer", file.n_layer.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, is_missing)| is_missing.then_some(name))
        .collect();
        let sizes = (file.vocab_size, file.n_positions, file.n_embd, file.n_head, file.n_layer);
        let (
            Some(model_type),
            (Some(vocab), Some(context), Some(width), Some(heads), Some(layers)),
        ) = (file.model_type, sizes)
        else {
            return Err(ModelError::Missing { missing: missing.join(", ") });
        };
        supported("model_type", &model_type, &MODEL_TYPE.to_owned())?;
        let activation = file.activation_function.unwrap_or_else(|| ACTIVATION.to_owned());
        supported("activation_function", &activation, &ACTIVATION.to_owned())?;
        supported("layer_norm_epsilon", &file.layer_norm_epsilon.unwrap_or(EPSILON), &EPSILON)?;
        let inner = width.saturating_mul(4);
        supported("n_inner", &file.n_inner.unwrap_or(inner), &inner)?;
        let (tied, bias) = (file.tie_word_embeddings.unwrap_or(true), file.bias.unwrap_or(true));
        Self::new(vocab, context, width, heads, layers, tied, bias)
    }

    /// The text of a `config.json`.
    pub fn to_json(&self) -> String {
        let file = ConfigFile {
            model_type: Some(MODEL_TYPE.to_owned()),
            vocab_size: Some(self.vocab),
            n_positions: Some(self.context),
            n_embd: Some(self.width),
            n_head: Some(self.heads),
            n_layer: Some(self.layers),
            n_inner: None,
            tie_word_embeddings: Some(self.tied),
            layer_norm_epsilon: Some(EPSILON),
            activation_function: Some(ACTIVATION.to_owned()),
            bias: Some(self.bias),
        };
        serde_json::to_string_pretty(&file).expect("a struct of plain fields is always JSON") + "\n"
    }
}

fn supported<T: PartialEq + std::fmt::Debug>(
    field: &'static str,
    found: &T,
    legal: &T,
) -> Result<(), ModelError> {
    if found == legal {
        return Ok(());
    }
    Err(ModelError::Unsupported { field, found: format!("{found:?}"), legal: format!("{legal:?}") })
}

#[cfg(test)]
mod tests {
    use crate::GptConfig;

    #[test]
    fn a_file_of_hugging_face_is_read() {
        let text = r#"{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
            "attn_pdrop": 0.1, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
            "n_layer": 12, "n_positions": 1024, "layer_norm_epsilon": 1e-05, "n_inner": null,
            "vocab_size": 50257}"#;
        let config = GptConfig::from_json(text).unwrap();
        assert_eq!(config, GptConfig::new(50257, 1024, 768, 12, 12, true, true).unwrap());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (text, wanted) in [
            (
                r#"{"model_type": "gpt2", "n_head": 1, "vocab_size": 2}"#,
                "n_positions, n_embd, n_layer",
            ),
            (
                r#"{"model_type": "llama", "n_head": 1, "vocab_size": 2, "n_positions": 4,
                    "n_embd": 8, "n_layer": 1}"#,
                r#"model_type = "llama"; only "gpt2""#,
            ),
            (
                r#"{"model_type": "gpt2", "n_head": 1, "vocab_size": 2, "n_positions": 4,
                    "n_embd": 8, "n_layer": 1, "n_inner": 16}"#,
                "n_inner = 16; only 32",
            ),
            ("{", "not valid JSON"),
        ] {
            let error = GptConfig::from_json(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
