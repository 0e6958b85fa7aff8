//! A tokenizer as a JSON file.
//!
//! ```text
//! { "version": 1, "kind": "byte" }
//! { "version": 1, "kind": "char", "vocabulary": "\n !abc" }
//! ```

use crate::find::unreadable;
use crate::tokenizer::Vocabulary;
use crate::{DataError, Tokenizer};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const VERSION: u64 = 1;

/// What is read first, so that a newer file is called newer and not malformed.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TokenizerFile {
    version: u64,
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vocabulary: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Byte,
    Char,
}

impl Tokenizer {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// Not JSON of this form, another version, or a vocabulary that does not fit the kind.
    pub fn from_json(text: &str) -> Result<Self, DataError> {
        let Head { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(DataError::Version { found: version, legal: VERSION });
        }
        let file: TokenizerFile = serde_json::from_str(text)?;
        let fail = |problem| Err(DataError::Vocabulary { problem });
        let vocabulary = match (file.kind, file.vocabulary) {
            (Kind::Byte, None) => Vocabulary::Bytes,
            (Kind::Byte, Some(_)) => return fail("the kind `byte` has no vocabulary in its file"),
            (Kind::Char, None) => return fail("the kind `char` needs a vocabulary"),
            (Kind::Char, Some(text)) => {
                let chars: Vec<char> = text.chars().collect();
                if chars.is_empty() || !chars.is_sorted_by(|a, b| a < b) {
                    return fail("the vocabulary is not strictly ascending characters");
                }
                Vocabulary::Chars(chars)
            }
        };
        Ok(Self { vocabulary })
    }

    /// The text from which [`Tokenizer::from_json`] makes an equal tokenizer.
    pub fn to_json(&self) -> String {
        let (kind, vocabulary) = match &self.vocabulary {
            Vocabulary::Bytes => (Kind::Byte, None),
            Vocabulary::Chars(chars) => (Kind::Char, Some(chars.iter().collect())),
        };
        let file = TokenizerFile { version: VERSION, kind, vocabulary };
        serde_json::to_string_pretty(&file).expect("a struct of plain fields is always JSON") + "\n"
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or as [`Tokenizer::from_json`], with the file's name.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text =
            fs::read_to_string(path).map_err(|source| unreadable(path.to_owned(), source))?;
        Self::from_json(&text)
            .map_err(|error| DataError::InFile { path: path.to_owned(), source: Box::new(error) })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), DataError> {
        fs::write(path, self.to_json())
            .map_err(|source| DataError::Unwritable { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use crate::{DataError, Tokenizer};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn refuse(text: &str, message: Expect) {
        message.assert_eq(&Tokenizer::from_json(text).unwrap_err().to_string());
    }

    #[test]
    fn the_form_is_fixed() {
        expect![[r#"
            {
              "version": 1,
              "kind": "char",
              "vocabulary": "\n\"aé"
            }
        "#]]
        .assert_eq(&Tokenizer::chars("aé\"\n").unwrap().to_json());
        expect![[r#"
            {
              "version": 1,
              "kind": "byte"
            }
        "#]]
        .assert_eq(&Tokenizer::bytes().to_json());
    }

    #[test]
    fn wrong_files_are_refused() {
        refuse(
            r#"{"version":2,"merges":[]}"#,
            expect!["the tokenizer has version 2; this build reads version 1"],
        );
        refuse(
            r#"{"version":1,"kind":"byte","merges":[]}"#,
            expect![
                "not a tokenizer: unknown field `merges`, expected one of `version`, `kind`, `vocabulary` at line 1 column 35; use the file that was written beside the model"
            ],
        );
        refuse(
            r#"{"version":1,"kind":"bpe"}"#,
            expect![
                "not a tokenizer: unknown variant `bpe`, expected `byte` or `char` at line 1 column 25; use the file that was written beside the model"
            ],
        );
        refuse(
            r#"{"kind":"byte"}"#,
            expect![
                "not a tokenizer: missing field `version` at line 1 column 15; use the file that was written beside the model"
            ],
        );
        refuse(
            r#"{"version":1,"kind":"byte","vocabulary":"a"}"#,
            expect![
                "not a tokenizer: the kind `byte` has no vocabulary in its file; use the file that was written beside the model"
            ],
        );
        refuse(
            r#"{"version":1,"kind":"char"}"#,
            expect![
                "not a tokenizer: the kind `char` needs a vocabulary; use the file that was written beside the model"
            ],
        );
        for vocabulary in ["", "ba", "aa"] {
            let text = format!(r#"{{"version":1,"kind":"char","vocabulary":"{vocabulary}"}}"#);
            refuse(
                &text,
                expect![
                    "not a tokenizer: the vocabulary is not strictly ascending characters; use \
                     the file that was written beside the model"
                ],
            );
        }
    }

    #[test]
    fn a_file_comes_back_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        assert!(matches!(Tokenizer::read(&path).unwrap_err(), DataError::Missing { .. }));
        let tokenizer = Tokenizer::chars("abc").unwrap();
        tokenizer.write(&path).unwrap();
        assert_eq!(Tokenizer::read(&path).unwrap(), tokenizer);
        std::fs::write(&path, "{}").unwrap();
        let error = Tokenizer::read(&path).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: not a tokenizer: missing field"), "{error}");
        let error = tokenizer.write(folder.path()).unwrap_err();
        assert!(matches!(error, DataError::Unwritable { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn text_gives_the_tokenizer_back(text in "(?s).{1,40}") {
            let tokenizer = Tokenizer::chars(&text).unwrap();
            prop_assert_eq!(Tokenizer::from_json(&tokenizer.to_json()).unwrap(), tokenizer);
        }
    }
}
