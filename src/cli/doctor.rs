//! `deadheat doctor`: how far this machine can be trusted.
use std::fmt::Write;

use deadheat_base::error::{Error, Result};
use deadheat_base::figures::percent;
use deadheat_base::time::Nanos;
use deadheat_host::doctor::Doctor;
use deadheat_host::findings::examine;
use deadheat_host::timing::Lateness;
use deadheat_result::layout;

#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// Format of the answer
    #[arg(long, value_enum, default_value_t)]
    format: DoctorFormat,
}

/// Formats of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum DoctorFormat {
    /// A table for people
    #[default]
    Terminal,
    /// For programs
    Json,
}

/// Columns of the table.
const WIDTH: usize = 80;

/// Columns of the names at its left.
const NAMES: usize = 16;

/// Examines this machine, for about five seconds, and prints the findings.
///
/// # Errors
/// If not even an echo on one CPU works.
pub(super) fn run(args: DoctorArgs) -> Result<()> {
    let doctor = examine()?;
    super::print(&match args.format {
        DoctorFormat::Terminal => table(&doctor),
        DoctorFormat::Json => {
            let json = layout::text(&doctor)
                .map_err(|e| Error::setup("write the examination as JSON", e.into()))?;
            format!("{json}\n")
        }
    })
}

fn table(doctor: &Doctor) -> String {
    let mut out = String::new();
    for (name, value) in host_rows(doctor) {
        row(&mut out, name, &value);
    }
    out.push('\n');
    for (name, value) in time_rows(doctor) {
        row(&mut out, name, &value);
    }
    out.push('\n');
    floors(&mut out, doctor);
    out.push('\n');
    for (name, value) in verdict_rows(doctor) {
        row(&mut out, name, &value);
    }
    out.push('\n');
    paragraph(&mut out, "", &sentence_case(&doctor.sentence()));
    for finding in &doctor.findings {
        out.push('\n');
        paragraph(&mut out, "! ", &finding.message);
        paragraph(&mut out, "  > ", &finding.advice);
    }
    out
}

fn host_rows(doctor: &Doctor) -> Vec<(&'static str, String)> {
    let host = &doctor.host;
    let or = |value: &Option<String>, otherwise: &str| {
        value.clone().unwrap_or_else(|| otherwise.to_owned())
    };
    let ids: Vec<String> = host.cpus.iter().map(usize::to_string).collect();
    let mitigated: Vec<&str> = host.mitigations.keys().map(String::as_str).collect();
    vec![
        ("host", format!("{}, {}, {}", host.hostname, host.kernel, host.arch)),
        ("cpu", host.cpu_model.clone()),
        ("cpus", format!("{} on {} cores", ids.join(" "), doctor.cores)),
        ("machine", or(&host.virtualisation, "bare metal, as far as it shows")),
        ("governor", or(&host.governor, "none visible")),
        ("idle driver", or(&host.idle_driver, "none visible")),
        ("mitigations", if mitigated.is_empty() { "none".to_owned() } else { mitigated.join(" ") }),
        (
            "tcp",
            format!(
                "{} by default; {} available",
                or(&host.congestion_control, "unknown"),
                host.congestion_controls.join(" ")
            ),
        ),
    ]
}

fn time_rows(doctor: &Doctor) -> Vec<(&'static str, String)> {
    let source = doctor.host.clock_source.as_deref().unwrap_or("unknown");
    let mut rows = vec![
        (
            "clock",
            format!(
                "{source}; a read takes {:.0} ns, steps are {} ns",
                doctor.clock.read_ns, doctor.clock.step_ns
            ),
        ),
        ("sleep, plain", late(&doctor.timers.plain)),
        ("sleep, 1 ns slack", late(&doctor.timers.fine)),
        ("sleep, hybrid", late(&doctor.timers.hybrid)),
        ("send at 1 kHz", late(&doctor.sends)),
    ];
    if let Some(busy) = &doctor.busy_sends {
        rows.push(("  the same, busy", late(busy)));
    }
    rows
}

fn late(lateness: &Lateness) -> String {
    let tail = match lateness.p99_ns {
        Some(p99) => format!("p99 {}", Nanos(p99)),
        None => "too few for a p99".to_owned(),
    };
    format!("p50 {} late, {tail}", Nanos(lateness.p50_ns))
}

fn floors(out: &mut String, doctor: &Doctor) {
    let head = ["UDP echo 64 B", "p50", "p10", "p90", "spread", "wake-up"];
    cells(out, head.map(str::to_owned));
    for floor in &doctor.floors {
        let echo = &floor.echo;
        let dash = || "-".to_owned();
        cells(
            out,
            [
                echo.placement.to_string(),
                Nanos(echo.p50_ns).to_string(),
                Nanos(echo.p10_ns).to_string(),
                Nanos(echo.p90_ns).to_string(),
                echo.spread().map_or_else(dash, percent),
                floor.wake_up_ns.map_or_else(dash, |ns| Nanos(ns).to_string()),
            ],
        );
    }
}

fn cells(out: &mut String, cells: [String; 6]) {
    let [name, rest @ ..] = cells;
    // Writing to a string cannot fail.
    let _ = write!(out, "{name:<NAMES$}");
    for cell in rest {
        let _ = write!(out, "{cell:>12}");
    }
    out.push('\n');
}

fn verdict_rows(doctor: &Doctor) -> Vec<(&'static str, String)> {
    let noise = match &doctor.noise {
        Some(noise) => format!(
            "identical runs differ by ±{} ({} pairs; medians at most {:.2} times apart)",
            percent(noise.half_width),
            noise.pairs,
            noise.worst_ratio
        ),
        None => "could not be measured".to_owned(),
    };
    let load = doctor.load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let stolen = doctor
        .steal_share
        .map_or_else(|| "unknown".to_owned(), |share| format!("{} of CPU time", percent(share)));
    vec![
        ("placement", format!("{} ({})", doctor.placement, doctor.placement_reason)),
        ("noise", noise),
        ("stolen, load", format!("{stolen}; load {load}")),
        ("took", doctor.took_ns.to_string()),
    ]
}

fn row(out: &mut String, name: &str, value: &str) {
    let name = format!("{name:<width$}", width = NAMES + 2);
    paragraph(out, &name, value);
}

/// Writes `text` after `lead`, broken at spaces before column 80, further lines under the first.
fn paragraph(out: &mut String, lead: &str, text: &str) {
    let indent = lead.chars().count();
    let mut column = indent;
    out.push_str(lead);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > WIDTH {
            let _ = write!(out, "\n{:indent$}", "");
            column = indent;
        }
        if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_host::doctor::healthy;
    use deadheat_host::findings;

    #[test]
    fn the_table_fits_80_columns_and_has_what_was_found() {
        let mut doctor = healthy();
        doctor.host.cpus = (0..96).collect();
        doctor.steal_share = Some(0.042);
        doctor.findings = findings::of(&doctor);
        let table = table(&doctor);
        for line in table.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
        }
        assert!(table.contains("This machine can tell apart round trips"));
        assert!(table.contains("same-core            9.20 µs"));
        assert!(table.contains("! the hypervisor took 4.2 % of the CPU time"));
        assert!(table.contains("\n  > use a dedicated instance"));
    }

    #[test]
    fn long_text_continues_under_its_first_line() {
        let mut out = String::new();
        paragraph(&mut out, "name  ", &"word ".repeat(20));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("name  word"));
        assert!(lines[1].starts_with("      word"));
    }

    #[test]
    fn a_word_that_is_too_long_stays_whole() {
        let mut out = String::new();
        paragraph(&mut out, "", &"x".repeat(100));
        assert_eq!(out, format!("{}\n", "x".repeat(100)));
    }
}
