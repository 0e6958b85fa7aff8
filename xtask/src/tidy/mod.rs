//! Rules on files that no other tool checks: one function over text for each kind of file, and
//! the walk that feeds them.

mod allowed;
mod code;
mod rust_file;

use std::fs;
use std::path::{Path, PathBuf};

/// Checks all files of the workspace at `root`.
///
/// # Errors
/// A line for each fault: the file, the line, what is wrong, and the remedy.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut problems = Vec::new();
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        walk(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut sources = Vec::new();
    for path in &files {
        let text = read(path)?;
        let name = path.strip_prefix(root).expect("the walk began at the root");
        let name = name.to_string_lossy().replace('\\', "/");
        if name.ends_with(".rs") {
            problems.extend(rust_file::check(&name, &text));
            sources.push((name, text));
        } else if !text.contains("[lints]\nworkspace = true\n") {
            problems.push(format!("{name}: the workspace's lints are off; add [lints] workspace"));
        }
    }
    problems.extend(allowed::unused(&sources));
    let architecture = root.join("ARCHITECTURE.md");
    if architecture.exists() {
        problems.extend(unnamed(&read(&architecture)?, &folders(&root.join("crates"))?));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// All sources and manifests below `folder`.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" {
                walk(&path, files)?;
            }
        } else if name == "Cargo.toml" || path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fail = |error| format!("{}: cannot be read: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(fail)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(fail)).collect()
}

fn folders(folder: &Path) -> Result<Vec<String>, String> {
    let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let folders = entries(folder)?.into_iter().filter(|path| path.is_dir());
    let mut names: Vec<String> = folders.filter_map(name).collect();
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: cannot be read: {error}", path.display()))
}

/// The crates that ARCHITECTURE.md does not name, as code or as the head of a table's row.
fn unnamed(architecture: &str, folders: &[String]) -> Vec<String> {
    let is_named = |folder: &String| {
        let forms = [format!("`{folder}`"), format!("`crates/{folder}`"), format!("| {folder} |")];
        forms.iter().any(|form| architecture.contains(form))
    };
    let unnamed = folders.iter().filter(|folder| !is_named(folder));
    let problem = |folder| {
        format!("ARCHITECTURE.md: crates/{folder} is not named; `cargo xtask edges --markdown`")
    };
    unnamed.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::unnamed;

    #[test]
    fn architecture_names_every_crate() {
        let folders = ["sim", "nn", "plan", "planner"].map(String::from);
        let problems = unnamed("`sim` simulates.\n| nn | chunks |\n`crates/planner`", &folders);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("crates/plan is not named"), "{problems:?}");
    }
}
