//! The rules on one Rust source.

use super::allowed::is_allowed;
use super::code::{Line, lines};

/// Strings do not count in tests: goldens are as wide as what they hold.
const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 600;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["base", "common", "helper", "helpers", "manager", "util", "utils"];

/// Attributes that no test has: a test that is not run, or that any panic satisfies.
const ATTRIBUTES: [(&str, &str); 2] = [
    ("#[ignore", "a test runs or is removed"),
    ("#[should_panic", "test what is said instead: return an error, or catch the panic's message"),
];

/// What only `cli` may use: everything below gets it as an argument or through a trait.
const OUTSIDE: [(&str, &str); 4] = [
    ("env::", "take the value as an argument"),
    ("std::env", "take the value as an argument"),
    ("Instant::now", "take a clock or a meter"),
    ("SystemTime", "take a clock or a meter"),
];

/// What is wrong with the file `name`, a path from the root with `/`, that holds `source`.
pub(super) fn check(name: &str, source: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = lines(source);
    if !source.starts_with("//!") {
        problems.push(format!("{name}:1: begins without `//!`; say what the file does and why"));
    }
    let parts = name.split('/').map(|part| part.trim_end_matches(".rs"));
    for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
        problems.push(format!("{name}: `{part}` says nothing; name the one idea of the file"));
    }
    let is_test_file = name.split('/').any(|part| part.trim_end_matches(".rs") == "tests");
    let tests_begin = if is_test_file { 0 } else { tests_begin(&lines) };
    if tests_begin > LINES_MAX {
        problems.push(format!("{name}: {tests_begin} lines before its tests; at most {LINES_MAX}"));
    }
    for (idx, (line, whole)) in lines.iter().zip(source.lines()).enumerate() {
        let mut fault = |what: String| problems.push(format!("{name}:{}: {what}", idx + 1));
        let n_quoted = if idx >= tests_begin { line.n_quoted } else { 0 };
        let columns = whole.chars().count() - n_quoted;
        if columns > COLUMNS_MAX {
            fault(format!("{columns} columns; at most {COLUMNS_MAX}"));
        }
        for (word, remedy) in ATTRIBUTES {
            if line.code.contains(word) {
                fault(format!("`{word}]`: {remedy}"));
            }
        }
        if idx >= tests_begin && uses(&line.code, "thread::sleep") {
            fault("`thread::sleep` in a test: move a clock by hand instead".to_owned());
        }
        if !is_below_cli(name) {
            continue;
        }
        let outside = OUTSIDE.iter().find(|(word, _)| uses(&line.code, word));
        if let Some((word, remedy)) = outside.filter(|(word, _)| !is_allowed(name, word)) {
            fault(format!("`{word}` below cli: {remedy}"));
        }
    }
    problems
}

/// The line from which on there are only tests; the number of lines if there is none.
fn tests_begin(lines: &[Line]) -> usize {
    let is_begin = |pair: &[Line]| {
        pair[0].code.trim() == "#[cfg(test)]"
            && pair[1].code.trim_start().starts_with("mod ")
            && !pair[1].code.trim_end().ends_with(';')
    };
    lines.windows(2).position(is_begin).unwrap_or(lines.len())
}

/// Whether a rule about the world outside holds for `name`: benches are programs of their own.
fn is_below_cli(name: &str) -> bool {
    let is_program = ["crates/cli/", "xtask/"].iter().any(|folder| name.starts_with(folder));
    !is_program && !name.split('/').any(|part| part == "benches")
}

/// Whether `code` has `word` and not as the end of a longer name.
fn uses(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_name))
}

#[cfg(test)]
mod tests {
    use super::check;

    /// The faults of a file with this text after its first line, without the file's name.
    fn faults(name: &str, text: &str) -> Vec<String> {
        let problems = check(name, &format!("//! A file.\n{text}"));
        problems.iter().map(|problem| problem.replace(name, "")).collect()
    }

    #[test]
    fn every_file_says_what_it_is() {
        assert_eq!(check("crates/a/src/b.rs", "use c;\n").len(), 1);
        assert_eq!(check("crates/a/src/b.rs", "//! B.\nuse c;\n"), [] as [&str; 0]);
    }

    #[test]
    fn names_say_something() {
        for name in ["crates/a/src/utils.rs", "crates/a/tests/common/mod.rs"] {
            assert_eq!(faults(name, "").len(), 1, "{name}");
        }
        assert_eq!(faults("crates/a/src/database.rs", ""), [] as [&str; 0]);
    }

    #[test]
    fn files_are_short_and_tests_do_not_count() {
        let (code, tests) = ("f();\n".repeat(590), "g();\n".repeat(90));
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        assert_eq!(faults("crates/a/src/b.rs", &with_tests), [] as [&str; 0]);
        assert_eq!(faults("crates/a/src/b.rs", &(code + &tests)).len(), 1);
        let elsewhere = format!("#[cfg(test)]\nmod tests;\n{}", "f();\n".repeat(650));
        assert_eq!(faults("crates/a/src/b.rs", &elsewhere).len(), 1);
    }

    #[test]
    fn lines_are_short_and_goldens_are_not() {
        let long = "é".repeat(101);
        assert_eq!(faults("crates/a/src/b.rs", &"é".repeat(100)), [] as [&str; 0]);
        assert_eq!(faults("crates/a/src/b.rs", &long), [":2: 101 columns; at most 100"]);
        for golden in [format!("f(r#\"\n{long}\n\"#);"), format!("f(\"{long}\");")] {
            assert_eq!(faults("crates/a/src/b.rs", &golden).len(), 1);
            assert_eq!(faults("crates/a/tests/b.rs", &golden), [] as [&str; 0]);
        }
    }

    #[test]
    fn tests_run_and_wait_for_nothing() {
        assert_eq!(faults("crates/a/src/b.rs", "#[ignore = \"slow\"]\n#[should_panic]").len(), 2);
        let sleep = "std::thread::sleep(a);";
        assert_eq!(faults("crates/a/src/b.rs", sleep), [] as [&str; 0]);
        assert_eq!(faults("crates/a/tests/b.rs", sleep).len(), 1);
        let inner = format!("#[cfg(test)]\nmod tests {{\n    {sleep}\n}}");
        assert_eq!(faults("crates/a/src/b.rs", &inner).len(), 1);
    }

    #[test]
    fn the_world_outside_is_the_binarys() {
        for text in ["std::env::var(a)", "use std::env;", "Instant::now()", "SystemTime::now()"] {
            assert_eq!(faults("crates/a/src/b.rs", text).len(), 1, "{text}");
            assert_eq!(faults("crates/a/tests/b.rs", text).len(), 1, "{text}");
            assert_eq!(faults("crates/cli/src/b.rs", text), [] as [&str; 0], "{text}");
            assert_eq!(faults("crates/a/benches/b.rs", text), [] as [&str; 0], "{text}");
            assert_eq!(faults("crates/a/src/b.rs", &format!("// {text}")), [] as [&str; 0]);
        }
        for text in ["env!(a)", "my_env::var(a)", "f(\"Instant::now\")"] {
            assert_eq!(faults("crates/a/src/b.rs", text), [] as [&str; 0], "{text}");
        }
        assert_eq!(faults("crates/profile/src/meter.rs", "Instant::now()"), [] as [&str; 0]);
    }
}
