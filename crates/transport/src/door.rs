//! Letting peers in, and nobody else.
//!
//! Each connection proves itself on a thread of its own, so that one that says nothing keeps no
//! other out, and one that fails doesn't stop the listening.

use crate::auth::{AuthError, Role, authenticate};
use crate::clock::Deadline;
use crate::dial::tune;
use crate::error::TransportError;
use crate::secret::Secret;
use cavalcade_units::{Nanos, Rank};
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The longest that a connection may take to prove itself.
const AUTH_TIME_MAX: Nanos = Nanos(10_000_000_000);

/// The most connections that prove themselves at the same time; others wait in the backlog.
const UNPROVED_MAX: usize = 64;

/// Between two looks at the backlog.
const POLL: Duration = Duration::from_millis(2);

/// A connection that was refused.
#[derive(Debug)]
pub struct Rejected {
    /// Where it came from.
    pub addr: SocketAddr,
    /// What was wrong with it.
    pub why: AuthError,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.addr, self.why)
    }
}

/// A connection whose other end has proved the secret.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) stream: TcpStream,
    pub(crate) addr: SocketAddr,
    pub(crate) rank: Rank,
}

/// A listening socket with its connections in progress.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    n_unproved: usize,
    proved: Receiver<Result<Guest, Rejected>>,
    prover: Sender<Result<Guest, Rejected>>,
}

impl Door {
    pub(crate) fn bind(addr: SocketAddr) -> Result<Self, TransportError> {
        let what = || format!("listening on {addr}");
        let listener = TcpListener::bind(addr).map_err(TransportError::io(what()))?;
        listener.set_nonblocking(true).map_err(TransportError::io(what()))?;
        let (prover, proved) = unbounded();
        Ok(Self { listener, n_unproved: 0, proved, prover })
    }

    pub(crate) fn local_addr(&self) -> Result<SocketAddr, TransportError> {
        self.listener.local_addr().map_err(TransportError::io("asking for the own address"))
    }

    /// The next connection that passed or failed; nothing once the deadline is over.
    pub(crate) fn next(
        &mut self,
        secret: &Secret,
        my_rank: Rank,
        deadline: &Deadline,
    ) -> Result<Option<Result<Guest, Rejected>>, TransportError> {
        while deadline.remaining().is_some() {
            while self.n_unproved < UNPROVED_MAX {
                match self.listener.accept() {
                    Ok((stream, addr)) => self.begin(stream, addr, secret, my_rank, deadline)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // It was gone before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(TransportError::io("accepting a connection")(error)),
                }
            }
            if let Ok(result) = self.proved.recv_timeout(POLL) {
                self.n_unproved -= 1;
                return Ok(Some(result));
            }
        }
        Ok(None)
    }

    fn begin(
        &mut self,
        stream: TcpStream,
        addr: SocketAddr,
        secret: &Secret,
        my_rank: Rank,
        deadline: &Deadline,
    ) -> Result<(), TransportError> {
        let (secret, deadline) = (secret.clone(), deadline.at_most(AUTH_TIME_MAX));
        let prover = self.prover.clone();
        thread::Builder::new()
            .name(format!("proof of {addr}"))
            .spawn(move || {
                let proved = prove(&stream, &secret, my_rank, &deadline);
                // Nobody is there to take it if the door was closed meanwhile.
                let _ = prover.send(match proved {
                    Ok(rank) => Ok(Guest { stream, addr, rank }),
                    Err(why) => Err(Rejected { addr, why }),
                });
            })
            .map_err(TransportError::io("starting a thread"))?;
        self.n_unproved += 1;
        Ok(())
    }
}

fn prove(
    stream: &TcpStream,
    secret: &Secret,
    my_rank: Rank,
    deadline: &Deadline,
) -> Result<Rank, AuthError> {
    // On some systems it inherits this from the listener.
    stream.set_nonblocking(false)?;
    tune(stream)?;
    authenticate(stream, secret, Role::Listener, my_rank, deadline)
}
