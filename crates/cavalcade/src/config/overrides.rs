//! `--set key=value`: a dotted key into the configuration's tables.

use super::ConfigError;
use toml::{Table, Value};

/// Puts `text` (`train.steps=50`) into `table`. The value is read as TOML and, where it is none,
/// taken as a string: `data.path=my text.txt` needs no quotes.
pub(super) fn apply(table: &mut Table, text: &str) -> Result<(), ConfigError> {
    let fail = |problem: String| ConfigError::Override { text: text.to_owned(), problem };
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| fail("expected key=value, such as train.steps=50".to_owned()))?;
    let path: Vec<&str> = key.trim().split('.').collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err(fail(format!("`{key}` is not a key such as train.steps")));
    }
    let (last, parents) = path.split_last().expect("split gives at least one part");
    let mut at = table;
    for part in parents {
        let next = at.entry((*part).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        at = next
            .as_table_mut()
            .ok_or_else(|| fail(format!("`{part}` holds a value, not a table of keys")))?;
    }
    at.insert((*last).to_owned(), parse(value.trim()));
    Ok(())
}

fn parse(value: &str) -> Value {
    let document = format!("value = {value}");
    let parsed = document.parse::<Table>().ok().filter(|table| table.len() == 1);
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Table, apply};

    fn applied(overrides: &[&str]) -> Result<Table, String> {
        let mut table = "[train]\nsteps = 3\n".parse().unwrap();
        for text in overrides {
            apply(&mut table, text).map_err(|e| e.to_string())?;
        }
        Ok(table)
    }

    #[test]
    fn values_keep_their_type() {
        let table = applied(&["train.steps=50", "data.path=my text.txt", "train.clip_norm = 0.5"]);
        let expected = "train = { steps = 50, clip_norm = 0.5 }\ndata = { path = \"my text.txt\" }";
        assert_eq!(table.unwrap(), expected.parse::<Table>().unwrap());
    }

    #[test]
    fn nonsense_is_named() {
        assert!(applied(&["steps"]).unwrap_err().contains("expected key=value"));
        assert!(applied(&["train..steps=1"]).unwrap_err().contains("not a key"));
        assert!(applied(&["train.steps.deep=1"]).unwrap_err().contains("holds a value"));
    }
}
