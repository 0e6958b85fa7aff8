//! `cavalcade generate`: continues a text.

use crate::arguments::Generate;
use crate::{exit, output};
use anyhow::{Result, bail};
use cavalcade::{Generator, Sampling};
use serde_json::json;

pub(crate) fn run(arguments: &Generate) -> Result<u8> {
    let inner = arguments.model.join("model");
    if !arguments.model.join("config.json").exists() && inner.join("config.json").exists() {
        bail!(
            "--model {}: this is a run's folder; its model is in {}",
            arguments.model.display(),
            inner.display()
        );
    }
    let generator = Generator::read(&arguments.model)?;
    let sampling = Sampling {
        temperature: arguments.temperature,
        top_k: arguments.top_k,
        seed: arguments.seed,
    };
    let text = generator.continue_text(&arguments.prompt, arguments.tokens, sampling)?;
    if arguments.json {
        output::print(&json!({ "prompt": arguments.prompt, "text": text }).to_string());
    } else {
        output::print(&text);
    }
    Ok(exit::OK)
}
