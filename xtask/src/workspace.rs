//! What the workspace is made of, as `cargo metadata` tells it.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One of our crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crate {
    /// Its folder's name, which is its name without the prefix.
    pub(crate) folder: String,
    /// What its manifest asks for.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a crate's dependencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The folder of one of our crates, or the name of a foreign one.
    pub(crate) name: String,
    /// Whether it is one of ours.
    pub(crate) is_ours: bool,
    /// Whether only tests and benches see it.
    pub(crate) is_dev: bool,
}

/// All crates of the workspace at `root`, by folder.
///
/// # Errors
/// cargo cannot read a manifest.
pub(crate) fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(root);
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let mut crates: Vec<Crate> = list(&metadata["packages"]).map(parse).collect();
    crates.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(crates)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn folder_of(path: &str) -> String {
    let name = Path::new(path).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn parse(package: &Value) -> Crate {
    let manifest = Path::new(text(&package["manifest_path"]));
    let folder = manifest.parent().map(|folder| folder_of(&folder.to_string_lossy()));
    let dependency = |dependency: &Value| {
        let path = dependency["path"].as_str();
        Dependency {
            name: path.map_or_else(|| text(&dependency["name"]).to_owned(), folder_of),
            is_ours: path.is_some(),
            is_dev: dependency["kind"] == "dev",
        }
    };
    Crate {
        folder: folder.unwrap_or_default(),
        dependencies: list(&package["dependencies"]).map(dependency).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Dependency, parse};
    use serde_json::json;

    #[test]
    fn ours_foreign_and_dev_are_told_apart() {
        let found = parse(&json!({
            "manifest_path": "/w/crates/sim/Cargo.toml",
            "dependencies": [
                { "name": "cavalcade-units", "path": "/w/crates/units", "kind": null },
                { "name": "proptest", "kind": "dev" },
            ],
        }));
        let wanted =
            |name: &str, is_ours, is_dev| Dependency { name: name.into(), is_ours, is_dev };
        assert_eq!(found.folder, "sim");
        let dependencies = [wanted("units", true, false), wanted("proptest", false, true)];
        assert_eq!(found.dependencies, dependencies);
    }
}
