//! A map as comma-separated values: a row for each point, figures in their own unit, ratios of all pairs.

use super::super::text::field;
use deadheat_result::map::file::Map;
use deadheat_result::map::point::MapPoint;
use deadheat_result::outcome::{Summary, Verdict};

pub(super) fn render(map: &Map) -> String {
    let label = |id: usize| map.contenders.get(id).map_or("", |one| one.label.as_str());
    let n = map.contenders.len();
    let pairs: Vec<(usize, usize)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let mut headings: Vec<String> = map.asked.over.iter().map(|key| key.name.clone()).collect();
    headings.extend(["seed", "outcome", "leaders", "blocks"].map(str::to_owned));
    for contender in &map.contenders {
        let (name, label) = (&map.metric.name, &contender.label);
        headings.extend([
            format!("{name} {label}"),
            format!("low {label}"),
            format!("high {label}"),
        ]);
    }
    for (a, b) in &pairs {
        let pair = format!("{}/{}", label(*a), label(*b));
        headings.extend([pair.clone(), format!("low {pair}"), format!("high {pair}")]);
    }
    headings.push("why".to_owned());
    let rows = map.points.iter().map(|point| row(map, point, &pairs));
    let lines = [headings].into_iter().chain(rows);
    lines
        .map(|fields| fields.iter().map(|text| field(text)).collect::<Vec<_>>().join(",") + "\n")
        .collect()
}

fn row(map: &Map, point: &MapPoint, pairs: &[(usize, usize)]) -> Vec<String> {
    let label = |id: &usize| map.contenders.get(*id).map_or("", |one| one.label.as_str());
    let leaders: Vec<&str> = point.leaders.iter().map(label).collect();
    let mut fields = point.at.clone();
    let outcome = serde_json::to_value(point.outcome).unwrap_or_default();
    fields.extend([
        point.seed.to_string(),
        outcome.as_str().unwrap_or_default().to_owned(),
        leaders.join(";"),
        point.blocks.to_string(),
    ]);
    for contender in &map.contenders {
        let found = |summary: &&Summary| summary.contender == contender.id;
        let summary = point.summary.iter().find(found);
        fields.extend(three(summary.map(|s| [Some(s.estimate), s.low, s.high])));
    }
    for (a, b) in pairs {
        let found = |verdict: &&Verdict| (verdict.a, verdict.b) == (*a, *b);
        let ratio = point.verdicts.iter().find(found).and_then(|verdict| verdict.ratio);
        fields.extend(three(ratio.map(|r| [Some(r.point), Some(r.low), Some(r.high)])));
    }
    let outs = point.out.iter().map(|out| format!("{}: {}", label(&out.contender), out.why));
    let why: Vec<String> = point.why.iter().cloned().chain(outs).collect();
    fields.push(why.join("; "));
    fields
}

/// Returns three numbers as text; empty for unknown numbers.
fn three(values: Option<[Option<f64>; 3]>) -> [String; 3] {
    values
        .unwrap_or([None; 3])
        .map(|value| value.map_or_else(String::new, |value| value.to_string()))
}
