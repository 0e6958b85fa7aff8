//! Emulated links on a clock that stands still: what is waited for is exact.

use crate::rig::{StepClock, groups_with};
use cavalcade_transport::{Links, Tag, Throttle};
use cavalcade_units::{Nanos, Rank};
use std::sync::Arc;
use std::thread;

/// 10 ns for 10 bytes, 100 ns on the way; from rank 0 to rank 1 only.
fn links(clock: &Arc<StepClock>) -> [Links; 2] {
    let bandwidth = Some("1 GB/s".parse().unwrap());
    let throttle = Throttle { latency: Nanos(100), bandwidth };
    let there = Links::emulated(clock.clone(), vec![Throttle::default(), throttle]);
    [there, Links::emulated(clock.clone(), vec![])]
}

#[test]
fn send_waits_for_the_link_and_delivery_for_the_latency() {
    let clock = Arc::new(StepClock::default());
    for (_, group) in groups_with(&links(&clock)) {
        clock.set(0);
        let [zero, one] = [&group[0], &group[1]];
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                for id in 0..2 {
                    zero.send(Rank(1), Tag(id), vec![id as u8; 10]).unwrap();
                }
            });
            // The first message has left the link at 10 and arrives at 110.
            clock.await_sleepers(&[10, 110]);
            clock.set(10);
            clock.await_sleepers(&[20, 110]);
            clock.set(20);
            sender.join().unwrap();
            clock.await_sleepers(&[110]);
            clock.set(110);
            assert_eq!(one.recv(Rank(0), Tag(0)).unwrap(), [0; 10]);
            // The second was on its way at the same time: ten later, not a hundred.
            clock.await_sleepers(&[120]);
            clock.set(120);
            assert_eq!(one.recv(Rank(0), Tag(1)).unwrap(), [1; 10]);
        });
        // The way back is not throttled.
        one.send(Rank(0), Tag(0), vec![0; 1000]).unwrap();
        assert_eq!(zero.recv(Rank(1), Tag(0)).unwrap().len(), 1000);
        clock.await_sleepers(&[]);
    }
}

#[test]
fn two_senders_share_one_link() {
    let clock = Arc::new(StepClock::default());
    for (_, group) in groups_with(&links(&clock)) {
        clock.set(0);
        let zero = &group[0];
        thread::scope(|scope| {
            for id in 0..2 {
                scope.spawn(move || zero.send(Rank(1), Tag(id), vec![0; 10]).unwrap());
            }
            clock.await_sleepers(&[10, 20, 110]);
            clock.set(200);
        });
        for id in 0..2 {
            assert_eq!(group[1].recv(Rank(0), Tag(id)).unwrap().len(), 10);
        }
    }
}

#[test]
fn a_shutdown_delivers_what_is_still_on_its_way() {
    let clock = Arc::new(StepClock::default());
    for (_, group) in groups_with(&links(&clock)) {
        clock.set(0);
        let zero = &group[0];
        thread::scope(|scope| {
            let sender = scope.spawn(|| zero.send(Rank(1), Tag(0), vec![5]).unwrap());
            clock.await_sleepers(&[1, 101]);
            clock.set(1);
            sender.join().unwrap();
            let shutdown = scope.spawn(|| zero.shutdown());
            clock.set(101);
            shutdown.join().unwrap();
        });
        assert_eq!(group[1].recv(Rank(0), Tag(0)).unwrap(), [5]);
        assert!(group[1].recv(Rank(0), Tag(0)).is_err());
    }
}
