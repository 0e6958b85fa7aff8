//! How a message looks on a connection.
//!
//! ```text
//!  0        4      5         8               16              24
//!  | "CVF1" | kind | 0 0 0   | tag, u64 LE   | length, u64 LE | payload ...
//! ```
//!
//! Only a peer that has proved the secret is read with this; before that nothing has a length at
//! all (see [`crate::authenticate`]).

use crate::tag::Tag;
use std::io::{self, Read, Write};

/// The most bytes that a payload may have: 1 GiB. More in a header ends the connection.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

/// The most bytes of a frame that only carries a reason.
const REASON_BYTES_MAX: usize = 1 << 16;

const MAGIC: [u8; 4] = *b"CVF1";
const HEADER_BYTES: usize = 24;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message between ranks.
    Message = 1,
    /// The sender has shut down; nothing follows.
    Goodbye = 2,
    /// The sender has given up; the payload says why. Nothing follows.
    Abort = 3,
    /// A message of the control connection.
    Control = 4,
}

impl Kind {
    fn bytes_max(self) -> usize {
        match self {
            Self::Message | Self::Control => FRAME_BYTES_MAX,
            Self::Goodbye | Self::Abort => REASON_BYTES_MAX,
        }
    }
}

/// A frame that was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) tag: Tag,
    pub(crate) payload: Vec<u8>,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header doesn't begin as it must.
    #[error(
        "a frame begins with `CVF1`, found the bytes {found:02x?}; \
         both ends must run the same version of Cavalcade"
    )]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A kind that is unknown, or not used on this kind of connection.
    #[error(
        "a frame of kind {found} does not belong on this connection; \
         both ends must run the same version of Cavalcade"
    )]
    Kind {
        /// The kind's number.
        found: u8,
    },
    /// A length above the limit; nothing of it was read.
    #[error("a frame claims {len} bytes, the limit is {max}; send less at once")]
    TooLarge {
        /// Bytes claimed.
        len: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The connection ended within a frame.
    #[error("the connection ended in the middle of a frame; the peer has probably died")]
    Cut,
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Writes one frame and flushes.
pub(crate) fn write_frame(
    to: &mut impl Write,
    kind: Kind,
    tag: Tag,
    payload: &[u8],
) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = kind as u8;
    header[8..16].copy_from_slice(&tag.0.to_le_bytes());
    header[16..].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    to.write_all(&header)?;
    to.write_all(payload)?;
    to.flush()
}

/// Writes the frame that ends a connection with a reason.
pub(crate) fn write_abort(to: &mut impl Write, reason: &str) -> io::Result<()> {
    let end = reason.floor_char_boundary(REASON_BYTES_MAX);
    write_frame(to, Kind::Abort, Tag(0), &reason.as_bytes()[..end])
}

/// Reads one frame, or nothing if the connection ended between two frames.
pub(crate) fn read_frame(from: &mut impl Read) -> Result<Option<Frame>, ReadError> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Cut.into()),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (kind, tag, len) = parse_header(&header)?;
    let mut payload = vec![0; len];
    from.read_exact(&mut payload).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FrameError::Cut.into(),
        _ => ReadError::Io(error),
    })?;
    Ok(Some(Frame { kind, tag, payload }))
}

fn parse_header(header: &[u8; HEADER_BYTES]) -> Result<(Kind, Tag, usize), FrameError> {
    let u64_at = |start: usize| {
        u64::from_le_bytes(header[start..start + 8].try_into().expect("the slice has 8 bytes"))
    };
    let magic: [u8; 4] = header[..4].try_into().expect("the slice has 4 bytes");
    if magic != MAGIC {
        return Err(FrameError::Magic { found: magic });
    }
    let kind = [Kind::Message, Kind::Goodbye, Kind::Abort, Kind::Control]
        .into_iter()
        .find(|&kind| header[4..8] == [kind as u8, 0, 0, 0])
        .ok_or(FrameError::Kind { found: header[4] })?;
    let len = u64_at(16);
    match usize::try_from(len) {
        Ok(len) if len <= kind.bytes_max() => Ok((kind, Tag(u64_at(8)), len)),
        _ => Err(FrameError::TooLarge { len, max: kind.bytes_max() }),
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAME_BYTES_MAX, FrameError, Kind, ReadError, read_frame, write_frame};
    use crate::tag::Tag;
    use proptest::prelude::{any, proptest};

    fn error_of(bytes: &[u8]) -> FrameError {
        match read_frame(&mut &*bytes) {
            Err(ReadError::Frame(error)) => error,
            other => panic!("expected a frame error, got {other:?}"),
        }
    }

    fn written(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Kind::Message, Tag(9), payload).unwrap();
        bytes
    }

    #[test]
    fn bad_frames_are_told_apart() {
        let good = written(b"abc");
        assert_eq!(error_of(&good[..good.len() - 1]), FrameError::Cut);
        assert_eq!(error_of(&good[..10]), FrameError::Cut);
        assert_eq!(error_of(&[b'G'; 24]), FrameError::Magic { found: [b'G'; 4] });

        let mut unknown = good.clone();
        unknown[4] = 9;
        assert_eq!(error_of(&unknown), FrameError::Kind { found: 9 });

        let mut huge = good;
        huge[16..24].copy_from_slice(&(FRAME_BYTES_MAX as u64 + 1).to_le_bytes());
        let len = FRAME_BYTES_MAX as u64 + 1;
        assert_eq!(error_of(&huge), FrameError::TooLarge { len, max: FRAME_BYTES_MAX });
    }

    proptest! {
        #[test]
        fn frames_come_back(payloads: Vec<Vec<u8>>) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| written(payload)).collect();
            let mut rest = &*bytes;
            for payload in payloads {
                let frame = read_frame(&mut rest).unwrap().unwrap();
                assert_eq!((frame.kind, frame.tag), (Kind::Message, Tag(9)));
                assert_eq!(frame.payload, payload);
            }
            assert!(read_frame(&mut rest).unwrap().is_none());
        }

        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes: Vec<u8>, kind in any::<u8>(), len: u16) {
            let mut framed = written(&bytes);
            framed[4] = kind;
            framed[16..18].copy_from_slice(&len.to_le_bytes());
            for bytes in [&*bytes, &*framed] {
                if let Ok(Some(frame)) = read_frame(&mut &*bytes) {
                    assert!(frame.payload.len() + 24 <= bytes.len());
                }
            }
        }
    }
}
