//! All-reduce by a member that serves the others.

use super::{index_in, recv_exact};
use crate::error::TransportError;
use crate::f32s::{add_f32s, decode_f32s_into, encode_f32s};
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::Rank;

/// Replaces `values` by their sum over the group, element by element.
///
/// The group's first member is the server: all others send it what they have, it adds that to its
/// own in the group's order, and sends the sum to each of them. (A parameter server as in
/// Iandola et al., *FireCaffe*, CVPR 2016, but one that has a share of its own and keeps no
/// parameters.) The sum is made once and copied: it has the same bits on every member, whatever
/// the timing. A group of one changes nothing.
///
/// # Errors
/// [`TransportError::LengthMismatch`] if the length of a member that it hears from differs: then
/// end the run, as others may be waiting. [`TransportError::BadGroup`], or those of the transport.
pub fn all_reduce_server(
    transport: &dyn Transport,
    group: &[Rank],
    tag: Tag,
    values: &mut [f32],
) -> Result<(), TransportError> {
    let member_idx = index_in(transport, group)?;
    let n_bytes = size_of_val(values);
    let receive = |peer: Rank| recv_exact(transport, peer, tag, n_bytes);
    let (server, others) = group.split_first().expect("the caller is a member");
    if member_idx > 0 {
        transport.send(*server, tag, encode_f32s(values))?;
        return decode_f32s_into(&receive(*server)?, values);
    }
    for &peer in others {
        add_f32s(&receive(peer)?, values)?;
    }
    others.iter().try_for_each(|&peer| transport.send(peer, tag, encode_f32s(values)))
}
