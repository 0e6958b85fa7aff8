//! Collectives: the same call by every member of a group, with the same tag and shape.
//!
//! They need nothing but a [`Transport`], and no two of them may use one tag at the same time. A
//! group lists its members in an order that all of them agree on.

use crate::error::TransportError;
use crate::f32s::{add_f32s, decode_f32s_into, extend_with_f32s};
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::{Bytes, Rank};
use std::ops::Range;

/// Bytes before the first piece of a ring: the length of the whole.
pub const LENGTH_BYTES: u64 = 8;

/// A kind of collective, for [`bytes_sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// [`all_reduce_sum`].
    AllReduce,
    /// [`all_gather_f64`], of eight bytes, and [`barrier`].
    AllGather,
    /// [`broadcast`].
    Broadcast,
}

/// The payload bytes that the busiest of `n` members sends in a collective over `bytes`.
///
/// - All-reduce: `2 (n - 1) / n * bytes`, each member sending all pieces but one twice (Patarasuk
///   and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, JPDC 2009),
///   plus [`LENGTH_BYTES`]. Rounded up: where `n` doesn't divide the elements, a member can be off
///   by two elements, the sum over all members is exact.
/// - All-gather: `(n - 1) * bytes`, `bytes` being those of one member.
/// - Broadcast: the root sends `(n - 1) * bytes`, the others nothing.
pub fn bytes_sent(collective: Collective, n: usize, bytes: Bytes) -> Bytes {
    let n = n as u64;
    match collective {
        _ if n <= 1 => Bytes::ZERO,
        Collective::AllReduce => Bytes((2 * (n - 1) * bytes.0).div_ceil(n) + LENGTH_BYTES),
        Collective::AllGather | Collective::Broadcast => Bytes((n - 1) * bytes.0),
    }
}

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
pub fn all_reduce_sum(
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

fn check_length(
    transport: &dyn Transport,
    peer: Rank,
    tag: Tag,
    ours: u64,
    theirs: u64,
) -> Result<(), TransportError> {
    if ours == theirs {
        return Ok(());
    }
    Err(TransportError::LengthMismatch { rank: transport.rank(), peer, tag, ours, theirs })
}

/// The value of every member, in the group's order.
///
/// # Errors
/// [`TransportError::LengthMismatch`] if a peer sends something else than eight bytes;
/// [`TransportError::BadGroup`], or those of the transport.
pub fn all_gather_f64(
    transport: &dyn Transport,
    group: &[Rank],
    tag: Tag,
    value: f64,
) -> Result<Vec<f64>, TransportError> {
    index_in(transport, group)?;
    let others = group.iter().filter(|&&peer| peer != transport.rank());
    for &peer in others {
        transport.send(peer, tag, value.to_le_bytes().to_vec())?;
    }
    group
        .iter()
        .map(|&peer| {
            if peer == transport.rank() {
                return Ok(value);
            }
            let payload = transport.recv(peer, tag)?;
            check_length(transport, peer, tag, size_of::<f64>() as u64, payload.len() as u64)?;
            let bytes = payload[..].try_into().expect("the length was checked");
            Ok(f64::from_le_bytes(bytes))
        })
        .collect()
}

/// Returns once every member has called it.
///
/// # Errors
/// Those of [`all_gather_f64`].
pub fn barrier(transport: &dyn Transport, group: &[Rank], tag: Tag) -> Result<(), TransportError> {
    all_gather_f64(transport, group, tag, 0.0).map(drop)
}

/// Overwrites `payload` on all members with that of `root`, which sends it to each of them.
///
/// # Errors
/// [`TransportError::LengthMismatch`] if the root's payload is longer or shorter;
/// [`TransportError::BadGroup`] if the caller or `root` is no member, or those of the transport.
pub fn broadcast(
    transport: &dyn Transport,
    group: &[Rank],
    tag: Tag,
    root: Rank,
    payload: &mut [u8],
) -> Result<(), TransportError> {
    index_in(transport, group)?;
    if !group.contains(&root) {
        return Err(bad_group(transport, group, format!("the root, rank {root}, is no member")));
    }
    if transport.rank() == root {
        let others = group.iter().filter(|&&peer| peer != root);
        return others
            .into_iter()
            .try_for_each(|&peer| transport.send(peer, tag, payload.to_vec()));
    }
    let received = transport.recv(root, tag)?;
    check_length(transport, root, tag, payload.len() as u64, received.len() as u64)?;
    payload.copy_from_slice(&received);
    Ok(())
}

/// The caller's place in the group.
fn index_in(transport: &dyn Transport, group: &[Rank]) -> Result<usize, TransportError> {
    let twice = group.iter().enumerate().find(|(idx, rank)| group[..*idx].contains(rank));
    if let Some((_, rank)) = twice {
        return Err(bad_group(transport, group, format!("rank {rank} is in it twice")));
    }
    let member_idx = group.iter().position(|&rank| rank == transport.rank());
    member_idx.ok_or_else(|| bad_group(transport, group, "it is no member".to_owned()))
}

fn bad_group(transport: &dyn Transport, group: &[Rank], why: String) -> TransportError {
    let group = group.iter().map(|rank| rank.0).collect();
    TransportError::BadGroup { rank: transport.rank(), group, why }
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
