//! First screen of a map's page: who is ahead at how many points, the widest lead, and how far to trust it.

use super::answer;
use super::sheet::is_alone;
use crate::document::{Line, Tone};
use crate::opening::{Opening, OpeningFigure};
use crate::words;
use deadheat_result::map::file::Map;
use deadheat_result::map::point::{MapPoint, PointAnswer};
use deadheat_result::outcome::Ratio;

/// Returns the first screen.
pub(super) fn of(map: &Map) -> Opening {
    let headline = if is_alone(map) {
        answer(map).into_iter().next().unwrap_or_default()
    } else {
        leader(map)
    };
    Opening { headlines: vec![headline], figure: widest(map), trust: trust(map) }
}

/// Returns the sentence on the contender that is ahead at most points.
fn leader(map: &Map) -> Line {
    let all = words::count(map.asked.points() as u64, "point");
    let ahead = |id: usize| {
        let points = map.points.iter().filter(|point| point.outcome == PointAnswer::Ahead);
        points.filter(|point| point.leaders == [id]).count()
    };
    let counts: Vec<(usize, &str)> =
        map.contenders.iter().map(|one| (ahead(one.id), one.label.as_str())).collect();
    let most = counts.iter().map(|(n, _)| *n).max().unwrap_or(0);
    let best: Vec<&str> =
        counts.iter().filter(|(n, _)| *n == most).map(|(_, label)| *label).collect();
    let others = counts.iter().any(|(n, _)| (1..most).contains(n));
    if most == 0 {
        let ties = map.points.iter().filter(|point| point.outcome == PointAnswer::DeadHeat).count();
        let tone = if ties > 0 { Tone::Tie } else { Tone::Open };
        return Line::new(
            format!("No contender is ahead anywhere; a dead heat at {ties} of {all}."),
            tone,
        );
    }
    let text = match best.as_slice() {
        [only] if most == map.asked.points() => {
            format!("{only} is ahead everywhere, at all {all}.")
        }
        [only] if others => {
            format!("{only} is ahead most often, at {most} of {all}; it depends on the path.")
        }
        [only] => format!("{only} is ahead at {most} of {all}, and no other contender anywhere."),
        _ => format!(
            "It depends on the path: {} are ahead most often, at {most} of {all} each.",
            words::list(&best)
        ),
    };
    Line::new(text, Tone::Good)
}

/// Returns the lead over the next contender at the point at which it is widest.
fn widest(map: &Map) -> Option<OpeningFigure> {
    let lead = |point: &MapPoint| -> Option<(f64, Ratio, String)> {
        let verdict = point.closest().filter(|_| point.outcome == PointAnswer::Ahead)?;
        let leader = *point.leaders.first()?;
        let is_first = leader == verdict.a;
        let other = if is_first { verdict.b } else { verdict.a };
        let ratio = verdict.ratio.filter(|ratio| ratio.point > 0.0)?;
        let ratio = if is_first { ratio } else { ratio.inverse() };
        let label = |id: usize| map.contenders.get(id).map_or("", |one| one.label.as_str());
        let (metric, at) = (&map.metric.label, map.asked.name(&point.at));
        let about = format!(
            "{metric} of {} against {}, the next, at {at}: its widest lead",
            label(leader),
            label(other)
        );
        Some((ratio.point.ln().abs(), ratio, about))
    };
    let all = map.points.iter().filter(|point| point.trusted).filter_map(lead);
    let (_, ratio, about) = all.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (point, interval) = words::ratio(&ratio);
    Some(OpeningFigure {
        value: words::change(ratio.point),
        interval: format!("ratio {point} {interval}"),
        about,
    })
}

/// Returns the sentences on how far to trust a map.
fn trust(map: &Map) -> Vec<Line> {
    let (asked, run) = (map.asked.points(), map.points.len());
    let trusted = map.points.iter().filter(|point| point.trusted).count();
    let all = words::count(run as u64, "point");
    let mut lines = vec![match run - trusted {
        0 => Line::new(format!("Trusted at all {all} that were run."), Tone::Good),
        bad => Line::new(format!("Not to be trusted at {bad} of {all}."), Tone::Bad),
    }];
    if run < asked {
        let text = format!("{} of {asked} points were not run.", asked - run);
        lines.push(Line::new(text, Tone::Open));
    }
    let blocks = map.points.iter().map(|point| point.blocks);
    if let (Some(least), Some(most)) = (blocks.clone().min(), blocks.max()) {
        let of = if least == most { String::new() } else { format!("{least} to ") };
        let text = format!(
            "Each point is a race of its own, with its control, of {of}{}.",
            words::count(most, "block")
        );
        lines.push(Line::new(text, Tone::Plain));
    }
    lines
}
