//! What a written schedule may say beyond what generators make: no flush, detours, a second order.

use cavalcade_schedule::{Schedule, check};

fn verdict(text: &str) -> Result<(), String> {
    let schedule: Schedule = text.parse().expect("it is a schedule");
    assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
    check(schedule, None).map(drop).map_err(|error| error.to_string())
}

fn flushless(bound: u32, program: &str) -> Result<(), String> {
    verdict(&format!(
        "cavalcade schedule 1\nname free\nlayers 1\nstaleness {bound}\nchunk d0 0..1\npath 0\n\
         microbatches 0*3\nbucket 0..1 : 0\ndevice 0: {program}\n"
    ))
}

#[test]
fn weights_may_be_as_old_as_the_schedule_says_and_no_older() {
    let two_ahead = "0F0 0F1 0B0 0U0 0A0 0F2 0B1 0U1 0A1 0B2 0U2 0A2";
    assert_eq!(flushless(1, two_ahead), Ok(()));
    expect_test::expect!["device 0, op 1 (0F1) uses weights without the update of micro-batch 0; the schedule's staleness 0 allows to lack the last 0 before it at most"]
        .assert_eq(&flushless(0, two_ahead).unwrap_err());
    assert_eq!(flushless(0, "0F0 0B0 0U0 0A0 0F1 0B1 0U1 0A1 0F2 0B2 0U2 0A2"), Ok(()));
    expect_test::expect![
        "the update of chunk 0 for micro-batch 2 is done 0 times; it must be done exactly 1 times"
    ]
    .assert_eq(&flushless(1, "0F0 0F1 0B0 0U0 0A0 0F2 0B1 0U1 0A1 0B2").unwrap_err());
}

#[test]
fn an_update_uses_the_gradients_of_its_own_micro_batch() {
    expect_test::expect!["device 0, op 3 (0B1) comes while the gradients of micro-batch 0 wait for their update; without a flush every micro-batch's gradients are used by its own update, before those of the next are made"]
        .assert_eq(&flushless(2, "0F0 0F1 0B0 0B1 0U0 0U1 0F2 0B2 0U2 0A0 0A1 0A2").unwrap_err());
    let early = flushless(2, "0F0 0F1 0B0 0U0 0U1 0B1 0F2 0B2 0U2 0A0 0A1 0A2").unwrap_err();
    assert!(early.starts_with("device 0, op 4 (0U1) comes while the gradients of no"), "{early}");
}

/// Four layers on one device; the micro-batch's path is all that varies.
fn path(line: &str, chunks: &[u32]) -> Result<(), String> {
    let order = |pass: &str, chunks: &mut dyn Iterator<Item = &u32>| -> String {
        chunks.map(|chunk| format!(" {chunk}{pass}0")).collect()
    };
    let forth = order("F", &mut chunks.iter());
    let back = order("B", &mut chunks.iter().rev());
    let steps: String = chunks.iter().map(|chunk| format!(" {chunk}U")).collect();
    let places: String = chunks.iter().map(|chunk| format!(" {chunk}")).collect();
    let tables = (0..4).map(|l| format!("chunk d0 {l}..{}\n", l + 1)).collect::<String>();
    let buckets = (0..4).map(|l| format!("bucket {l}..{} : {l}\n", l + 1)).collect::<String>();
    verdict(&format!(
        "cavalcade schedule 1\nname way\nlayers 4\n{line}{tables}path{places}\n\
         microbatches 0*1\n{buckets}device 0:{forth}{back}{steps}\n"
    ))
}

#[test]
fn paths_leave_the_order_only_where_the_schedule_allows_it() {
    assert_eq!(path("", &[0, 1, 2, 3]), Ok(()));
    assert_eq!(path("detours 0\n", &[0, 2, 1, 3]), Ok(()));
    expect_test::expect!["path 0: chunk 2 holds layers 2..3 where layer 1 is next; a path visits layers 0..4 once each, in order"]
        .assert_eq(&path("", &[0, 2, 1, 3]).unwrap_err());
    expect_test::expect!["path 0: 1 layers are left out; the plan allows 0"]
        .assert_eq(&path("detours 0\n", &[0, 2, 3]).unwrap_err());
    expect_test::expect!["path 0: layer 1 is visited twice; a path visits a layer once"]
        .assert_eq(&path("detours 1\n", &[0, 1, 1, 3]).unwrap_err());
    expect_test::expect!["path 0: it must begin with the first layer and end with the last"]
        .assert_eq(&path("detours 1\n", &[0, 1, 3, 2]).unwrap_err());
}

fn second_order(program: &str) -> Result<(), String> {
    verdict(&format!(
        "cavalcade schedule 1\nname force\nlayers 2\nsecond-order\nchunk d0 0..1\n\
         chunk d0 1..2\npath 0 1\nmicrobatches 0*1\nbucket 0..1 : 0\nbucket 1..2 : 1\n\
         device 0: {program} 0U 1U\n"
    ))
}

#[test]
fn four_phases_follow_each_other_down_and_up() {
    assert_eq!(second_order("0F0 1F0 1J0 0J0 0K0 1K0 1B0 0B0"), Ok(()));
    for wrong in [
        "0F0 1F0 0J0 1J0 0K0 1K0 1B0 0B0",
        "0F0 1F0 1J0 0J0 1K0 0K0 1B0 0B0",
        "0F0 1F0 1J0 0J0 0K0 1B0 1K0 0B0",
        "0F0 1F0 1J0 0J0 0K0 1K0 1B0",
    ] {
        second_order(wrong).unwrap_err();
    }
}

/// Two replicas of one layer with waves of one micro-batch; the programs are all that varies.
fn replicas(exchanges: &str, programs: [&str; 2]) -> Result<(), String> {
    verdict(&format!(
        "cavalcade schedule 1\nname free\nlayers 1\nstaleness 0\nwave 1\nchunk d0 0..1\n\
         chunk d1 0..1\npath 0\npath 1\nmicrobatches 0*2 1*2\nbucket 0..1 : 0 1 @d0\n{exchanges}\
         device 0: {}\ndevice 1: {}\n",
        programs[0], programs[1]
    ))
}

#[test]
fn replicas_exchange_every_wave_and_wait_for_each_other_as_far_as_they_must() {
    let exchanges = "exchange chunk 0 bucket 0 waves 0..=0 lag 0\n\
                     exchange chunk 0 bucket 0 waves 1..=1 lag 0\n\
                     exchange chunk 1 bucket 0 waves 0..=0 lag 0\n\
                     exchange chunk 1 bucket 0 waves 1..=1 lag 0\n";
    let first = "Q0 M0 0F0 Q1 0B0 0U0 P0 0A0 M1 0F1 0B1 0U1 P1 0A1";
    let second = "Q2 M2 1F2 Q3 1B2 1U2 P2 1A2 M3 1F3 1B3 1U3 P3 1A3";
    assert_eq!(replicas(exchanges, [first, second]), Ok(()));
    // What is handed over leaves on a lane of its own, wherever it stands in the list.
    let crossed = "Q0 M0 0F0 0B0 0U0 0A0 Q1 M1 0F1 P0 0B1 0U1 P1 0A1";
    assert_eq!(replicas(exchanges, [crossed, second]), Ok(()));
    let early = "Q0 M0 0F0 Q1 0B0 P0 0U0 0A0 M1 0F1 0B1 0U1 P1 0A1";
    expect_test::expect!["device 0, op 5 (P0): wave 0 has not made all its changes"]
        .assert_eq(&replicas(exchanges, [early, second]).unwrap_err());
    let late = "Q0 M0 0F0 Q1 0B0 0U0 P0 0A0 0F1 M1 0B1 0U1 P1 0A1";
    expect_test::expect!["device 0, op 9 (M1): it belongs right before the last micro-batch of wave 1 begins, when the changes of the waves before, and no others, have been added"].assert_eq(&replicas(exchanges, [late, second]).unwrap_err());
    let unlike = exchanges.replace("1 bucket 0 waves 1..=1 lag 0", "1 bucket 0 waves 1..=1 lag 1");
    expect_test::expect!["the tables: bucket 0 is exchanged around other waves by other holders"]
        .assert_eq(&replicas(&unlike, [first, second]).unwrap_err());
    let twice = exchanges.replacen("waves 1..=1", "waves 0..=1", 1);
    expect_test::expect![
        "the tables: bucket 0 is handed over by chunk 0 for waves 0..=1, but wave 1 is next"
    ]
    .assert_eq(&replicas(&twice, [first, second]).unwrap_err());
    expect_test::expect!["device 0, op 0 (Q0): there is no exchange 0; there are 0"]
        .assert_eq(&replicas("", [first, second]).unwrap_err());
}
