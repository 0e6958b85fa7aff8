//! The fixed policies on HetPipe's cluster and others, and what each refuses.

mod nodes;

use cavalcade_planner::{Policy, allocate};
use cavalcade_units::DeviceId;
use nodes::nodes;
use proptest::prelude::*;

/// Virtual workers by the letter of each device, or why not.
fn check(word: &str, cluster: &str, wanted: &str) {
    let letters: Vec<char> = cluster.chars().filter(|c| *c != ' ').collect();
    let sizes: Vec<usize> = cluster.split(' ').map(str::len).collect();
    let power = |device: DeviceId| match letters[device.idx()] {
        'V' => 5.0,
        'R' => 4.0,
        'G' => 2.0,
        _ => 1.5,
    };
    let found = match allocate(word.parse().expect("a policy's word"), &nodes(&sizes), &power) {
        Ok(workers) => {
            let word = |worker: &Vec<DeviceId>| worker.iter().map(|d| letters[d.idx()]).collect();
            workers.iter().map(word).collect::<Vec<String>>().join(" ")
        }
        Err(error) => error.to_string(),
    };
    assert!(found.starts_with(wanted), "{word} of {cluster}: {found}");
}

#[test]
fn hetpipes_cluster_is_allocated_as_in_the_paper() {
    check("np", "VVVV RRRR GGGG QQQQ", "VVVV RRRR GGGG QQQQ");
    check("ed", "VVVV RRRR GGGG QQQQ", "VRGQ VRGQ VRGQ VRGQ");
    check("hd", "VVVV RRRR GGGG QQQQ", "VVQQ VVQQ RRGG RRGG");
    check("hd", "QQQQ RRRR VVVV GGGG", "VVQQ VVQQ RRGG RRGG");
}

#[test]
fn nodes_of_unlike_sizes_and_devices_are_allocated_where_it_is_legal() {
    check("np", "V QQ GGG", "V QQ GGG");
    check("hd", "VV QQQQ", "VQQ VQQ");
    check("ed", "VQ QV", "VQ QV");
    check("hd", "VGGV RQQR", "VGRQ VGRQ");
    check("ed", "VV QQ GG", "VQG VQG");
}

#[test]
fn what_a_policy_cannot_do_is_said() {
    check(
        "ed",
        "VV Q",
        "policy ed gives one device of every node to each virtual worker, so nodes",
    );
    check("ed", "VV QQ G", "policy ed gives one device of every node to each virtual worker, so");
    check("hd", "VV QQ GG", "policy hd pairs nodes, so it needs an even number of them, but there");
    check(
        "hd",
        "VV QQQ",
        "policy hd halves each node, so nodes need an even number of devices, bu",
    );
    check("np", "VV  QQ", "node 1 has no devices; each node needs a device");
    check("auto", "VV QQ", "policy auto has to be searched");
    let power = |device: DeviceId| [1.0, 0.0, f64::NAN][device.idx()];
    let message = |ids: &[u32]| {
        let node = ids.iter().map(|&id| DeviceId(id)).collect();
        allocate(Policy::NodePartition, &[node], &power).unwrap_err().to_string()
    };
    assert_eq!(message(&[0, 1]), "device 1 has power 0; power is a positive number");
    assert_eq!(message(&[2]), "device 2 has power NaN; power is a positive number");
    assert_eq!(message(&[0, 0]), "device 0 is named twice; a device is in one node, once");
    let error = allocate(Policy::NodePartition, &[], &power).unwrap_err();
    assert_eq!(error.to_string(), "there is no node; each node needs a device");
}

/// The power of the weakest and the strongest pair, for every way to pair `left`.
fn pairings(left: &[f64]) -> Vec<(f64, f64)> {
    let Some((&first, rest)) = left.split_first() else { return vec![(f64::INFINITY, 0.0)] };
    let mut all = Vec::new();
    for (idx, &partner) in rest.iter().enumerate() {
        let others: Vec<f64> = [&rest[..idx], &rest[idx + 1..]].concat();
        let both = first + partner;
        all.extend(
            pairings(&others).iter().map(|(least, most)| (both.min(*least), both.max(*most))),
        );
    }
    all
}

proptest! {
    /// Nodes of alike devices, as HetPipe has them.
    #[test]
    fn no_other_pairs_are_more_similar(
        speeds in (1usize..=3).prop_flat_map(|pairs| prop::collection::vec(1u32..50, 2 * pairs)),
        half in 1usize..=3,
    ) {
        let nodes = nodes(&vec![2 * half; speeds.len()]);
        let power = |device: DeviceId| f64::from(speeds[device.idx() / (2 * half)]);
        let workers = allocate(Policy::HybridDistribution, &nodes, &power).unwrap();
        let total = |worker: &Vec<DeviceId>| worker.iter().map(|&d| power(d)).sum::<f64>();
        let totals: Vec<f64> = workers.iter().map(total).collect();
        let least = totals.iter().copied().fold(f64::INFINITY, f64::min);
        let most = totals.iter().copied().fold(0.0, f64::max);
        let of_node: Vec<f64> = speeds.iter().map(|&s| f64::from(s) * half as f64).collect();
        for (other_least, other_most) in pairings(&of_node) {
            prop_assert!(least >= other_least && most <= other_most);
        }
        for worker in &workers {
            let of = |node: &&Vec<DeviceId>| worker.iter().filter(|d| node.contains(d)).count();
            let shares = nodes.iter().map(|node| of(&node)).filter(|&n| n > 0);
            prop_assert_eq!(shares.collect::<Vec<_>>(), vec![half; 2]);
        }
        let mut all = workers.concat();
        all.sort();
        prop_assert_eq!(all, nodes.concat());
    }
}
