//! Solved orders: their makespan is the simulator's, and no known order in the same memory beats
//! them.

#[path = "support/ticked.rs"]
mod ticked;

use cavalcade_schedule::{Kind, Layout, StageTicks, Ticks, WarmUp, generate};
use cavalcade_units::DeviceId;
use proptest::prelude::*;
use ticked::Ticked;

fn layout(stages: Vec<StageTicks>, hops: &[(u64, u64)], n_microbatches: u32) -> Layout {
    let n_devices = stages.len() as u32;
    let mut layout = Layout::even(Kind::OneFOneB, n_devices, 1, n_microbatches);
    let delays = (1..n_devices).zip(hops).flat_map(|(to, &(down, up))| {
        let (a, b) = (DeviceId(to - 1), DeviceId(to));
        [((a, b), down), ((b, a), up)]
    });
    layout.ticks = Ticks { delays: delays.collect(), stages: vec![stages] };
    layout
}

fn stage(forward: u64, backward_input: u64, backward_weight: u64) -> StageTicks {
    let backward = backward_input + backward_weight;
    StageTicks { forward, backward, backward_input, backward_weight }
}

fn equal(n_devices: usize, n_microbatches: u32, delay: u64) -> Layout {
    layout(vec![stage(100, 100, 100); n_devices], &vec![(delay, delay); n_devices], n_microbatches)
}

fn makespan(kind: Kind, layout: &Layout) -> u64 {
    Ticked::new(layout).run(generate(kind, layout).expect("it fits")).0
}

prop_compose! {
    fn layouts()(p in 1usize..=6)(
        stages in prop::collection::vec((1u64..100, 1u64..100, 0u64..100), p),
        hops in prop::collection::vec((0u64..300, 0u64..300), p),
        n_microbatches in 1u32..=12,
    ) -> Layout {
        let stages = stages.into_iter().map(|(f, i, w)| stage(f, i, w)).collect();
        layout(stages, &hops, n_microbatches)
    }
}

proptest! {
    #[test]
    fn the_simulator_agrees_and_no_known_order_is_shorter(layout in layouts(), most in 1u32..=8) {
        let kind = Kind::Solve { most };
        let order = generate(kind, &layout).expect("it fits");
        let counted = order.makespan().expect("it was weighed");
        let (simulated, peaks) = Ticked::new(&layout).run(order);
        prop_assert_eq!(simulated, counted);
        prop_assert!(peaks.iter().all(|&peak| peak <= u64::from(most)), "{:?}", peaks);
        for policy in [WarmUp::A, WarmUp::B] {
            let known = makespan(Kind::Dapple { policy, most }, &layout);
            prop_assert!(simulated <= known, "{} > {}", simulated, known);
        }
        if most as usize >= layout.pipelines[0].stages.len() {
            for known in [Kind::OneFOneB, Kind::ZbH1] {
                let known = makespan(known, &layout);
                prop_assert!(simulated <= known, "{} > {}", simulated, known);
            }
        }
    }
}

/// With free links 1F1B's bubble shrinks as that of ZB-H1 does, in the same memory.
#[test]
fn free_links_leave_what_zb_h1_leaves() {
    for (p, m) in [(2, 4), (4, 8), (4, 12), (8, 16)] {
        let solved = makespan(Kind::Solve { most: u32::MAX }, &equal(p, m, 0));
        let known = makespan(Kind::ZbH1, &equal(p, m, 0));
        assert!(solved <= known, "p={p} m={m}: {solved} > {known}");
    }
}

/// The paper's claims: shorter than 1F1B at equal memory, and near to no delay with more memory.
#[test]
fn memory_buys_back_the_delay() {
    let (p, m) = (4, 16);
    let no_delay = makespan(Kind::Solve { most: u32::MAX }, &equal(p, m, 0));
    let far = equal(p, m, 200);
    let plain = makespan(Kind::OneFOneB, &far);
    let lean = makespan(Kind::Solve { most: u32::MAX }, &far);
    let rich = makespan(Kind::Solve { most: 12 }, &far);
    assert!(lean * 6 <= plain * 5, "{lean}, 1f1b {plain}");
    // Each message of the first micro-batch must still travel.
    let ways = 2 * (p as u64 - 1) * 200;
    assert!((rich - ways) * 10 <= no_delay * 11, "{rich}, without delay {no_delay}");
}
