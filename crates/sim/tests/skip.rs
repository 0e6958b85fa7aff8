//! Ways that skip and swap stages against a pipeline that does neither, over twelve regions.

#[path = "support/ticked.rs"]
mod ticked;

use cavalcade_schedule::{Kind, Layout, Pipeline, Stage, StageTicks, Ticks, WarmUp, generate};
use cavalcade_units::DeviceId;
use std::collections::BTreeMap;
use ticked::Ticked;

/// Micro-seconds of a forward of one layer over a micro-batch of 8 samples.
const LAYER: u64 = 8 * 55_000;
const LAYERS: u32 = 24;

fn regions() -> (Vec<String>, BTreeMap<(DeviceId, DeviceId), u64>) {
    let bytes = (8 * 1024 * 1024 * 4) as f64;
    let mut names: Vec<String> = Vec::new();
    let mut delays = BTreeMap::new();
    for line in include_str!("data/regions.txt").lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut id = |name: &str| {
            let at = names.iter().position(|n| n == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            DeviceId::from_idx(at)
        };
        let (a, b) = (id(words[0]), id(words[1]));
        let latency: f64 = words[2].parse().unwrap();
        let rate: f64 = words[3].parse().unwrap();
        let micros = latency * 1e3 + bytes / (rate * 1e9) * 1e6;
        delays.insert((a, b), micros as u64);
        delays.insert((b, a), micros as u64);
    }
    (names, delays)
}

fn layout(rows: &[Vec<usize>], delays: &BTreeMap<(DeviceId, DeviceId), u64>, m: u32) -> Layout {
    let n_stages = rows[0].len() as u32;
    let per = LAYERS / n_stages;
    let pipelines = rows.iter().map(|row| Pipeline {
        stages: row.iter().zip(0..).map(|(&d, s)| Stage { device: DeviceId::from_idx(d), layers: s * per..(s + 1) * per }).collect(),
        microbatches: m / rows.len() as u32,
    }).collect();
    let f = LAYER * u64::from(per);
    let stage = StageTicks { forward: f, backward: f * 3 / 2, backward_input: f * 3 / 4, backward_weight: f * 3 / 4 };
    Layout { n_layers: LAYERS, n_devices: 12, ties: Vec::new(), pipelines, ticks: Ticks { stages: vec![vec![stage; n_stages as usize]; rows.len()], delays: delays.clone() } }
}

#[test]
fn experiment() {
    let (names, delays) = regions();
    let d = |a: usize, b: usize| if a == b { 0 } else { delays[&(DeviceId::from_idx(a), DeviceId::from_idx(b))] };
    for (rows, cols) in [(1usize, 12usize), (2, 6), (3, 4)] {
        for m in [12u32, 24] {
            // random-restart local search on 1f1b sim
            let mut state = 12345u64;
            let mut rnd = |n: usize| { state = state.wrapping_mul(6364136223846793005).wrapping_add(1); (state >> 33) as usize % n };
            let cost = |perm: &Vec<usize>, kind: Kind| {
                let rows: Vec<Vec<usize>> = perm.chunks(cols).map(|c| c.to_vec()).collect();
                let layout = layout(&rows, &delays, m);
                let made = generate(kind, &layout).unwrap();
                made.makespan().unwrap_or_else(|| Ticked::new(&layout).run(generate(kind, &layout).unwrap()).0)
            };
            let hops = |perm: &Vec<usize>| -> u64 { perm.chunks(cols).map(|c| c.windows(2).map(|w| d(w[0], w[1])).sum::<u64>()).sum() };
            let mut best: (u64, Vec<usize>) = (u64::MAX, vec![]);
            for _ in 0..200 {
                let mut perm: Vec<usize> = (0..12).collect();
                for i in (1..12).rev() { let j = rnd(i + 1); perm.swap(i, j); }
                let mut c = hops(&perm);
                loop {
                    let mut better = false;
                    for i in 0..12 { for j in 0..i {
                        perm.swap(i, j);
                        let n = hops(&perm);
                        if n < c { c = n; better = true; } else { perm.swap(i, j); }
                    } }
                    if !better { break; }
                }
                if c < best.0 { best = (c, perm); }
            }
            let perm = best.1;
            println!("{rows}x{cols} m={m} hops {} {:?}", best.0, perm.iter().map(|&i| &names[i]).collect::<Vec<_>>());
            for kind in ["1f1b", "1f1b:b12", "solve", "skip:0:straight", "skip:0", "skip:25:straight", "skip:25", "skip:33:straight", "skip:33"] {
                let t = cost(&perm, kind.parse().unwrap());
                println!("   {kind} {:.1}", t as f64 / 1e6);
            }
            let _ = WarmUp::A;
        }
    }
}
