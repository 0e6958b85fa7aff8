//! Connecting to a peer that may not be listening yet.

use crate::auth::{Role, authenticate};
use crate::clock::Deadline;
use crate::error::TransportError;
use crate::secret::Secret;
use cavalcade_units::{Nanos, Rank};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Between two tries to connect.
const RETRY: Nanos = Nanos(20_000_000);

/// A silent connection is probed after this long, and then as often.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A peer whose machine doesn't answer for this long is lost.
#[cfg(target_os = "linux")]
const UNANSWERED_MAX: Duration = Duration::from_secs(30);

/// Connects and authenticates. Returns the listener's rank.
pub(crate) fn dial(
    addr: SocketAddr,
    secret: &Secret,
    my_rank: Rank,
    deadline: &Deadline,
) -> Result<(TcpStream, Rank), TransportError> {
    let stream = loop {
        let Some(remaining) = deadline.remaining() else {
            return Err(TransportError::Timeout { what: format!("connecting to {addr}") });
        };
        match TcpStream::connect_timeout(&addr, remaining) {
            Ok(stream) => break stream,
            Err(error) if may_listen_later(&error) => deadline.pause(RETRY),
            Err(error) => return Err(TransportError::io(format!("connecting to {addr}"))(error)),
        }
    };
    tune(&stream).map_err(TransportError::io(format!("setting up the connection to {addr}")))?;
    match authenticate(&stream, secret, Role::Dialer, my_rank, deadline) {
        Ok(rank) => Ok((stream, rank)),
        Err(source) => Err(TransportError::Auth { addr, source }),
    }
}

fn may_listen_later(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::ConnectionReset | Kind::TimedOut | Kind::Interrupted
    )
}

/// No delay for small messages, and a machine that vanished without a word is noticed.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNANSWERED_MAX))?;
    Ok(())
}
