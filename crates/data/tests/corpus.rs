//! Corpora from real folders: which files, in which order, and what is refused.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use cavalcade_data::{Corpus, DataError};
use expect_test::{Expect, expect};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

fn sources() -> TempDir {
    folder(&[
        ("base/own.txt", b"own"),
        ("src/b.rs", b"b"),
        ("src/a/z.rs", b"z"),
        ("src/a/deep/y.rs", b"y"),
        ("src/a.rs", b"a\n"),
        ("src/notes.md", b"notes"),
        ("src/empty.rs", b""),
        ("src/logo.png", b"\x89PNG\0\xFF"),
        ("src/target/t.rs", b"t"),
        ("src/.git/g.rs", b"g"),
        ("src/a/runs/r.rs", b"r"),
    ])
}

fn read(folder: &TempDir, paths: &[&str]) -> Result<Corpus, DataError> {
    let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
    Corpus::read(&paths, &folder.path().join("base"))
}

fn text(folder: &TempDir, paths: &[&str]) -> String {
    read(folder, paths).unwrap().text
}

fn refuse(folder: &TempDir, paths: &[&str], message: Expect) {
    let error = read(folder, paths).unwrap_err().to_string();
    message.assert_eq(&error.replace(&folder.path().display().to_string(), "DIR"));
}

#[test]
fn entries_mean_files_folders_and_patterns() {
    let folder = sources();
    for (paths, expected) in [
        (&["own.txt"][..], "own"),
        (&["../src"], "y\nz\na\n\nb\nnotes"),
        (&["../src/**/*.rs"], "y\nz\na\n\nb"),
        (&["../src/*.rs"], "a\n\nb"),
        (&["../src/*/*.rs"], "z"),
        (&["../*/{a,b}.rs"], "a\n\nb"),
        (&["../src/?.rs", "*.txt"], "a\n\nb\nown"),
        (&["own.txt", "../src/b.rs"], "own\nb"),
        (&["../src/b.rs", "../src/**/*.rs", "../base/../src/b.rs"], "b\ny\nz\na\n"),
        // What is named itself is read, whatever its name.
        (&["../src/target"], "t"),
        (&["../src/target/t.rs", "../src/.git/*.rs"], "t\ng"),
    ] {
        assert_eq!(text(&folder, paths), expected, "{paths:?}");
    }
    let absolute = folder.path().join("src/*.md").display().to_string();
    assert_eq!(text(&folder, &[&absolute]), "notes");
}

#[test]
fn a_corpus_knows_its_files() {
    let folder = sources();
    let corpus = read(&folder, &["../src/a.rs", "../src"]).unwrap();
    let names = |paths: &[std::path::PathBuf]| -> Vec<String> {
        let src = folder.path().join("base/../src");
        let name = |path: &Path| path.strip_prefix(&src).unwrap().display().to_string();
        paths.iter().map(|path| name(path)).collect()
    };
    assert_eq!(names(&corpus.files), ["a.rs", "a/deep/y.rs", "a/z.rs", "b.rs", "notes.md"]);
    assert_eq!(names(&corpus.binary), ["logo.png"]);
}

#[test]
fn a_path_that_exists_is_no_pattern() {
    let folder = folder(&[("base/[a].txt", b"brackets"), ("base/a.txt", b"plain")]);
    assert_eq!(text(&folder, &["[a].txt"]), "brackets");
    assert_eq!(text(&folder, &["[ab].txt"]), "plain");
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    let folder = folder(&[("base/own.txt", b"own"), ("far/f.txt", b"far")]);
    let base = folder.path().join("base");
    std::os::unix::fs::symlink(&base, base.join("circle")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("far"), base.join("link")).unwrap();
    assert_eq!(text(&folder, &["."]), "far\nown");
}

#[test]
fn what_gives_no_text_is_refused() {
    let folder = sources();
    refuse(
        &folder,
        &[],
        expect!["no text was named; give a file, a folder or a pattern such as `src/**/*.rs`"],
    );
    refuse(
        &folder,
        &["own.txt", "no.txt"],
        expect!["there is no file or folder DIR/base/no.txt; check the path"],
    );
    refuse(
        &folder,
        &["../no/*.rs"],
        expect!["there is no file or folder DIR/base/../no; check the path"],
    );
    refuse(
        &folder,
        &["../src/empty.rs"],
        expect!["DIR/base/../src/empty.rs is empty; leave it out, or name a file with text"],
    );
    refuse(
        &folder,
        &["../src/e*.rs"],
        expect![
            "`../src/e*.rs` leads to no text; its files are empty or binary, or there are none"
        ],
    );
    refuse(
        &folder,
        &["../src/*.py"],
        expect![
            "`../src/*.py` matches no file below DIR/base/../src; `*` stays within a folder, `**/` goes below, and folders named target, .git or runs are left out"
        ],
    );
    refuse(
        &folder,
        &["../src/{a.rs"],
        expect![
            "`../src/{a.rs` is not a pattern: error parsing glob '{a.rs': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?); write one such as `src/**/*.rs`"
        ],
    );
    fs::create_dir(folder.path().join("bare")).unwrap();
    refuse(
        &folder,
        &["../bare"],
        expect!["`../bare` leads to no text; its files are empty or binary, or there are none"],
    );
}

#[test]
fn what_is_not_utf8_is_named_with_its_place() {
    let folder = folder(&[
        ("base/x", b""),
        ("old/latin.txt", b"line one\nli\xE9\n"),
        ("cut/cut.txt", b"ab\xE2\x82"),
        ("pictures/logo.png", b"\x89PNG\0\xFF"),
    ]);
    // A folder may hold anything, but text is never dropped in silence.
    for path in ["../old/latin.txt", "../old", "../old/*"] {
        refuse(
            &folder,
            &[path],
            expect![
                "DIR/base/../old/latin.txt: the byte 0xE9 at offset 11 (line 2) is not UTF-8; convert the file to UTF-8 or leave it out"
            ],
        );
    }
    refuse(
        &folder,
        &["../cut"],
        expect![
            "DIR/base/../cut/cut.txt: the byte 0xE2 at offset 2 (line 1) is not UTF-8; convert the file to UTF-8 or leave it out"
        ],
    );
    // A pattern or name means that very file.
    refuse(
        &folder,
        &["../pictures/*.png"],
        expect![
            "DIR/base/../pictures/logo.png: the byte 0x89 at offset 0 (line 1) is not UTF-8; convert the file to UTF-8 or leave it out"
        ],
    );
    refuse(
        &folder,
        &["../pictures"],
        expect!["`../pictures` leads to no text; its files are empty or binary, or there are none"],
    );
    // Left out below the folder, and still refused when it is named.
    let paths = ["own", "../pictures", "../pictures/logo.png"];
    fs::write(folder.path().join("pictures/a.txt"), "a").unwrap();
    fs::write(folder.path().join("base/own"), "own").unwrap();
    assert_eq!(text(&folder, &paths[..2]), "own\na");
    let error = read(&folder, &paths).unwrap_err();
    assert!(matches!(error, DataError::NotUtf8 { .. }), "{error}");
}
