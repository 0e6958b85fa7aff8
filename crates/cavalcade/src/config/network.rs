//! `[model]` and `[data]`: what is trained, and on what. Some keys belong to one kind of model or
//! data alone; where another kind is asked for they are refused, for nothing would heed them.

use super::ConfigError;
use super::file::{DataFile, DataWord, ModelFile, ModelWord, Paths, TokenizerWord};
use cavalcade_model::{ConvConfig, GptConfig, Network};
use cavalcade_schedule::Kind;
use std::path::{Path, PathBuf};

/// Makes the error of a key.
type Fail<'a> = dyn Fn(&str, String) -> ConfigError + 'a;

/// What a run learns from.
#[derive(Clone, Debug)]
pub enum DataConfig {
    /// A text, for a GPT.
    Text(TextConfig),
    /// Images that are made up, for a convolutional network.
    Images(ImagesConfig),
}

/// Which text, how it becomes tokens.
#[derive(Clone, Debug)]
pub struct TextConfig {
    /// Files, folders and patterns, absolute or relative to `base`.
    pub paths: Vec<String>,
    /// The folder of the configuration file.
    pub base: PathBuf,
    /// Which tokens.
    pub tokenizer: TokenizerKind,
    /// Share of the text that is held out.
    pub validation: f64,
}

/// The built-in tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerKind {
    /// 256 tokens, one a byte.
    Byte,
    /// One token for each character that the text has.
    Char,
}

/// How many images, and how hard they are to tell apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImagesConfig {
    /// Images, those held out included.
    pub n_images: usize,
    /// Deviation of the noise, where that of the classes' templates is 1.
    pub noise: f32,
    /// Share of the images that is held out.
    pub validation: f64,
}

/// The model that `file` means, with its defaults filled in there.
pub(super) fn network(file: &mut ModelFile, fail: &Fail) -> Result<Network, ConfigError> {
    let (of_gpt, of_conv) = (
        [
            ("layers", file.layers.is_some()),
            ("width", file.width.is_some()),
            ("heads", file.heads.is_some()),
            ("context", file.context.is_some()),
            ("tied", file.tied.is_some()),
            ("bias", file.bias.is_some()),
        ],
        [
            ("image", file.image.is_some()),
            ("channels", file.channels.is_some()),
            ("convolutions", file.convolutions.is_some()),
            ("hidden", file.hidden.is_some()),
            ("classes", file.classes.is_some()),
        ],
    );
    let illegal = |error: cavalcade_model::ModelError| fail("model", error.to_string());
    match file.kind {
        ModelWord::Gpt => {
            own("model", ["gpt", "conv"], &of_gpt, &of_conv, fail)?;
            // The smallest vocabulary that a model can have stands in until the text is known.
            let config = GptConfig::new(
                2,
                *file.context.get_or_insert(128),
                *file.width.get_or_insert(128),
                *file.heads.get_or_insert(4),
                *file.layers.get_or_insert(6),
                *file.tied.get_or_insert(true),
                *file.bias.get_or_insert(false),
            );
            Ok(Network::Gpt(config.map_err(illegal)?))
        }
        ModelWord::Conv => {
            own("model", ["conv", "gpt"], &of_conv, &of_gpt, fail)?;
            let config = ConvConfig {
                image: *file.image.get_or_insert(32),
                channels: *file.channels.get_or_insert(3),
                convolutions: file.convolutions.get_or_insert(vec![16, 32, 64]).clone(),
                hidden: file.hidden.get_or_insert(vec![256]).clone(),
                classes: *file.classes.get_or_insert(10),
            };
            config.check().map_err(illegal)?;
            Ok(Network::Conv(config))
        }
    }
}

/// The data that `file` means for `network`, with its defaults filled in there.
pub(super) fn data(
    file: &mut DataFile,
    network: &Network,
    base: &Path,
    fail: &Fail,
) -> Result<DataConfig, ConfigError> {
    let validation = file.validation;
    if !(0.0..=0.5).contains(&validation) || validation == 0.0 {
        let problem = format!("{validation} is not a share above 0 and at most 0.5");
        return Err(fail("data.validation", problem));
    }
    let of_text = [("path", file.path.is_some()), ("tokenizer", file.tokenizer.is_some())];
    let of_images = [("images", file.images.is_some()), ("noise", file.noise.is_some())];
    let fitting = match network {
        Network::Gpt(_) => DataWord::Text,
        Network::Conv(_) => DataWord::Synthetic,
    };
    match (*file.kind.get_or_insert(fitting), fitting) {
        (DataWord::Text, DataWord::Text) => {
            own("data", ["text", "synthetic"], &of_text, &of_images, fail)?;
            let tokenizer = match file.tokenizer.get_or_insert(TokenizerWord::Char) {
                TokenizerWord::Byte => TokenizerKind::Byte,
                TokenizerWord::Char => TokenizerKind::Char,
            };
            let paths = paths(file.path.as_ref(), fail)?;
            Ok(DataConfig::Text(TextConfig { paths, base: base.to_owned(), tokenizer, validation }))
        }
        (DataWord::Synthetic, DataWord::Synthetic) => {
            own("data", ["synthetic", "text"], &of_images, &of_text, fail)?;
            let noise = *file.noise.get_or_insert(1.0);
            if !(noise >= 0.0 && noise.is_finite()) {
                return Err(fail("data.noise", format!("{noise} is not a number of at least 0")));
            }
            let n_images = *file.images.get_or_insert(4096);
            Ok(DataConfig::Images(ImagesConfig { n_images, noise, validation }))
        }
        (DataWord::Text, DataWord::Synthetic) => {
            let problem = "a model of kind \"conv\" learns from images; use \"synthetic\"";
            Err(fail("data.kind", problem.to_owned()))
        }
        (DataWord::Synthetic, DataWord::Text) => {
            let problem = "a model of kind \"gpt\" learns from text; use \"text\"";
            Err(fail("data.kind", problem.to_owned()))
        }
    }
}

/// Whether the schedule can be run with `network` at all.
pub(super) fn can_run(kind: Kind, network: &Network, fail: &Fail) -> Result<(), ConfigError> {
    if !matches!(kind, Kind::Skip { .. }) || network.is_uniform() {
        return Ok(());
    }
    let problem = format!(
        "`{kind}` lets micro-batches leave stages out, and in a model of kind \"conv\" no stage \
         takes what another one takes; use another kind such as 1f1b"
    );
    Err(fail("plan.schedule", problem))
}

/// Refuses keys of `table` that are set and belong to its `other` kind.
fn own(
    table: &str,
    [kind, other]: [&str; 2],
    own: &[(&str, bool)],
    foreign: &[(&str, bool)],
    fail: &Fail,
) -> Result<(), ConfigError> {
    let Some((key, _)) = foreign.iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    let keys: Vec<&str> = own.iter().map(|(key, _)| *key).collect();
    let problem = format!(
        "this is a key of {table}.kind = \"{other}\", but the kind is \"{kind}\", whose keys are \
         {}; remove it, or change the kind",
        keys.join(", ")
    );
    Err(fail(&format!("{table}.{key}"), problem))
}

fn paths(found: Option<&Paths>, fail: &Fail) -> Result<Vec<String>, ConfigError> {
    match found {
        Some(Paths::One(path)) => Ok(vec![path.clone()]),
        Some(Paths::Many(paths)) if !paths.is_empty() => Ok(paths.clone()),
        _ => {
            let problem = "no text; give a file, a folder or a list of them, such as \
                           --set data.path=FILE";
            Err(fail("data.path", problem.to_owned()))
        }
    }
}
