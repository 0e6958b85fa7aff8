//! The code of a Rust source without its comments and the content of its strings, line by line,
//! so that a rule about code is not broken by a text that mentions it.

/// One line of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its code; strings are empty and comments are gone.
    pub(super) code: String,
    /// Characters in its strings, quotes included.
    pub(super) n_quoted: usize,
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Comment { depth: usize },
    Text,
    RawText { hashes: usize },
}

/// The lines of `source`.
pub(super) fn lines(source: &str) -> Vec<Line> {
    let mut state = State::Code;
    let read = |line: &str| {
        let mut n_quoted = 0;
        let mut code = String::new();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            let (next, n_bytes, keeps) = step(state, rest, &code);
            if keeps {
                code.push(first);
            }
            let is_text = |state| matches!(state, State::Text | State::RawText { .. });
            if is_text(state) || is_text(next) {
                n_quoted += rest.get(..n_bytes).unwrap_or(rest).chars().count();
            }
            (state, rest) = (next, rest.get(n_bytes..).unwrap_or_default());
        }
        Line { code, n_quoted }
    };
    source.lines().map(read).collect()
}

/// What follows at `rest`: the state after it, how many bytes it is, and whether it is code.
fn step(state: State, rest: &str, before: &str) -> (State, usize, bool) {
    let n_first = rest.chars().next().map_or(0, char::len_utf8);
    match state {
        State::Code if rest.starts_with("//") => (state, rest.len(), false),
        State::Code if rest.starts_with("/*") => (State::Comment { depth: 1 }, 2, false),
        State::Code if rest.starts_with('"') => (State::Text, 1, false),
        State::Code if rest.starts_with('\'') => (state, n_char(rest), false),
        State::Code => match raw_hashes(rest).filter(|_| !ends_in_word(before)) {
            Some(hashes) => (State::RawText { hashes }, hashes + 2, false),
            None => (state, n_first, true),
        },
        State::Comment { depth } if rest.starts_with("*/") => {
            let outer = if depth == 1 { State::Code } else { State::Comment { depth: depth - 1 } };
            (outer, 2, false)
        }
        State::Comment { depth } if rest.starts_with("/*") => {
            (State::Comment { depth: depth + 1 }, 2, false)
        }
        State::Text if rest.starts_with('\\') => {
            let n_escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
            (state, 1 + n_escaped, false)
        }
        State::Text if rest.starts_with('"') => (State::Code, 1, false),
        State::RawText { hashes } if closes(rest, hashes) => (State::Code, hashes + 1, false),
        _ => (state, n_first, false),
    }
}

/// How many `#` a raw string that begins at `rest` has; None if none begins there.
fn raw_hashes(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix('r')?;
    let after = rest.trim_start_matches('#');
    after.starts_with('"').then(|| rest.len() - after.len())
}

fn closes(rest: &str, hashes: usize) -> bool {
    let Some(rest) = rest.strip_prefix('"') else { return false };
    rest.bytes().take_while(|byte| *byte == b'#').count() >= hashes
}

/// Whether an `r` that follows belongs to a name; `br"..."` is the exception.
fn ends_in_word(code: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = code.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    !word.is_empty() && word != "b"
}

/// Bytes of a character such as `'"'`, or 1 for the quote of a lifetime.
fn n_char(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            rest[from..].find('\'').map_or(1, |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn comments_and_strings_are_gone() {
        for (source, wanted) in [
            ("let a = 1; // env::var", "let a = 1; "),
            ("f(\"env::var // \\\" x\") + 1", "f() + 1"),
            ("f(r#\"a \" b\"#, br\"\\\") + 1", "f(, b) + 1"),
            ("a /* b /* c */ d */ e", "a  e"),
            ("if c == '\"' { f(\"x\") }", "if c ==  { f() }"),
            ("split('\\'') + split('\\u{7f}') + 1", "split() + split() + 1"),
            ("fn f<'a>(x: &'a str)", "fn f<a>(x: &a str)"),
            ("for \"x\"", "for "),
        ] {
            assert_eq!(lines(source)[0].code, wanted, "{source}");
        }
    }

    #[test]
    fn strings_of_many_lines_are_followed() {
        let found = lines("f(r#\"\nenv::var \"x\"\n\"#); g()\n\"a \\\n b\"; h()");
        let codes: Vec<&str> = found.iter().map(|line| line.code.as_str()).collect();
        assert_eq!(codes, ["f(", "", "); g()", "", "; h()"]);
        let quoted: Vec<usize> = found.iter().map(|line| line.n_quoted).collect();
        assert_eq!(quoted, [3, 12, 2, 4, 3]);
    }
}
