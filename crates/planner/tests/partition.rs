//! The cuts against all cuts there are, and what is said when none fits.

mod all_cuts;

use all_cuts::all_cuts;
use cavalcade_planner::{PartitionError, partition};
use cavalcade_units::{Bytes, Nanos};
use proptest::prelude::*;
use std::ops::Range;

/// A random pipeline: `times[stage][layer]`, `bytes[stage][start][end - 1]`, neither with any
/// regularity that a wrong rule could lean on.
#[derive(Debug)]
struct Case {
    n_layers: u32,
    times: Vec<Vec<u64>>,
    bytes: Vec<Vec<Vec<u64>>>,
    capacity: Vec<Option<Bytes>>,
}

impl Case {
    fn time(&self, stage: usize, layer: u32) -> Nanos {
        Nanos(self.times[stage][layer as usize])
    }

    fn bytes(&self, stage: usize, layers: Range<u32>) -> Bytes {
        Bytes(self.bytes[stage][layers.start as usize][layers.end as usize - 1])
    }

    fn partition(&self) -> Result<Vec<Range<u32>>, PartitionError> {
        let time = |stage, layer| self.time(stage, layer);
        let bytes = |stage, layers| self.bytes(stage, layers);
        partition(&time, &bytes, &self.capacity, self.n_layers)
    }

    fn fits(&self, stage: usize, layers: Range<u32>) -> bool {
        self.capacity[stage].is_none_or(|available| self.bytes(stage, layers) <= available)
    }

    /// The best cut by looking at each: slowest stage, sum, then the later stages' starts.
    fn best(&self) -> Option<Vec<Range<u32>>> {
        let cuts = all_cuts(0, self.n_layers, self.capacity.len()).into_iter();
        let legal = cuts.filter(|cuts| {
            cuts.iter().enumerate().all(|(stage, layers)| self.fits(stage, layers.clone()))
        });
        legal.min_by_key(|cuts| {
            let time = |(stage, layers): (usize, &Range<u32>)| -> Nanos {
                layers.clone().map(|layer| self.time(stage, layer)).sum()
            };
            let times: Vec<Nanos> = cuts.iter().enumerate().map(time).collect();
            let starts: Vec<u32> = cuts.iter().rev().map(|layers| layers.start).collect();
            (times.iter().max().copied(), times.iter().copied().sum::<Nanos>(), starts)
        })
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1usize..=5, 0usize..=5).prop_flat_map(|(n_stages, more)| {
        let n = n_stages + more;
        let times = prop::collection::vec(prop::collection::vec(0u64..12, n), n_stages);
        let row = prop::collection::vec(0u64..100, n);
        let bytes = prop::collection::vec(prop::collection::vec(row, n), n_stages);
        let capacity = prop::option::weighted(0.6, 20u64..110).prop_map(|c| c.map(Bytes));
        (times, bytes, prop::collection::vec(capacity, n_stages)).prop_map(
            move |(times, bytes, capacity)| Case { n_layers: n as u32, times, bytes, capacity },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn no_other_cut_is_better(case in cases()) {
        match (case.partition(), case.best()) {
            (Ok(found), Some(best)) => prop_assert_eq!(found, best),
            (Err(PartitionError::Stage { stage, layers, needed, available }), None) => {
                prop_assert_eq!(case.bytes(stage, layers), needed);
                prop_assert!(needed > available && case.capacity[stage] == Some(available));
            }
            (Err(PartitionError::Layer { layer, .. }), None) => {
                prop_assert!((0..case.times.len()).all(|s| !case.fits(s, layer..layer + 1)));
            }
            (found, best) => prop_assert!(false, "{found:?}, but the best is {best:?}"),
        }
    }
}

/// Stages with `speeds` and `capacity`, layers of 12 ns and 10 bytes each.
fn even(
    speeds: &[u64],
    capacity: &[Option<u64>],
    n_layers: u32,
) -> Result<Vec<Range<u32>>, PartitionError> {
    let capacity: Vec<_> = capacity.iter().map(|c| c.map(Bytes)).collect();
    let time = |stage: usize, _| Nanos(12 / speeds[stage]);
    let bytes = |_, layers: Range<u32>| Bytes(10 * layers.len() as u64);
    partition(&time, &bytes, &capacity, n_layers)
}

#[test]
fn a_faster_device_takes_more_until_its_memory_is_full() {
    assert_eq!(even(&[1, 3], &[None, None], 8).unwrap(), [0..2, 2..8]);
    assert_eq!(even(&[1, 3], &[None, Some(45)], 8).unwrap(), [0..4, 4..8]);
}

#[test]
fn what_does_not_fit_is_named() {
    for (capacity, n_layers, wanted) in [
        (&[None, None][..], 1, "2 stages need a layer each, but there are 1 layers"),
        (&[Some(9), Some(7)], 4, "layer 0 alone does not fit on any stage: on stage 0, the near"),
        (
            &[Some(20), Some(15)],
            4,
            "stage 1 would hold at least layers 2..4, which need 20 B of 15",
        ),
        (
            &[None, Some(5), None],
            4,
            "stage 1 would hold at least layers 1..2, which need 10 B of 5",
        ),
    ] {
        let error = even(&[1, 1, 1], capacity, n_layers).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
