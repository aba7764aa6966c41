//! Course of a line over days: the median of a figure by hour of the day, and its best and worst surveys. Descriptive,
//! without claims.

use super::outcome::{LineOutcome, Survey};
use deadheat_contract::measurements::Better;
use deadheat_stats::quantile::median;

const HOUR_MS: u64 = 3_600_000;
const HOURS_OF_DAY: u64 = 24;

/// Course of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureCourse {
    /// Medians of the surveys that began in an hour of the day (UTC), for each hour with any.
    pub hours: Vec<HourMedian>,
    /// Best survey: its figure and its start time.
    pub best: SurveyFigure,
    /// Worst survey.
    pub worst: SurveyFigure,
}

/// Median of an hour of the day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HourMedian {
    /// Hour of the day (UTC), from 0.
    pub hour: u64,
    /// Median over its surveys, in the figure's unit.
    pub median: f64,
    /// Number of its surveys.
    pub surveys: u64,
}

/// Figure of a survey.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SurveyFigure {
    /// The figure, in its unit.
    pub value: f64,
    /// Start time of the survey, in milliseconds since the Unix epoch.
    pub at_ms: u64,
}

/// Returns the course of the figure of this name; `None` with fewer than two surveys that have it.
pub fn course(outcome: &LineOutcome, name: &str) -> Option<FigureCourse> {
    let of = |survey: &Survey| {
        let figure = survey.figure(name)?;
        Some((SurveyFigure { value: figure.point, at_ms: survey.started_ms }, figure.better))
    };
    let all: Vec<(SurveyFigure, Better)> = outcome.surveys.iter().filter_map(of).collect();
    let (_, better) = *all.first().filter(|_| all.len() > 1)?;
    let values = || all.iter().map(|(value, _)| *value);
    let least = values().min_by(|a, b| a.value.total_cmp(&b.value))?;
    let most = values().max_by(|a, b| a.value.total_cmp(&b.value))?;
    let (best, worst) = match better {
        Better::Lower => (least, most),
        Better::Higher => (most, least),
    };
    let hours = (0..HOURS_OF_DAY).filter_map(|hour| {
        let of_hour = |one: &SurveyFigure| one.at_ms / HOUR_MS % HOURS_OF_DAY == hour;
        let found: Vec<f64> = values().filter(of_hour).map(|one| one.value).collect();
        Some(HourMedian { hour, median: median(&found)?, surveys: found.len() as u64 })
    });
    Some(FigureCourse { hours: hours.collect(), best, worst })
}
