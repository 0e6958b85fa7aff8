//! How ranks talk: messages from rank to rank, and collectives made of them.
//!
//! ```text
//!   all_reduce_ring, _tree, _server, all_gather_f64, broadcast, barrier   collectives
//!                                  |
//!   send(to, tag, payload) --- trait Transport --- recv(from, tag)
//!        |                                              ^
//!   emulated link                                  mailbox by (from, tag)
//!        |                                              |
//!        `--- InProcess (threads) or Tcp (processes) ---'
//! ```
//!
//! Three promises hold for every transport. A message waits in the receiver's mailbox until its
//! tag is asked for, so no order of arrival can block anybody. A peer that is lost fails every
//! wait on it at once. And nothing is read from a connection, beyond a proof of fixed size, before
//! it has shown that it knows the run's [`Secret`].
//!
//! Absent: encryption (the secret keeps strangers out of a run, it doesn't hide the traffic; use a
//! tunnel across networks that you do not trust), shared memory, MPI, codecs, reconnecting.

mod auth;
mod clock;
mod collectives;
mod control;
mod dial;
mod door;
mod endpoint;
mod error;
mod f32s;
mod frame;
mod in_process;
mod mailbox;
mod mesh;
mod outbox;
mod secret;
mod tag;
mod tcp;
mod throttle;
mod transport;

pub use auth::{AuthError, Role, authenticate};
pub use clock::{Clock, Deadline, SystemClock};
pub use collectives::{
    Collective, LENGTH_BYTES, all_gather_f64, all_reduce_ring, all_reduce_server, all_reduce_tree,
    barrier, broadcast, bytes_sent, bytes_sent_by_all,
};
pub use control::{COORDINATOR, ControlListener, ControlReceiver, ControlSender, ControlStream};
pub use door::Rejected;
pub use error::TransportError;
pub use f32s::{add_f32s, decode_f32s, decode_f32s_into, encode_f32s};
pub use frame::{FRAME_BYTES_MAX, FrameError};
pub use in_process::InProcess;
pub use mesh::{Listener, Mesh};
pub use secret::{ParseSecretError, Secret};
pub use tag::Tag;
pub use tcp::Tcp;
pub use throttle::{Links, Throttle};
pub use transport::Transport;
