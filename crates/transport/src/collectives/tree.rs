//! All-reduce up and down a binary tree.

use super::{index_in, recv_exact};
use crate::error::TransportError;
use crate::f32s::{add_f32s, decode_f32s_into, encode_f32s};
use crate::tag::Tag;
use crate::transport::Transport;
use cavalcade_units::Rank;

/// Replaces `values` by their sum over the group, element by element.
///
/// A binary tree of reductions (Iandola et al., *FireCaffe*, CVPR 2016), over the places in the
/// group: in step `s` up, every second one of those that are left sends its sum to the one `2^s`
/// before it and is done; the first member ends with the sum of all, which goes down the same
/// way. `log2 n`, rounded up, steps each way, in each of which a member sends or receives once.
/// Each sum is made once and then copied, so that the result has the same bits on every member,
/// whatever the timing. A group of one changes nothing.
///
/// ```text
///   up   0   1   2   3   4   5        down   0 ------------> 4
///   s=0  0 <-1   2 <-3   4 <-5               0 ----> 2
///   s=1  0 <---- 2                           0 ->1   2 ->3   4 ->5
///   s=2  0 <------------ 4
/// ```
///
/// # Errors
/// [`TransportError::LengthMismatch`] if the length of a member that it hears from differs: then
/// end the run, as others may be waiting. [`TransportError::BadGroup`], or those of the transport.
pub fn all_reduce_tree(
    transport: &dyn Transport,
    group: &[Rank],
    tag: Tag,
    values: &mut [f32],
) -> Result<(), TransportError> {
    let member_idx = index_in(transport, group)?;
    let n_bytes = size_of_val(values);
    let receive = |peer: Rank| recv_exact(transport, peer, tag, n_bytes);
    let mut children: Vec<Rank> = Vec::new();
    let mut reach = 1;
    while reach < group.len() && member_idx & reach == 0 {
        if let Some(&child) = group.get(member_idx + reach) {
            add_f32s(&receive(child)?, values)?;
            children.push(child);
        }
        reach *= 2;
    }
    if member_idx > 0 {
        let parent = group[member_idx - reach];
        transport.send(parent, tag, encode_f32s(values))?;
        decode_f32s_into(&receive(parent)?, values)?;
    }
    let mut down = children.into_iter().rev();
    down.try_for_each(|child| transport.send(child, tag, encode_f32s(values)))
}
