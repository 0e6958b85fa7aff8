//! Tensors to bytes in the safetensors format.
//!
//! Equal tensors and metadata give equal bytes, so that checkpoints can be compared by a hash. The
//! `safetensors` crate writes metadata in the order of a hash map, which changes from run to run;
//! here it is put in front of the crate's header, sorted.
//!
//! Source of the format: <https://github.com/huggingface/safetensors#format>.

use crate::{CheckpointError, Metadata, Tensor, Tensors, atomic_write};
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::path::Path;

/// The key that the format reserves.
const METADATA_KEY: &str = "__metadata__";
/// Bytes of the header's length, and the alignment of its end.
const N_LEN: usize = 8;

/// Writes `tensors` and `metadata` to `path` at once, by [`atomic_write`].
///
/// # Errors
/// As [`atomic_write`].
///
/// # Panics
/// If a tensor is named `__metadata__`, which the format reserves.
pub fn write(path: &Path, tensors: &Tensors, metadata: &Metadata) -> Result<(), CheckpointError> {
    atomic_write(path, &to_bytes(tensors, metadata))
}

fn to_bytes(tensors: &Tensors, metadata: &Metadata) -> Vec<u8> {
    assert!(!tensors.contains_key(METADATA_KEY), "`{METADATA_KEY}` is no name for a tensor");
    let views = tensors.iter().map(|(name, tensor)| (name, F32View(tensor)));
    let bytes = safetensors::serialize(views, None)
        .expect("tensors hold as many values as their shapes say, and names are text");
    if metadata.is_empty() { bytes } else { with_metadata(&bytes, metadata) }
}

/// `{"a":{..}}` becomes `{"__metadata__":{..},"a":{..}}`, padded to whole words by spaces.
fn with_metadata(bytes: &[u8], metadata: &Metadata) -> Vec<u8> {
    let (length, rest) = bytes.split_at(N_LEN);
    let length = u64::from_le_bytes(length.try_into().expect("split at 8 bytes"));
    let (header, data) = rest.split_at(length as usize);
    let entries = header.trim_ascii().strip_prefix(b"{").expect("a header is a JSON object");
    let metadata = serde_json::to_string(metadata).expect("a map of strings is always JSON");
    let comma = if entries == b"}" { "" } else { "," };
    let mut header = format!("{{\"{METADATA_KEY}\":{metadata}{comma}").into_bytes();
    header.extend(entries);
    header.resize(header.len().next_multiple_of(N_LEN), b' ');
    let mut bytes = Vec::with_capacity(N_LEN + header.len() + data.len());
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    bytes.extend(data);
    bytes
}

struct F32View<'a>(&'a Tensor);

impl View for F32View<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.0.values().iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        size_of_val(self.0.values())
    }
}

#[cfg(test)]
mod tests {
    use super::to_bytes;
    use crate::{Metadata, Tensor, Tensors};
    use expect_test::expect;

    #[test]
    fn the_bytes_are_fixed() {
        let tensor = |value: f32| Tensor::new(vec![1, 1], vec![value]);
        let tensors: Tensors =
            [("b", 1.0), ("a", -0.0)].map(|(name, value)| (name.to_owned(), tensor(value))).into();
        let metadata = |pairs: &[(&str, &str)]| -> Metadata {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        // The header's length, the header, the data.
        let text = |bytes: Vec<u8>| {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let (header, data) = bytes[8..].split_at(length as usize);
            format!("{length}\n{}\n{data:?}\n", String::from_utf8_lossy(header).trim_end())
        };
        let four = metadata(&[("step", "7"), ("x", "1"), ("format", "pt"), ("y", "\"")]);
        expect![[r#"
            112
            {"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}
            [0, 0, 0, 128, 0, 0, 128, 63]
        "#]].assert_eq(&text(to_bytes(&tensors, &Metadata::new())));
        expect![[r#"
            176
            {"__metadata__":{"format":"pt","step":"7","x":"1","y":"\""},"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}
            [0, 0, 0, 128, 0, 0, 128, 63]
        "#]].assert_eq(&text(to_bytes(&tensors, &four)));
        expect![[r#"
            64
            {"__metadata__":{"format":"pt","step":"7","x":"1","y":"\""}}
            []
        "#]]
        .assert_eq(&text(to_bytes(&Tensors::new(), &four)));
    }
}
