//! What all ranks of a run must agree on, in a form that can be compared and named.

use super::Config;
use super::file::LaunchFile;
use cavalcade_runtime::fingerprint;
use toml::{Table, Value};

impl Config {
    /// Everything that all ranks must agree on, a `key = value` each: the resolved configuration
    /// without the places of files and without how workers are started.
    pub fn agreed(&self) -> Vec<String> {
        let mut file = self.file.clone();
        file.data.path = None;
        file.profile = None;
        file.launch = LaunchFile::default();
        let table = Table::try_from(&file).expect("the file was read from TOML");
        lines(table)
    }

    /// Hash of [`Self::agreed`].
    pub fn hash(&self) -> String {
        fingerprint(self.agreed().join("\n").as_bytes())
    }
}

/// A line for each value, sorted: the order of a table's keys depends on how `toml` was built.
fn lines(table: Table) -> Vec<String> {
    let mut lines = Vec::new();
    flatten("", &Value::Table(table), &mut lines);
    lines.sort();
    lines
}

/// The keys and values below `key`; tables in lists are counted from 0.
fn flatten(key: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            let dot = if key.is_empty() { "" } else { "." };
            table.iter().for_each(|(name, value)| {
                flatten(&format!("{key}{dot}{name}"), value, lines);
            });
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            let items = items.iter().enumerate();
            items.for_each(|(idx, item)| flatten(&format!("{key}[{idx}]"), item, lines));
        }
        value => lines.push(format!("{key} = {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn every_value_has_one_line() {
        let table: toml::Table =
            "seed = 1\n[a]\nb = [1, 2]\n[[d]]\nname = \"x\"\n[[d]]\nname = \"y\"".parse().unwrap();
        expect_test::expect![[r#"
            a.b = [1, 2]
            d[0].name = "x"
            d[1].name = "y"
            seed = 1"#]]
        .assert_eq(&lines(table).join("\n"));
    }
}
