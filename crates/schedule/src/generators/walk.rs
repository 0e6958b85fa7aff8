//! A way down a row of devices and up again, several times over: what zero-bubble Vs and
//! four-phase steps have in common.

/// How far each micro-batch has come on a way whose legs go down the devices and up in turn.
pub(super) struct Walk {
    n_devices: u32,
    /// By micro-batch, the places that are behind it.
    passed: Vec<u32>,
}

impl Walk {
    /// Everything still at its beginning.
    pub(super) fn new(n_devices: u32, n_microbatches: u32) -> Self {
        Self { n_devices, passed: vec![0; n_microbatches as usize] }
    }

    /// The place of device `rank` on the leg with this index, counted over all legs.
    fn place(&self, leg: usize, rank: u32) -> u32 {
        let within = if leg.is_multiple_of(2) { rank } else { self.n_devices - 1 - rank };
        leg as u32 * self.n_devices + within
    }

    /// Whether `microbatch` has come as far as to `rank` on this leg, and no further.
    pub(super) fn is_at(&self, leg: usize, rank: u32, microbatch: u32) -> bool {
        self.passed[microbatch as usize] == self.place(leg, rank)
    }

    /// Whether `rank` on this leg is behind `microbatch`.
    pub(super) fn is_past(&self, leg: usize, rank: u32, microbatch: u32) -> bool {
        self.passed[microbatch as usize] > self.place(leg, rank)
    }

    /// `microbatch` goes on to the next place.
    pub(super) fn advance(&mut self, microbatch: u32) {
        self.passed[microbatch as usize] += 1;
    }
}
