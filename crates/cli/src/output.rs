//! Everything that is printed. Facts go to standard output, progress and complaints to standard
//! error, so that output can be piped.
#![expect(clippy::print_stderr, reason = "this is where printing happens")]

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

/// An error, in one line, its causes after it.
pub(crate) fn complain(error: &anyhow::Error) {
    eprintln!("error: {}", one_line(error));
}

/// The error and its causes. A cause that its error has quoted already is not said twice.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            text = words;
        } else if !text.contains(&words) {
            text += &format!(": {words}");
        }
    }
    text
}

/// What clap has to say: help and version in full, a wrong argument in one line.
pub(crate) fn explain(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        print(error.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let facts = text.split("\n\n").next().unwrap_or_default();
    let line: Vec<&str> = facts.lines().map(str::trim).collect();
    eprintln!("{}; see --help", line.join(" "));
    ExitCode::from(2)
}

/// A remark that is no result.
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}

/// A result. A reader that has gone away is no error.
pub(crate) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(0);
    }
}

/// Whether a person watches standard error.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A table: columns padded to their widest cell, the first to the left, the others to the right.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(idx, (cell, width))| match idx {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head.to_vec())];
    lines.push(widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  "));
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{one_line, table};

    #[test]
    fn an_error_is_one_line_and_says_nothing_twice() {
        let cause = std::io::Error::other("no\n  space");
        let error = anyhow::Error::new(cause).context("a.toml: no\nspace").context("writing");
        assert_eq!(one_line(&error), "writing: a.toml: no space");
    }

    #[test]
    fn columns_line_up() {
        let rows = [("titan", "12.5 ms"), ("a", "1 ms")];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(a, b)| vec![(*a).to_owned(), (*b).to_owned()]).collect();
        expect_test::expect![[r#"
            device     time
            ------  -------
            titan   12.5 ms
            a          1 ms"#]]
        .assert_eq(&table(&["device", "time"], &rows));
    }
}
