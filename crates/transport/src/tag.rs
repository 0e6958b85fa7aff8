//! What a message is about, so that a receiver can ask for one in particular.

use std::fmt;

/// Names a message among those of one sender: which kind of traffic, in which step, which item.
///
/// Messages of one sender with one tag keep their order; those with different tags have none.
///
/// ```text
///  63      56 55                 24 23            0
///   kind: 8     step: 32 bits         id: 24 bits
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

impl Tag {
    /// The largest `id` that fits.
    pub const ID_MAX: u32 = (1 << 24) - 1;

    /// The tag of item `id` of a kind of traffic in a step.
    ///
    /// # Panics
    /// If `id` is above [`Tag::ID_MAX`]: two messages would share a tag.
    pub fn new(kind: u8, step: u32, id: u32) -> Self {
        assert!(id <= Self::ID_MAX, "the id of a tag has 24 bits, {id} does not fit");
        Self(u64::from(kind) << 56 | u64::from(step) << 24 | u64::from(id))
    }

    /// The kind of traffic.
    pub fn kind(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    /// The step, modulo 2^32.
    pub fn step(self) -> u32 {
        ((self.0 >> 24) & u64::from(u32::MAX)) as u32
    }

    /// The item.
    pub fn id(self) -> u32 {
        (self.0 & u64::from(Self::ID_MAX)) as u32
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kind {} step {} id {}", self.kind(), self.step(), self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn the_parts_of_a_tag_do_not_overlap() {
        for (kind, step, id) in [(255, 0, 0), (0, u32::MAX, 0), (0, 0, Tag::ID_MAX), (7, 300, 9)] {
            let tag = Tag::new(kind, step, id);
            assert_eq!((tag.kind(), tag.step(), tag.id()), (kind, step, id));
        }
        assert_eq!(Tag::new(7, 300, 9).to_string(), "kind 7 step 300 id 9");
    }
}
