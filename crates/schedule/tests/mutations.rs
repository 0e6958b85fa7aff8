//! Dropping, doubling or swapping any single op is caught by `check`, or changes nothing that
//! matters: the schedule still finishes with every pass, sum and step done once.

use cavalcade_schedule::{
    ActionId, CheckedSchedule, Form, Kind, Layout, Op, Options, Pipeline, Schedule, Servers, Stage,
    Ticks, Tie, WarmUp, Waves, build, check,
};
use cavalcade_units::{ChunkId, DeviceId};
use std::collections::BTreeSet;

fn schedule(kind: Kind) -> Schedule {
    schedule_with(kind, Options::default())
}

fn schedule_with(kind: Kind, options: Options) -> Schedule {
    let stage = |device, layers| Stage { device: DeviceId(device), layers };
    // Replicas that exchange have equally many waves.
    let microbatches = if options.waves.is_some() { 4 } else { 2 };
    let first = Pipeline { stages: vec![stage(0, 0..5)], microbatches };
    let three = |devices: [u32; 3], microbatches| {
        let cuts = [0..1, 1..3, 3..5];
        let stages = devices.into_iter().zip(cuts).map(|(device, layers)| stage(device, layers));
        Pipeline { stages: stages.collect(), microbatches }
    };
    let four = |devices: [u32; 4], microbatches| {
        let cuts = [0..1, 1..2, 2..4, 4..5];
        let stages = devices.into_iter().zip(cuts).map(|(device, layers)| stage(device, layers));
        Pipeline { stages: stages.collect(), microbatches }
    };
    let two = |devices: [u32; 2], cut, microbatches| Pipeline {
        stages: vec![stage(devices[0], 0..cut), stage(devices[1], cut..5)],
        microbatches,
    };
    let pipelines = match kind.form() {
        Form::Round => {
            let mut folded = two([1, 2], 1, 3);
            folded.stages[1].layers = 1..3;
            folded.stages.extend([stage(1, 3..4), stage(2, 4..5)]);
            vec![first, folded]
        }
        Form::Folded => {
            let mut folded = two([1, 2], 1, 5);
            folded.stages[1].layers = 1..3;
            folded.stages.extend([stage(2, 3..4), stage(1, 4..5)]);
            vec![folded]
        }
        Form::Alike => vec![four([0, 1, 2, 3], 3), four([0, 1, 2, 3], 2)],
        Form::Mirrored => vec![two([0, 1], 2, 3), two([1, 0], 3, 2)],
        Form::Apart => vec![first, three([1, 2, 3], 4)],
    };
    // With servers, a tie may not be held twice by a pipeline.
    let ties = vec![Tie { layers: vec![0, 4] }];
    let ties = if options.waves.is_some() { Vec::new() } else { ties };
    let layout = Layout { n_layers: 5, n_devices: 4, ties, pipelines, ticks: Ticks::default() };
    let order = cavalcade_schedule::generate(kind, &layout).expect("it fits");
    build(order, &Options { clip_gradients: true, ..options })
}

/// A schedule of every kind, and 1F1B after every optional pass.
fn schedules() -> Vec<Schedule> {
    let b = Kind::Dapple { policy: WarmUp::B, most: 4 };
    let geo = Kind::Geo { cut: 1, extra: 1 };
    let skip = Kind::Skip { percent: 25, swaps: true };
    let more = [b, geo, Kind::Solve { most: 2 }, skip];
    let mut schedules: Vec<_> = Kind::ALL.into_iter().chain(more).map(schedule).collect();
    let recompute = vec![ChunkId(0), ChunkId(1), ChunkId(2)];
    for options in [
        Options { split_backward: true, ..Options::default() },
        Options { recompute: recompute.clone(), ..Options::default() },
        Options { recompute, offload: Some(1), split_backward: true, ..Options::default() },
    ] {
        schedules.push(schedule_with(Kind::OneFOneB, options));
    }
    let hetpipe = Kind::HetPipe { wave: Some(2) };
    for (distance, servers) in
        [(0, Servers::Local), (1, Servers::RoundRobin(vec![DeviceId(0), DeviceId(3)]))]
    {
        let waves = Some(Waves { length: 2, distance, servers });
        schedules.push(schedule_with(hetpipe, Options { waves, ..Options::default() }));
    }
    schedules
}

fn mutants_of(whole: &Schedule, mutate: &dyn Fn(&mut Vec<Op>, usize) -> bool) -> Vec<Schedule> {
    let mut mutants = Vec::new();
    for device_idx in 0..whole.programs.len() {
        for op_idx in 0..whole.programs[device_idx].len() {
            let mut mutant = whole.clone();
            if mutate(&mut mutant.programs[device_idx], op_idx) {
                mutants.push(mutant);
            }
        }
    }
    mutants
}

fn mutants(mutate: impl Fn(&mut Vec<Op>, usize) -> bool) -> Vec<Schedule> {
    schedules().iter().flat_map(|whole| mutants_of(whole, &mutate)).collect()
}

#[test]
fn dropping_any_op_is_caught() {
    for mutant in mutants(|program, at| {
        program.remove(at);
        true
    }) {
        check(mutant, None).unwrap_err();
    }
}

#[test]
fn doubling_any_op_is_caught() {
    for mutant in mutants(|program, at| {
        program.insert(at, program[at]);
        true
    }) {
        check(mutant, None).unwrap_err();
    }
}

/// Every life of every value, with the ops that touch it: what a schedule computes, whatever the
/// order in which it does so.
fn meaning(checked: &CheckedSchedule) -> BTreeSet<(String, Vec<String>)> {
    let mut touched_by = vec![Vec::new(); checked.n_instances()];
    for action in (0..checked.n_actions() as u32).map(ActionId) {
        for &instance in checked.touched(action) {
            let device = checked.device_of(action);
            touched_by[instance as usize].push(format!("{device} {}", checked.op(action)));
        }
    }
    let lives = touched_by.into_iter().enumerate().map(|(idx, mut ops)| {
        ops.sort_unstable();
        (checked.instance(idx as u32).0.to_string(), ops)
    });
    lives.collect()
}

/// A swap of neighbors that passes the check leaves what every op works on as it was.
#[test]
fn swapping_neighbors_is_caught_or_harmless() {
    for whole in schedules() {
        let expected = meaning(&check(whole.clone(), None).expect("it is sound"));
        let swapped = mutants_of(&whole, &|program, at| {
            let other = at + 1;
            if other < program.len() {
                program.swap(at, other);
            }
            other < program.len()
        });
        for mutant in swapped {
            let Ok(checked) = check(mutant, None) else { continue };
            assert_eq!(meaning(&checked), expected, "{}", whole.name);
        }
    }
}

#[test]
fn messages_name_what_is_wrong() {
    let message = |mutate: &dyn Fn(&mut Schedule)| {
        let mut mutant = schedule(Kind::OneFOneB);
        mutate(&mut mutant);
        check(mutant, None).unwrap_err().to_string()
    };
    expect_test::expect![
        "the forward of chunk 0 for micro-batch 0 is done 0 times; it must be done exactly 1 times"
    ]
    .assert_eq(&message(&|s| {
        s.programs[0].remove(0);
    }));
    expect_test::expect!["path 1: chunk 2 holds layers 2..3 where layer 1 is next; a path visits layers 0..5 once each, in order"]
        .assert_eq(&message(&|s| s.chunks[2].layers = 2..3));
    expect_test::expect!["device 0, op 0 (0B0) needs the stash of chunk 0, micro-batch 0, which no earlier op of this device makes"]
        .assert_eq(&message(&|s| s.programs[0].swap(0, 1)));
    expect_test::expect!["the tables: transfer 0 has both ends on device 1"]
        .assert_eq(&message(&|s| s.transfers[0].to = DeviceId(1)));
}

#[test]
fn a_deadlock_is_named_op_by_op() {
    let text = "cavalcade schedule 1\nname cross\nlayers 2\nchunk d0 0..1\nchunk d1 1..2\n\
                path 0 1\nmicrobatches 0*2\nbucket 0..1 : 0\nbucket 1..2 : 1\n\
                transfer A0.0 d0>d1\ntransfer A0.1 d0>d1\ntransfer G1.0 d1>d0\n\
                transfer G1.1 d1>d0\n\
                device 0: 0F0 S0 R2 0B0 0F1 S1 R3 0B1 0U\n\
                device 1: R1 1F1 1B1 S3 R0 1F0 1B0 S2 1U\n";
    let error = check(text.parse().unwrap(), None).unwrap_err().to_string();
    expect_test::expect!["deadlock: device 0, op 2 (R2) waits for device 1, op 7 (S2) waits for device 1, op 6 (1B0) waits for device 1, op 5 (1F0) waits for device 1, op 4 (R0) waits for device 1, op 0 (R1) waits for device 0, op 5 (S1) waits for device 0, op 4 (0F1) waits for device 0, op 3 (0B0) waits for device 0, op 2 (R2)"].assert_eq(&error);
}
