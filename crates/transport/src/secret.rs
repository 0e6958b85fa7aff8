//! The secret that all ranks of a run share.

use std::fmt;
use std::str::FromStr;

/// 32 random bytes that prove a connection belongs to the run. Text form: 64 hexadecimal digits.
///
/// It has no `Display`, and `Debug` hides it, so that it cannot reach a log by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; Self::LEN]);

impl Secret {
    /// Bytes of a secret.
    pub const LEN: usize = 32;

    /// A new one from the operating system's random source.
    ///
    /// # Panics
    /// If the system has no random source: a predictable secret would be worse.
    pub fn generate() -> Self {
        Self(random())
    }

    /// The text form, for handing it to a worker.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Fresh random bytes, for secrets and nonces.
pub(crate) fn random() -> [u8; Secret::LEN] {
    let mut bytes = [0; Secret::LEN];
    getrandom::fill(&mut bytes).expect("the operating system has a random source");
    bytes
}

/// A text that is no secret. It doesn't repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret is 64 hexadecimal digits, found {found} characters{}; \
     copy the whole of it from the launcher",
    if *found == 64 { " that are not all hexadecimal digits" } else { "" }
)]
pub struct ParseSecretError {
    /// Characters of the text.
    pub found: usize,
}

impl FromStr for Secret {
    type Err = ParseSecretError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; Self::LEN];
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) => Ok(Self(bytes)),
            Err(_) => Err(ParseSecretError { found: text.chars().count() }),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn text_comes_back_and_debug_hides_it() {
        let secret = Secret::generate();
        assert_eq!(secret.to_hex().parse(), Ok(secret.clone()));
        assert_ne!(secret, Secret::generate());
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
    }

    #[test]
    fn a_bad_secret_is_not_repeated() {
        for text in ["", "abc", &"z".repeat(64), &"a".repeat(65)] {
            let error = text.parse::<Secret>().unwrap_err().to_string();
            assert!(error.contains(&format!("found {} characters", text.len())), "{error}");
            assert!(!error.contains("zz") && !error.contains("aa"), "{error}");
        }
    }
}
