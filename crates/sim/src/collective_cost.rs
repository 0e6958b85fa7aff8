//! Closed forms of collectives' times: latency `alpha` a step, `beta` seconds a byte, of the
//! slowest link used. Sources: the ring of Patarasuk and Yuan (2009); Thakur et al. (2005).

use crate::costs::LinkCost;
use cavalcade_units::{Bytes, DeviceId, Nanos};

/// A ring all-reduce of `bytes` over `group`: `2 (n-1) alpha + 2 (n-1)/n bytes beta`.
pub fn all_reduce(
    group: &[DeviceId],
    bytes: Bytes,
    link: impl Fn(DeviceId, DeviceId) -> LinkCost,
) -> Nanos {
    let n = group.len() as u64;
    let step = slowest_step(group, Bytes(bytes.0.div_ceil(n)), link);
    step * (2 * (n - 1))
}

/// An all-gather of `bytes` a member over `group`, where each member sends to all others one after
/// the other: `alpha + (n-1) bytes beta`, over the slowest pair.
pub fn all_gather(
    group: &[DeviceId],
    bytes: Bytes,
    link: impl Fn(DeviceId, DeviceId) -> LinkCost,
) -> Nanos {
    let n_others = group.len() as u64 - 1;
    let pairs = group.iter().flat_map(|from| group.iter().map(move |to| (*from, *to)));
    let times = pairs.filter(|(from, to)| from != to).map(|(from, to)| {
        let link = link(from, to);
        link.busy(bytes) * n_others + link.latency
    });
    times.max().unwrap_or_default()
}

/// How long the slowest link of the ring takes for one message.
fn slowest_step(
    group: &[DeviceId],
    bytes: Bytes,
    link: impl Fn(DeviceId, DeviceId) -> LinkCost,
) -> Nanos {
    let next = group.iter().cycle().skip(1);
    let step = group.iter().zip(next).filter(|(a, b)| a != b).map(|(&from, &to)| {
        let link = link(from, to);
        link.busy(bytes) + link.latency
    });
    step.max().unwrap_or_default()
}
