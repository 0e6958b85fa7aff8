//! The text form: what it looks like, that it survives, and what is refused.

use cavalcade_plan::{Pipeline, Plan, Stage};
use cavalcade_schedule::Kind;
use cavalcade_units::DeviceId;
use expect_test::expect;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const DEVICES: [&str; 3] = ["titan", "old \"p4000\"", "laptop"];

#[test]
fn a_plan_reads_well() {
    let stage = |device, layers| Stage::new(DeviceId(device), layers);
    let pipelines = vec![
        Pipeline::new(vec![stage(1, 0..1), stage(0, 1..4)], 3),
        Pipeline::new(vec![stage(2, 0..4)], 1),
    ];
    let plan = Plan::new(pipelines, 8, Kind::OneFOneB, 4, 3).unwrap();
    expect![[r#"
        version = 1
        schedule = "1f1b"
        microbatch_size = 8

        [[pipeline]]
        microbatches = 3

        [[pipeline.stage]]
        device = 'old "p4000"'
        layers = "0..1"

        [[pipeline.stage]]
        device = "titan"
        layers = "1..4"

        [[pipeline]]
        microbatches = 1

        [[pipeline.stage]]
        device = "laptop"
        layers = "0..4"
    "#]]
    .assert_eq(&plan.to_toml(&DEVICES));
}

#[test]
fn what_is_refused_is_named() {
    let text = |version, schedule, device, layers| {
        format!(
            "version = {version}\nschedule = '{schedule}'\nmicrobatch_size = 1\n[[pipeline]]\n\
             microbatches = 1\n[[pipeline.stage]]\ndevice = '{device}'\nlayers = '{layers}'\n"
        )
    };
    assert!(Plan::from_toml(&text(1, "gpipe", "titan", "0..4"), &DEVICES, 4).is_ok());
    for (text, wanted) in [
        (text(2, "gpipe", "titan", "0..4"), "version 2; this build reads version 1"),
        (text(1, "zb", "titan", "0..4"), "`zb` is not a kind of schedule; the kinds are gpipe"),
        (text(1, "gpipe", "tesla", "0..4"), "`tesla`, which the cluster does not have; its"),
        (text(1, "gpipe", "titan", "0-4"), "layers = \"0-4\"; write"),
        (text(1, "gpipe", "titan", "0..-4"), "layers = \"0..-4\"; write"),
        (text(1, "gpipe", "titan", "0..3"), "ends at layer 3, but the model has 4"),
        (text(1, "gpipe", "titan", "0..4") + "speed = 1\n", "line 9, column 1"),
        ("version = 1\n".to_owned(), "missing field `schedule`"),
        (String::new(), "missing field `version`"),
    ] {
        let error = Plan::from_toml(&text, &DEVICES, 4).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

/// Any plan over up to 9 layers, with the names of its devices and some idle ones.
fn plans() -> impl Strategy<Value = (Plan, Vec<String>, u32)> {
    (1u32..=9).prop_flat_map(|n_layers| {
        let inner: Vec<u32> = (1..n_layers).collect();
        let n_inner = inner.len();
        let pipelines = prop::collection::vec((subsequence(inner, 0..=n_inner), 1u32..), 1..=4);
        let kinds = select(&[Kind::GPipe, Kind::OneFOneB, Kind::Geo { cut: 2, extra: 1 }][..]);
        (pipelines, 1u32.., kinds, prop::collection::hash_set("\\PC{1,6}", 40), any::<u64>())
            .prop_map(move |(pipelines, microbatch_size, kind, names, shift)| {
                let mut next = shift;
                let mut pipeline = |(cuts, microbatches): (Vec<u32>, u32)| {
                    let bounds = [vec![0], cuts, vec![n_layers]].concat();
                    let stages = bounds.windows(2).map(|pair| {
                        next = next.wrapping_add(1);
                        Stage::new(DeviceId((next % 40) as u32), pair[0]..pair[1])
                    });
                    Pipeline::new(stages.collect(), microbatches)
                };
                let pipelines = pipelines.into_iter().map(&mut pipeline).collect();
                let plan =
                    Plan::new(pipelines, microbatch_size, kind, n_layers, 40).expect("legal");
                (plan, names.into_iter().collect(), n_layers)
            })
    })
}

proptest! {
    #[test]
    fn every_plan_survives_its_text((plan, names, n_layers) in plans()) {
        let text = plan.to_toml(&names);
        prop_assert_eq!(Plan::from_toml(&text, &names, n_layers).unwrap(), plan, "{}", text);
    }
}
