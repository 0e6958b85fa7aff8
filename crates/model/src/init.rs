//! Initial values, the same however the model is cut.
//!
//! Every parameter has its own generator, keyed by the seed and its name, so a device draws only
//! what it holds and needs nothing from the others.

use crate::{Init, ParamSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal};
use sha2::{Digest, Sha256};

/// The initial values of a parameter, row-major. They depend on the seed, the name, the shape and
/// the kind of initialization only: ChaCha8 keyed by SHA-256 of seed and name.
pub fn init_values(spec: &ParamSpec, seed: u64) -> Vec<f32> {
    let n_values = spec.n_values();
    match spec.init {
        Init::Ones => vec![1.0; n_values],
        Init::Zeros => vec![0.0; n_values],
        Init::Normal { std } => {
            let key = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(&spec.name);
            let rng = ChaCha8Rng::from_seed(key.finalize().into());
            let normal = Normal::new(0.0, std).expect("a deviation is finite");
            normal.sample_iter(rng).take(n_values).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::init_values;
    use crate::{Init, ParamSpec};

    fn spec(name: &str, init: Init) -> ParamSpec {
        ParamSpec { name: name.to_owned(), shape: vec![100, 100], init }
    }

    #[test]
    fn values_depend_on_seed_and_name() {
        let one = spec("h.0.mlp.c_fc.weight", Init::Normal { std: 0.02 });
        let other = spec("h.1.mlp.c_fc.weight", Init::Normal { std: 0.02 });
        assert_eq!(init_values(&one, 7), init_values(&one, 7));
        assert_ne!(init_values(&one, 7), init_values(&one, 8));
        assert_ne!(init_values(&one, 7), init_values(&other, 7));
    }

    #[test]
    fn a_normal_has_its_moments() {
        let values = init_values(&spec("wte.weight", Init::Normal { std: 0.02 }), 1);
        let n = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 1e-3, "mean {mean}");
        assert!((variance.sqrt() - 0.02).abs() < 1e-3, "deviation {}", variance.sqrt());
    }

    #[test]
    fn norms_start_as_the_identity() {
        assert!(init_values(&spec("ln_f.weight", Init::Ones), 1).iter().all(|&x| x == 1.0));
        assert!(init_values(&spec("ln_f.bias", Init::Zeros), 1).iter().all(|&x| x == 0.0));
    }
}
