//! Max-min fair rates by progressive filling: all rates grow together; when a resource is full,
//! those that pass it stop, and those that have reached their own limit stop there.
//!
//! ```text
//! capacity 10     |#########|                a, b, c pass it; c may have 2 at most
//!                  a 4  b 4  c 2             c stops at 2, then a and b share the 8 that are left
//! ```
//!
//! Source: Bertsekas and Gallager, Data Networks, 2nd edition (1992), section 6.5.2. Ours treats
//! a flow's own limit as a resource that it alone passes.

/// What wants a rate.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    /// The resources that it passes, each once; at least one.
    pub(crate) legs: &'a [usize],
    /// Its own limit in bytes a second; infinite for none.
    pub(crate) limit: f64,
}

/// Shares of fixed capacities, with room to work in.
#[derive(Debug)]
pub(crate) struct MaxMin {
    capacity: Vec<f64>,
    left: Vec<f64>,
    n_open: Vec<u32>,
    used: Vec<usize>,
}

impl MaxMin {
    /// `capacity` by resource, in bytes a second, each above zero.
    pub(crate) fn new(capacity: Vec<f64>) -> Self {
        let left = vec![0.0; capacity.len()];
        let n_open = vec![0; capacity.len()];
        Self { capacity, left, n_open, used: Vec::new() }
    }

    pub(crate) fn n_resources(&self) -> usize {
        self.capacity.len()
    }

    /// Puts the rate of each of `demands` into `rates`: no other demand passes their resources.
    pub(crate) fn share(&mut self, demands: &[Demand<'_>], rates: &mut Vec<f64>) {
        rates.clear();
        rates.resize(demands.len(), f64::NAN);
        self.used.clear();
        for demand in demands {
            for &leg in demand.legs {
                if self.n_open[leg] == 0 {
                    self.used.push(leg);
                    self.left[leg] = self.capacity[leg];
                }
                self.n_open[leg] += 1;
            }
        }
        let mut n_open = demands.len();
        while n_open > 0 {
            let open = |(demand, rate): (&Demand<'_>, &f64)| rate.is_nan().then_some(demand.limit);
            let limit = demands.iter().zip(&*rates).filter_map(open).fold(f64::INFINITY, f64::min);
            let (share, full) = self.tightest();
            // Those whose own limit is the lowest of all bounds, else those of the full resource.
            let level = share.min(limit);
            for (demand, rate) in demands.iter().zip(rates.iter_mut()) {
                let stops = if limit <= share {
                    demand.limit <= limit
                } else {
                    full.is_some_and(|full| demand.legs.contains(&full))
                };
                if stops && rate.is_nan() {
                    *rate = level;
                    n_open -= 1;
                    for &leg in demand.legs {
                        self.left[leg] = (self.left[leg] - level).max(0.0);
                        self.n_open[leg] -= 1;
                    }
                }
            }
        }
    }

    /// The resource that is full first as open rates grow, and what each of them then has.
    fn tightest(&self) -> (f64, Option<usize>) {
        let mut tightest = (f64::INFINITY, None);
        for &leg in &self.used {
            if self.n_open[leg] > 0 {
                let share = self.left[leg] / f64::from(self.n_open[leg]);
                if share < tightest.0 {
                    tightest = (share, Some(leg));
                }
            }
        }
        tightest
    }
}

#[cfg(test)]
mod tests {
    use super::{Demand, MaxMin};
    use proptest::prelude::*;

    const FREE: f64 = f64::INFINITY;

    fn rates(capacity: &[f64], demands: &[(&[usize], f64)]) -> Vec<f64> {
        let demands: Vec<_> = demands.iter().map(|&(legs, limit)| Demand { legs, limit }).collect();
        let mut rates = Vec::new();
        let mut max_min = MaxMin::new(capacity.to_vec());
        max_min.share(&demands, &mut rates);
        let first = rates.clone();
        // What was shared before leaves nothing behind.
        max_min.share(&demands, &mut rates);
        assert_eq!(first, rates);
        rates
    }

    #[test]
    fn equals_share_equally() {
        assert_eq!(rates(&[10.0], &[(&[0], FREE)]), [10.0]);
        assert_eq!(rates(&[10.0], &[(&[0], FREE), (&[0], FREE)]), [5.0, 5.0]);
    }

    #[test]
    fn what_one_cannot_use_the_others_get() {
        assert_eq!(rates(&[10.0], &[(&[0], FREE), (&[0], FREE), (&[0], 2.0)]), [4.0, 4.0, 2.0]);
        // One that is held up elsewhere: the second resource gives 1 to each of its two.
        let demands: [(&[usize], f64); 3] = [(&[0], FREE), (&[0, 1], FREE), (&[1], FREE)];
        assert_eq!(rates(&[10.0, 2.0], &demands), [9.0, 1.0, 1.0]);
    }

    /// The textbook's chain: one long flow over all links, a short one over each.
    #[test]
    fn a_long_flow_gets_as_much_as_the_short_ones() {
        let demands: [(&[usize], f64); 4] =
            [(&[0, 1, 2], FREE), (&[0], FREE), (&[1], FREE), (&[2], FREE)];
        assert_eq!(rates(&[4.0, 4.0, 6.0], &demands), [2.0, 2.0, 2.0, 4.0]);
    }

    fn problems() -> impl Strategy<Value = (Vec<f64>, Vec<(Vec<usize>, f64)>)> {
        let capacity = (1..200_u32).prop_map(f64::from);
        proptest::collection::vec(capacity, 1..6).prop_flat_map(|capacity| {
            let legs: Vec<usize> = (0..capacity.len()).collect();
            let n_legs = 1..=legs.len();
            let limit = prop_oneof![Just(FREE), (1..100_u32).prop_map(f64::from)];
            let demand = (proptest::sample::subsequence(legs, n_legs), limit);
            (Just(capacity), proptest::collection::vec(demand, 1..9))
        })
    }

    proptest! {
        /// Max-min by its definition: nobody can get more without taking from one that has as
        /// little or less. That is so if each is at its own limit, or passes a full resource on
        /// which nobody has more.
        #[test]
        fn nobody_can_get_more_but_from_one_who_has_no_more((capacity, demands) in problems()) {
            let demands: Vec<(&[usize], f64)> =
                demands.iter().map(|(legs, limit)| (legs.as_slice(), *limit)).collect();
            let rates = rates(&capacity, &demands);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(b);
            let on = |leg: usize| {
                let pairs = demands.iter().zip(&rates);
                pairs.filter(move |((legs, _), _)| legs.contains(&leg)).map(|(_, &rate)| rate)
            };
            for (leg, &capacity) in capacity.iter().enumerate() {
                prop_assert!(on(leg).sum::<f64>() <= capacity * (1.0 + 1e-9));
            }
            for ((legs, limit), &rate) in demands.iter().zip(&rates) {
                prop_assert!(rate > 0.0 && rate <= *limit);
                let is_bottleneck = |&leg: &usize| {
                    let is_full = near(on(leg).sum(), capacity[leg]);
                    is_full && on(leg).all(|other| other <= rate || near(other, rate))
                };
                prop_assert!(rate == *limit || legs.iter().any(is_bottleneck), "{rates:?}");
            }
        }
    }
}
