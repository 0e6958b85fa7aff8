//! Orders and cuts against all orders and cuts there are, and what is said when none fits.

mod all_cuts;

use all_cuts::all_cuts;
use cavalcade_planner::{
    ArrangeError, Arrangement, Costs, InFlightError, Shares, arrange, most_in_flight,
};
use cavalcade_units::{Bytes, DeviceId, Nanos};
use proptest::prelude::*;
use std::ops::Range;

/// Devices by class, and costs by class without any regularity that a wrong rule could lean on:
/// `times[class][layer]`, `bytes[stage][start][end - 1]`, `messages[from][to][cut]`.
#[derive(Debug)]
struct Case {
    n_layers: u32,
    /// The class of each device.
    classes: Vec<usize>,
    times: Vec<Vec<u64>>,
    bytes: Vec<Vec<Vec<u64>>>,
    capacity: Vec<Option<u64>>,
    messages: Vec<Vec<Vec<u64>>>,
}

impl Case {
    fn class(&self, device: DeviceId) -> usize {
        self.classes[device.idx()]
    }

    fn arrange(&self) -> Result<Arrangement, ArrangeError> {
        let devices: Vec<DeviceId> = (0..self.classes.len()).map(DeviceId::from_idx).collect();
        let message = |from: DeviceId, to: DeviceId, cut: u32| {
            assert_ne!(from, to, "no device sends to itself");
            Nanos(self.messages[self.class(from)][self.class(to)][cut as usize])
        };
        let costs = Costs {
            n_layers: self.n_layers,
            time: &|device, layer| Nanos(self.times[self.class(device)][layer as usize]),
            bytes: &|stage, n_stages, layers| {
                assert_eq!(n_stages, self.classes.len());
                Bytes(self.bytes[stage][layers.start as usize][layers.end as usize - 1])
            },
            capacity: &|device| self.capacity[self.class(device)].map(Bytes),
            message: &message,
        };
        arrange(&devices, &|device| self.class(device) as u32, &costs)
    }

    /// The stages' times if devices and layers are these; None if they do not fit.
    fn stages(&self, order: &[usize], cuts: &[Range<u32>]) -> Option<Vec<u64>> {
        let n_stages = order.len();
        let class = |stage: usize| self.classes[order[stage]];
        let stage = |(stage, layers): (usize, &Range<u32>)| {
            let (own, start, end) = (class(stage), layers.start as usize, layers.end as usize);
            let needed = self.bytes[stage][start][end - 1];
            if self.capacity[own].is_some_and(|available| needed > available) {
                return None;
            }
            let mut time: u64 = self.times[own][start..end].iter().sum();
            if stage > 0 {
                time += self.messages[class(stage - 1)][own][start];
            }
            if stage + 1 < n_stages {
                time += self.messages[class(stage + 1)][own][end];
            }
            Some(time)
        };
        cuts.iter().enumerate().map(stage).collect()
    }

    /// The best of all orders and cuts: slowest stage, sum, order of the classes, later starts,
    /// order of the devices.
    fn best(&self) -> Option<Arrangement> {
        let n_stages = self.classes.len();
        let cuts = all_cuts(0, self.n_layers, n_stages);
        let first =
            |device: &usize| self.classes.iter().position(|class| *class == self.classes[*device]);
        let mut best = None;
        for order in orders(n_stages) {
            for cuts in &cuts {
                let Some(times) = self.stages(&order, cuts) else { continue };
                let (slowest, sum) = (times.iter().max().copied(), times.iter().sum::<u64>());
                let classes: Vec<_> = order.iter().map(first).collect();
                let later: Vec<u32> = cuts.iter().rev().map(|layers| layers.start).collect();
                let key = (slowest, sum, classes, later, order.clone());
                if best.as_ref().is_none_or(|(best, _)| key < *best) {
                    best = Some((key, cuts.clone()));
                }
            }
        }
        let ((slowest, sum, _, _, order), layers) = best?;
        Some(Arrangement {
            devices: order.into_iter().map(DeviceId::from_idx).collect(),
            layers,
            cost: Shares { slowest: Nanos(slowest?), fill: Nanos(sum) },
        })
    }
}

/// Every order of `0..n`.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..n {
        let more = |order: &Vec<usize>| {
            let rest = (0..n).filter(|idx| !order.contains(idx));
            rest.map(|idx| order.iter().copied().chain([idx]).collect()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(more).collect();
    }
    all
}

fn cases(
    n_devices: std::ops::RangeInclusive<usize>,
    n_layers: usize,
) -> impl Strategy<Value = Case> {
    (n_devices, 0usize..=5).prop_flat_map(move |(k, more)| {
        let n = (k + more).min(n_layers);
        use prop::collection::vec;
        let times = vec(vec(0u64..12, n), k);
        let bytes = vec(vec(vec(0u64..100, n), n), k);
        let capacity = vec(prop::option::weighted(0.6, 40u64..110), k);
        let messages = vec(vec(vec(0u64..8, n), k), k);
        (vec(0..k, k), times, bytes, capacity, messages).prop_map(
            move |(classes, times, bytes, capacity, messages)| Case {
                n_layers: n as u32,
                classes,
                times,
                bytes,
                capacity,
                messages,
            },
        )
    })
}

fn is_the_best(case: &Case) -> Result<(), TestCaseError> {
    match (case.arrange(), case.best()) {
        (Err(ArrangeError::NoneFits { devices, .. }), None) => {
            let room = |&device: &DeviceId| case.capacity[case.class(device)].unwrap_or(u64::MAX);
            prop_assert!(devices.is_sorted_by(|one, next| room(one) >= room(next)));
        }
        (found, best) => prop_assert_eq!(found.ok(), best),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn no_other_order_and_cut_is_better(case in cases(1..=4, 9)) {
        is_the_best(&case)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn nor_with_five_devices(case in cases(5..=5, 8)) {
        is_the_best(&case)?;
    }
}

/// Devices of two kinds, by class: V (0, 1) is twice as fast as Q (2, 3), which has `room`
/// bytes. Layers take 2 ns on V and use 10 bytes for each micro-batch in flight.
fn vvqq(room: u64, n_in_flight: u32) -> Result<Arrangement, ArrangeError> {
    let is_v = |device: DeviceId| device.0 < 2;
    let in_flight = |stage: usize| u64::from(n_in_flight).saturating_sub(stage as u64).max(1);
    let costs = Costs {
        n_layers: 6,
        time: &|device, _| Nanos(if is_v(device) { 2 } else { 4 }),
        bytes: &|stage, _, layers| Bytes(10 * layers.len() as u64 * in_flight(stage)),
        capacity: &|device| Some(Bytes(if is_v(device) { 60 } else { room })),
        message: &|from, to, _| Nanos(u64::from(is_v(from) != is_v(to))),
    };
    arrange(&[0, 1, 2, 3].map(DeviceId), &|device| u32::from(!is_v(device)), &costs)
}

#[test]
fn memory_decides_the_order_when_it_is_scarce() {
    let of = |room| {
        let Arrangement { devices, layers, cost } = vvqq(room, 4).unwrap();
        let devices: Vec<u32> = devices.iter().map(|device| device.0).collect();
        let lens: Vec<usize> = layers.iter().map(|layers| layers.len()).collect();
        (devices, lens, cost.slowest.0)
    };
    assert_eq!(of(40), (vec![2, 3, 0, 1], vec![1, 1, 2, 2], 5), "Q has room to be the first");
    assert_eq!(of(30), (vec![0, 2, 3, 1], vec![1, 1, 1, 3], 7), "only V has");
}

#[test]
fn what_does_not_fit_is_said_for_the_roomiest_order() {
    let error = vvqq(5, 1).unwrap_err().to_string();
    let wanted = "no order of the devices fits; in the order 0, 1, 2, 3, those with the most \
                  memory first, no cut fits: stage 2 would hold at least layers 2..3, which need \
                  10 B of 5 B; ";
    assert!(error.starts_with(wanted), "{error}");
    let costs = Costs {
        n_layers: 1,
        time: &|_, _| Nanos(1),
        bytes: &|_, _, _| Bytes(0),
        capacity: &|device| Some(Bytes(u64::from(device.0))),
        message: &|_, _, _| Nanos::ZERO,
    };
    let error = arrange(&[1, 2].map(DeviceId), &|device| device.0, &costs).unwrap_err().to_string();
    let wanted = "no order of the devices fits; in the order 2, 1, those with the most memory \
                  first, 2 stages need a layer each, but there are 1 layers; ";
    assert!(error.starts_with(wanted), "{error}");
}

#[test]
fn a_long_row_of_unlike_devices_is_refused() {
    let devices: Vec<DeviceId> = (0..12).map(DeviceId).collect();
    let costs = Costs {
        n_layers: 60,
        time: &|_, _| Nanos(1),
        bytes: &|_, _, _| Bytes(0),
        capacity: &|_| None,
        message: &|_, _, _| Nanos::ZERO,
    };
    let error = arrange(&devices, &|device| device.0, &costs).unwrap_err().to_string();
    assert!(error.starts_with("12 devices of 12 classes with 60 layers have more"), "{error}");
    let alike = arrange(&devices, &|device| device.0 / 6, &costs).unwrap();
    assert_eq!((alike.cost.slowest, alike.cost.fill), (Nanos(5), Nanos(60)));
}

#[test]
fn the_weakest_bounds_what_is_in_flight() {
    let arrange = |worker: usize, n: u32| vvqq([40, 20][worker], n);
    let found = most_in_flight(2, 8, &arrange).unwrap();
    assert_eq!((found.n_microbatches, found.bound_by), (4, Some(1)));
    assert_eq!(Ok(&found.arrangements[0]), vvqq(40, 4).as_ref());
    let error = most_in_flight(2, 3, &|worker, n| vvqq([40, 5][worker], n)).unwrap_err();
    let wanted = "virtual worker 1 fits with none of 1 to 3 micro-batches in flight; with 1: no \
                  order of the devices fits; ";
    assert!(error.to_string().starts_with(wanted), "{error}");
}

proptest! {
    /// Whatever fits with whatever count: memory need not grow with it.
    #[test]
    fn no_larger_count_fits_all(
        fits in (1usize..=4, 1usize..=8).prop_flat_map(|(workers, most)| {
            let counts = prop::collection::vec(prop::bool::weighted(0.7), most);
            prop::collection::vec(counts, workers)
        }),
    ) {
        let (n_workers, most) = (fits.len(), fits[0].len() as u32);
        let fit = |worker: usize, count: u32| fits[worker][count as usize - 1];
        let lacks = Lacks;
        let arrange = |worker, count| match fit(worker, count) {
            true => Ok((worker, count)),
            false => Err(lacks(count)),
        };
        let all_fit = |count: &u32| (0..n_workers).all(|worker| fit(worker, *count));
        let largest = (1..=most).rev().find(all_fit);
        match most_in_flight(n_workers, most, &arrange) {
            Ok(found) => {
                prop_assert_eq!(Some(found.n_microbatches), largest);
                let each = (0..n_workers).map(|worker| (worker, found.n_microbatches));
                prop_assert_eq!(found.arrangements, each.collect::<Vec<_>>());
                let next = found.n_microbatches + 1;
                prop_assert_eq!(found.bound_by.is_none(), next > most);
                prop_assert!(found.bound_by.is_none_or(|worker| !fit(worker, next)));
            }
            Err(error) => {
                prop_assert_eq!(largest, None);
                let never = |worker: &usize| (1..=most).all(|count| !fit(*worker, count));
                prop_assert_eq!(error, match (0..n_workers).find(never) {
                    Some(worker) => InFlightError::Worker { worker, most, source: lacks(1) },
                    None => InFlightError::NoCommon { most },
                });
            }
        }
    }
}

/// What a virtual worker lacks with a count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lacks memory for {0}")]
struct Lacks(u32);
