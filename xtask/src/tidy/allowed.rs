//! The places below `cli` that may read a clock or the environment, each with its reason.

/// One exception.
struct Allowed {
    file: &'static str,
    word: &'static str,
    /// Why; for whoever reads this list.
    #[allow(dead_code, reason = "it is there to be read here")]
    because: &'static str,
}

const ALLOWED: [Allowed; 3] = [
    Allowed {
        file: "crates/profile/src/meter.rs",
        word: "Instant::now",
        because: "ClockMeter is the real form of the Meter that measuring is given",
    },
    Allowed {
        file: "crates/runtime/src/coordinator.rs",
        word: "Instant::now",
        because: "deadlines of a blocking wait on a channel, which takes instants and no clock",
    },
    Allowed {
        file: "crates/transport/src/clock.rs",
        word: "Instant::now",
        because: "SystemClock is the real form of the Clock that waiting is given",
    },
];

/// Whether `file` may use `word`.
pub(super) fn is_allowed(file: &str, word: &str) -> bool {
    ALLOWED.iter().any(|allowed| allowed.file == file && allowed.word == word)
}

/// The exceptions that no longer are any, so that the list does not outlive its reasons.
pub(super) fn unused(sources: &[(String, String)]) -> Vec<String> {
    let is_used = |allowed: &&Allowed| {
        sources.iter().any(|(file, text)| file == allowed.file && text.contains(allowed.word))
    };
    let unused = ALLOWED.iter().filter(|allowed| !is_used(allowed));
    let problem = |allowed: &Allowed| {
        format!("{}: does not use {}; remove it from tidy/allowed.rs", allowed.file, allowed.word)
    };
    unused.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, unused};

    #[test]
    fn an_exception_is_for_one_file_and_one_word() {
        let meter = "crates/profile/src/meter.rs";
        assert!(is_allowed(meter, "Instant::now"));
        assert!(!is_allowed(meter, "SystemTime"));
        assert!(!is_allowed("crates/profile/src/lib.rs", "Instant::now"));
        let sources = [(meter.to_owned(), "Instant::now()".to_owned())];
        assert_eq!(unused(&sources).len(), super::ALLOWED.len() - 1);
    }
}
