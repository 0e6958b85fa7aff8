//! Only those who know the secret are let in, and the others keep nobody out.

use crate::rig::{deadline, listeners, mesh, message};
use cavalcade_transport::{
    AuthError, Deadline, Role, Secret, SystemClock, Tag, Transport, authenticate,
};
use cavalcade_units::{Nanos, Rank};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Rank 0 of two connects while `strangers` do what they do; then the real rank 1 joins. What was
/// rejected, without the addresses.
fn rejections(strangers: impl FnOnce(SocketAddr)) -> Vec<String> {
    let (mut listeners, addrs) = listeners(2);
    let secret = Secret::generate();
    let (second, first) = (listeners.pop().unwrap(), listeners.pop().unwrap());
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| mesh(0, &addrs, &secret).connect(first, &deadline()));
        strangers(addrs[0]);
        let rank_1 = mesh(1, &addrs, &secret).connect(second, &deadline()).unwrap();
        let rank_0 = rank_0.join().unwrap().unwrap();
        rank_1.send(Rank(0), Tag(0), vec![7]).unwrap();
        assert_eq!(rank_0.recv(Rank(1), Tag(0)).unwrap(), [7]);
        rank_0.rejected().iter().map(|rejected| rejected.why.to_string()).collect()
    })
}

#[test]
fn a_wrong_secret_is_refused_at_both_ends() {
    let rejected = rejections(|addr| {
        let stream = TcpStream::connect(addr).unwrap();
        let other = Secret::generate();
        let error = authenticate(&stream, &other, Role::Dialer, Rank(1), &deadline()).unwrap_err();
        assert!(matches!(error, AuthError::Refused), "{error}");
    });
    assert_eq!(
        rejected,
        ["rank 1 has another secret; start all ranks of a run with the same secret"]
    );
}

#[test]
fn garbage_is_refused_and_gets_no_answer() {
    let rejected = rejections(|addr| {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        // Closing a connection with unread bytes may reset it.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    });
    assert_eq!(
        rejected,
        ["the other end is no worker of Cavalcade: it began with the bytes [47, 45, 54, 20, 2f]"]
    );
}

#[test]
fn a_silent_stranger_keeps_nobody_out() {
    let mut silent = Vec::new();
    let rejected = rejections(|addr| silent.push(TcpStream::connect(addr).unwrap()));
    assert_eq!(rejected, [""; 0]);
}

#[test]
fn a_listener_without_the_secret_is_refused_by_the_dialer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::scope(|scope| {
        // It echoes: what it reads it sends back, so its proof is a reflected one.
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            let mut hello = [0; 41];
            stream.read_exact(&mut hello).unwrap();
            hello[4] = 2;
            stream.write_all(&hello).unwrap();
            let mut proof = [0; 32];
            stream.read_exact(&mut proof).unwrap();
            stream.write_all(&proof).unwrap();
        });
        let stream = TcpStream::connect(addr).unwrap();
        let secret = Secret::generate();
        let error = authenticate(&stream, &secret, Role::Dialer, Rank(1), &deadline()).unwrap_err();
        assert!(matches!(error, AuthError::WrongSecret { rank: Rank(1) }), "{error}");
    });
}

#[test]
fn a_rank_that_comes_twice_is_told_so() {
    let (mut listeners, addrs) = listeners(3);
    let secret = Secret::generate();
    let first = listeners.remove(0);
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| mesh(0, &addrs, &secret).connect(first, &deadline()).unwrap());
        let join = |rank| {
            let stream = TcpStream::connect(addrs[0]).unwrap();
            authenticate(&stream, &secret, Role::Dialer, Rank(rank), &deadline()).unwrap();
            stream
        };
        let one = join(1);
        let mut twin = join(1);
        let mut told = Vec::new();
        twin.read_to_end(&mut told).unwrap();
        let told = String::from_utf8_lossy(&told[24..]).into_owned();
        assert_eq!(
            told,
            "your rank is not wanted here: the other end is rank 1, expected one of 2; \
             check ranks and addresses"
        );
        let two = join(2);
        assert_eq!(rank_0.join().unwrap().rejected().len(), 1);
        drop((one, two));
    });
}

#[test]
fn the_missing_ranks_are_named_at_the_deadline() {
    let (mut listeners, addrs) = listeners(3);
    let over = Deadline::after(Arc::new(SystemClock::start()), Nanos::ZERO);
    let mesh = mesh(0, &addrs, &Secret::generate());
    let error = message(mesh.connect(listeners.remove(0), &over));
    assert_eq!(
        error,
        "rank 0 was not joined by rank 1, 2 in time; \
         check that those ranks run and reach this machine"
    );
}
