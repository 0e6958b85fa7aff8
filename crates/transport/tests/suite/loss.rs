//! Nobody waits for a rank that is gone.

use crate::rig::{deadline, groups, listeners, mesh, message};
use cavalcade_transport::{Role, Secret, Tag, Transport, authenticate};
use cavalcade_units::Rank;
use std::io::Write;
use std::net::TcpStream;
use std::thread;

#[test]
fn a_dropped_peer_fails_every_wait_on_it() {
    for (kind, mut group) in groups(3) {
        let gone = group.pop().unwrap();
        thread::scope(|scope| {
            let waits: Vec<_> = group
                .iter()
                .flat_map(|transport| [(transport, Tag(1)), (transport, Tag(2))])
                .map(|(transport, tag)| scope.spawn(move || transport.recv(Rank(2), tag)))
                .collect();
            drop(gone);
            for wait in waits {
                let error = message(wait.join().unwrap());
                assert!(error.starts_with("rank 2 is lost: it shut down"), "{kind}: {error}");
            }
        });
        let error = message(group[0].send(Rank(2), Tag(1), vec![1]));
        assert!(error.starts_with("rank 2 is lost"), "{kind}: {error}");
        // The others still reach each other.
        group[0].send(Rank(1), Tag(1), vec![1]).unwrap();
        assert_eq!(group[1].recv(Rank(0), Tag(1)).unwrap(), [1]);
    }
}

#[test]
fn what_was_sent_before_a_shutdown_still_arrives() {
    for (_, group) in groups(2) {
        for id in 0..100 {
            group[0].send(Rank(1), Tag::new(0, 0, id), vec![0; 5000]).unwrap();
        }
        group[0].shutdown();
        for id in 0..100 {
            assert_eq!(group[1].recv(Rank(0), Tag::new(0, 0, id)).unwrap().len(), 5000);
        }
        assert!(group[1].recv(Rank(0), Tag(7)).is_err());
    }
}

#[test]
fn an_abort_wakes_both_ends_with_its_reason() {
    for (kind, group) in groups(2) {
        let [zero, one] = [&group[0], &group[1]];
        thread::scope(|scope| {
            let own = scope.spawn(|| zero.recv(Rank(1), Tag(0)));
            let peers = scope.spawn(|| one.recv(Rank(0), Tag(0)));
            zero.abort("out of memory in stage 2");
            let own = message(own.join().unwrap());
            assert_eq!(own, "the transport of rank 0 is closed: out of memory in stage 2");
            let peers = message(peers.join().unwrap());
            assert_eq!(
                peers,
                "rank 0 is lost: it aborted: out of memory in stage 2; its log says why, \
                 restart the run from its last checkpoint",
                "{kind}"
            );
        });
        zero.abort("again");
        zero.shutdown();
    }
}

/// Rank 0 of two; rank 1 is played by hand and sends `bytes` once it is authenticated.
fn reaction_to(bytes: &[u8]) -> String {
    let (mut listeners, addrs) = listeners(1);
    let secret = Secret::generate();
    let mesh = mesh(0, &[addrs[0], addrs[0]], &secret);
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| mesh.connect(listeners.pop().unwrap(), &deadline()).unwrap());
        let mut stream = TcpStream::connect(addrs[0]).unwrap();
        let peer = authenticate(&stream, &secret, Role::Dialer, Rank(1), &deadline()).unwrap();
        assert_eq!(peer, Rank(0));
        let rank_0 = rank_0.join().unwrap();
        stream.write_all(bytes).unwrap();
        // What is a whole header must be enough: then the stream stays open.
        let _open = (bytes.len() == 24).then_some(stream);
        message(rank_0.recv(Rank(1), Tag(0)))
    })
}

#[test]
fn a_bad_frame_ends_the_connection_with_a_clear_error() {
    let mut oversized = b"CVF1\x01\0\0\0".to_vec();
    oversized.extend(0_u64.to_le_bytes());
    oversized.extend((1_u64 << 30 | 1).to_le_bytes());
    let control = b"CVF1\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    for (bytes, reason) in [
        (&b""[..], "its connection was closed without a goodbye"),
        (&oversized, "a frame claims 1073741825 bytes, the limit is 1073741824"),
        (&oversized[..9], "the connection ended in the middle of a frame"),
        (&[b'x'; 24], "a frame begins with `CVF1`, found the bytes [78, 78, 78, 78]"),
        (control, "a frame of kind 4 does not belong on this connection"),
    ] {
        let error = reaction_to(bytes);
        assert!(error.starts_with(&format!("rank 1 is lost: {reason}; ")), "{error}");
    }
}
