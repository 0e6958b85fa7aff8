//! What a run learns from, whichever kind it is of.

use crate::config::{Config, DataConfig, ImagesConfig};
use crate::error::Error;
use crate::text::Text;
use cavalcade_data::{ImageRule, ImageSet, ImageSplit};
use cavalcade_model::{ConvConfig, Network};
use cavalcade_nn::{ChunkInput, Targets};
use cavalcade_runtime::{Samples, fingerprint, images, windows};
use std::sync::Arc;

/// Samples, split into training and validation.
#[derive(Clone)]
pub enum Dataset {
    /// A text, for a GPT.
    Text(Text),
    /// Images, for a convolutional network.
    Images(Images),
}

/// Images that are made up.
#[derive(Clone)]
pub struct Images {
    train: Arc<ImageSet>,
    validation: Arc<ImageSet>,
    hash: String,
}

impl Images {
    fn new(network: &ConvConfig, config: ImagesConfig, seed: u64) -> Result<Self, Error> {
        let ImagesConfig { n_images, noise, validation } = config;
        let (side, channels, classes) = (network.image, network.channels, network.classes);
        let rule = ImageRule { side, channels, classes, n_images, noise, seed };
        let split = ImageSplit::new(rule, validation)?;
        let hash = fingerprint(format!("{rule:?} {validation}").as_bytes());
        Ok(Self { train: Arc::new(split.train), validation: Arc::new(split.validation), hash })
    }

    /// Images to train on.
    pub fn n_train(&self) -> usize {
        self.train.len()
    }
}

impl Dataset {
    /// Reads or makes what `config` names.
    ///
    /// # Errors
    /// As [`Text::read`]; or there are too few images.
    pub fn read(config: &Config) -> Result<Self, Error> {
        match (&config.data, &config.model) {
            (DataConfig::Text(data), Network::Gpt(model)) => {
                Text::read(data, model.context).map(Self::Text)
            }
            (DataConfig::Images(data), Network::Conv(model)) => {
                Images::new(model, *data, config.settings.seed).map(Self::Images)
            }
            _ => unreachable!("the configuration was checked: the data is of the model's kind"),
        }
    }

    /// Hash of the samples, by which ranks make sure that they have the same ones.
    pub fn hash(&self) -> &str {
        match self {
            Self::Text(text) => text.hash(),
            Self::Images(images) => &images.hash,
        }
    }

    /// The samples to train on.
    pub(crate) fn samples(&self) -> Samples {
        match self {
            Self::Text(text) => Samples::Text { tokens: text.train(), context: text.context() },
            Self::Images(images) => Samples::Images(Arc::clone(&images.train)),
        }
    }

    /// At most `n` held-out samples, one by one, spread evenly over all.
    pub(crate) fn held_out(&self, n: u32) -> Vec<(ChunkInput, Targets)> {
        match self {
            Self::Text(text) => text.validation_windows(n).into_iter().map(windows).collect(),
            Self::Images(held_out) => {
                let n_all = held_out.validation.len();
                let n = n_all.min(n.max(1) as usize);
                let image = |idx: usize| held_out.validation.images(idx * n_all / n, 1);
                (0..n).map(|idx| images(image(idx))).collect()
            }
        }
    }
}
