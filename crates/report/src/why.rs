//! Causes of the verdicts in sentences: the cause that makes the difference, once each, and in full reports every cause of
//! each contender with what would change it.

use super::document::{Block, Line, Point, Section, Tone};
use super::names::{self, label};
use super::words;
use deadheat_base::figures::grouped;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::{Role, Unit};
use deadheat_result::causes::race::{VerdictCause, of_verdict};
use deadheat_result::causes::{Cause, Finding, SignSource, TestOutcome};
use deadheat_result::outcome::{Outcome, Verdict};

/// Most sentences on a first screen.
const MOST: usize = 3;

/// Returns the sentences below the verdicts: what makes the difference, each once, or else what holds all back alike.
/// None where the cause is not known.
pub(super) fn lines(outcome: &Outcome) -> Vec<Line> {
    let is_one_table = !names::vary(outcome) && outcome.verdicts.len() <= 2 * MOST;
    if outcome.causes.is_empty() || !outcome.trusted() || !is_one_table {
        return Vec::new();
    }
    let is_claim = |verdict: &&Verdict| {
        let mut metrics = outcome.metrics.iter();
        metrics.any(|metric| metric.name == verdict.metric && metric.role == Role::Claim)
    };
    let mut said: Vec<(Option<usize>, Cause)> = Vec::new();
    let (mut differences, mut shared) = (Vec::new(), Vec::new());
    for verdict in outcome.verdicts.iter().filter(is_claim) {
        let Some(cause) = of_verdict(outcome, verdict) else { continue };
        let (key, into) = match cause {
            VerdictCause::Difference { behind, finding, .. } => {
                ((Some(behind), finding.cause), &mut differences)
            }
            VerdictCause::Shared(finding) => ((None, finding.cause), &mut shared),
        };
        if !said.contains(&key) {
            said.push(key);
            into.push(Line::new(sentence(outcome, verdict, &cause), Tone::Plain));
        }
    }
    if differences.is_empty() {
        shared.truncate(1);
        return shared;
    }
    differences.truncate(MOST);
    differences
}

fn sentence(outcome: &Outcome, verdict: &Verdict, cause: &VerdictCause<'_>) -> String {
    match cause {
        VerdictCause::Difference { behind, finding, other } => {
            let ahead = if *behind == verdict.a { verdict.b } else { verdict.a };
            let [behind, ahead] = [*behind, ahead].map(|id| label(outcome, id));
            let of_other =
                other.map_or_else(String::new, |other| format!("; {ahead}: {}", of_time(other)));
            format!("{behind} is behind {ahead}: {}{of_other}.", in_full(finding, "its"))
        }
        VerdictCause::Shared(finding) => {
            let both = words::list(&[verdict.a, verdict.b].map(|id| label(outcome, id)));
            format!("{both} alike: {}.", in_full(finding, "their"))
        }
    }
}

/// Returns the section with all causes of each contender.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    if outcome.causes.is_empty() {
        return None;
    }
    let racing = outcome.contenders.iter().filter(|entrant| entrant.is_racing() && !entrant.floor);
    let points = racing.flat_map(|entrant| {
        let own = outcome.causes.iter().find(|own| own.contender == entrant.id);
        let name = label(outcome, entrant.id);
        let not_known = own.is_none().then(|| Point {
            lead: format!("{name}: not known"),
            values: Vec::new(),
            detail: String::new(),
        });
        let known = own.into_iter().flat_map(|own| &own.findings).map(move |finding| Point {
            lead: format!("{name}: {}", in_full(finding, "its")),
            values: Vec::new(),
            detail: remedy(finding.cause).to_owned(),
        });
        known.chain(not_known).collect::<Vec<Point>>()
    });
    Section::new("What held each back", vec![Block::Points(points.collect())])
}

/// Returns the causes of a transfer in the instrumented pass, in a sentence.
pub(super) fn of_transfer(causes: &[Finding]) -> String {
    match causes {
        [] => "what held it back is not known.".to_owned(),
        [first, ..] => format!("{}.", in_full(first, "its")),
    }
}

/// Returns a cause with its trials, its share and what follows from it.
pub(super) fn in_full(finding: &Finding, whose: &str) -> String {
    let way = match finding.direction {
        Some(Direction::Down) if finding.source == SignSource::Pass => ", down",
        _ => "",
    };
    let pass = if finding.source == SignSource::Pass { " of a pass of its own" } else { "" };
    let trials = format!("{} of {} trials{pass}", finding.trials, finding.of);
    let of = of_time(finding);
    let then = consequence(finding);
    format!("{}{way} ({trials}, {of}){then}{}", clause(finding, whose), tested(finding))
}

/// Returns the name of a cause in a table: as in results, in words.
pub(super) fn name(cause: Cause) -> String {
    let name = serde_json::to_value(cause).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

/// Returns what a test of the cause showed; empty without one.
fn tested(finding: &Finding) -> String {
    let Some(test) = &finding.test else { return String::new() };
    let figure = test.ratio.map_or_else(String::new, |ratio| {
        format!(", where the figure is {} times as great", words::significant(ratio))
    });
    match test.result {
        TestOutcome::Confirmed => format!("; confirmed with {}{figure}", test.change),
        TestOutcome::Withdrawn => format!("; withdrawn, as {} does not help", test.change),
        TestOutcome::Open => format!("; a test with {} left it open", test.change),
    }
}

/// Returns the share of a cause in words.
fn of_time(finding: &Finding) -> String {
    let of = match finding.cause {
        Cause::PathLoss | Cause::ReceiverSocket => "of the messages",
        Cause::Overhead => "of the bytes that the path carried",
        Cause::PathRate if finding.evidence.rate_bps.is_none() => "of the messages",
        Cause::Queue
        | Cause::Retransmission
        | Cause::Nagle
        | Cause::PathDelay
        | Cause::FarProgram
        | Cause::WakeUp
        | Cause::Handshake => "of its time",
        _ => "of the time",
    };
    format!("{} {of}", words::percent(finding.share))
}

/// Returns the cause as a clause.
pub(super) fn clause(finding: &Finding, whose: &str) -> String {
    let evidence = &finding.evidence;
    let ns = |ns: Option<u64>| words::figure(ns.unwrap_or(0) as f64, Unit::Nanos);
    let bytes = grouped(&evidence.bytes.unwrap_or(0).to_string());
    let lost = words::percent(evidence.lost_share.unwrap_or(0.0));
    let interrupts = evidence.interrupts.map_or_else(String::new, |share| {
        format!(", {} of it in interrupts, where packets are received,", words::percent(share))
    });
    match finding.cause {
        Cause::OtherPrograms => format!("other programs used {whose} CPU"),
        Cause::OneCpu => "one CPU did the work of both ends".to_owned(),
        Cause::SenderCpu => format!("the CPU of {whose} sender{interrupts} was full"),
        Cause::ReceiverCpu => format!("the CPU of {whose} receiver{interrupts} was full"),
        Cause::ReceiverSocket => format!("{whose} receiver's socket had no room for bursts"),
        Cause::ReceiveWindow => {
            format!("{whose} receive window let {bytes} bytes out a round trip")
        }
        Cause::SendBuffer => {
            format!("{whose} send buffer let about {bytes} bytes out a round trip")
        }
        Cause::LibraryWindow => {
            format!("{whose} library's window let about {bytes} bytes out a round trip")
        }
        Cause::PeerWindow => format!("{whose} server sends at most {bytes} bytes a round trip"),
        Cause::SenderProgram => format!("{whose} sending program had nothing to send"),
        Cause::Timeouts => format!("{whose} sender waited for retransmission timeouts"),
        Cause::Pacing => format!(
            "{whose} pace lets {} out",
            words::figure(evidence.rate_bps.unwrap_or(0.0), Unit::BitRate)
        ),
        Cause::Overhead => {
            format!("headers and what was sent again took part of {whose} rate")
        }
        Cause::CongestionWindow => format!(
            "{whose} congestion window was about {bytes} bytes after losses ({lost} sent again)"
        ),
        Cause::SlowStart => format!(
            "{whose} congestion window was still growing when it ended: {bytes} bytes took {} round trips",
            words::significant(evidence.round_trips.unwrap_or(0.0))
        ),
        Cause::PathRate => match evidence.rate_bps {
            Some(rate) => format!("the path carries {}", words::figure(rate, Unit::BitRate)),
            None => "queues of the path were full".to_owned(),
        },
        Cause::PathLoss => "the path lost messages".to_owned(),
        Cause::Outage => format!("nothing arrived for {}", ns(evidence.time_ns)),
        Cause::Queue => {
            let load = if evidence.beside_load { " behind the load" } else { "" };
            format!("messages waited {} in a queue of the path{load}", ns(evidence.time_ns))
        }
        Cause::Retransmission => {
            format!("late messages waited {} for retransmissions", ns(evidence.time_ns))
        }
        Cause::Nagle => format!(
            "{whose} small messages waited {} for acknowledgements of earlier ones (Nagle)",
            ns(evidence.time_ns)
        ),
        Cause::Handshake => format!(
            "{whose} set-up takes {} of {}",
            words::count(evidence.round_trips.unwrap_or(0.0) as u64, "round trip"),
            ns(evidence.rtt_ns)
        ),
        Cause::PathDelay => format!("the path itself takes {}", ns(evidence.time_ns)),
        Cause::FarProgram => format!("{whose} far program took {}", ns(evidence.time_ns)),
        Cause::WakeUp => format!("sleeping programs woke up in {}", ns(evidence.time_ns)),
    }
}

/// Returns what follows from a window; empty for any other cause.
fn consequence(finding: &Finding) -> String {
    let is_window =
        matches!(finding.cause, Cause::PeerWindow | Cause::ReceiveWindow | Cause::LibraryWindow);
    match (finding.evidence.rtt_ns, finding.evidence.rate_bps) {
        (Some(rtt), Some(rate)) if is_window => format!(
            "; at a round trip of {} that is {}",
            words::figure(rtt as f64, Unit::Nanos),
            words::figure(rate, Unit::BitRate)
        ),
        _ => String::new(),
    }
}

/// Returns what would change a cause.
fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::OtherPrograms => "measure on a quiet machine",
        Cause::OneCpu => "a CPU for each end: --placement cross-core",
        Cause::SenderCpu | Cause::ReceiverCpu => {
            "larger calls, offloads (io=, rx=), a cheaper cipher, a faster CPU, or several connections on several CPUs"
        }
        Cause::ReceiverSocket => "a larger rcvbuf, or a sender that paces",
        Cause::ReceiveWindow => "a larger rcvbuf at the receiver, up to rate × round trip",
        Cause::SendBuffer => "a larger sndbuf at the sender, up to rate × round trip",
        Cause::LibraryWindow => "a larger window of the library, where it has a knob: window=",
        Cause::PeerWindow => {
            "the server's setting: its stream buffer, its send buffer, or its fixed congestion window"
        }
        Cause::SenderProgram => "look at the program: its disk, its source, its own limits",
        Cause::Timeouts => {
            "more packets under way, or a sender that probes for lost tails (RACK-TLP, RFC 8985)"
        }
        Cause::Pacing => "a higher pace=, or none",
        Cause::Overhead => {
            "larger packets (the path's MTU, mss=), or a protocol with smaller headers"
        }
        Cause::CongestionWindow => {
            "another congestion control (cc=), fewer losses, or a shorter round trip"
        }
        Cause::SlowStart => {
            "a larger initial window, a connection that is reused, or a longer transfer"
        }
        Cause::PathRate => "a faster path: no setting of the ends changes it",
        Cause::PathLoss => "forward error correction, or a transport that sends again",
        Cause::Outage => {
            "look at the link: it was down, or something on the way dropped everything"
        }
        Cause::Queue => "a shorter queue, active queue management, or less load beside it",
        Cause::Retransmission => {
            "lanes or streams of their own, messages that may be lost, or forward error correction"
        }
        Cause::Nagle => "nodelay=on, or one write for what belongs together",
        Cause::Handshake => "a reused or resumed connection, or a handshake with fewer round trips",
        Cause::PathDelay => "a shorter way: no setting of the ends changes it",
        Cause::FarProgram => "look at the program at the far end",
        Cause::WakeUp => "--placement busy, or a host whose idle CPUs stay awake",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deadheat_race::race::testing;
    use deadheat_result::causes::{CauseTest, ContenderCauses, Evidence};
    use deadheat_stats as stats;

    fn finding(cause: Cause, share: f64, evidence: Evidence) -> Finding {
        let (source, test) = (SignSource::Trials, None);
        Finding { cause, direction: None, source, trials: 12, of: 12, share, evidence, test }
    }

    /// Returns what is said below the verdict of a race of tcp and udp, which udp wins, or a dead heat.
    fn said(ahead: Option<usize>, findings: [Vec<Finding>; 2]) -> Vec<String> {
        let mut outcome = testing::outcome(2);
        let result = if ahead.is_some() { stats::Outcome::Ahead } else { stats::Outcome::DeadHeat };
        outcome.verdicts = vec![Verdict {
            metric: outcome.metrics[0].name.clone(),
            a: 0,
            b: 1,
            outcome: result,
            ahead,
            margin: 0.05,
            confidence: 0.95,
            blocks: 12,
            ..Verdict::default()
        }];
        let own = |(contender, findings)| ContenderCauses { contender, findings };
        outcome.causes = findings.into_iter().enumerate().map(own).collect();
        lines(&outcome).into_iter().map(|line| line.text).collect()
    }

    fn window(bytes: u64) -> Finding {
        let (rtt_ns, rate_bps) = (Some(16_200_000), Some(32.4e6));
        let evidence = Evidence { bytes: Some(bytes), rtt_ns, rate_bps, ..Evidence::default() };
        finding(Cause::PeerWindow, 0.98, evidence)
    }

    fn rate(share: f64) -> Finding {
        let evidence = Evidence { rate_bps: Some(2e7), ..Evidence::default() };
        finding(Cause::PathRate, share, evidence)
    }

    #[test]
    fn the_cause_that_makes_the_difference_is_named_with_what_follows() {
        let sentence = "tcp is behind udp: its server sends at most 65,536 bytes a round trip (12 of 12 trials, 98 % of \
                        the time); at a round trip of 16.2 ms that is 32.4 Mbit/s.";
        assert_eq!(said(Some(1), [vec![window(65_536)], vec![]]), [sentence]);
        assert_eq!(said(Some(1), [vec![rate(0.99), window(65_536)], vec![rate(0.9)]]), [sentence]);
        // A wider window is no reason to be behind.
        assert_eq!(said(Some(1), [vec![window(131_072)], vec![window(65_536)]]), [""; 0]);
        let of_both = said(Some(1), [vec![window(16_384)], vec![window(65_536)]]);
        assert!(of_both[0].ends_with("; udp: 98 % of the time."), "{of_both:?}");
    }

    #[test]
    fn a_shared_cause_is_said_once_and_an_unknown_one_not_at_all() {
        let sentence =
            "tcp and udp alike: the path carries 20.0 Mbit/s (12 of 12 trials, 98 % of the time).";
        for ahead in [None, Some(1)] {
            assert_eq!(said(ahead, [vec![rate(0.98)], vec![rate(0.97)]]), [sentence]);
        }
        assert_eq!(said(None, [vec![rate(0.98)], vec![window(65_536)]]), [""; 0]);
        assert_eq!(said(Some(1), [vec![], vec![rate(0.9)]]), [""; 0]);
    }

    #[test]
    fn overhead_makes_the_difference_where_it_takes_more_than_idle_time_does() {
        let overhead = |share| finding(Cause::Overhead, share, Evidence::default());
        let both = |own, other| {
            said(Some(1), [vec![rate(0.98), overhead(own)], vec![rate(0.99), overhead(other)]])
        };
        let sentence = "tcp is behind udp: headers and what was sent again took part of its rate (12 of 12 trials, 12 % of \
                        the bytes that the path carried); udp: 4 % of the bytes that the path carried.";
        assert_eq!(both(0.12, 0.04), [sentence]);
        let alike = "tcp and udp alike: the path carries";
        assert!(both(0.045, 0.04)[0].starts_with(alike), "less than the time in which it was idle");
        assert!(both(0.04, 0.12)[0].starts_with(alike), "the other one has more");
    }

    #[test]
    fn a_test_confirms_a_cause_or_the_next_one_takes_its_place() {
        let tested = |result, finding: Finding| Finding {
            test: Some(CauseTest { change: "window=16MB".into(), result, ratio: Some(7.5) }),
            ..finding
        };
        let confirmed = tested(TestOutcome::Confirmed, window(65_536));
        let text = &said(Some(1), [vec![confirmed], vec![]])[0];
        let end = "; confirmed with window=16MB, where the figure is 7.50 times as great.";
        assert!(text.ends_with(end), "{text}");
        let withdrawn = tested(TestOutcome::Withdrawn, window(65_536));
        let text = &said(Some(1), [vec![withdrawn, rate(0.9)], vec![]])[0];
        assert!(text.starts_with("tcp is behind udp: the path carries"), "{text}");
    }

    #[test]
    fn numbers_have_a_comma_at_each_thousand() {
        let texts = [5, 1_000, 65_536, 12_345_678].map(|n: u64| grouped(&n.to_string()));
        assert_eq!(texts, ["5", "1,000", "65,536", "12,345,678"]);
    }
}
