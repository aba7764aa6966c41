//! Published figures as ranges that measured ones may agree with: which count for a claim, and how far each reaches.

use deadheat_base::time::Nanos;
use deadheat_base::units::{self, BitRate};
use deadheat_contract::measurements::Unit;
use deadheat_result::study::expect::{ExpectedRange, figure};
use deadheat_result::study::model::{ClaimedAgreement, PublishedFigure, Study};

/// Returns the published figures that count for a claim.
pub(super) fn figures<'a>(
    agree: &'a ClaimedAgreement,
    study: &'a Study,
) -> impl Iterator<Item = &'a PublishedFigure> {
    let counts = |one: &&PublishedFigure| agree.races.is_empty() || agree.races.contains(&one.race);
    study.published.iter().filter(counts)
}

/// Reads the range of a figure's trials, in the unit of its metric.
///
/// # Errors
/// A sentence with the problem, and with a range that would be right.
pub(super) fn range(typed: &str, unit: Unit) -> Result<(f64, f64), String> {
    match ExpectedRange::parse(typed, Some(unit)) {
        Ok(ExpectedRange::Between(low, high)) => Ok((low, high)),
        _ => Err(format!(
            "range `{typed}`: from the least to the greatest of its trials, such as 1.7mbit..2.06mbit"
        )),
    }
}

/// Returns the range around a published figure within which a measured one agrees: the part that the claim grants,
/// or the range of its trials where that is wider. `None` for a figure that cannot be read, which a checked study
/// has not.
pub(super) fn tolerance(
    published: &PublishedFigure,
    agree: &ClaimedAgreement,
    unit: Unit,
) -> Option<(f64, f64)> {
    let value = figure(&published.value, unit).ok()?;
    let part = units::parse_share(&agree.within).ok()?;
    let trials = published.range.as_ref().and_then(|typed| range(typed, unit).ok());
    let (low, high) = trials.unwrap_or((value, value));
    Some((low.min(value * (1.0 - part)), high.max(value * (1.0 + part))))
}

/// Returns a range as a test of a study writes it.
pub(super) fn text((low, high): (f64, f64), unit: Unit) -> String {
    let end = |value: f64| match unit {
        Unit::Nanos => units::span_text(Nanos(value.round() as u64)),
        Unit::BitRate => units::rate_text(BitRate(value.round() as u64)),
        Unit::Share => units::percent((value * 1e6).round() / 1e6),
        Unit::Count => format!("{value:.6}"),
    };
    format!("{}..{}", end(low), end(high))
}
