//! What a GPT's chunks refuse.

use cavalcade_model::GptConfig;
use cavalcade_nn::{Activation, ChunkInput, gpt_chunk};

fn check(layers: std::ops::Range<u32>, input: ChunkInput) -> String {
    let config = GptConfig::new(11, 8, 16, 2, 1, true, true).unwrap();
    match gpt_chunk(&config, layers, 1).logits(input) {
        Ok(output) => format!("ok {:?}", output.shape),
        Err(error) => error.to_string(),
    }
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let tokens = |id, sequence| ChunkInput::Tokens { ids: vec![id; sequence], batch: 1, sequence };
    let activation = |width| {
        ChunkInput::Activation(Activation { data: vec![0.5; width * 2], shape: [1, 2, width] })
    };
    for (layers, input, wanted) in [
        (0..2, tokens(10, 8), "ok [1, 8, 16]"),
        (0..2, tokens(11, 8), "token id 11 is outside the vocabulary of 11"),
        (0..2, tokens(10, 9), "a sequence of 9 tokens exceeds the context of 8"),
        (0..2, activation(16), "got an activation as its input and takes token ids"),
        (1..2, tokens(10, 8), "got token ids as its input and takes an activation"),
        (1..2, activation(12), "the input has shape [1, 2, 12] and [1, 2, 16] is needed"),
        (2..3, activation(16), "ok [1, 2, 11]"),
    ] {
        let found = check(layers.clone(), input);
        assert!(found.contains(wanted), "{layers:?}: {found}");
    }
}
