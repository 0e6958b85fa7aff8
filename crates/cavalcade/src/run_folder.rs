//! The folder that a run leaves behind. Every file but the growing `metrics.jsonl` is written to
//! a temporary name and renamed, so that none is ever half there.

use crate::dataset::Dataset;
use crate::error::Error;
use crate::generate;
use crate::prepare::Prepared;
use crate::report::{StepMetrics, Summary};
use cavalcade_checkpoint::{Metadata, Tensor, Tensors, atomic_write};
use cavalcade_model::Model;
use cavalcade_runtime::{Values, VersionEvent};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// What is there before the first step.
const FIRST_FILES: [&str; 6] =
    ["config.toml", "profile.json", "plan.toml", "schedule.txt", "metrics.jsonl", VERSIONS];
/// The log of versions of a run that exchanges waves.
pub(crate) const VERSIONS: &str = "versions.jsonl";

/// A run's folder.
pub struct RunFolder {
    path: PathBuf,
    metrics: File,
    versions: Option<File>,
    made: Vec<PathBuf>,
}

impl RunFolder {
    /// Makes the folder and writes what is known before the first step: `config.toml`,
    /// `profile.json`, `plan.toml`, `schedule.txt`, an empty `metrics.jsonl`.
    ///
    /// # Errors
    /// If the folder is there and not empty, or anything cannot be written; what was made is then
    /// taken away again.
    pub fn create(path: &Path, prepared: &Prepared) -> Result<Self, Error> {
        Self::check_free(path)?;
        let missing = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty());
        let made: Vec<PathBuf> =
            missing.take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
        let filled = std::fs::create_dir_all(path)
            .map_err(|e| Error::Unwritable { path: path.to_owned(), reason: e.to_string() })
            .and_then(|()| Self::fill(path, prepared));
        match filled {
            Ok((metrics, versions)) => Ok(Self { path: path.to_owned(), metrics, versions, made }),
            Err(error) => {
                take_back(path, &made);
                Err(error)
            }
        }
    }

    /// Whether a run can have the folder: it is not there, or empty. Asked before long work, such
    /// as measuring; [`Self::create`] asks again.
    ///
    /// # Errors
    /// If it is something else.
    pub fn check_free(path: &Path) -> Result<(), Error> {
        let fail = |reason: String| Error::Unwritable { path: path.to_owned(), reason };
        match std::fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(fail("it is there already and not empty; name another folder".to_owned()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fail(format!("{error}; name another folder"))),
        }
    }

    /// Takes away what [`Self::create`] made: for a run that never began.
    pub(crate) fn take_back(&self) {
        take_back(&self.path, &self.made);
    }

    fn fill(path: &Path, prepared: &Prepared) -> Result<(File, Option<File>), Error> {
        let write = |name: &str, text: &str| write(&path.join(name), text.as_bytes());
        write("config.toml", &prepared.config.to_toml())?;
        write("profile.json", &prepared.profile.to_json())?;
        write("plan.toml", &prepared.plan_text())?;
        write("schedule.txt", &prepared.job.schedule.schedule().to_string())?;
        let create = |name: &str| {
            let path = path.join(name);
            let file = File::create(&path);
            file.map_err(|e| Error::Unwritable { path, reason: e.to_string() })
        };
        let versions = prepared.job.waves.map(|_| create(VERSIONS)).transpose()?;
        Ok((create("metrics.jsonl")?, versions))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to `metrics.jsonl`, whole or not at all.
    pub(crate) fn add_metrics(&mut self, metrics: &StepMetrics) -> Result<(), Error> {
        let mut line = serde_json::to_string(metrics).expect("numbers and no maps");
        line.push('\n');
        self.metrics.write_all(line.as_bytes()).map_err(|e| Error::Unwritable {
            path: self.path.join("metrics.jsonl"),
            reason: e.to_string(),
        })
    }

    /// Adds lines to `versions.jsonl`.
    pub(crate) fn add_versions(&mut self, versions: &[VersionEvent]) -> Result<(), Error> {
        let Some(file) = &mut self.versions else { return Ok(()) };
        let line = |entry| serde_json::to_string(entry).expect("numbers") + "\n";
        let lines: String = versions.iter().map(line).collect();
        file.write_all(lines.as_bytes()).map_err(|e| Error::Unwritable {
            path: self.path.join(VERSIONS),
            reason: e.to_string(),
        })
    }

    /// Writes `model/`: description, weights and, of a model of text, its tokenizer.
    pub(crate) fn write_model(&self, prepared: &Prepared, weights: Values) -> Result<(), Error> {
        let folder = self.path.join("model");
        std::fs::create_dir_all(&folder)
            .map_err(|e| Error::Unwritable { path: folder.clone(), reason: e.to_string() })?;
        write(&folder.join(generate::CONFIG), prepared.model.to_json().as_bytes())?;
        if let Dataset::Text(text) = &prepared.data {
            let tokenizer = text.tokenizer().to_json();
            write(&folder.join(generate::TOKENIZER), tokenizer.as_bytes())?;
        }
        let tensors = tensors(&prepared.job.model, weights);
        let metadata = Metadata::from([("format".to_owned(), "pt".to_owned())]);
        Ok(cavalcade_checkpoint::write(&folder.join(generate::WEIGHTS), &tensors, &metadata)?)
    }

    /// Writes `summary.json`.
    pub(crate) fn write_summary(&self, summary: &Summary) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(summary).expect("numbers and strings");
        write(&self.path.join("summary.json"), (text + "\n").as_bytes())
    }

    /// Writes `trace.json`.
    pub(crate) fn write_trace(&self, trace: &serde_json::Value) -> Result<(), Error> {
        write(&self.path.join("trace.json"), trace.to_string().as_bytes())
    }
}

/// Removes the first files and the folders `made`, deepest first, and nothing else. What cannot be
/// removed stays: the error that led here says more.
fn take_back(path: &Path, made: &[PathBuf]) {
    for name in FIRST_FILES {
        let _ = std::fs::remove_file(path.join(name));
    }
    for folder in made {
        let _ = std::fs::remove_dir(folder);
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(atomic_write(path, bytes)?)
}

/// Values with their logical shapes.
fn tensors(model: &Model, mut weights: Values) -> Tensors {
    let mut tensors = Tensors::new();
    for param in model.params_of(0..model.n_layers()) {
        if let Some(values) = weights.remove(&param.spec.name) {
            let tensor = Tensor::new(param.spec.shape.clone(), values);
            tensors.insert(param.spec.name.clone(), tensor);
        }
    }
    tensors
}
