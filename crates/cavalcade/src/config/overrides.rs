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
    let mut parents = parents.iter();
    while let Some(part) = parents.next() {
        let next = at.entry((*part).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        at = match next {
            Value::Table(table) => table,
            Value::Array(entries) => {
                let wanted = parents.next().copied().unwrap_or(last);
                entry(entries, wanted).map_err(|problem| fail(format!("`{part}` {problem}")))?
            }
            _ => return Err(fail(format!("`{part}` holds a value, not a table of keys"))),
        };
    }
    at.insert((*last).to_owned(), parse(value.trim()));
    Ok(())
}

/// The table of a list that has this `name`, or stands at this place, counted from 0.
fn entry<'a>(entries: &'a mut [Value], wanted: &str) -> Result<&'a mut Table, String> {
    let name = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(wanted);
    let by_place = || wanted.parse().ok().filter(|&idx: &usize| idx < entries.len());
    let found = entries.iter().position(name).or_else(by_place);
    let n_entries = entries.len();
    let table = found.and_then(|idx| entries[idx].as_table_mut());
    table.ok_or_else(|| {
        format!("has no entry `{wanted}`; name one of its {n_entries}, or count from 0")
    })
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
    fn an_entry_of_a_list_is_found_by_its_name_or_its_place() {
        let text = "[[device]]\nname = \"a\"\n[[device]]\nname = \"b\"\n";
        let mut table = text.parse().unwrap();
        apply(&mut table, "device.b.speed=0.5").unwrap();
        apply(&mut table, "device.0.speed=0.25").unwrap();
        let devices = table["device"].as_array().unwrap();
        let speeds: Vec<_> = devices.iter().map(|d| d["speed"].as_float().unwrap()).collect();
        assert_eq!(speeds, [0.25, 0.5]);
        let error = apply(&mut table, "device.c.speed=1").unwrap_err().to_string();
        assert!(error.contains("`device` has no entry `c`"), "{error}");
    }

    #[test]
    fn nonsense_is_named() {
        assert!(applied(&["steps"]).unwrap_err().contains("expected key=value"));
        assert!(applied(&["train..steps=1"]).unwrap_err().contains("not a key"));
        assert!(applied(&["train.steps.deep=1"]).unwrap_err().contains("holds a value"));
    }
}
