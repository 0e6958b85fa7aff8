//! Checkpoints through real files: nothing is lost, and nothing wrong is accepted.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use cavalcade_checkpoint::{
    CheckpointError, Metadata, Tensor, Tensors, read, read_expected, read_metadata, read_named,
    write,
};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A file that goes away with the folder it is in.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    (folder, path)
}

fn sample() -> Tensors {
    let tensor = |shape: &[usize]| {
        let n_values: usize = shape.iter().product();
        Tensor::new(shape.to_vec(), (0..n_values).map(|i| i as f32 / 3.0).collect())
    };
    [("wte", tensor(&[3, 2])), ("h.0.bias", tensor(&[2])), ("scale", tensor(&[]))]
        .map(|(name, tensor)| (name.to_owned(), tensor))
        .into()
}

fn check(error: &CheckpointError, path: &std::path::Path, message: Expect) {
    message.assert_eq(&error.to_string().replace(&path.display().to_string(), "FILE"));
}

fn bits(tensors: &Tensors) -> Vec<(&str, &[usize], Vec<u32>)> {
    let bits = |tensor: &Tensor| tensor.values().iter().map(|value| value.to_bits()).collect();
    tensors.iter().map(|(name, t)| (name.as_str(), t.shape(), bits(t))).collect()
}

const ALL: [(&str, &[usize]); 3] = [("wte", &[3, 2]), ("h.0.bias", &[2]), ("scale", &[])];

#[test]
fn the_wanted_tensors_are_read() {
    let (_folder, path) = place();
    let metadata = Metadata::from([("step".to_owned(), "7".to_owned())]);
    write(&path, &sample(), &metadata).unwrap();
    assert_eq!(read_metadata(&path).unwrap(), metadata);
    assert_eq!(read_expected(&path, ALL).unwrap(), sample());
    let part = read_named(&path, [ALL[1]]).unwrap();
    assert_eq!(part.len(), 1);
    assert_eq!(part["h.0.bias"], sample()["h.0.bias"]);
}

#[test]
fn other_tensors_than_the_model_s_are_refused() {
    let (_folder, path) = place();
    write(&path, &sample(), &Metadata::new()).unwrap();
    let shape: [(&str, &[usize]); 1] = [("wte", &[2, 3])];
    let more: Vec<(&str, &[usize])> = ["a", "b", "c", "d", "e"].map(|n| (n, &[1][..])).to_vec();
    check(
        &read_named(&path, shape).unwrap_err(),
        &path,
        expect![
            "FILE: the tensor `wte` has shape [3, 2], the model needs [2, 3]; load it with the configuration that it was trained with"
        ],
    );
    check(
        &read_expected(&path, more).unwrap_err(),
        &path,
        expect![
            "FILE lacks the tensors `a`, `b`, `c` and 2 more; load it with the configuration that it was trained with"
        ],
    );
    check(
        &read_expected(&path, [ALL[0], ALL[1]]).unwrap_err(),
        &path,
        expect![
            "FILE has the tensor `scale`, which the model lacks; load it with the configuration that it was trained with"
        ],
    );
}

#[test]
fn other_types_are_refused() {
    use safetensors::{Dtype, tensor::TensorView};
    let (_folder, path) = place();
    let view = TensorView::new(Dtype::BF16, vec![2], &[0; 4]).unwrap();
    fs::write(&path, safetensors::serialize([("wte", view)], None).unwrap()).unwrap();
    check(
        &read(&path).unwrap_err(),
        &path,
        expect!["FILE: the tensor `wte` has type BF16; convert it to F32"],
    );
}

#[test]
fn files_that_are_not_there_or_not_ours_are_refused() {
    let (folder, path) = place();
    check(
        &read(&path).unwrap_err(),
        &path,
        expect!["there is no file FILE; check the path, or the step that you want to load"],
    );
    let error = read(folder.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::Unreadable { .. }), "{error}");
    fs::write(&path, "{}").unwrap();
    check(
        &read_metadata(&path).unwrap_err(),
        &path,
        expect![
            "FILE (2 bytes) is not a whole safetensors file: header too small; copy it again, or load an older checkpoint"
        ],
    );
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let (_folder, path) = place();
    write(&path, &sample(), &Metadata::from([("a".to_owned(), "b".to_owned())])).unwrap();
    let whole = fs::read(&path).unwrap();
    for n_bytes in 0..whole.len() {
        fs::write(&path, &whole[..n_bytes]).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, CheckpointError::NotSafetensors { .. }), "{n_bytes}: {error}");
    }
}

#[test]
fn a_tensor_has_the_values_of_its_shape() {
    let panic = std::panic::catch_unwind(|| Tensor::new(vec![3, 2], vec![0.0; 5])).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("holds 6 values"), "{message}");
}

fn tensors() -> impl Strategy<Value = Tensors> {
    let tensor = prop::collection::vec(0..4_usize, 0..4).prop_flat_map(|shape| {
        let n_values = shape.iter().product::<usize>();
        // Bits, so that every NaN, infinity and negative zero occurs.
        prop::collection::vec(any::<u32>(), n_values).prop_map(move |bits| {
            Tensor::new(shape.clone(), bits.into_iter().map(f32::from_bits).collect())
        })
    });
    prop::collection::btree_map("[a-z.\"\\\\é]{1,6}", tensor, 0..5)
}

proptest! {
    // Each case syncs files to the disk.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_bit_by_bit(
        tensors in tensors(),
        metadata in prop::collection::btree_map(".{0,4}", ".{0,4}", 0..4),
    ) {
        let (_folder, path) = place();
        write(&path, &tensors, &metadata).unwrap();
        let found = read(&path).unwrap();
        prop_assert_eq!(bits(&found), bits(&tensors));
        prop_assert_eq!(read_metadata(&path).unwrap(), metadata);
    }

    #[test]
    fn garbage_never_panics(
        tensors in tensors(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (_folder, path) = place();
        write(&path, &tensors, &Metadata::new()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [bytes, noise] {
            fs::write(&path, bytes).unwrap();
            // Either it is a legal file of other values, or an error with a message.
            if let Err(error) = read(&path) {
                prop_assert!(error.to_string().contains("model.safetensors"));
            }
        }
    }
}
