//! The proof that both ends of a connection know the run's secret.
//!
//! ```text
//!   dialer                                   listener
//!     magic, role, rank, nonce      -->
//!                                   <--      magic, role, rank, nonce
//!     HMAC(secret, dialer's proof)  -->      checks it before it proves itself
//!                                   <--      HMAC(secret, listener's proof)
//! ```
//!
//! Each proof covers its prover's role, both nonces and both ranks: it can neither be reflected,
//! nor replayed, nor used for another rank. (Challenge and response with HMAC-SHA256, RFC 2104.)
//! All messages have a fixed size: a stranger can make this side hold 73 bytes, for as long as the
//! deadline allows. A stranger in the middle could still read and change what follows.

use crate::clock::Deadline;
use crate::secret::{Secret, random};
use cavalcade_units::Rank;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const MAGIC: [u8; 4] = *b"CVA1";
const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
const HELLO_BYTES: usize = 4 + 1 + 4 + NONCE_BYTES;

/// Which end of a connection one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that connected.
    Dialer = 1,
    /// The end that was connected to.
    Listener = 2,
}

/// Why a connection was refused.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The other end does not speak this protocol.
    #[error("the other end is no worker of Cavalcade: it began with the bytes {found:02x?}")]
    Stranger {
        /// Its first five bytes: magic and role.
        found: [u8; 5],
    },
    /// The other end knows another secret.
    #[error("rank {rank} has another secret; start all ranks of a run with the same secret")]
    WrongSecret {
        /// Who it claims to be.
        rank: Rank,
    },
    /// The other end closed the connection, as it does when the secret differs.
    #[error(
        "the other end closed the connection before both had proved themselves; \
         the secrets probably differ, start all ranks of a run with the same secret"
    )]
    Refused,
    /// The other end is somebody else than expected.
    #[error("the other end is rank {found}, expected {expected}; check ranks and addresses")]
    WrongRank {
        /// Who it is, proved.
        found: Rank,
        /// Who could have been there, in words.
        expected: String,
    },
    /// The other end was too slow.
    #[error("the other end did not prove itself in time")]
    Timeout,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Proves to the other end that this one knows the secret, and has it do the same. Returns its
/// rank. The stream is left blocking, without time-outs.
///
/// # Errors
/// [`AuthError`]; the caller then drops the stream.
pub fn authenticate(
    stream: &TcpStream,
    secret: &Secret,
    role: Role,
    my_rank: Rank,
    deadline: &Deadline,
) -> Result<Rank, AuthError> {
    let mine = Hello { role, rank: my_rank, nonce: random() };
    let exchange = Exchange { stream, deadline };
    let theirs = match role {
        Role::Dialer => {
            exchange.write(&mine.encode())?;
            exchange.read_hello(Role::Listener)?
        }
        Role::Listener => {
            let theirs = exchange.read_hello(Role::Dialer)?;
            exchange.write(&mine.encode())?;
            theirs
        }
    };
    let my_proof = proof(secret, &mine, &theirs).finalize().into_bytes();
    if role == Role::Dialer {
        exchange.write(&my_proof)?;
    }
    let their_proof: [u8; PROOF_BYTES] = exchange.read()?;
    proof(secret, &theirs, &mine)
        .verify_slice(&their_proof)
        .map_err(|_| AuthError::WrongSecret { rank: theirs.rank })?;
    if role == Role::Listener {
        exchange.write(&my_proof)?;
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(theirs.rank)
}

struct Hello {
    role: Role,
    rank: Rank,
    nonce: [u8; NONCE_BYTES],
}

impl Hello {
    fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.role as u8;
        bytes[5..9].copy_from_slice(&self.rank.0.to_le_bytes());
        bytes[9..].copy_from_slice(&self.nonce);
        bytes
    }
}

/// The prover's MAC over its role and, always in this order, the dialer's and the listener's side.
fn proof(secret: &Secret, prover: &Hello, verifier: &Hello) -> Hmac<Sha256> {
    let (dialer, listener) = match prover.role {
        Role::Dialer => (prover, verifier),
        Role::Listener => (verifier, prover),
    };
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(&MAGIC);
    mac.update(&[prover.role as u8]);
    for hello in [dialer, listener] {
        mac.update(&hello.nonce);
        mac.update(&hello.rank.0.to_le_bytes());
    }
    mac
}

/// Reads and writes of fixed size that end by the deadline, however slowly bytes drip in.
struct Exchange<'a> {
    stream: &'a TcpStream,
    deadline: &'a Deadline,
}

impl Exchange<'_> {
    fn remaining(&self) -> Result<Duration, AuthError> {
        self.deadline.remaining().ok_or(AuthError::Timeout)
    }

    fn read<const N: usize>(&self) -> Result<[u8; N], AuthError> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            self.stream.set_read_timeout(Some(self.remaining()?))?;
            match (&mut &*self.stream).read(&mut bytes[filled..]) {
                Ok(0) => return Err(AuthError::Refused),
                Ok(n) => filled += n,
                Err(error) => check(error)?,
            }
        }
        Ok(bytes)
    }

    /// The first bytes by themselves, so that a stranger who says little is known at once.
    fn read_hello(&self, role: Role) -> Result<Hello, AuthError> {
        let start: [u8; 5] = self.read()?;
        if start[..4] != MAGIC || start[4] != role as u8 {
            return Err(AuthError::Stranger { found: start });
        }
        let rank = Rank(u32::from_le_bytes(self.read()?));
        Ok(Hello { role, rank, nonce: self.read()? })
    }

    /// The few bytes fit into an empty socket buffer, so that one time-out is enough.
    fn write(&self, bytes: &[u8]) -> Result<(), AuthError> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        (&mut &*self.stream).write_all(bytes).or_else(check)
    }
}

fn check(error: io::Error) -> Result<(), AuthError> {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::Interrupted => Ok(()),
        // Which of the two a time-out is depends on the platform.
        Kind::WouldBlock | Kind::TimedOut => Err(AuthError::Timeout),
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
            Err(AuthError::Refused)
        }
        _ => Err(AuthError::Io(error)),
    }
}
