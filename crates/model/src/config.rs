//! The sizes of a GPT, checked once.

use crate::ModelError;
use crate::family::hash;

/// The sizes of a decoder-only transformer in GPT-2's form: pre-norm, learned positions,
/// a feed-forward part of four times the width, GELU by its tanh approximation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GptConfig {
    /// Number of token ids.
    pub vocab: usize,
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Numbers in a token's activation.
    pub width: usize,
    /// Attention heads; divides the width.
    pub heads: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Whether the head uses the token embedding as its matrix.
    pub tied: bool,
    /// Whether linear layers and layer norms have a bias.
    pub bias: bool,
}

/// Largest legal sizes. With them no count of parameters, bytes or FLOPs passes 2^63.
const LIMITS: [(&str, usize); 5] = [
    ("vocab", 1 << 22),
    ("context", 1 << 20),
    ("width", 1 << 16),
    ("heads", 1 << 16),
    ("layers", 1 << 12),
];

impl GptConfig {
    /// Checks the sizes.
    ///
    /// # Errors
    /// A size is zero or too large, or the width does not divide into the heads.
    pub fn new(
        vocab: usize,
        context: usize,
        width: usize,
        heads: usize,
        layers: usize,
        tied: bool,
        bias: bool,
    ) -> Result<Self, ModelError> {
        let config = Self { vocab, context, width, heads, layers, tied, bias };
        config.check()?;
        Ok(config)
    }

    /// Checks the sizes of a value that was written out field by field.
    ///
    /// # Errors
    /// As [`GptConfig::new`].
    pub fn check(&self) -> Result<(), ModelError> {
        let sizes = [self.vocab, self.context, self.width, self.heads, self.layers];
        for ((what, max), found) in LIMITS.into_iter().zip(sizes) {
            if found == 0 || found > max {
                return Err(ModelError::Size { what, found, max });
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(ModelError::Heads { width: self.width, heads: self.heads });
        }
        Ok(())
    }

    /// A short text that differs between configs: 16 hexadecimal digits of the SHA-256 of
    /// their sizes. A profile carries it, so that it is not used for another model.
    pub fn fingerprint(&self) -> String {
        let Self { vocab, context, width, heads, layers, tied, bias } = self;
        hash(&format!("gpt2 {vocab} {context} {width} {heads} {layers} {tied} {bias}"))
    }
}

#[cfg(test)]
mod tests {
    use super::GptConfig;

    fn check(sizes: [usize; 5]) -> String {
        let [vocab, context, width, heads, layers] = sizes;
        match GptConfig::new(vocab, context, width, heads, layers, true, true) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn illegal_sizes_are_refused_with_the_legal_ones() {
        for (sizes, wanted) in [
            ([65, 16, 32, 4, 2], "ok"),
            ([65, 16, 32, 4, 0], "layers is 0; use a value from 1 to 4096"),
            ([1 << 23, 16, 32, 4, 1], "vocab is 8388608; use a value from 1 to 4194304"),
            ([65, 16, 30, 4, 2], "width 30 does not divide into 4 heads; use a multiple of 4"),
        ] {
            assert_eq!(check(sizes), wanted);
        }
    }

    #[test]
    fn fingerprints_tell_configs_apart() {
        let one = GptConfig::new(65, 16, 32, 4, 2, true, true).unwrap();
        let two = GptConfig { bias: false, ..one.clone() };
        assert_eq!(one.fingerprint(), one.clone().fingerprint());
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(one.fingerprint().len(), 16);
    }
}
