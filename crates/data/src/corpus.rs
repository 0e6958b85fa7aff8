//! Files to one text.
//!
//! Entries keep the order in which they are given; within a folder or pattern the files are
//! sorted by path. The text is then the same on every machine that has the same files, whatever
//! its file system lists first.

use crate::DataError;
use crate::find::{Found, find, unreadable};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A file with a NUL in this many first bytes is binary: the rule of git and grep.
const SNIFFED_BYTES: usize = 8000;

/// A text and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// The files' texts, with one newline between two files.
    pub text: String,
    /// The files, in the order of their texts.
    pub files: Vec<PathBuf>,
    /// Files below the given folders that were left out because they are binary.
    pub binary: Vec<PathBuf>,
}

impl Corpus {
    /// Reads the text of `paths`, each absolute or relative to `base_dir`: a file; a folder, for
    /// all text files below it; or a pattern such as `../crates/**/*.rs`. Folders named `target`,
    /// `.git` or `runs` are not entered by the latter two. A file that is reached twice counts
    /// once; empty files that are not named themselves are passed over.
    ///
    /// # Errors
    /// No path; a path that is missing, unreadable, empty or leads to no text; a pattern that is
    /// malformed or matches nothing; a file that is not UTF-8, with the place.
    pub fn read(paths: &[String], base_dir: &Path) -> Result<Self, DataError> {
        let mut reader = Reader::default();
        for entry in paths {
            reader.read_entry(entry, base_dir)?;
        }
        if reader.texts.is_empty() {
            return Err(DataError::NoPaths);
        }
        let text = reader.texts.join("\n");
        Ok(Self { text, files: reader.files, binary: reader.binary })
    }
}

#[derive(Default)]
struct Reader {
    texts: Vec<String>,
    files: Vec<PathBuf>,
    binary: Vec<PathBuf>,
    /// Canonical paths of the text read.
    seen: BTreeSet<PathBuf>,
    /// Canonical paths of what was left out.
    binary_seen: BTreeSet<PathBuf>,
}

impl Reader {
    fn read_entry(&mut self, entry: &str, base_dir: &Path) -> Result<(), DataError> {
        let (files, is_folder) = match find(entry, base_dir)? {
            Found::File(path) => {
                return if self.read_file(&path, false)? {
                    Ok(())
                } else {
                    Err(DataError::EmptyFile { path })
                };
            }
            Found::Below(files) => (files, true),
            Found::Matched(files) => (files, false),
        };
        let mut has_text = false;
        for path in files {
            has_text |= self.read_file(&path, is_folder)?;
        }
        if has_text { Ok(()) } else { Err(DataError::NoText { entry: entry.to_owned() }) }
    }

    /// Whether the file has text; it may have been read before.
    fn read_file(&mut self, path: &Path, skips_binary: bool) -> Result<bool, DataError> {
        let fail = |source| unreadable(path.to_owned(), source);
        let bytes = fs::read(path).map_err(fail)?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let canonical = fs::canonicalize(path).map_err(fail)?;
        if skips_binary && bytes.iter().take(SNIFFED_BYTES).any(|&byte| byte == 0) {
            if self.binary_seen.insert(canonical) {
                self.binary.push(path.to_owned());
            }
            return Ok(false);
        }
        if self.seen.insert(canonical) {
            self.texts.push(text(path, bytes)?);
            self.files.push(path.to_owned());
        }
        Ok(true)
    }
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, DataError> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let line = 1 + bytes[..offset].iter().filter(|&&byte| byte == b'\n').count();
        DataError::NotUtf8 { path: path.to_owned(), byte: bytes[offset], offset, line }
    })
}
