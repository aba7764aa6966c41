//! Facts of a surveyed line: delays one way, losses, sizes and marks of packets, translation of addresses, and the
//! transports that get through.

use super::{Extent, amount, with_interval};
use crate::text::{columns, wrap};
use crate::words;
use deadheat_base::foreign::visible;
use deadheat_contract::contract::Direction;
use deadheat_result::analysis::translated::TranslatedAddress;
use deadheat_result::line::figures::{self, PDV};
use deadheat_result::line::outcome::{LineFigure, LineOutcome, Reached, Survey, TriedMark};
use deadheat_result::line::part::LinePart;

/// Name of the row of transports that get through, which is never cut.
const THROUGH: &str = "gets through";

/// Most rows of transports that do not, on a screen.
const MOST_ROWS: usize = 2;

const WAYS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Returns the facts with their names.
pub(super) fn facts(line: &LineOutcome, survey: &Survey, extent: Extent) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("one way", one_way(line, survey, extent));
    let lost = both(survey, figures::lost, extent);
    let reordered = both(survey, figures::reordered, extent);
    let mtu = survey.path_mtu.map(|mtu| format!("{mtu} B"));
    let marks = (!survey.marks.is_empty()).then(|| of_marks(&survey.marks));
    match extent {
        Extent::Whole => {
            add("paced, lost", lost);
            add("paced, out of order", reordered);
            add("paced, delay variation", survey.figure(PDV).map(|pdv| shown(pdv, extent)));
            add("path MTU", mtu);
            add("DSCP", marks);
        }
        Extent::Screen => {
            add("paced", joined([("lost", lost), ("out of order", reordered)]));
            add("packets", joined([("MTU", mtu), ("DSCP", marks)]));
        }
    }
    add("NAT", translation(line));
    if let Some(first) = survey.reach.first() {
        add(&first.contender, Some(of_first(first)));
    }
    let through = survey.reach.iter().filter(|reached| reached.why_not.is_none());
    let names: Vec<&str> = through.map(|reached| reached.contender.as_str()).collect();
    add(THROUGH, (!names.is_empty()).then(|| names.join(", ")));
    for (name, value) in blocked(survey, extent) {
        add(&name, Some(value));
    }
    facts
}

/// Cuts each fact to a line of a screen of this width, with an ellipsis; names of transports that get through stay.
pub(super) fn shorten(facts: &mut [(String, String)], width: usize) {
    let longest = facts.iter().map(|(name, _)| columns(&visible(name))).max().unwrap_or(0);
    let room = width.saturating_sub(longest + 4);
    for (_, value) in facts.iter_mut().filter(|(name, _)| name != THROUGH) {
        *value = shortened(value, room);
    }
}

/// Cuts a text to so many columns, with an ellipsis if anything is left out.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let text = visible(text);
    if columns(&text) <= room {
        text
    } else {
        let first = wrap(&text, room.saturating_sub(2)).into_iter().next();
        format!("{} …", first.unwrap_or_default())
    }
}

/// Joins the parts that exist, each behind its name.
fn joined(parts: [(&str, Option<String>); 2]) -> Option<String> {
    let parts = parts.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns a figure, with its interval where there is room.
fn shown(figure: &LineFigure, extent: Extent) -> String {
    match extent {
        Extent::Whole => with_interval(figure).rest,
        Extent::Screen => amount(figure),
    }
}

/// Returns the figures of both directions.
fn both(survey: &Survey, of: fn(Direction) -> String, extent: Extent) -> Option<String> {
    let each = WAYS.into_iter().filter_map(|way| {
        let figure = survey.figure(&of(way))?;
        Some(format!("{way} {}", shown(figure, extent)))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// Returns the delays of paced datagrams in each direction with the error of the clocks, or the reason why they are not
/// known; `None` before the first round is complete.
fn one_way(line: &LineOutcome, survey: &Survey, extent: Extent) -> Option<String> {
    let found = WAYS.map(|way| survey.figure(&figures::one_way(way)));
    let [Some(up), Some(down)] = found else { return why_no_delays(line, survey) };
    let delays = both(survey, figures::one_way, extent)?;
    let Some(bound) = up.clock_bound_ns.max(down.clock_bound_ns) else {
        return Some(format!("{delays}; both ends have one clock"));
    };
    let known = format!("{delays}, each {}", words::clock_bound(bound));
    // Echoes between two clocks cannot tell the directions of their path apart.
    Some(if (bound as f64) < up.point.min(down.point) {
        format!("{known} by the clocks")
    } else {
        format!("{known} by the clocks: not told apart without NTP or PTP")
    })
}

fn why_no_delays(line: &LineOutcome, survey: &Survey) -> Option<String> {
    let paced = &line.works.paced_over;
    let is_blocked = |one: &Reached| one.contender == *paced && one.why_not.is_some();
    if survey.reach.iter().any(is_blocked) {
        return Some(format!("not known: {paced}, which measures it, does not get through"));
    }
    let mut trials = survey.trials.iter().filter(|trial| trial.why_invalid.is_none());
    let why = if trials.any(|trial| trial.part == LinePart::Paced) {
        "the hosts' clocks were not compared; update deadheat on the far one"
    } else {
        "no trial of paced datagrams counts"
    };
    (survey.rounds > 0).then(|| format!("not known: {why}"))
}

/// Returns the DSCPs that arrived in both directions, then the others.
fn of_marks(marks: &[TriedMark]) -> String {
    let (kept, others): (Vec<_>, Vec<_>) = marks.iter().partition(|mark| mark.is_kept());
    let mut parts = Vec::new();
    if !kept.is_empty() {
        let names: Vec<&str> = kept.iter().map(|mark| mark.dscp.as_str()).collect();
        let verb = if names.len() == 1 { "arrives" } else { "arrive" };
        parts.push(format!("{} {verb} both ways", words::list(&names)));
    }
    parts.extend(others.into_iter().map(|mark| match mark {
        TriedMark { dscp, why_not: Some(why), .. } => format!("{dscp} does not get through: {why}"),
        TriedMark { dscp, up: Some(up), down: Some(down), .. } => {
            format!("{dscp} arrives as {up} up, as {down} down")
        }
        TriedMark { dscp, up: Some(up), .. } => format!("{dscp} arrives as {up} up"),
        TriedMark { dscp, down: Some(down), .. } => format!("{dscp} arrives as {down} down"),
        TriedMark { dscp, .. } => format!("it is not known with what {dscp} arrives"),
    }));
    parts.join("; ")
}

/// Returns the addresses of both hosts that are translated on the way; `None` if no server says how it sees this host.
fn translation(line: &LineOutcome) -> Option<String> {
    let reached = line.path.reached.as_deref()?;
    let seen = reached.seen_as?;
    let near = match reached.translated() {
        Some(seen) => format!("this host is {}, and the far end sees {seen}", reached.own_address),
        None => format!("none at this end: the far end sees {}, too", seen.to_canonical()),
    };
    Some(match TranslatedAddress::of(&line.path, line.peer_host.as_ref()) {
        Some(far) => format!("{near}; the far end itself is {}", far.reached),
        None => near,
    })
}

/// Returns the reach of the preferred contender of small messages.
fn of_first(first: &Reached) -> String {
    match (&first.why_not, first.sent.zip(first.answered)) {
        (Some(why), _) => format!("does not get through: {why}"),
        (None, Some((sent, answered))) => {
            format!("gets through: {answered} of {sent} small messages came back")
        }
        (None, None) => THROUGH.to_owned(),
    }
}

/// Returns the transports that do not get through, but for the first of all, with their reasons.
fn blocked(survey: &Survey, extent: Extent) -> Vec<(String, String)> {
    let others = survey.reach.iter().skip(1);
    let all = others.filter_map(|one| Some((one.contender.as_str(), one.why_not.as_deref()?)));
    if extent == Extent::Whole {
        return all.map(|(name, why)| (format!("{name} does not"), why.to_owned())).collect();
    }
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in all {
        match by_reason.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((why, vec![name])),
        }
    }
    let n = by_reason.len();
    let rest = by_reason.split_off(if n > MOST_ROWS { MOST_ROWS - 1 } else { n });
    let shown = |(why, names): &(&str, Vec<&str>)| {
        ("does not".to_owned(), format!("{}: {why}", names.join(", ")))
    };
    let mut rows: Vec<(String, String)> = by_reason.iter().map(shown).collect();
    let rest: Vec<&str> = rest.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    if !rest.is_empty() {
        let value = format!("{}: see --format markdown for the reasons", rest.join(", "));
        rows.push(("does not".to_owned(), value));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::{line, survey};
    use deadheat_records::host::HostFacts;
    use deadheat_records::path::ReachFacts;

    fn fact(line: &LineOutcome, name: &str) -> String {
        let all = facts(line, line.last().unwrap(), Extent::Whole);
        all.into_iter().find(|(found, _)| found == name).map(|(_, value)| value).unwrap_or_default()
    }

    fn with(change: impl FnOnce(&mut LineOutcome)) -> LineOutcome {
        let mut line = line(vec![survey(0)]);
        change(&mut line);
        line
    }

    fn one_way(bound_ms: Option<u64>) -> String {
        let line = with(|line| {
            let figures = &mut line.surveys[0].figures;
            for figure in figures.iter_mut().filter(|one| one.name.starts_with("one_way")) {
                figure.clock_bound_ns = bound_ms.map(|ms| ms * 1_000_000);
            }
        });
        fact(&line, "one way")
    }

    #[test]
    fn delays_one_way_carry_the_error_of_the_clocks() {
        let shown = one_way(Some(1));
        assert!(shown.starts_with("up 15.4 ms [15.0, 15.8], down 5.12 ms"), "{shown}");
        assert!(shown.ends_with("each ±1.00 ms by the clocks"), "{shown}");
        let shown = one_way(Some(6));
        assert!(
            shown.ends_with("±6.00 ms by the clocks: not told apart without NTP or PTP"),
            "{shown}"
        );
        assert!(one_way(None).ends_with("both ends have one clock"));
    }

    #[test]
    fn the_reason_for_unknown_delays_is_named() {
        let without = |change: fn(&mut Survey)| {
            with(|line| {
                line.surveys[0].figures.retain(|figure| !figure.name.starts_with("one_way"));
                change(&mut line.surveys[0]);
            })
        };
        let shown = fact(&without(|_| {}), "one way");
        assert!(shown.contains("clocks were not compared"), "{shown}");
        let shown =
            fact(&without(|survey| survey.reach[0].why_not = Some("no answer".into())), "one way");
        assert_eq!(shown, "not known: udp, which measures it, does not get through");
        let shown = fact(&without(|survey| survey.trials.clear()), "one way");
        assert_eq!(shown, "not known: no trial of paced datagrams counts");
    }

    #[test]
    fn a_mark_is_told_by_direction() {
        let mark = |dscp: &str, up: Option<&str>, down: Option<&str>| TriedMark {
            dscp: dscp.to_owned(),
            up: up.map(str::to_owned),
            down: down.map(str::to_owned),
            why_not: None,
        };
        let kept = [mark("EF", Some("EF"), Some("EF")), mark("AF41", Some("AF41"), Some("AF41"))];
        assert_eq!(of_marks(&kept), "EF and AF41 arrive both ways");
        let bleached = [mark("EF", Some("CS0"), Some("EF")), kept[1].clone()];
        assert_eq!(of_marks(&bleached), "AF41 arrives both ways; EF arrives as CS0 up, as EF down");
        assert_eq!(of_marks(&[mark("EF", None, Some("CS1"))]), "EF arrives as CS1 down");
        assert!(of_marks(&[mark("EF", None, None)]).contains("not known"));
        let lost = TriedMark { why_not: Some("no answer".into()), ..mark("EF", None, None) };
        assert_eq!(of_marks(&[lost]), "EF does not get through: no answer");
    }

    #[test]
    fn translation_at_either_end_is_named() {
        let seen = |near: &str, far: Option<&str>| {
            with(|line| {
                line.path.reached = Some(Box::new(ReachFacts {
                    own_address: "10.0.0.2".parse().unwrap(),
                    seen_as: Some(near.parse().unwrap()),
                    attempts: Vec::new(),
                }));
                let reached_at = far.map(|far| far.parse().unwrap());
                line.peer_host = Some(HostFacts { reached_at, ..HostFacts::default() });
            })
        };
        let shown = fact(&seen("203.0.113.9", None), "NAT");
        assert_eq!(shown, "this host is 10.0.0.2, and the far end sees 203.0.113.9");
        let shown = fact(&seen("::ffff:10.0.0.2", Some("192.168.1.7")), "NAT");
        assert_eq!(
            shown,
            "none at this end: the far end sees 10.0.0.2, too; the far end itself is 192.168.1.7"
        );
        assert_eq!(fact(&line(vec![survey(0)]), "NAT"), "", "no server says");
    }

    #[test]
    fn transports_with_one_reason_share_a_row_on_a_screen() {
        let mut survey = survey(0);
        let blocked_by = |name: &str, why: &str| Reached {
            contender: name.to_owned(),
            why_not: Some(why.to_owned()),
            ..Reached::default()
        };
        survey.reach.extend([
            blocked_by("enet", "no answer"),
            blocked_by("tls", "reset"),
            blocked_by("ws", "refused"),
        ]);
        let rows = blocked(&survey, Extent::Screen);
        let values: Vec<&str> = rows.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(
            values,
            ["kcp, enet: no answer", "tls, ws: see --format markdown for the reasons"]
        );
        assert_eq!(blocked(&survey, Extent::Whole).len(), 4);
    }
}
