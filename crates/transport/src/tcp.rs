//! Ranks that are processes, connected by TCP.
//!
//! For each peer a thread reads frames into the mailbox, and a thread writes what is in the outbox.

use crate::door::Rejected;
use crate::endpoint::Endpoint;
use crate::error::TransportError;
use crate::frame::{FrameError, Kind, read_frame, write_abort, write_frame};
use crate::mailbox::Mailbox;
use crate::outbox::{Outbox, Sink};
use crate::tag::Tag;
use crate::throttle::Links;
use crate::transport::Transport;
use cavalcade_units::Rank;
use std::io::{self, BufReader, BufWriter};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Frames below this leave in one write.
const BUFFER_BYTES: usize = 1 << 16;

/// How long an abort may wait for room for its reason, a peer.
const ABORT_WRITE_MAX: Duration = Duration::from_millis(100);

/// One rank of a mesh of connections; made by [`crate::Mesh::connect`].
pub struct Tcp {
    endpoint: Endpoint,
    rejected: Vec<Rejected>,
}

impl Tcp {
    /// Takes over the authenticated streams, one a peer, by rank.
    pub(crate) fn start(
        rank: Rank,
        streams: Vec<Option<TcpStream>>,
        links: &Links,
        rejected: Vec<Rejected>,
    ) -> Result<Self, TransportError> {
        let mailbox = Arc::new(Mailbox::new(rank));
        let mut outboxes = Vec::with_capacity(streams.len());
        for (peer_idx, stream) in streams.into_iter().enumerate() {
            let peer = Rank::from_idx(peer_idx);
            let connect = |stream| connect(peer, stream, &mailbox, links);
            outboxes.push(stream.map(connect).transpose()?);
        }
        Ok(Self { endpoint: Endpoint::new(rank, mailbox, outboxes), rejected })
    }

    /// The connections refused while the mesh was being connected.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }
}

fn connect(
    peer: Rank,
    stream: TcpStream,
    mailbox: &Arc<Mailbox>,
    links: &Links,
) -> Result<Outbox, TransportError> {
    let clone = || stream.try_clone().map_err(TransportError::io("sharing a connection"));
    let reader = BufReader::with_capacity(BUFFER_BYTES, clone()?);
    let sink = Arc::new(ToSocket {
        peer,
        writer: Mutex::new(BufWriter::with_capacity(BUFFER_BYTES, clone()?)),
        stream,
        mailbox: Arc::clone(mailbox),
    });
    let sink_of_reader = Arc::clone(&sink);
    thread::Builder::new()
        .name(format!("from rank {peer}"))
        .spawn(move || receive(reader, &sink_of_reader))
        .map_err(TransportError::io("starting a thread"))?;
    Outbox::start(peer, sink, links, true)
}

/// Fills the mailbox until the peer is lost.
fn receive(mut reader: BufReader<TcpStream>, sink: &ToSocket) {
    let bad_frame = loop {
        let frame = match read_frame(&mut reader) {
            Ok(Some(frame)) => frame,
            Ok(None) => return sink.lose("its connection was closed without a goodbye"),
            Err(error) => break error.to_string(),
        };
        match frame.kind {
            Kind::Message => sink.mailbox.push(sink.peer, frame.tag, frame.payload),
            Kind::Goodbye => return sink.lose("it shut down"),
            Kind::Abort => {
                let reason = String::from_utf8_lossy(&frame.payload);
                return sink.lose(&format!("it aborted: {reason}"));
            }
            Kind::Control => break FrameError::Kind { found: frame.kind as u8 }.to_string(),
        }
    };
    sink.lose(&bad_frame);
    sink.abort(&bad_frame);
}

struct ToSocket {
    peer: Rank,
    writer: Mutex<BufWriter<TcpStream>>,
    /// For ending the connection while somebody writes.
    stream: TcpStream,
    mailbox: Arc<Mailbox>,
}

impl ToSocket {
    fn lose(&self, reason: &str) {
        self.mailbox.lose(self.peer, reason);
    }

    fn write(&self, kind: Kind, tag: Tag, payload: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().expect("nothing panics while it writes a frame");
        write_frame(&mut *writer, kind, tag, payload)
    }
}

impl Sink for ToSocket {
    fn deliver(&self, tag: Tag, payload: Vec<u8>) {
        if let Err(error) = self.write(Kind::Message, tag, &payload) {
            self.lose(&format!("writing to it failed: {error}"));
        }
    }

    fn goodbye(&self) {
        // Where this fails the peer is gone already, and needs no goodbye.
        let _ = self.write(Kind::Goodbye, Tag(0), &[]);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn abort(&self, reason: &str) {
        // A frame half written leaves no place for a reason: the peer then sees it cut.
        if let Ok(mut writer) = self.writer.try_lock() {
            let _ = self.stream.set_write_timeout(Some(ABORT_WRITE_MAX));
            let _ = write_abort(&mut *writer, reason);
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Transport for Tcp {
    fn rank(&self) -> Rank {
        self.endpoint.rank()
    }
    fn world_size(&self) -> usize {
        self.endpoint.world_size()
    }
    fn send(&self, to: Rank, tag: Tag, payload: Vec<u8>) -> Result<(), TransportError> {
        self.endpoint.send(to, tag, payload)
    }
    fn recv(&self, from: Rank, tag: Tag) -> Result<Vec<u8>, TransportError> {
        self.endpoint.recv(from, tag)
    }
    fn shutdown(&self) {
        self.endpoint.shutdown();
    }
    fn abort(&self, reason: &str) {
        self.endpoint.abort(reason);
    }
}
