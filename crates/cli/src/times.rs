//! Times as people write them after a flag.

use anyhow::{Result, anyhow};
use cavalcade::Nanos;

/// A time as people write it: a number is milliseconds.
pub(crate) fn span(flag: &str, text: &str) -> Result<Nanos> {
    let with_unit = match text.trim().parse::<f64>() {
        Ok(_) => format!("{text} ms"),
        Err(_) => text.to_owned(),
    };
    with_unit
        .parse()
        .map_err(|_| anyhow!("{flag}: `{text}` is no time; write `1.5`, in ms, or `800us`"))
}

#[cfg(test)]
mod tests {
    use super::span;
    use cavalcade::Nanos;

    #[test]
    fn a_time_without_a_unit_is_milliseconds() {
        for (text, expected) in
            [("1.5", 1_500_000), ("0", 0), ("800us", 800_000), ("2 s", 2_000_000_000)]
        {
            assert_eq!(span("--link", text).unwrap(), Nanos(expected), "{text}");
        }
        for text in ["", "fast", "-1", "nan", "inf", "1 parsec"] {
            let error = span("--link", text).unwrap_err().to_string();
            assert!(error.starts_with("--link: `"), "{error}");
        }
    }
}
