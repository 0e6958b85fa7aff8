//! Collectives: the same call by every member of a group, with the same tag and shape.
//!
//! They need nothing but a [`Transport`], and no two of them may use one tag at the same time. A
//! group lists its members in an order that all of them agree on.

mod ring;
mod server;
mod tree;

use crate::error::TransportError;
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::{Bytes, Rank};

pub use ring::all_reduce_ring;
pub use server::all_reduce_server;
pub use tree::all_reduce_tree;

/// Bytes before the first piece of a ring: the length of the whole.
pub const LENGTH_BYTES: u64 = 8;

/// A kind of collective, for [`bytes_sent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// [`all_reduce_ring`].
    AllReduceRing,
    /// [`all_reduce_tree`].
    AllReduceTree,
    /// [`all_reduce_server`].
    AllReduceServer,
    /// [`all_gather_f64`], of eight bytes, and [`barrier`].
    AllGather,
    /// [`broadcast`].
    Broadcast,
}

/// The payload bytes that the busiest of `n` members sends in a collective over `bytes`.
///
/// - Ring: `2 (n - 1) / n * bytes`, each member sending all pieces but one twice (Patarasuk
///   and Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, JPDC 2009),
///   plus [`LENGTH_BYTES`]. Rounded up: where `n` doesn't divide the elements, a member can be off
///   by two elements.
/// - Tree: the first member sends `bytes` down once a step, `log2 n` times, rounded up; no other
///   sends more often.
/// - Server: the first member sends `(n - 1) * bytes`, the others `bytes`.
/// - All-gather: `(n - 1) * bytes`, `bytes` being those of one member.
/// - Broadcast: the root sends `(n - 1) * bytes`, the others nothing.
pub fn bytes_sent(collective: Collective, n: usize, bytes: Bytes) -> Bytes {
    let n = n as u64;
    match collective {
        _ if n <= 1 => Bytes::ZERO,
        Collective::AllReduceRing => Bytes((2 * (n - 1) * bytes.0).div_ceil(n) + LENGTH_BYTES),
        Collective::AllReduceTree => Bytes(u64::from(n.next_power_of_two().ilog2()) * bytes.0),
        Collective::AllReduceServer | Collective::AllGather | Collective::Broadcast => {
            Bytes((n - 1) * bytes.0)
        }
    }
}

/// The payload bytes that all `n` members together send in a collective over `bytes`, exactly.
///
/// All three all-reduces send `2 (n - 1) * bytes`: they differ in who sends them, and when.
pub fn bytes_sent_by_all(collective: Collective, n: usize, bytes: Bytes) -> Bytes {
    let n = n as u64;
    match collective {
        _ if n <= 1 => Bytes::ZERO,
        Collective::AllReduceRing => Bytes(2 * (n - 1) * bytes.0 + n * LENGTH_BYTES),
        Collective::AllReduceTree | Collective::AllReduceServer => Bytes(2 * (n - 1) * bytes.0),
        Collective::AllGather => Bytes(n * (n - 1) * bytes.0),
        Collective::Broadcast => Bytes((n - 1) * bytes.0),
    }
}

/// The next message of `peer`, which has to have `n_bytes`.
fn recv_exact(
    transport: &dyn Transport,
    peer: Rank,
    tag: Tag,
    n_bytes: usize,
) -> Result<Vec<u8>, TransportError> {
    let payload = transport.recv(peer, tag)?;
    check_length(transport, peer, tag, n_bytes as u64, payload.len() as u64)?;
    Ok(payload)
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
            let payload = recv_exact(transport, peer, tag, size_of::<f64>())?;
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
    payload.copy_from_slice(&recv_exact(transport, root, tag, payload.len())?);
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
