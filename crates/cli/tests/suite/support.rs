//! A folder for one test: a text, a configuration, and the binary started in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use toml::{Table, Value};

/// Words of the text; few, so that a tiny model learns something within a few steps.
const WORDS: [&str; 12] =
    ["the", "cat", "sat", "on", "a", "mat", "and", "ran", "to", "see", "who", "was"];

/// Width of a folded message.
const COLUMNS: usize = 80;

/// A run of a tiny model, as a table that becomes `c.toml`.
pub(crate) struct Configuration(Table);

impl Configuration {
    /// `pipelines` by the names of their devices, all of which are declared.
    pub(crate) fn new(pipelines: &[&[&str]]) -> Self {
        let text = r#"
            seed = 1
            model = { layers = 2, width = 16, heads = 2, context = 16 }
            data = { path = "text.txt" }
            train = { steps = 8, global_batch = 8, microbatch = 2, validation_windows = 4 }
            optimizer = { learning_rate = 1e-2, warmup_steps = 2 }
        "#;
        let mut table: Table = text.parse().unwrap();
        let devices = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let list = |key: &str, value: Vec<String>| {
            let value = value.into_iter().map(Value::String).collect();
            Value::Table(Table::from_iter([(key.to_owned(), Value::Array(value))]))
        };
        let pipeline = pipelines.iter().map(|names| list("devices", devices(names)));
        table.insert("pipeline".to_owned(), Value::Array(pipeline.collect()));
        let names = pipelines.iter().copied().flatten();
        let device = names.map(|name| format!("name = \"{name}\"").parse::<Table>().unwrap());
        table.insert("device".to_owned(), Value::Array(device.map(Value::Table).collect()));
        Self(table)
    }

    /// These devices, in no pipeline.
    pub(crate) fn without_pipelines(devices: &[&str]) -> Self {
        let mut configuration = Self::new(&[devices]);
        configuration.0.remove("pipeline");
        configuration
    }

    /// Puts `value` at `key`, such as `train.steps` or `device.1.memory`.
    pub(crate) fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
        let mut at = &mut self.0;
        let mut parts = parents.split('.').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let next = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let next = match parts.peek().and_then(|idx| idx.parse::<usize>().ok()) {
                Some(idx) => {
                    parts.next();
                    &mut next.as_array_mut().unwrap()[idx]
                }
                None => next,
            };
            at = next.as_table_mut().unwrap();
        }
        at.insert(last.to_owned(), value.into());
        self
    }

    /// The layers of pipeline `idx`, stage by stage.
    pub(crate) fn layers(self, idx: usize, ranges: &[&str]) -> Self {
        let ranges = ranges.iter().map(|&range| Value::from(range)).collect::<Vec<_>>();
        self.set(&format!("pipeline.{idx}.layers"), ranges)
    }
}

/// A folder with `text.txt`, gone after the test.
pub(crate) struct Room {
    folder: TempDir,
}

impl Room {
    /// With `c.toml` as the configuration.
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let room = Self { folder: tempfile::tempdir().unwrap() };
        room.write("c.toml", toml::to_string(&configuration.0).unwrap());
        room.write("text.txt", text());
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What of `names` is there.
    pub(crate) fn there<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names.iter().copied().filter(|name| self.path(name).exists()).collect()
    }

    /// The binary with `arguments` separated by spaces, to be started in the folder.
    pub(crate) fn cavalcade(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CAVALCADE_SECRET"] {
            command.env_remove(name);
        }
        command.env_remove("CAVALCADE_SECRET_FILE").env("RUST_BACKTRACE", "0");
        command
    }

    /// `text` without what differs from run to run (the folder, amounts of memory), in lines that
    /// fit into a source.
    pub(crate) fn masked(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "FOLDER");
        let mut words: Vec<String> = text.trim_end().split(' ').map(str::to_owned).collect();
        for idx in 1..words.len() {
            let is_unit = ["KiB", "MiB"].iter().any(|unit| words[idx].starts_with(unit));
            if is_unit && words[idx - 1].parse::<f64>().is_ok() {
                words[idx - 1] = "N".to_owned();
                words[idx] = words[idx].replace("KiB", "MiB");
            }
        }
        let mut folded = String::new();
        let mut width = 0;
        for word in words {
            let length = word.chars().count();
            let (space, start) = match width {
                0 => ("", 0),
                _ if width + 1 + length > COLUMNS => ("\n", 0),
                _ => (" ", width + 1),
            };
            folded += space;
            folded += &word;
            width = start + length;
        }
        folded
    }

    /// The folder, by which processes are recognised.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Some KiB of lines of words, the same every time.
fn text() -> String {
    let mut state = 1u32;
    let mut word = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        WORDS[(state >> 16) as usize % WORDS.len()]
    };
    let line = |_| (0..9).map(|_| word()).collect::<Vec<_>>().join(" ") + "\n";
    (0..300).map(line).collect()
}
