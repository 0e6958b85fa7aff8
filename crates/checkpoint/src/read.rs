//! Bytes to tensors, and whether they are the tensors that are wanted.

use crate::{CheckpointError, Metadata, Tensor, Tensors};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::{fs, str};

/// Reads all tensors of a file.
///
/// # Errors
/// The file is missing, unreadable, not a whole safetensors file, or has another type than F32.
pub fn read(path: &Path) -> Result<Tensors, CheckpointError> {
    let bytes = file(path)?;
    let views = parse(path, &bytes)?;
    views.iter().map(|(name, view)| Ok((name.to_owned(), tensor(path, name, &view)?))).collect()
}

/// Reads the tensors of the given names and shapes; the file must have these and no others.
///
/// # Errors
/// As [`read`], and if a tensor is missing, unexpected or of another shape.
pub fn read_expected<'a>(
    path: &Path,
    expected: impl IntoIterator<Item = (&'a str, &'a [usize])>,
) -> Result<Tensors, CheckpointError> {
    let bytes = file(path)?;
    let views = parse(path, &bytes)?;
    let expected: BTreeMap<_, _> = expected.into_iter().collect();
    let unexpected = views.names().into_iter().filter(|name| !expected.contains_key(name));
    let mut unexpected: Vec<_> = unexpected.map(str::to_owned).collect();
    let tensors = select(path, &views, &expected)?;
    if !unexpected.is_empty() {
        unexpected.sort();
        let path = path.to_owned();
        return Err(CheckpointError::UnexpectedTensors { path, tensors: unexpected });
    }
    Ok(tensors)
}

/// Reads the tensors of the given names and shapes and leaves out all others: what one chunk
/// needs of a whole model.
///
/// # Errors
/// As [`read`] for the tensors named, and if one is missing or of another shape.
pub fn read_named<'a>(
    path: &Path,
    expected: impl IntoIterator<Item = (&'a str, &'a [usize])>,
) -> Result<Tensors, CheckpointError> {
    let bytes = file(path)?;
    select(path, &parse(path, &bytes)?, &expected.into_iter().collect())
}

/// Reads what a file says about itself.
///
/// # Errors
/// The file is missing, unreadable or not a whole safetensors file.
pub fn read_metadata(path: &Path) -> Result<Metadata, CheckpointError> {
    let bytes = file(path)?;
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(not_safetensors(path, &bytes))?;
    Ok(header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect())
}

fn file(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let path_owned = path.to_owned();
    fs::read(path).map_err(|source| match source.kind() {
        ErrorKind::NotFound => CheckpointError::Missing { path: path_owned },
        _ => CheckpointError::Unreadable { path: path_owned, source },
    })
}

fn parse<'b>(path: &Path, bytes: &'b [u8]) -> Result<SafeTensors<'b>, CheckpointError> {
    SafeTensors::deserialize(bytes).map_err(not_safetensors(path, bytes))
}

fn not_safetensors(
    path: &Path,
    bytes: &[u8],
) -> impl Fn(safetensors::SafeTensorError) -> CheckpointError {
    let n_bytes = bytes.len();
    move |source| CheckpointError::NotSafetensors { path: path.to_owned(), n_bytes, source }
}

fn select(
    path: &Path,
    views: &SafeTensors,
    expected: &BTreeMap<&str, &[usize]>,
) -> Result<Tensors, CheckpointError> {
    let mut tensors = Tensors::new();
    let mut missing = Vec::new();
    for (&name, &shape) in expected {
        let Ok(view) = views.tensor(name) else {
            missing.push(name.to_owned());
            continue;
        };
        if view.shape() != shape {
            return Err(CheckpointError::Shape {
                path: path.to_owned(),
                tensor: name.to_owned(),
                found: view.shape().to_vec(),
                expected: shape.to_vec(),
            });
        }
        tensors.insert(name.to_owned(), tensor(path, name, &view)?);
    }
    if missing.is_empty() {
        Ok(tensors)
    } else {
        Err(CheckpointError::MissingTensors { path: path.to_owned(), tensors: missing })
    }
}

fn tensor(path: &Path, name: &str, view: &TensorView) -> Result<Tensor, CheckpointError> {
    if view.dtype() != Dtype::F32 {
        return Err(CheckpointError::Dtype {
            path: path.to_owned(),
            tensor: name.to_owned(),
            found: view.dtype(),
        });
    }
    let (values, _) = view.data().as_chunks::<4>();
    let values = values.iter().map(|&value| f32::from_le_bytes(value)).collect();
    Ok(Tensor::new(view.shape().to_vec(), values))
}
