//! Units of numbers that programs print: times become nanoseconds, rates bits per second.

use super::{Better, Unit};
use deadheat_base::error::{Error, Result};

/// Scale that converts a number to nanoseconds or bits per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The unit as written.
    pub name: &'static str,
    /// Unit of the converted number.
    pub unit: Unit,
    /// Number of nanoseconds or bits per second in one unit.
    pub factor: f64,
}

const fn time(name: &'static str, ns: f64) -> Scale {
    Scale { name, unit: Unit::Nanos, factor: ns }
}

const fn rate(name: &'static str, bps: f64) -> Scale {
    Scale { name, unit: Unit::BitRate, factor: bps }
}

/// Known units, each with its name in results first, then other names in use.
const ALL: &[(&[&str], Scale)] = &[
    (&["ns", "nsec"], time("ns", 1.0)),
    (&["us", "µs", "μs", "usec"], time("us", 1e3)),
    (&["ms", "msec"], time("ms", 1e6)),
    (&["s", "sec", "seconds"], time("s", 1e9)),
    (&["m", "min"], time("m", 60e9)),
    (&["h"], time("h", 3_600e9)),
    (&["bit/s", "bps"], rate("bit/s", 1.0)),
    (&["kbit/s", "Kbit/s", "kbps", "Kbps", "Kbits/sec"], rate("kbit/s", 1e3)),
    (&["Mbit/s", "mbit/s", "Mbps", "mbps", "Mbits/s", "Mbits/sec"], rate("Mbit/s", 1e6)),
    (&["Gbit/s", "gbit/s", "Gbps", "gbps", "Gbits/s", "Gbits/sec"], rate("Gbit/s", 1e9)),
    (&["B/s"], rate("B/s", 8.0)),
    (&["kB/s"], rate("kB/s", 8e3)),
    (&["MB/s"], rate("MB/s", 8e6)),
    (&["GB/s"], rate("GB/s", 8e9)),
    (&["KiB/s"], rate("KiB/s", 8.0 * 1024.0)),
    (&["MiB/s"], rate("MiB/s", 8.0 * 1_048_576.0)),
    (&["GiB/s"], rate("GiB/s", 8.0 * 1_073_741_824.0)),
];

impl Scale {
    /// Returns the unit with this name.
    pub fn named(name: &str) -> Option<Scale> {
        ALL.iter().find(|(names, _)| names.contains(&name)).map(|(_, scale)| *scale)
    }

    /// Parses a unit as typed.
    ///
    /// # Errors
    /// [`Error::Usage`] with the list of all units.
    pub fn parse(typed: &str) -> Result<Scale> {
        Scale::named(typed)
            .ok_or_else(|| Error::usage(format!("unknown unit `{typed}` (valid: {})", list())))
    }

    /// Converts a number in this unit to whole nanoseconds or bits per second.
    ///
    /// # Errors
    /// The reason why it is not possible.
    pub fn whole(&self, value: f64) -> Result<u64, &'static str> {
        if value.is_nan() {
            return Err("it is not a number");
        }
        if value < 0.0 {
            return Err("it is negative, which neither a time nor a rate can be");
        }
        let scaled = (value * self.factor).round();
        // Beyond 2^53 a float does not represent every whole number.
        if scaled > 9e15 { Err("it is too large") } else { Ok(scaled as u64) }
    }

    /// Returns the better end of the scale.
    pub fn better(&self) -> Better {
        match self.unit {
            Unit::Nanos | Unit::Share | Unit::Count => Better::Lower,
            Unit::BitRate => Better::Higher,
        }
    }
}

/// Lists all units, for messages.
pub fn list() -> String {
    let names: Vec<&str> = ALL.iter().map(|(_, scale)| scale.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_nanoseconds_and_bits_per_second() {
        let whole = |unit: &str, value| Scale::parse(unit).unwrap().whole(value);
        assert_eq!(whole("ms", 12.3), Ok(12_300_000));
        assert_eq!(whole("µs", 0.0004), Ok(0));
        assert_eq!(whole("Mbits/s", 1.5), Ok(1_500_000));
        assert_eq!(whole("MiB/s", 1.0), Ok(8_388_608));
        for wrong in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert!(whole("ms", wrong).is_err(), "{wrong}");
        }
        let said = Scale::parse("furlong").unwrap_err().to_string();
        assert!(said.contains("unknown unit `furlong` (valid: ns, us, ms, s"), "{said}");
    }
}
