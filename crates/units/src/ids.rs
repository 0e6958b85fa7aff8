//! The ids. Each is an index into one table, and each prints as its bare number.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            pub fn idx(self) -> usize {
                self.0 as usize
            }

            /// The id of the table entry at `idx`.
            ///
            /// # Panics
            /// If `idx` does not fit in 32 bits: no table here grows that large.
            pub fn from_idx(idx: usize) -> Self {
                Self(u32::try_from(idx).expect("a table has fewer than 2^32 entries"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

ids! {
    /// A device of the cluster. In this design a rank drives exactly one device.
    DeviceId,
    /// A worker process, numbered as launchers number them: `0..WORLD_SIZE`.
    Rank,
    /// A consecutive run of layers held by one device.
    ChunkId,
    /// One micro-batch of a step, numbered over the whole global batch.
    MicrobatchId,
    /// One value moving from one device to another.
    TransferId,
    /// One collective operation among the members of a group.
    CollectiveId,
    /// One exchange of a chunk's parameters with their server, at the end of a wave.
    ExchangeId,
    /// A set of devices that take part in the same collectives.
    GroupId,
    /// One replica of the model: a sequence of stages.
    PipelineId,
}
