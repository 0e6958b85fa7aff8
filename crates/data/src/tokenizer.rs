//! The built-in tokenizers: a token a byte, or a token a character.

use crate::DataError;
use std::collections::BTreeSet;

/// The number of byte tokens.
const N_BYTES: usize = 256;

/// Turns text into token ids, `0..vocab_size`, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    pub(crate) vocabulary: Vocabulary,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vocabulary {
    Bytes,
    /// Strictly ascending and not empty; an id is an index.
    Chars(Vec<char>),
}

impl Tokenizer {
    /// A token for each byte of UTF-8. It knows every text.
    pub fn bytes() -> Self {
        Self { vocabulary: Vocabulary::Bytes }
    }

    /// A token for each character that `text` has, ascending by code point.
    ///
    /// # Errors
    /// The text is empty.
    pub fn chars(text: &str) -> Result<Self, DataError> {
        // One by one: to collect a set, the library first makes a list of all there are and sorts
        // it, four bytes a character of the text.
        let mut chars = BTreeSet::new();
        chars.extend(text.chars());
        if chars.is_empty() {
            return Err(DataError::NoVocabulary);
        }
        Ok(Self { vocabulary: Vocabulary::Chars(chars.into_iter().collect()) })
    }

    /// The number of different tokens.
    pub fn vocab_size(&self) -> usize {
        match &self.vocabulary {
            Vocabulary::Bytes => N_BYTES,
            Vocabulary::Chars(chars) => chars.len(),
        }
    }

    /// The ids of `text`.
    ///
    /// # Errors
    /// A character that the vocabulary lacks, with its line.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let chars = match &self.vocabulary {
            Vocabulary::Bytes => return Ok(text.bytes().map(u32::from).collect()),
            Vocabulary::Chars(chars) => chars,
        };
        let id = |(offset, found): (usize, char)| match chars.binary_search(&found) {
            Ok(id) => Ok(id as u32),
            Err(_) => {
                let line = 1 + text[..offset].matches('\n').count();
                Err(DataError::UnknownChar { found, line, vocab_size: chars.len() })
            }
        };
        // A fallible `collect` knows no length and would double the buffer as it grows: for a small
        // device, more than its training needs.
        let mut ids = Vec::with_capacity(text.chars().count());
        for next in text.char_indices() {
            ids.push(id(next)?);
        }
        Ok(ids)
    }

    /// The text of `ids`. Lossy: bytes that are no UTF-8 and ids outside the vocabulary become
    /// U+FFFD, the replacement character, because a model may produce anything.
    pub fn decode(&self, ids: &[u32]) -> String {
        const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
        match &self.vocabulary {
            Vocabulary::Bytes => {
                // 0xFF occurs nowhere in UTF-8, so it is replaced below.
                let byte = |&id: &u32| u8::try_from(id).unwrap_or(0xFF);
                let bytes: Vec<u8> = ids.iter().map(byte).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            Vocabulary::Chars(chars) => {
                let char = |&id: &u32| chars.get(id as usize).copied().unwrap_or(REPLACEMENT);
                ids.iter().map(char).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tokenizer;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn ids_are_those_of_the_vocabulary() {
        let chars = Tokenizer::chars("hello\né").unwrap();
        assert_eq!(chars.vocab_size(), 6);
        assert_eq!(chars.encode("\nehloé").unwrap(), [0, 1, 2, 3, 4, 5]);
        let bytes = Tokenizer::bytes();
        assert_eq!(bytes.vocab_size(), 256);
        assert_eq!(bytes.encode("é!").unwrap(), [0xC3, 0xA9, 33]);
    }

    #[test]
    fn what_is_no_text_decodes_to_the_replacement() {
        assert_eq!(Tokenizer::bytes().decode(&[104, 0xC3, 105, 256]), "h\u{FFFD}i\u{FFFD}");
        assert_eq!(Tokenizer::chars("ab").unwrap().decode(&[1, 2, 0]), "b\u{FFFD}a");
    }

    #[test]
    fn an_unknown_character_is_named_with_its_line() {
        let chars = Tokenizer::chars("ab\n").unwrap();
        let error = chars.encode("ab\nbé").unwrap_err().to_string();
        expect![
            "the character 'é' (U+00E9) on line 2 is not one of the 3 of the vocabulary; leave it \
             out, or train with the byte tokenizer, which knows every text"
        ]
        .assert_eq(&error);
        let error = Tokenizer::chars("").unwrap_err().to_string();
        assert!(error.contains("no vocabulary"), "{error}");
    }

    proptest! {
        #[test]
        fn text_comes_back(text in "(?s).{1,40}") {
            for tokenizer in [Tokenizer::bytes(), Tokenizer::chars(&text).unwrap()] {
                let ids = tokenizer.encode(&text).unwrap();
                prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
                prop_assert_eq!(tokenizer.decode(&ids), text.as_str());
            }
        }
    }
}
