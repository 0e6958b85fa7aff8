//! Continues a text with a trained model, on one device.

use crate::error::Error;
use crate::whole::whole_chunk;
use cavalcade_data::Tokenizer;
use cavalcade_model::{GptConfig, Network};
use cavalcade_nn::{Chunk, ChunkInput};
use cavalcade_runtime::{RunError, Values};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::Path;

/// The folder of a model: what `generate` reads and a run writes.
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const TOKENIZER: &str = "tokenizer.json";

/// The weights in a model's folder, by logical name.
pub(crate) fn weights(folder: &Path, network: &Network) -> Result<Values, Error> {
    let model = network.model();
    let params = model.params_of(0..model.n_layers());
    let expected = params.iter().map(|param| (&param.spec.name[..], &param.spec.shape[..]));
    let tensors = cavalcade_checkpoint::read_expected(&folder.join(WEIGHTS), expected)?;
    Ok(tensors.into_iter().map(|(name, tensor)| (name, tensor.into_values())).collect())
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the likeliest token.
    pub temperature: f64,
    /// Choose among this many likeliest; 0 for all.
    pub top_k: usize,
    /// Seed of the choices.
    pub seed: u64,
}

/// A whole model in this process.
pub struct Generator {
    config: GptConfig,
    chunk: Box<dyn Chunk>,
    tokenizer: Tokenizer,
}

impl Generator {
    /// Reads a model's folder.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(CONFIG);
        let Network::Gpt(config) = Network::read(&path)? else {
            let problem = "the model tells classes of images apart; only a language model, \
                           trained with model.kind = \"gpt\", continues a text";
            return Err(Error::Argument(format!("{}: {problem}", path.display())));
        };
        let tokenizer = Tokenizer::read(&folder.join(TOKENIZER))?;
        if tokenizer.vocab_size() != config.vocab {
            let (path, tokens) = (folder.join(TOKENIZER), tokenizer.vocab_size());
            let problem = format!("{tokens} tokens, but the model has {}", config.vocab);
            return Err(Error::Argument(format!("{}: {problem}", path.display())));
        }
        let network = Network::Gpt(config.clone());
        let chunk = whole_chunk(&network, &weights(folder, &network)?)?;
        Ok(Self::of_chunk(config, tokenizer, chunk))
    }

    /// A model from its parts; `weights` by logical name.
    ///
    /// # Errors
    /// If a parameter is missing or has another size.
    pub fn new(config: GptConfig, tokenizer: Tokenizer, weights: &Values) -> Result<Self, Error> {
        let chunk = whole_chunk(&Network::Gpt(config.clone()), weights)?;
        Ok(Self::of_chunk(config, tokenizer, chunk))
    }

    /// A model whose layers are all in `chunk`.
    pub(crate) fn of_chunk(config: GptConfig, tokenizer: Tokenizer, chunk: Box<dyn Chunk>) -> Self {
        Self { config, chunk, tokenizer }
    }

    /// `prompt` and `n_tokens` more.
    ///
    /// # Errors
    /// If the prompt is empty or has characters that the model does not know.
    pub fn continue_text(
        &self,
        prompt: &str,
        n_tokens: usize,
        sampling: Sampling,
    ) -> Result<String, Error> {
        if prompt.is_empty() {
            return Err(Error::Argument("the prompt is empty; give some text".to_owned()));
        }
        if !(sampling.temperature >= 0.0 && sampling.temperature.is_finite()) {
            let problem = format!("a temperature is 0 or more, not {}", sampling.temperature);
            return Err(Error::Argument(problem));
        }
        let mut tokens = self.tokenizer.encode(prompt)?;
        let mut random = ChaCha8Rng::seed_from_u64(sampling.seed);
        for _ in 0..n_tokens {
            let window = &tokens[tokens.len().saturating_sub(self.config.context)..];
            let input =
                ChunkInput::Tokens { ids: window.to_vec(), batch: 1, sequence: window.len() };
            let logits = self.chunk.logits(input).map_err(RunError::from)?;
            let last = &logits.data[logits.data.len() - self.config.vocab..];
            tokens.push(choose(last, sampling, &mut random));
        }
        Ok(self.tokenizer.decode(&tokens))
    }
}

/// Draws from the softmax of `logits / temperature`, among the `top_k` likeliest.
fn choose(logits: &[f32], sampling: Sampling, random: &mut ChaCha8Rng) -> u32 {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
    if sampling.temperature == 0.0 {
        return order[0];
    }
    if sampling.top_k > 0 {
        order.truncate(sampling.top_k);
    }
    let highest = f64::from(logits[order[0] as usize]);
    let weight =
        |&token: &u32| ((f64::from(logits[token as usize]) - highest) / sampling.temperature).exp();
    let total: f64 = order.iter().map(weight).sum();
    // 53 random bits make a double in [0, 1).
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let mut left = uniform * total;
    for token in &order {
        left -= weight(token);
        if left < 0.0 {
            return *token;
        }
    }
    order[order.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::{Sampling, choose};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn greedy_takes_the_likeliest_and_top_k_excludes_the_rest() {
        let logits = [0.0, 2.0, 1.9, -5.0];
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let greedy = Sampling { temperature: 0.0, top_k: 0, seed: 0 };
        assert_eq!(choose(&logits, greedy, &mut random), 1);
        let top_two = Sampling { temperature: 5.0, top_k: 2, seed: 0 };
        let mut seen = [0; 4];
        for _ in 0..200 {
            seen[choose(&logits, top_two, &mut random) as usize] += 1;
        }
        assert!(seen[0] == 0 && seen[3] == 0 && seen[1] > 50 && seen[2] > 50, "{seen:?}");
    }
}
