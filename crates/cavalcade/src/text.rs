//! From files of text to tokens, split into training and validation.

use crate::config::{TextConfig, TokenizerKind};
use crate::error::Error;
use cavalcade_data::{Batch, Corpus, Split, SplitRule, TokenSet, Tokenizer};
use cavalcade_runtime::fingerprint;
use std::sync::Arc;

/// Tokens in a block of text that is held out as a whole.
const VALIDATION_BLOCK: usize = 2048;
/// Tokens in which a prompt is looked for.
const PROMPT_WINDOW: usize = 2000;
/// Characters of a prompt.
const PROMPT_CHARS: usize = 24;

/// A text, tokenised and split.
#[derive(Clone)]
pub struct Text {
    tokenizer: Tokenizer,
    train: Arc<TokenSet>,
    validation: Arc<TokenSet>,
    context: usize,
    hash: String,
    n_files: usize,
}

impl Text {
    /// Reads what `config` names; windows are of `context` tokens.
    ///
    /// # Errors
    /// If a file is missing, unreadable, empty or not UTF-8, or the text is too short.
    pub fn read(config: &TextConfig, context: usize) -> Result<Self, Error> {
        let corpus = Corpus::read(&config.paths, &config.base)?;
        let tokenizer = match config.tokenizer {
            TokenizerKind::Byte => Tokenizer::bytes(),
            TokenizerKind::Char => Tokenizer::chars(&corpus.text)?,
        };
        let tokens = tokenizer.encode(&corpus.text)?;
        let hash = fingerprint(corpus.text.as_bytes());
        let n_files = corpus.files.len();
        drop(corpus);
        let rule = SplitRule { fraction: config.validation, block: VALIDATION_BLOCK };
        let Split { train, validation } = Split::new(tokens, rule, context)?;
        Ok(Self {
            tokenizer,
            train: Arc::new(train),
            validation: Arc::new(validation),
            context,
            hash,
            n_files,
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Tokens of a window.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Tokens to train on.
    pub fn train(&self) -> Arc<TokenSet> {
        Arc::clone(&self.train)
    }

    /// Files that were read.
    pub fn n_files(&self) -> usize {
        self.n_files
    }

    /// Hash of the text, by which ranks make sure that they read the same one.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Tokens of the training text.
    pub fn n_train_tokens(&self) -> usize {
        self.train.len()
    }

    /// The beginning of a line of held-out text: something to let a model continue.
    pub fn prompt(&self) -> String {
        let text = self
            .tokenizer
            .decode(&self.validation.tokens()[..PROMPT_WINDOW.min(self.validation.len())]);
        let long_enough = |line: &&str| line.trim().chars().count() >= PROMPT_CHARS;
        let line = text.lines().find(long_enough).unwrap_or(&text);
        line.chars().take(PROMPT_CHARS).collect()
    }

    /// At most `n_windows` windows of held-out text, spread evenly over it.
    pub(crate) fn validation_windows(&self, n_windows: u32) -> Vec<Batch> {
        let n_all = self.validation.n_windows(self.context);
        let n_windows = n_all.min(n_windows.max(1) as usize);
        let window = |idx: usize| self.validation.windows(self.context, idx * n_all / n_windows, 1);
        (0..n_windows).map(window).collect()
    }
}
