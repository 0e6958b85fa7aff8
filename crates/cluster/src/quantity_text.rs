//! Quantities as text that parses back to the very same value.
//!
//! The `Display` of a quantity rounds, for people. A file that is written and read again may not,
//! so here the largest unit is used that leaves nothing out. Exact up to 2^53 bytes or
//! nanoseconds, because parsing goes through `f64`.

use cavalcade_units::{Bandwidth, Bytes, FlopRate, Nanos};

const MEMORY: [(u64, &str); 4] =
    [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
const TIME: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
const RATE: [(f64, &str); 3] = [(125e6, "Gbit/s"), (125e3, "Mbit/s"), (125.0, "kbit/s")];
const FLOPS: [(f64, &str); 4] =
    [(1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")];

pub(crate) fn memory(bytes: Bytes) -> String {
    whole(bytes.0, &MEMORY, "B")
}

pub(crate) fn time(nanos: Nanos) -> String {
    whole(nanos.0, &TIME, "ns")
}

pub(crate) fn rate(bandwidth: Bandwidth) -> String {
    exact(bandwidth.bytes_per_second(), &RATE, "B/s")
}

pub(crate) fn flops(rate: FlopRate) -> String {
    exact(rate.flops_per_second(), &FLOPS, "FLOP/s")
}

/// In the largest unit of which there is at least one, and whose product gives back the same bits.
fn exact(rate: f64, units: &[(f64, &str)], smallest: &str) -> String {
    let exact = |&&(factor, _): &&(f64, &str)| rate >= factor && rate / factor * factor == rate;
    match units.iter().find(exact) {
        Some((factor, unit)) => format!("{} {unit}", rate / factor),
        None => format!("{rate} {smallest}"),
    }
}

fn whole(value: u64, units: &[(u64, &str)], smallest: &str) -> String {
    match units.iter().find(|(factor, _)| value > 0 && value.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{} {unit}", value / factor),
        None => format!("{value} {smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{flops, memory, rate, time};
    use cavalcade_units::{Bandwidth, Bytes, FlopRate, Nanos};
    use proptest::prelude::*;

    #[test]
    fn the_largest_exact_unit_is_used() {
        assert_eq!(memory(Bytes(64 << 20)), "64 MiB");
        assert_eq!(memory(Bytes(0)), "0 B");
        assert_eq!(memory(Bytes((1 << 30) + 1)), "1073741825 B");
        assert_eq!(time(Nanos(200_000)), "200 us");
        assert_eq!(time(Nanos(0)), "0 ns");
        assert_eq!(rate("2.5 Gbit/s".parse().unwrap()), "2.5 Gbit/s");
        assert_eq!(rate("1 B/s".parse().unwrap()), "1 B/s");
    }

    proptest! {
        #[test]
        fn text_gives_the_value_back(value in 0_u64..1 << 53, bits in 1_e-3_f64..1e13) {
            prop_assert_eq!(memory(Bytes(value)).parse::<Bytes>().unwrap(), Bytes(value));
            prop_assert_eq!(time(Nanos(value)).parse::<Nanos>().unwrap(), Nanos(value));
            let bandwidth = Bandwidth::from_bytes_per_second(bits);
            prop_assert_eq!(rate(bandwidth).parse::<Bandwidth>().unwrap(), bandwidth);
            let arithmetic = FlopRate::from_flops_per_second(bits);
            prop_assert_eq!(flops(arithmetic).parse::<FlopRate>().unwrap(), arithmetic);
        }
    }
}
