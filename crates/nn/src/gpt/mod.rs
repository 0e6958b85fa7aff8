//! A run of a GPT's layers as one Burn module and one chunk.
//!
//! Shape letters of this module: B sequences, T tokens in each, W width, H heads, D = W / H,
//! V vocabulary.

mod attention;
mod block;
mod layers;

use crate::burn_chunk::{BurnChunk, ChunkEnds};
use crate::layout::Layout;
use crate::leaves::Leaves;
use crate::{Chunk, ChunkError, ChunkModule, ModuleInput, WeightPass};
use attention::causal_mask;
use block::Block;
use burn::Tensor;
use burn::module::Module;
use burn::tensor::Device;
use cavalcade_model::{GptConfig, Model};
use layers::{LayerNorm, Table};
use std::ops::Range;

/// Consecutive layers of a GPT. Field names are GPT-2's, so that a parameter's path is its logical
/// name but for the number of the first block.
#[derive(Module, Debug)]
struct GptLayers {
    /// The token embedding, if the embedding layer or a tied head is here.
    wte: Option<Table>,
    wpe: Option<Table>,
    h: Vec<Block>,
    ln_f: Option<LayerNorm>,
    lm_head: Option<Table>,
}

/// A chunk of the layers `layers` of a GPT (0 the embedding, `1..=L` the blocks, `L + 1` the head)
/// with the initial weights of `seed`.
///
/// A tied embedding is one parameter where both its layers are here; where only the head is, the
/// chunk has its own copy, which starts with the same values.
///
/// # Panics
/// If the range is empty or reaches past the head.
pub fn gpt_chunk(config: &GptConfig, layers: Range<u32>, seed: u64) -> Box<dyn Chunk> {
    Box::new(burn_chunk(config, layers, seed))
}

fn burn_chunk(config: &GptConfig, layers: Range<u32>, seed: u64) -> BurnChunk<GptLayers> {
    let model = Model::gpt(config);
    assert!(!layers.is_empty(), "a chunk holds at least one layer, not {layers:?}");
    let refs = model.params_of(layers.clone());
    let device = Device::flex().autodiff();
    let leaves = Leaves { refs: &refs, seed, device: &device };
    let n_blocks = u32::try_from(config.layers).expect("checked sizes fit in 32 bits");
    let first_block = layers.start.saturating_sub(1);
    let blocks = first_block..layers.end.saturating_sub(1).min(n_blocks);
    let module = GptLayers {
        wte: leaves.table("wte.weight"),
        wpe: leaves.table("wpe.weight"),
        h: blocks.map(|idx| Block::new(&leaves, &format!("h.{idx}"), config.heads)).collect(),
        ln_f: leaves.has("ln_f.weight").then(|| leaves.norm("ln_f")),
        lm_head: leaves.table("lm_head.weight"),
    };
    let layout = Layout::of_params(&module, leaves.stored(), &|path| logical(path, first_block));
    let ends = ChunkEnds { first: layers.start == 0, last: layers.end == model.n_layers() };
    BurnChunk::with_layout(module, &device, ends, layout)
}

impl ChunkModule for GptLayers {
    fn forward(&self, input: ModuleInput) -> Result<Tensor<3>, ChunkError> {
        self.forward_split(input, &WeightPass::none())
    }

    fn forward_split(
        &self,
        input: ModuleInput,
        weight_pass: &WeightPass,
    ) -> Result<Tensor<3>, ChunkError> {
        let mut x = match (&self.wte, &self.wpe) {
            (Some(wte), Some(wpe)) => {
                let ids = input.tokens()?;
                let [_, sequence] = ids.dims();
                let max = wpe.n_rows();
                if sequence > max {
                    return Err(ChunkError::Sequence { found: sequence, max });
                }
                wte.look_up(ids) + wpe.first_rows(sequence).unsqueeze()
            }
            _ => {
                let x = input.activation()?;
                let (found, width) = (x.dims(), self.width());
                if found[2] != width {
                    let wanted = [found[0], found[1], width];
                    return Err(ChunkError::Shape { what: "the input", found, wanted });
                }
                x
            }
        };
        if !self.h.is_empty() {
            let mask = causal_mask(x.dims()[1], &x.device());
            for block in &self.h {
                x = block.forward(x, &mask, weight_pass);
            }
        }
        Ok(match (&self.ln_f, self.lm_head.as_ref().or(self.wte.as_ref())) {
            (Some(norm), Some(head)) => head.scores(norm.forward(x), weight_pass),
            _ => x,
        })
    }

    fn vocab(&self) -> Option<usize> {
        // Without positions the token table belongs to the head, and no ids come in.
        self.wpe.as_ref().and(self.wte.as_ref()).map(Table::n_rows)
    }
}

impl GptLayers {
    /// W, of a chunk that has no embedding layer.
    fn width(&self) -> usize {
        let norm = self.h.first().map(Block::first_norm).or(self.ln_f.as_ref());
        norm.map(LayerNorm::width).expect("a chunk without embedding has a block or the head")
    }
}

/// The logical name of a field's path in a chunk whose first block is `first_block`.
fn logical(path: &str, first_block: u32) -> String {
    let Some((idx, rest)) = path.strip_prefix("h.").and_then(|rest| rest.split_once('.')) else {
        return path.to_owned();
    };
    let idx: u32 = idx.parse().expect("Burn numbers the entries of a Vec");
    format!("h.{}.{rest}", first_block + idx)
}

impl Leaves<'_> {
    fn table(&self, name: &str) -> Option<Table> {
        self.find(name).map(|weight| Table { weight })
    }

    fn norm(&self, name: &str) -> LayerNorm {
        LayerNorm {
            weight: self.get(&format!("{name}.weight")),
            bias: self.find(&format!("{name}.bias")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::burn_chunk;
    use crate::weight_pass::tests::places;
    use crate::{Chunk, ChunkInput, Targets};
    use cavalcade_model::GptConfig;
    use cavalcade_units::MicrobatchId;

    #[test]
    fn every_matrix_but_the_embeddings_is_left_to_the_weight_pass() {
        for (is_tied, head) in [(true, "wte.weight"), (false, "lm_head.weight")] {
            let config = GptConfig::new(11, 8, 16, 2, 1, is_tied, true).unwrap();
            let mut chunk = burn_chunk(&config, 0..3, 1);
            let ids: Vec<u32> = (0..8).collect();
            let input = ChunkInput::Tokens { ids: ids.clone(), batch: 1, sequence: 8 };
            let microbatch = MicrobatchId(0);
            chunk.forward(microbatch, input, Some(Targets { ids }), 1.0).unwrap();
            chunk.backward_input(microbatch, None).unwrap();
            let [mut kept, due] = places(chunk.owed(microbatch)).map(|slots| {
                let named = |slot| chunk.params().iter().find(|param| param.range() == slot);
                slots.into_iter().map(|slot| named(slot).unwrap().name.as_str()).collect::<Vec<_>>()
            });
            kept.sort_unstable();
            let small = ["h.0.ln_1.bias", "h.0.ln_1.weight", "h.0.ln_2.bias", "h.0.ln_2.weight"];
            let rest = ["ln_f.bias", "ln_f.weight", "wpe.weight", "wte.weight"];
            assert_eq!(kept, [small, rest].concat());
            let maps = ["mlp.c_proj", "mlp.c_fc", "attn.c_proj", "attn.c_attn"];
            let parts = maps.into_iter().flat_map(|map| ["weight", "bias"].map(|part| (map, part)));
            let parts = parts.map(|(map, part)| format!("h.0.{map}.{part}"));
            assert_eq!(due, [head.to_owned()].into_iter().chain(parts).collect::<Vec<_>>());
        }
    }
}
