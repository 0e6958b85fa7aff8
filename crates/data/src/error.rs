//! What can be wrong with text and what is made of it.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Text, a tokenizer or a split that cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// No path was given.
    #[error("no text was named; give a file, a folder or a pattern such as `src/**/*.rs`")]
    NoPaths,
    /// A file or folder does not exist.
    #[error("there is no file or folder {path}; check the path")]
    Missing {
        /// The path, joined to the base folder.
        path: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}; check its permissions")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that was named itself is empty.
    #[error("{path} is empty; leave it out, or name a file with text")]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// What a folder or pattern leads to is empty, or not text.
    #[error("`{entry}` leads to no text; its files are empty or binary, or there are none")]
    NoText {
        /// The folder or pattern as it was given.
        entry: String,
    },
    /// A pattern is not well-formed.
    #[error("`{pattern}` is not a pattern: {source}; write one such as `src/**/*.rs`")]
    Pattern {
        /// The pattern as it was given.
        pattern: String,
        /// What is wrong with it.
        source: globset::Error,
    },
    /// A pattern matches no file.
    #[error(
        "`{pattern}` matches no file below {folder}; `*` stays within a folder, `**/` goes below, \
         and folders named target, .git or runs are left out"
    )]
    NoMatch {
        /// The pattern as it was given.
        pattern: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A file is not UTF-8.
    #[error(
        "{path}: the byte 0x{byte:02X} at offset {offset} (line {line}) is not UTF-8; convert the \
         file to UTF-8 or leave it out"
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong.
        byte: u8,
        /// Its offset in bytes, from 0.
        offset: usize,
        /// Its line, from 1.
        line: usize,
    },
    /// A vocabulary was to be made of no text.
    #[error("a text without characters has no vocabulary; name a file with text")]
    NoVocabulary,
    /// A text has a character that the vocabulary lacks.
    #[error(
        "the character {found:?} (U+{:04X}) on line {line} is not one of the {vocab_size} of the \
         vocabulary; leave it out, or train with the byte tokenizer, which knows every text",
        u32::from(*found)
    )]
    UnknownChar {
        /// The character.
        found: char,
        /// Its line, from 1.
        line: usize,
        /// Characters in the vocabulary.
        vocab_size: usize,
    },
    /// The share held out is out of range.
    #[error("a validation share of {found} is not above 0 and at most 0.5; 0.05 is usual")]
    Fraction {
        /// The share.
        found: f64,
    },
    /// The blocks of a split are empty.
    #[error("a split into blocks of 0 tokens; a block has at least 1, and 1024 is usual")]
    NoBlock,
    /// A set holds not even one window.
    #[error(
        "the text gives {n_tokens} {set} tokens; a window of {sequence} tokens and the target of \
         its last need {}: use more text or a shorter context", sequence + 1
    )]
    TooShort {
        /// Training or validation.
        set: &'static str,
        /// Tokens in the set.
        n_tokens: usize,
        /// Tokens of a window.
        sequence: usize,
    },
    /// There are too few images for two sets.
    #[error(
        "a validation share of {fraction} of {n_images} images leaves a set without an image; use \
         more images"
    )]
    TooFewImages {
        /// Images of both sets.
        n_images: usize,
        /// The share held out.
        fraction: f64,
    },
    /// The text is not JSON of this form; names the field, the line and the column.
    #[error("not a tokenizer: {0}; use the file that was written beside the model")]
    Json(#[from] serde_json::Error),
    /// The tokenizer's file has another version.
    #[error("the tokenizer has version {found}; this build reads version {legal}")]
    Version {
        /// The version found.
        found: u64,
        /// The version that is read.
        legal: u64,
    },
    /// The tokenizer's vocabulary does not fit its kind.
    #[error("not a tokenizer: {problem}; use the file that was written beside the model")]
    Vocabulary {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}; check that its folder exists and has space")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file was read, and its content is wrong.
    #[error("{path}: {source}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: Box<DataError>,
    },
}
