//! Values as other tools take them, written as this program takes them.

use std::net::{IpAddr, Ipv4Addr};

use deadheat_base::units;
use deadheat_race::line::run::SHORTEST;

/// Returns the value in the notation of this program; `None` if it is no value of this kind, or there is no such kind.
pub(super) fn meant(kind: &str, typed: &str) -> Option<String> {
    let unit_or = |unit: &str| match typed.parse::<f64>() {
        Ok(_) => format!("{typed}{unit}"),
        Err(_) => typed.to_owned(),
    };
    let is_quantity = typed.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match kind {
        "text" => Some(typed.to_owned()),
        "number" => typed.parse::<u64>().ok().map(|_| typed.to_owned()),
        "seconds" => is_quantity.then(|| unit_or("s")),
        // No less than a survey takes.
        "survey" => {
            let typed = unit_or("s");
            let is_enough = units::parse_span(&typed).ok()? >= SHORTEST;
            Some(if is_enough { typed } else { units::span_text(SHORTEST) })
        }
        "millis" => is_quantity.then(|| unit_or("ms")),
        "percent" => is_quantity.then(|| unit_or("%")),
        // `K` is 1024, as in iperf3.
        "bytes" => scaled(typed, ["B", "KiB", "MiB", "GiB", "TiB"]),
        // A size that fits into a datagram.
        "message" => {
            let is_short = |bytes: &u64| *bytes <= 65_507;
            typed.parse::<u64>().ok().filter(is_short).map(|bytes| bytes.to_string())
        }
        // `K` is 1000 bits per second, as in iperf3.
        "rate" => scaled(typed, ["bit", "kbit", "mbit", "gbit", "tbit"]),
        // The upper six bits are the DSCP.
        "tos" => number(typed).filter(|tos| *tos < 256).map(|tos| (tos >> 2).to_string()),
        // Over 63 it is a TOS byte, as irtt takes it.
        "dscp" => match number(typed) {
            Some(dscp @ 0..64) => Some(dscp.to_string()),
            Some(tos @ 64..256) => Some((tos >> 2).to_string()),
            Some(_) => None,
            None => Some(typed.to_lowercase()),
        },
        "address" => address(typed),
        "device" => (address(typed).is_none() && !is_quantity).then(|| typed.to_owned()),
        "host" => typed.parse::<f64>().is_err().then(|| typed.to_owned()),
        "cpus" => typed.contains(',').then(|| typed.to_owned()),
        "letter" => {
            let is_letter = typed.len() == 1 && "kmgtKMGTbB".contains(typed);
            is_letter.then(|| typed.to_owned())
        }
        _ => None,
    }
}

/// Returns an amount with one of these units for none and for `K`, `M`, `G` and `T`; other units stay.
fn scaled(typed: &str, units: [&str; 5]) -> Option<String> {
    let end = typed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(typed.len());
    let (number, unit) = typed.split_at(end);
    number.parse::<f64>().ok()?;
    let place = match unit {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        other => return Some(format!("{number}{other}")),
    };
    Some(format!("{number}{}", units[place]))
}

/// Returns a number as C takes it: `184`, `0xb8`, `0270`.
fn number(typed: &str) -> Option<u64> {
    let hex = typed.strip_prefix("0x").or_else(|| typed.strip_prefix("0X"));
    match (hex, typed.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16).ok(),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => typed.parse().ok(),
    }
}

/// Returns an address with what selects an interface: of IPv6 its zone, of IPv4 an option.
fn address(typed: &str) -> Option<String> {
    let (address, device) = match typed.split_once('%') {
        Some((address, device)) => (address, Some(device)),
        None => (typed, None),
    };
    let is_v4 = address.parse::<Ipv4Addr>().is_ok();
    address.parse::<IpAddr>().ok()?;
    Some(match device {
        Some(device) if is_v4 => format!("{address} --device {device}"),
        _ => typed.to_owned(),
    })
}

/// Returns the size of a window or buffer that was typed where a workload is named: `256K`, `4MB`.
pub(super) fn window(typed: &str) -> Option<String> {
    let is_size = |meant: &String| {
        let unit = meant.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        ["B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB"].contains(&unit)
    };
    meant("bytes", typed).filter(is_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_other_tools_are_written_as_here() {
        for (kind, typed, meant) in [
            ("seconds", "10", Some("10s")),
            ("seconds", "1m", Some("1m")),
            ("seconds", "udp", None),
            ("millis", "5", Some("5ms")),
            ("percent", "2", Some("2%")),
            ("bytes", "256K", Some("256KiB")),
            ("bytes", "1500", Some("1500B")),
            ("bytes", "4MB", Some("4MB")),
            ("message", "172", Some("172")),
            ("message", "128K", None),
            ("rate", "10M", Some("10mbit")),
            ("rate", "1.5g", Some("1.5gbit")),
            ("rate", "1000000", Some("1000000bit")),
            ("tos", "0xb8", Some("46")),
            ("tos", "184", Some("46")),
            ("tos", "0270", Some("46")),
            ("tos", "300", None),
            ("dscp", "46", Some("46")),
            ("dscp", "0xb8", Some("46")),
            ("dscp", "EF", Some("ef")),
            ("address", "192.0.2.7", Some("192.0.2.7")),
            ("address", "192.0.2.7%eth0", Some("192.0.2.7 --device eth0")),
            ("address", "fe80::1%eth0", Some("fe80::1%eth0")),
            ("address", "eth0", None),
            ("device", "eth0", Some("eth0")),
            ("device", "192.0.2.7", None),
            ("host", "far.example", Some("far.example")),
            ("host", "100", None),
            ("cpus", "2", None),
            ("letter", "m", Some("m")),
        ] {
            assert_eq!(super::meant(kind, typed).as_deref(), meant, "{kind} {typed}");
        }
    }

    #[test]
    fn a_window_is_told_from_a_workload() {
        assert_eq!(window("256K").as_deref(), Some("256KiB"));
        assert_eq!(window("4MB").as_deref(), Some("4MB"));
        assert_eq!(window("10").as_deref(), Some("10B"));
        for workload in ["ping", "bulk:time=1s", "3d", ""] {
            assert_eq!(window(workload), None, "{workload}");
        }
    }
}
