//! Training samples: of text (corpora, tokenizers) or of synthetic images, their split and the one
//! global sample order.
//!
//! ```text
//! paths --Corpus--> text --Tokenizer--> tokens --Split--> training   --SampleOrder--> Batch
//!                                                   `---> validation --in order-----> Batch
//! ImageRule -------------------------------ImageSplit---> the same of images, as ImageBatch
//! ```
//!
//! The order of samples is a function of a seed and an index, without state: every rank computes
//! the samples that it needs, and no way of dividing a batch among ranks changes what is in it.
//!
//! Absent: subword tokenizers, streaming of corpora larger than memory, documents as units.

mod corpus;
mod error;
mod find;
mod images;
mod order;
mod permutation;
mod split;
mod tokenizer;
mod tokenizer_json;
mod tokens;

pub use corpus::Corpus;
pub use error::DataError;
pub use images::{ImageBatch, ImageRule, ImageSet, ImageSplit};
pub use order::SampleOrder;
pub use split::{Split, SplitRule};
pub use tokenizer::Tokenizer;
pub use tokens::{Batch, TokenSet};
