//! `generate`: a trained model continues a text, a damaged one is refused.

use crate::process::{Ended, run};
use crate::support::{Configuration, Room};
use expect_test::expect;
use std::fs;

/// A room with a trained model in `r/model`.
fn trained() -> Room {
    let room = Room::new(&Configuration::new(&[&["a"]]));
    run(room.cavalcade("train c.toml --out r --json")).ok();
    room
}

fn generate(room: &Room, more: &str) -> Ended {
    generate_from(room, "the", more)
}

fn generate_from(room: &Room, prompt: &str, more: &str) -> Ended {
    run(room.cavalcade(&format!("generate --model r/model --prompt={prompt} --tokens 40 {more}")))
}

#[test]
fn the_same_seed_continues_the_same_way() {
    let room = trained();
    let first = generate(&room, "--seed 7").ok().stdout;
    assert!(first.starts_with("the") && first.chars().count() == 43, "{first:?}");
    assert_eq!(generate(&room, "--seed 7").ok().stdout, first);
    assert_ne!(generate(&room, "--seed 8").ok().stdout, first);
    let json = generate(&room, "--seed 7 --json").ok().last_json();
    assert_eq!(json["prompt"], "the");
    assert_eq!(json["text"], first.as_str());
}

#[test]
fn a_damaged_model_is_named() {
    let room = trained();
    let refused = |prompt: &str, more: &str| {
        let ended = generate_from(&room, prompt, more);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        room.masked(&ended.stderr)
    };
    expect!["error: a temperature is 0 or more, not -1"]
        .assert_eq(&refused("the", "--temperature=-1"));
    expect![[r#"
        error: the character 'ü' (U+00FC) on line 1 is not one of the 14 of the
        vocabulary; leave it out, or train with the byte tokenizer, which knows every
        text"#]]
    .assert_eq(&refused("über", ""));
    expect!["error: the prompt is empty; give some text"].assert_eq(&refused("", ""));

    let weights = room.path("r/model/model.safetensors");
    let whole = fs::read(&weights).unwrap();
    fs::write(&weights, &whole[..whole.len() - 100]).unwrap();
    expect![[r#"
        error: r/model/model.safetensors (27948 bytes) is not a whole safetensors file:
        incomplete metadata, file not fully covered; copy it again, or load an older
        checkpoint"#]]
    .assert_eq(&refused("the", ""));
    fs::write(&weights, whole).unwrap();

    let config = room.read("r/model/config.json");
    room.write("r/model/config.json", config.replace("\"n_embd\": 16", "\"n_embd\": 32"));
    expect![[r#"
        error: r/model/model.safetensors: the tensor `h.0.attn.c_attn.weight` has shape
        [16, 48], the model needs [32, 96]; load it with the configuration that it was
        trained with"#]]
    .assert_eq(&refused("the", ""));
    room.write("r/model/config.json", "{");
    expect![[r#"
        error: r/model/config.json: the model config is not valid JSON of its form: EOF
        while parsing an object at line 1 column 1"#]]
    .assert_eq(&refused("the", ""));
    room.write("r/model/config.json", config);

    fs::rename(room.path("r/model/tokenizer.json"), room.path("tokenizer.json")).unwrap();
    expect!["error: there is no file or folder r/model/tokenizer.json; check the path"]
        .assert_eq(&refused("the", ""));
    room.write("r/model/tokenizer.json", room.read("tokenizer.json").replace("\"\\n", "\"\\nz"));
    expect![[r#"
        error: r/model/tokenizer.json: not a tokenizer: the vocabulary is not strictly
        ascending characters; use the file that was written beside the model"#]]
    .assert_eq(&refused("the", ""));
    fs::rename(room.path("tokenizer.json"), room.path("r/model/tokenizer.json")).unwrap();
    generate(&room, "").ok();
}
