//! Connecting every rank with every other.
//!
//! ```text
//!   rank 0  <--- rank 1      a rank dials all below it, then accepts all above it: rank 0
//!     ^  ^---.     ^         accepts at once, rank 1 after one dial, and so on, so that nobody
//!     |       `-.  |         waits in a circle
//!   rank 3 ---> rank 2
//! ```

use crate::auth::AuthError;
use crate::clock::Deadline;
use crate::dial::dial;
use crate::door::{Door, Guest, Rejected};
use crate::error::TransportError;
use crate::frame::write_abort;
use crate::secret::Secret;
use crate::tcp::Tcp;
use crate::throttle::Links;
use cavalcade_units::Rank;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// A socket that peers will connect to. Bind it, tell the others its address, then
/// [`Mesh::connect`].
#[derive(Debug)]
pub struct Listener(Door);

impl Listener {
    /// Listens on `addr`, or on a free port of 127.0.0.1 (which other machines can't reach).
    ///
    /// # Errors
    /// [`TransportError::Io`] if the address is not this machine's, or in use.
    pub fn bind(addr: Option<SocketAddr>) -> Result<Self, TransportError> {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Door::bind(addr.unwrap_or(loopback)).map(Self)
    }

    /// Where peers connect to, with the port that was chosen.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the system doesn't say.
    pub fn local_addr(&self) -> Result<SocketAddr, TransportError> {
        self.0.local_addr()
    }
}

/// All that a rank needs to know to join the others.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// Who this is.
    pub rank: Rank,
    /// Where each rank listens, by rank, this one included.
    pub peers: Vec<SocketAddr>,
    /// What all ranks of the run share.
    pub secret: Secret,
    /// The emulated links to the peers.
    pub links: Links,
}

impl Mesh {
    /// Connects to all peers, or fails by the deadline. Connections with a wrong secret are closed
    /// and kept in [`Tcp::rejected`]; they keep nobody else out.
    ///
    /// # Errors
    /// [`TransportError::NoSuchRank`] if `rank` has no address; [`TransportError::Auth`] if a
    /// dialed peer is not the right one; [`TransportError::MeshIncomplete`] or
    /// [`TransportError::Timeout`] at the deadline; [`TransportError::Io`].
    pub fn connect(
        self,
        mut listener: Listener,
        deadline: &Deadline,
    ) -> Result<Tcp, TransportError> {
        let world_size = self.peers.len();
        let rank = self.rank;
        if rank.idx() >= world_size {
            return Err(TransportError::NoSuchRank { rank, world_size });
        }
        let mut streams: Vec<Option<TcpStream>> = Vec::new();
        for (peer_idx, &addr) in self.peers.iter().enumerate().take(rank.idx()) {
            streams.push(Some(self.dial(Rank::from_idx(peer_idx), addr, deadline)?));
        }
        streams.resize_with(world_size, || None);

        let mut rejected = Vec::new();
        loop {
            let missing: Vec<Rank> = (rank.idx() + 1..world_size)
                .filter(|&idx| streams[idx].is_none())
                .map(Rank::from_idx)
                .collect();
            if missing.is_empty() {
                break;
            }
            match listener.0.next(&self.secret, rank, deadline)? {
                Some(Ok(guest)) if missing.contains(&guest.rank) => {
                    streams[guest.rank.idx()] = Some(guest.stream);
                }
                Some(Ok(guest)) => rejected.push(turn_away(guest, &missing)),
                Some(Err(refused)) => rejected.push(refused),
                None => {
                    return Err(TransportError::MeshIncomplete { rank, missing, rejected });
                }
            }
        }
        Tcp::start(rank, streams, &self.links, rejected)
    }

    fn dial(
        &self,
        peer: Rank,
        addr: SocketAddr,
        deadline: &Deadline,
    ) -> Result<TcpStream, TransportError> {
        let (stream, found) = dial(addr, &self.secret, self.rank, deadline)?;
        if found == peer {
            return Ok(stream);
        }
        let source = AuthError::WrongRank { found, expected: peer.to_string() };
        Err(TransportError::Auth { addr, source })
    }
}

/// Tells a peer that knows the secret but has a rank that isn't wanted, and closes.
fn turn_away(mut guest: Guest, missing: &[Rank]) -> Rejected {
    let ranks: Vec<String> = missing.iter().map(Rank::to_string).collect();
    let expected = format!("one of {}", ranks.join(", "));
    let why = AuthError::WrongRank { found: guest.rank, expected };
    // If it doesn't arrive, the closed connection says enough.
    let _ = write_abort(&mut guest.stream, &format!("your rank is not wanted here: {why}"));
    Rejected { addr: guest.addr, why }
}
