//! From an entry (a file, a folder or a pattern) to the files that it means.

use crate::DataError;
use globset::{GlobBuilder, GlobMatcher};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// Folders that are never entered on the way: what builds, history and runs leave behind.
const LEFT_OUT: [&str; 3] = ["target", ".git", "runs"];

/// What an entry means, its files ascending by path.
pub(crate) enum Found {
    /// The file that was named.
    File(PathBuf),
    /// All files below a folder, text or not.
    Below(Vec<PathBuf>),
    /// The files that a pattern matches; at least one.
    Matched(Vec<PathBuf>),
}

/// Finds the files of `entry`, which is absolute or relative to `base`. A path that exists is
/// itself, even if it looks like a pattern.
pub(crate) fn find(entry: &str, base: &Path) -> Result<Found, DataError> {
    let path = base.join(entry);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => walk(&path, |_| true).map(Found::Below),
        Ok(_) => Ok(Found::File(path)),
        Err(_) if is_pattern(entry) => matched(entry, base).map(Found::Matched),
        Err(source) => Err(unreadable(path, source)),
    }
}

/// The error for a path that cannot be opened.
pub(crate) fn unreadable(path: PathBuf, source: std::io::Error) -> DataError {
    match source.kind() {
        ErrorKind::NotFound => DataError::Missing { path },
        _ => DataError::Unreadable { path, source },
    }
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Walks from the last folder that the pattern spells out (`../a` of `../a/**/*.rs`), so that
/// `..` and absolute paths need no special case.
fn matched(pattern: &str, base: &Path) -> Result<Vec<PathBuf>, DataError> {
    let parts: Vec<_> = Path::new(pattern).components().collect();
    let is_pattern = |part: &Component| is_pattern(&part.as_os_str().to_string_lossy());
    let n_literal = parts.iter().position(is_pattern).unwrap_or(parts.len());
    let (literal, rest) = parts.split_at(n_literal);
    let folder = base.join(literal.iter().collect::<PathBuf>());
    let rest: PathBuf = rest.iter().collect();
    let matcher: GlobMatcher = GlobBuilder::new(&rest.to_string_lossy())
        .literal_separator(true)
        .build()
        .map_err(|source| DataError::Pattern { pattern: pattern.to_owned(), source })?
        .compile_matcher();
    let files = walk(&folder, |path| matcher.is_match(path))?;
    if files.is_empty() {
        return Err(DataError::NoMatch { pattern: pattern.to_owned(), folder });
    }
    Ok(files)
}

/// The files below `folder` whose path from there is wanted. Links are followed; one that leads
/// back up is left out.
fn walk(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, DataError> {
    let is_entered = |entry: &DirEntry| {
        let is_left_out = LEFT_OUT.iter().any(|&name| entry.file_name() == name);
        entry.depth() == 0 || !entry.file_type().is_dir() || !is_left_out
    };
    let mut files = Vec::new();
    let walk = WalkDir::new(folder).follow_links(true).sort_by_file_name();
    for entry in walk.into_iter().filter_entry(is_entered) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.loop_ancestor().is_some() => continue,
            Err(error) => {
                let path = error.path().unwrap_or(folder).to_owned();
                return Err(unreadable(path, error.into()));
            }
        };
        let from_folder = entry.path().strip_prefix(folder);
        let from_folder = from_folder.expect("a walk stays below the folder it starts from");
        if entry.file_type().is_file() && is_wanted(from_folder) {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}
