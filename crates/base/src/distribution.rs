//! Summary of a sample of times: plain data with its JSON form, integers in nanoseconds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Quantile of a sample in which lost messages are censored at the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// Number of nanoseconds.
    Ns(u64),
    /// Bound: it falls among samples without an answer after this number of nanoseconds.
    Beyond(u64),
}

impl Quantile {
    /// Returns the value, or its lower bound.
    pub fn at_least_ns(self) -> u64 {
        match self {
            Quantile::Ns(ns) | Quantile::Beyond(ns) => ns,
        }
    }
}

impl Serialize for Quantile {
    /// Writes an integer, or the string `>3000000000` beyond the timeout.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Quantile::Ns(ns) => serializer.serialize_u64(*ns),
            Quantile::Beyond(ns) => serializer.serialize_str(&format!(">{ns}")),
        }
    }
}

impl<'de> Deserialize<'de> for Quantile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(u64),
            Text(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(ns) => Ok(Quantile::Ns(ns)),
            Raw::Text(text) => text
                .strip_prefix('>')
                .and_then(|digits| digits.parse().ok())
                .map(Quantile::Beyond)
                .ok_or_else(|| {
                    serde::de::Error::custom("a quantile is an integer or \">integer\"")
                }),
        }
    }
}

/// Summary of a sample of times in nanoseconds. Quantiles are order statistics (nearest rank), and absent with fewer
/// than ten samples beyond them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples, lost ones included.
    pub n: u64,
    /// Number of samples censored at the timeout.
    pub censored: u64,
    /// Shortest time; absent without answers.
    pub min: Option<u64>,
    /// Longest time of an answer.
    pub max: Option<u64>,
    /// Mean of the samples; absent if any sample is censored, because it would be biased.
    pub mean: Option<f64>,
    /// Standard deviation of the samples; absent if any sample is censored.
    pub stddev: Option<f64>,
    /// Median.
    pub p50: Option<Quantile>,
    /// The 90th percentile.
    pub p90: Option<Quantile>,
    /// The 99th percentile.
    pub p99: Option<Quantile>,
    /// The 99.9th percentile.
    pub p999: Option<Quantile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_censored_quantile_survives_json() {
        for quantile in [Quantile::Ns(17), Quantile::Beyond(3_000_000_000)] {
            let json = serde_json::to_string(&quantile).unwrap();
            assert_eq!(serde_json::from_str::<Quantile>(&json).unwrap(), quantile);
        }
        assert_eq!(serde_json::to_string(&Quantile::Beyond(5)).unwrap(), "\">5\"");
        assert!(serde_json::from_str::<Quantile>("\"5\"").is_err());
    }
}
