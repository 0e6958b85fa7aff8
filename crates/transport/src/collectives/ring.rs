//! All-reduce along a ring.

use super::{check_length, index_in};
use crate::error::TransportError;
use crate::f32s::{add_f32s, decode_f32s_into, extend_with_f32s};
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::{Bytes, Rank};
use std::ops::Range;

/// Replaces `values` by their sum over the group, element by element.
///
/// A ring: `n - 1` steps reduce each of `n` pieces to one member, `n - 1` steps hand the sums on.
/// Each piece is summed along the ring by one path and then copied, so that the result has the same
/// bits on every member, whatever the timing. (Other groups, or other orders of the members, sum
/// in another order.) A group of one changes nothing.
///
/// ```text
///   4 members; member i, step s            reduce: sends piece i-s, adds piece i-s-1 from the left
///   ... -> i-1 -> i -> i+1 -> ...          gather: sends piece i+1-s, takes piece i-s
/// ```
///
/// # Errors
/// [`TransportError::LengthMismatch`] if the left neighbor's length differs: then end the run, as
/// others may be waiting. [`TransportError::BadGroup`], or those of the transport.
pub fn all_reduce_ring(
    transport: &dyn Transport,
    group: &[Rank],
    tag: Tag,
    values: &mut [f32],
) -> Result<(), TransportError> {
    let member_idx = index_in(transport, group)?;
    let n = group.len();
    if n == 1 {
        return Ok(());
    }
    let left = group[(member_idx + n - 1) % n];
    let right = group[(member_idx + 1) % n];
    let length = Bytes::of_f32(values.len());
    let piece = {
        let len = values.len();
        move |idx: usize| piece_of(len, idx % n, n)
    };

    for step in 0..n - 1 {
        let (send, recv) = (piece(member_idx + n - step), piece(member_idx + 2 * n - step - 1));
        let mut payload = Vec::new();
        if step == 0 {
            payload.extend_from_slice(&length.0.to_le_bytes());
        }
        extend_with_f32s(&mut payload, &values[send]);
        transport.send(right, tag, payload)?;

        let received = transport.recv(left, tag)?;
        let received = match step {
            0 => strip_length(transport, left, tag, length, &received)?,
            _ => &received,
        };
        add_f32s(received, &mut values[recv])?;
    }
    for step in 0..n - 1 {
        let (send, recv) = (piece(member_idx + n + 1 - step), piece(member_idx + n - step));
        let mut payload = Vec::new();
        extend_with_f32s(&mut payload, &values[send]);
        transport.send(right, tag, payload)?;
        decode_f32s_into(&transport.recv(left, tag)?, &mut values[recv])?;
    }
    Ok(())
}

/// Piece `idx` of `n`. They differ by at most one element, and are empty where `n` is above `len`.
fn piece_of(len: usize, idx: usize, n: usize) -> Range<usize> {
    let start_of = |idx: usize| len / n * idx + len % n * idx / n;
    start_of(idx)..start_of(idx + 1)
}

fn strip_length<'a>(
    transport: &dyn Transport,
    peer: Rank,
    tag: Tag,
    ours: Bytes,
    payload: &'a [u8],
) -> Result<&'a [u8], TransportError> {
    // Something else than a collective used the tag if there is no length: then it has zero bytes.
    let (theirs, rest) = match payload.split_first_chunk() {
        Some((length, rest)) => (u64::from_le_bytes(*length), rest),
        None => (0, payload),
    };
    check_length(transport, peer, tag, ours.0, theirs)?;
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::piece_of;

    #[test]
    fn the_pieces_are_even_and_cover_everything() {
        for n in 1..7 {
            for len in 0..20 {
                let pieces: Vec<_> = (0..n).map(|idx| piece_of(len, idx, n)).collect();
                assert!(pieces.iter().cloned().flatten().eq(0..len), "{len} over {n}: {pieces:?}");
                let sizes = || pieces.iter().map(ExactSizeIterator::len);
                assert!(sizes().max() <= sizes().min().map(|size| size + 1), "{pieces:?}");
            }
        }
    }
}
