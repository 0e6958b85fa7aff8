//! Clusters, for tests that group their devices.

use cavalcade_units::DeviceId;

/// Nodes of as many devices as `sizes` says, numbered on.
pub(crate) fn nodes(sizes: &[usize]) -> Vec<Vec<DeviceId>> {
    let mut next = 0;
    let mut node = |&size: &usize| {
        next += size;
        (next - size..next).map(DeviceId::from_idx).collect()
    };
    sizes.iter().map(&mut node).collect()
}
