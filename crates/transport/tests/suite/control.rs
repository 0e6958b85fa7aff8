//! The connection between coordinator and workers.

use crate::rig::{deadline, message};
use cavalcade_transport::{
    COORDINATOR, ControlListener, ControlStream, Deadline, Role, Secret, SystemClock,
    TransportError, authenticate,
};
use cavalcade_units::{Nanos, Rank};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;

fn listener() -> (ControlListener, SocketAddr) {
    let listener = ControlListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

fn connected(rank: Rank) -> (ControlStream, ControlStream) {
    let (mut listener, addr) = listener();
    let secret = Secret::generate();
    thread::scope(|scope| {
        let worker = scope.spawn(|| ControlStream::connect(addr, &secret, rank, &deadline()));
        let (ours, found) = listener.accept(&secret, &deadline()).unwrap();
        assert_eq!(found, rank);
        (ours, worker.join().unwrap().unwrap())
    })
}

#[test]
fn messages_pass_both_ways_from_several_threads() {
    let (coordinator, worker) = connected(Rank(3));
    let (sender, mut receiver) = worker.split();
    let (to_worker, mut from_worker) = coordinator.split();
    thread::scope(|scope| {
        for byte in 0..4 {
            let sender = sender.clone();
            scope.spawn(move || sender.send(&vec![byte; 100_000]).unwrap());
        }
        scope.spawn(|| to_worker.send(b"go").unwrap());
        assert_eq!(receiver.recv().unwrap(), b"go");
        let mut firsts: Vec<u8> = (0..4)
            .map(|_| {
                let message = from_worker.recv().unwrap();
                assert_eq!(message, vec![message[0]; 100_000]);
                message[0]
            })
            .collect();
        firsts.sort_unstable();
        assert_eq!(firsts, [0, 1, 2, 3]);
    });
}

#[test]
fn the_end_of_a_connection_wakes_whoever_waits() {
    let (coordinator, mut worker) = connected(Rank(3));
    let (sender, mut receiver) = coordinator.split();
    thread::scope(|scope| {
        let own = scope.spawn(move || receiver.recv());
        sender.send(b"last").unwrap();
        sender.close();
        assert!(own.join().unwrap().is_err());
    });
    assert_eq!(worker.recv().unwrap(), b"last");
    let error = message(worker.recv());
    assert!(
        error.starts_with("the coordinator is lost: its control connection was closed"),
        "{error}"
    );
}

#[test]
fn a_worker_with_a_wrong_secret_is_reported_and_the_next_is_let_in() {
    let (mut listener, addr) = listener();
    let secret = Secret::generate();
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = Secret::generate();
            let refused = ControlStream::connect(addr, &other, Rank(0), &deadline());
            assert!(matches!(refused, Err(TransportError::Auth { .. })));
            ControlStream::connect(addr, &secret, Rank(1), &deadline()).unwrap();
        });
        let refused = message(listener.accept(&secret, &deadline()));
        assert!(refused.contains("rank 0 has another secret"), "{refused}");
        assert_eq!(listener.accept(&secret, &deadline()).unwrap().1, Rank(1));
    });
    let over = Deadline::after(Arc::new(SystemClock::start()), Nanos::ZERO);
    assert_eq!(
        message(listener.accept(&secret, &over)),
        "waiting for a worker took longer than allowed; \
         check that the other side runs, or allow more time"
    );
}

#[test]
fn bytes_that_are_no_message_are_named() {
    let (mut listener, addr) = listener();
    let secret = Secret::generate();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = TcpStream::connect(addr).unwrap();
            let found = authenticate(&stream, &secret, Role::Dialer, Rank(0), &deadline()).unwrap();
            assert_eq!(found, COORDINATOR);
            stream.write_all(b"hello coordinator, it's me").unwrap();
        });
        let (mut stream, _) = listener.accept(&secret, &deadline()).unwrap();
        let error = message(stream.recv());
        assert!(error.contains("a frame begins with `CVF1`, found the bytes [68, 65"), "{error}");
    });
}
