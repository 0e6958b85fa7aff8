//! What limits a step, against what can be counted.

mod support;

use cavalcade_schedule::{Kind, Options};
use cavalcade_sim::{Spent, predict};
use cavalcade_units::{DeviceId, Nanos};
use support::{Equal, run, schedule};

/// Free links: a step of GPipe or 1F1B is computing from its first forward to its last backward.
#[test]
fn with_free_links_the_whole_path_is_computing() {
    let costs = Equal::free(1000, 1100, 900);
    for (p, m) in [(1, 3), (2, 4), (4, 8), (8, 16)] {
        for kind in [Kind::GPipe, Kind::OneFOneB, Kind::ZbH1, Kind::ZbV] {
            let schedule = schedule(kind, p, 2, m, &Options::default());
            let prediction = predict(&schedule, &costs).unwrap();
            let is_computing = |(what, _): &(Spent, Nanos)| matches!(what, Spent::Computing(_));
            assert!(prediction.critical.iter().all(is_computing), "{kind} {p} {m}");
            let whole: Nanos = prediction.critical.iter().map(|&(_, time)| time).sum();
            assert!(whole <= prediction.trace.end(), "{kind} {p} {m}");
            assert!(whole <= run(&schedule, &costs).0.makespan(), "{kind} {p} {m}");
            // Every device is free before the last step ends, so the path may begin late.
            assert!(whole.0 >= u64::from(m) * 3000 / 2, "{kind} {p} {m}: {whole}");
        }
    }
}

/// One slow link and one micro-batch: there, and back again.
#[test]
fn a_slow_link_is_most_of_the_path_of_a_step_that_crosses_it() {
    let slow = Some((DeviceId(1), 10_000));
    let costs = Equal { slow, ..Equal::free(1000, 1000, 1000) };
    let schedule = schedule(Kind::OneFOneB, 2, 1, 1, &Options::default());
    let critical = predict(&schedule, &costs).unwrap().critical;
    let (forth, back) = ((0, 1), (1, 0));
    let messages = |(from, to)| Spent::Messages { from: DeviceId(from), to: DeviceId(to) };
    let expected = [
        (messages(forth), Nanos(10_000)),
        (messages(back), Nanos(10_000)),
        (Spent::Computing(DeviceId(0)), Nanos(3000)),
        (Spent::Computing(DeviceId(1)), Nanos(3000)),
    ];
    assert_eq!(critical, expected);
}
