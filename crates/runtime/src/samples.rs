//! Where a run's samples come from, and what of them goes into a chunk.

use cavalcade_data::{Batch, ImageBatch, ImageSet, TokenSet};
use cavalcade_nn::{Activation, ChunkInput, Targets};
use std::sync::Arc;

/// The samples to train on.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Windows of a text.
    Text {
        /// The text.
        tokens: Arc<TokenSet>,
        /// Tokens of a window.
        context: usize,
    },
    /// Images.
    Images(Arc<ImageSet>),
}

impl Samples {
    /// Of the samples `first..first + n` in the one order that `seed` selects, what enters the
    /// first chunk.
    ///
    /// # Panics
    /// If the text holds no window.
    pub fn data(&self, seed: u64, first: u64, n: usize) -> ChunkInput {
        match self {
            Self::Text { tokens, context } => {
                windows(tokens.batch(&tokens.order(*context, seed), first, n)).0
            }
            Self::Images(set) => images(set.batch(seed, first, n)).0,
        }
    }

    /// Of the same samples, what the last chunk's output is compared with.
    ///
    /// # Panics
    /// If the text holds no window.
    pub fn targets(&self, seed: u64, first: u64, n: usize) -> Targets {
        match self {
            Self::Text { tokens, context } => {
                windows(tokens.batch(&tokens.order(*context, seed), first, n)).1
            }
            // A last stage has no use for the pixels.
            Self::Images(set) => Targets { ids: set.classes(seed, first, n) },
        }
    }
}

/// Windows of a text as a model takes them.
pub fn windows(batch: Batch) -> (ChunkInput, Targets) {
    let Batch { tokens, targets, batch, sequence } = batch;
    (ChunkInput::Tokens { ids: tokens, batch, sequence }, Targets { ids: targets })
}

/// Images as a model takes them.
pub fn images(batch: ImageBatch) -> (ChunkInput, Targets) {
    let ImageBatch { pixels, classes, shape } = batch;
    let input = ChunkInput::Activation(Activation { data: pixels, shape });
    (input, Targets { ids: classes })
}
