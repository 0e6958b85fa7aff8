//! The layers of a GPT, with GPT-2's names and its initialization.
//!
//! Source: "Language Models are Unsupervised Multitask Learners" (Radford et al., 2019) section
//! 2.3, and the tensor names of Hugging Face's `GPT2LMHeadModel` without the `transformer.`
//! prefix. Ours differs in that biases can be left out.

use crate::layer::spec;
use crate::{GptConfig, Init, Layer, Model, ParamSpec, Tie};

const STD: f32 = 0.02;
const NORMAL: Init = Init::Normal { std: STD };

pub(crate) fn model(config: &GptConfig) -> Model {
    let head_idx = u32::try_from(config.layers + 1).expect("checked sizes fit in 32 bits");
    let token = spec("wte.weight", &[config.vocab, config.width], NORMAL);
    let mut layers = vec![embedding(config, &token)];
    layers.extend((0..config.layers).map(|idx| block(config, idx)));
    layers.push(head(config));
    let ties = if config.tied {
        vec![Tie { param: token, layers: vec![0, head_idx] }]
    } else {
        Vec::new()
    };
    Model { layers, ties }
}

fn embedding(config: &GptConfig, token: &ParamSpec) -> Layer {
    let mut params = if config.tied { Vec::new() } else { vec![token.clone()] };
    params.push(spec("wpe.weight", &[config.context, config.width], NORMAL));
    Layer { name: "embedding".to_owned(), params, work: 0 }
}

fn block(config: &GptConfig, idx: usize) -> Layer {
    let (width, name) = (config.width, format!("h.{idx}"));
    // Each block adds to the residual stream twice (section 2.3: scaled by 1 / sqrt(N)).
    let residual = Init::Normal { std: STD / ((2 * config.layers) as f32).sqrt() };
    let mut params = Vec::new();
    norm(&mut params, config, &format!("{name}.ln_1"));
    linear(&mut params, config, &format!("{name}.attn.c_attn"), [width, 3 * width], NORMAL);
    linear(&mut params, config, &format!("{name}.attn.c_proj"), [width, width], residual);
    norm(&mut params, config, &format!("{name}.ln_2"));
    linear(&mut params, config, &format!("{name}.mlp.c_fc"), [width, 4 * width], NORMAL);
    linear(&mut params, config, &format!("{name}.mlp.c_proj"), [4 * width, width], residual);
    let (width, context) = (config.width as u64, config.context as u64);
    Layer { name, params, work: 24 * width * width + 4 * context * width }
}

fn head(config: &GptConfig) -> Layer {
    let mut params = Vec::new();
    norm(&mut params, config, "ln_f");
    if !config.tied {
        params.push(spec("lm_head.weight", &[config.vocab, config.width], NORMAL));
    }
    let work = 2 * config.vocab as u64 * config.width as u64;
    Layer { name: "head".to_owned(), params, work }
}

fn norm(params: &mut Vec<ParamSpec>, config: &GptConfig, name: &str) {
    params.push(spec(&format!("{name}.weight"), &[config.width], Init::Ones));
    if config.bias {
        params.push(spec(&format!("{name}.bias"), &[config.width], Init::Zeros));
    }
}

fn linear(
    params: &mut Vec<ParamSpec>,
    config: &GptConfig,
    name: &str,
    shape: [usize; 2],
    init: Init,
) {
    params.push(spec(&format!("{name}.weight"), &shape, init));
    if config.bias {
        params.push(spec(&format!("{name}.bias"), &shape[1..], Init::Zeros));
    }
}

#[cfg(test)]
mod tests {
    use crate::{GptConfig, Model};
    use std::ops::Range;

    fn listing(model: &Model, layers: Range<u32>) -> String {
        let mut text = String::new();
        for param in model.params_of(layers) {
            let tie = param.tie.map_or(String::new(), |tie| format!(" tie {tie}"));
            text += &format!("{} {} {:?}{tie}\n", param.layer, param.spec.name, param.spec.shape);
        }
        text
    }

    #[test]
    fn gpt2_small_has_its_published_size() {
        let config = GptConfig::new(50257, 1024, 768, 12, 12, true, true).unwrap();
        let model = Model::gpt(&config);
        assert_eq!((model.n_layers(), model.n_params()), (14, 124_439_808));
    }

    #[test]
    fn a_tied_weight_is_listed_once_in_every_chunk_that_uses_it() {
        let model = Model::gpt(&GptConfig::new(5, 4, 8, 2, 1, true, false).unwrap());
        let block = "1 h.0.ln_1.weight [8]
1 h.0.attn.c_attn.weight [8, 24]
1 h.0.attn.c_proj.weight [8, 8]
1 h.0.ln_2.weight [8]
1 h.0.mlp.c_fc.weight [8, 32]
1 h.0.mlp.c_proj.weight [32, 8]
";
        let head = "2 ln_f.weight [8]\n";
        assert_eq!(listing(&model, 1..2), block);
        assert_eq!(listing(&model, 2..3), format!("{head}2 wte.weight [5, 8] tie 0\n"));
        let whole = format!("0 wpe.weight [4, 8]\n{block}{head}0 wte.weight [5, 8] tie 0\n");
        assert_eq!(listing(&model, 0..3), whole);
    }

    #[test]
    fn an_untied_model_with_biases_names_them() {
        let model = Model::gpt(&GptConfig::new(5, 4, 8, 2, 1, false, true).unwrap());
        assert_eq!(listing(&model, 0..1), "0 wte.weight [5, 8]\n0 wpe.weight [4, 8]\n");
        let head = "2 ln_f.weight [8]\n2 ln_f.bias [8]\n2 lm_head.weight [5, 8]\n";
        assert_eq!(listing(&model, 2..3), head);
        assert!(listing(&model, 1..2).contains("h.0.attn.c_attn.bias [24]"));
        assert_eq!(model.layers[1].work, 24 * 64 + 4 * 4 * 8);
    }
}
