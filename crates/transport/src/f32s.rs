//! Slices of `f32` as little-endian bytes.

use crate::error::TransportError;
use cavalcade_units::Bytes;

const F32_BYTES: usize = size_of::<f32>();

/// The values as little-endian bytes, four each.
pub fn encode_f32s(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * F32_BYTES);
    extend_with_f32s(&mut bytes, values);
    bytes
}

/// Appends the values to `bytes`.
pub(crate) fn extend_with_f32s(bytes: &mut Vec<u8>, values: &[f32]) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(bytemuck::cast_slice(values));
    } else {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
}

/// The values of little-endian bytes.
///
/// # Errors
/// [`TransportError::NotF32s`] if the length is no multiple of four.
pub fn decode_f32s(bytes: &[u8]) -> Result<Vec<f32>, TransportError> {
    let mut values = vec![0.0; bytes.len() / F32_BYTES];
    match decode_f32s_into(bytes, &mut values) {
        Ok(()) => Ok(values),
        Err(_) => Err(TransportError::NotF32s {
            len: bytes.len(),
            expected: "a multiple of 4".to_owned(),
        }),
    }
}

/// Overwrites `values` with those of little-endian bytes.
///
/// # Errors
/// [`TransportError::NotF32s`] if the bytes are not exactly four for each value.
pub fn decode_f32s_into(bytes: &[u8], values: &mut [f32]) -> Result<(), TransportError> {
    check_len(bytes, values.len())?;
    if cfg!(target_endian = "little") {
        bytemuck::cast_slice_mut(values).copy_from_slice(bytes);
    } else {
        for (value, chunk) in values.iter_mut().zip(bytes.chunks_exact(F32_BYTES)) {
            *value = from_chunk(chunk);
        }
    }
    Ok(())
}

/// Adds the values of little-endian bytes to `sums`, element by element.
///
/// # Errors
/// [`TransportError::NotF32s`] if the bytes are not exactly four for each sum.
pub fn add_f32s(bytes: &[u8], sums: &mut [f32]) -> Result<(), TransportError> {
    check_len(bytes, sums.len())?;
    for (sum, chunk) in sums.iter_mut().zip(bytes.chunks_exact(F32_BYTES)) {
        *sum += from_chunk(chunk);
    }
    Ok(())
}

fn from_chunk(chunk: &[u8]) -> f32 {
    f32::from_le_bytes(chunk.try_into().expect("the chunks have four bytes"))
}

fn check_len(bytes: &[u8], n_values: usize) -> Result<(), TransportError> {
    let expected = Bytes::of_f32(n_values);
    if bytes.len() as u64 == expected.0 {
        Ok(())
    } else {
        Err(TransportError::NotF32s { len: bytes.len(), expected: format!("{} bytes", expected.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::{add_f32s, decode_f32s, decode_f32s_into, encode_f32s};

    #[test]
    fn bits_survive_and_are_little_endian() {
        let values = [1.0, -0.0, f32::MIN_POSITIVE, f32::INFINITY, 3.25e-41];
        let bytes = encode_f32s(&values);
        assert_eq!(bytes[..4], [0, 0, 0x80, 0x3f]);
        // An odd start: a payload is aligned to nothing.
        let shifted: Vec<u8> = [0].into_iter().chain(bytes).collect();
        let decoded = decode_f32s(&shifted[1..]).unwrap();
        assert!(decoded.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits()));

        let mut sums = vec![1.0; 5];
        add_f32s(&shifted[1..], &mut sums).unwrap();
        assert_eq!(sums, [2.0, 1.0, 1.0, f32::INFINITY, 1.0]);
    }

    #[test]
    fn a_wrong_length_is_refused() {
        let error = decode_f32s(&[0; 7]).unwrap_err().to_string();
        assert_eq!(error, "7 bytes are no whole number of f32, expected a multiple of 4");
        assert!(decode_f32s_into(&[0; 8], &mut [0.0]).is_err());
        assert!(add_f32s(&[0; 4], &mut [0.0; 2]).is_err());
    }
}
