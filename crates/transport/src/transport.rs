//! The trait that everything above talks to.

use crate::error::TransportError;
use crate::tag::Tag;
use cavalcade_units::Rank;

/// One rank's door to all others.
///
/// All methods may be called from several threads at the same time. After [`Transport::shutdown`]
/// or [`Transport::abort`] every call, also one that is waiting, fails with
/// [`TransportError::Closed`].
pub trait Transport: Send + Sync {
    /// This rank.
    fn rank(&self) -> Rank;

    /// How many ranks there are; they are numbered from zero.
    fn world_size(&self) -> usize;

    /// Hands a message over. It is buffered: this returns once the emulated link is free again,
    /// at once where none is emulated, and never waits for the receiver.
    ///
    /// A message to the own rank goes to the own mailbox and over no link.
    ///
    /// # Errors
    /// [`TransportError::PeerLost`], [`TransportError::Closed`], [`TransportError::NoSuchRank`],
    /// [`TransportError::TooLarge`]. A message handed over before the loss of the peer was
    /// noticed is dropped without an error.
    fn send(&self, to: Rank, tag: Tag, payload: Vec<u8>) -> Result<(), TransportError>;

    /// Waits for the next message of that peer with that tag. What came before the peer was lost
    /// can still be received.
    ///
    /// # Errors
    /// [`TransportError::PeerLost`], [`TransportError::Closed`], [`TransportError::NoSuchRank`].
    fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError>;

    /// Delivers what was sent, then says goodbye to all peers: they lose this rank once they have
    /// received all that was sent to them. Call it after a last barrier. A second call does
    /// nothing.
    fn shutdown(&self);

    /// Drops what was not delivered yet and ends all connections; the peers are told the reason.
    fn abort(&self, reason: &str);
}
