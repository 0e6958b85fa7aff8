//! Groups of connected ranks to test with, and a clock that is moved by hand.

use cavalcade_transport::{
    Clock, Deadline, InProcess, Links, Listener, Mesh, Secret, SystemClock, Tcp, Transport,
    TransportError,
};
use cavalcade_units::{Nanos, Rank};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Far longer than any test takes: it only ends a test that would hang.
pub(crate) fn deadline() -> Deadline {
    Deadline::after(Arc::new(SystemClock::start()), Nanos(60_000_000_000))
}

pub(crate) fn listeners(n: usize) -> (Vec<Listener>, Vec<SocketAddr>) {
    let listeners: Vec<_> = (0..n).map(|_| Listener::bind(None).unwrap()).collect();
    let addrs = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    (listeners, addrs)
}

pub(crate) fn mesh(rank: u32, peers: &[SocketAddr], secret: &Secret) -> Mesh {
    let (peers, secret) = (peers.to_vec(), secret.clone());
    Mesh { rank: Rank(rank), peers, secret, links: Links::unlimited() }
}

pub(crate) fn tcp_group(links: &[Links]) -> Vec<Tcp> {
    let (listeners, addrs) = listeners(links.len());
    let secret = Secret::generate();
    thread::scope(|scope| {
        let joins: Vec<_> = (0..)
            .zip(listeners)
            .zip(links)
            .map(|((rank, listener), links)| {
                let mesh = Mesh { links: links.clone(), ..mesh(rank, &addrs, &secret) };
                scope.spawn(move || mesh.connect(listener, &deadline()).unwrap())
            })
            .collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    })
}

pub(crate) type Group = Vec<Box<dyn Transport>>;

fn boxed<T: Transport + 'static>(group: Vec<T>) -> Group {
    group.into_iter().map(|transport| Box::new(transport) as _).collect()
}

/// A group of each kind.
pub(crate) fn groups_with(links: &[Links]) -> [(&'static str, Group); 2] {
    [("in-process", boxed(InProcess::group_with(links).unwrap())), ("tcp", boxed(tcp_group(links)))]
}

/// A group of each kind, without emulated links.
pub(crate) fn groups(n: usize) -> [(&'static str, Group); 2] {
    groups_with(&vec![Links::unlimited(); n])
}

/// Runs `work` for every rank on a thread of its own; the results by rank.
pub(crate) fn each<T: Send>(group: &Group, work: impl Fn(&dyn Transport) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let joins: Vec<_> =
            group.iter().map(|transport| scope.spawn(move || work(&**transport))).collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    })
}

pub(crate) fn message<T>(result: Result<T, TransportError>) -> String {
    result.map(|_| ()).unwrap_err().to_string()
}

/// A clock that stands still until a test moves it.
#[derive(Default)]
pub(crate) struct StepClock {
    state: Mutex<(Nanos, Vec<u64>)>,
    changed: Condvar,
}

impl StepClock {
    /// Waits until exactly these points of time are slept for, in ascending order.
    pub(crate) fn await_sleepers(&self, wanted: &[u64]) {
        let mut state = self.state.lock().unwrap();
        loop {
            state.1.sort_unstable();
            if state.1 == wanted {
                return;
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    pub(crate) fn set(&self, now: u64) {
        self.state.lock().unwrap().0 = Nanos(now);
        self.changed.notify_all();
    }
}

impl Clock for StepClock {
    fn now(&self) -> Nanos {
        self.state.lock().unwrap().0
    }

    fn sleep_until(&self, at: Nanos) {
        let mut state = self.state.lock().unwrap();
        if state.0 >= at {
            return;
        }
        state.1.push(at.0);
        self.changed.notify_all();
        while state.0 < at {
            state = self.changed.wait(state).unwrap();
        }
        let idx = state.1.iter().position(|&sleeper| sleeper == at.0).unwrap();
        state.1.remove(idx);
        self.changed.notify_all();
    }
}
