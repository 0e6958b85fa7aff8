//! The connection between the coordinator and a worker: whole messages, opaque here.

use crate::auth::AuthError;
use crate::clock::Deadline;
use crate::dial::dial;
use crate::door::Door;
use crate::error::TransportError;
use crate::frame::{FRAME_BYTES_MAX, FrameError, Kind, ReadError, read_frame, write_frame};
use crate::secret::Secret;
use crate::tag::Tag;
use cavalcade_units::Rank;
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

/// Who the coordinator is on its control connections: no worker has this rank.
pub const COORDINATOR: Rank = Rank(u32::MAX);

/// Where workers report to.
#[derive(Debug)]
pub struct ControlListener(Door);

impl ControlListener {
    /// Listens on `addr`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the address is not this machine's, or in use.
    pub fn bind(addr: SocketAddr) -> Result<Self, TransportError> {
        Door::bind(addr).map(Self)
    }

    /// Where workers connect to.
    ///
    /// # Errors
    /// [`TransportError::Io`] if the system doesn't say.
    pub fn local_addr(&self) -> Result<SocketAddr, TransportError> {
        self.0.local_addr()
    }

    /// Waits for the next worker. The rank is what it claims, with the secret proved; that no rank
    /// comes twice is the caller's to check.
    ///
    /// # Errors
    /// [`TransportError::Auth`] for a connection that was refused: report it and call again.
    /// [`TransportError::Timeout`] at the deadline. [`TransportError::Io`].
    pub fn accept(
        &mut self,
        secret: &Secret,
        deadline: &Deadline,
    ) -> Result<(ControlStream, Rank), TransportError> {
        match self.0.next(secret, COORDINATOR, deadline)? {
            Some(Ok(guest)) if guest.rank == COORDINATOR => Err(TransportError::Auth {
                addr: guest.addr,
                source: AuthError::WrongRank { found: guest.rank, expected: "a worker".to_owned() },
            }),
            Some(Ok(guest)) => {
                Ok((ControlStream::new(guest.stream, guest.addr, guest.rank)?, guest.rank))
            }
            Some(Err(refused)) => {
                Err(TransportError::Auth { addr: refused.addr, source: refused.why })
            }
            None => Err(TransportError::Timeout { what: "waiting for a worker".to_owned() }),
        }
    }
}

/// One control connection. [`ControlStream::split`] it for use from two threads.
#[derive(Debug)]
pub struct ControlStream {
    sender: ControlSender,
    receiver: ControlReceiver,
}

impl ControlStream {
    /// Connects worker `rank` to the coordinator, which may not be listening yet.
    ///
    /// # Errors
    /// [`TransportError::Auth`], [`TransportError::Timeout`] or [`TransportError::Io`].
    pub fn connect(
        addr: SocketAddr,
        secret: &Secret,
        rank: Rank,
        deadline: &Deadline,
    ) -> Result<Self, TransportError> {
        let (stream, found) = dial(addr, secret, rank, deadline)?;
        if found != COORDINATOR {
            let source = AuthError::WrongRank { found, expected: "the coordinator".to_owned() };
            return Err(TransportError::Auth { addr, source });
        }
        Self::new(stream, addr, COORDINATOR)
    }

    fn new(stream: TcpStream, addr: SocketAddr, peer: Rank) -> Result<Self, TransportError> {
        let reader = stream.try_clone().map_err(TransportError::io("sharing a connection"))?;
        let closer = stream.try_clone().map_err(TransportError::io("sharing a connection"))?;
        let ends = Ends { writer: Mutex::new(stream), closer };
        Ok(Self {
            sender: ControlSender { peer, ends: Arc::new(ends) },
            receiver: ControlReceiver { peer, addr, reader: BufReader::new(reader) },
        })
    }

    /// See [`ControlSender::send`].
    ///
    /// # Errors
    /// Those of [`ControlSender::send`].
    pub fn send(&self, message: &[u8]) -> Result<(), TransportError> {
        self.sender.send(message)
    }

    /// See [`ControlReceiver::recv`].
    ///
    /// # Errors
    /// Those of [`ControlReceiver::recv`].
    pub fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        self.receiver.recv()
    }

    /// The two directions. The connection ends when all parts are dropped, or by
    /// [`ControlSender::close`].
    pub fn split(self) -> (ControlSender, ControlReceiver) {
        (self.sender, self.receiver)
    }
}

/// The sending direction; its clones share one connection.
#[derive(Clone, Debug)]
pub struct ControlSender {
    peer: Rank,
    ends: Arc<Ends>,
}

#[derive(Debug)]
struct Ends {
    writer: Mutex<TcpStream>,
    closer: TcpStream,
}

impl ControlSender {
    /// Sends one message; messages of several threads don't mix. It waits while the receiver is
    /// slow to read.
    ///
    /// # Errors
    /// [`TransportError::PeerLost`]; [`TransportError::TooLarge`] above [`FRAME_BYTES_MAX`].
    pub fn send(&self, message: &[u8]) -> Result<(), TransportError> {
        if message.len() > FRAME_BYTES_MAX {
            return Err(TransportError::TooLarge { len: message.len(), max: FRAME_BYTES_MAX });
        }
        let mut writer = self.ends.writer.lock().expect("nothing panics while it writes a frame");
        write_frame(&mut *writer, Kind::Control, Tag(0), message).map_err(|error| {
            TransportError::PeerLost { rank: self.peer, reason: format!("writing failed: {error}") }
        })
    }

    /// Ends the connection in both directions: whoever waits in a `recv` at either end fails.
    /// What was sent before can still be received.
    pub fn close(&self) {
        // It fails only if the connection has ended already.
        let _ = self.ends.closer.shutdown(Shutdown::Both);
    }
}

/// The receiving direction.
#[derive(Debug)]
pub struct ControlReceiver {
    peer: Rank,
    addr: SocketAddr,
    reader: BufReader<TcpStream>,
}

impl ControlReceiver {
    /// Waits for the next message.
    ///
    /// # Errors
    /// [`TransportError::PeerLost`] once the connection has ended; [`TransportError::Frame`] for
    /// bytes that are no message, after which the connection is of no use.
    pub fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        let lost = |reason: String| TransportError::PeerLost { rank: self.peer, reason };
        match read_frame(&mut self.reader) {
            Ok(Some(frame)) if frame.kind == Kind::Control => Ok(frame.payload),
            Ok(Some(frame)) if frame.kind == Kind::Abort => {
                Err(lost(format!("it aborted: {}", String::from_utf8_lossy(&frame.payload))))
            }
            Ok(Some(frame)) => {
                let source = FrameError::Kind { found: frame.kind as u8 };
                Err(TransportError::Frame { addr: self.addr, source })
            }
            Ok(None) => Err(lost("its control connection was closed".to_owned())),
            Err(ReadError::Frame(FrameError::Cut)) => Err(lost(FrameError::Cut.to_string())),
            Err(ReadError::Frame(source)) => Err(TransportError::Frame { addr: self.addr, source }),
            Err(ReadError::Io(error)) => Err(lost(format!("reading failed: {error}"))),
        }
    }
}
