//! Delay and age under loss beside their closed forms, in virtual time: a grid of delays, rates and losses, 100 seeds a point.
//! It fails where a figure is beyond its bound within the range of its form.
//!
//! `cargo bench --bench closed_forms -- SEEDS` runs so many seeds a point. The figures are the same on every machine.
#![allow(clippy::print_stdout, reason = "a program whose output is its purpose")]

#[path = "../tests/common/handed_in.rs"]
mod handed_in;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use grid::{Form, Point};

#[path = "closed_forms/grid.rs"]
mod grid;

const DELAYS_MS: [u32; 4] = [10, 25, 50, 100];
const RATES_HZ: [u32; 4] = [10, 30, 60, 120];
const LOSSES_PER_MILLE: [u32; 5] = [1, 5, 10, 20, 50];

/// Result of a point.
struct Row {
    point: Point,
    measured_ms: f64,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.measured_ms / self.point.predicted_ms()
    }

    fn is_near(&self) -> bool {
        (self.ratio() - 1.0).abs() <= self.point.form.bound()
    }
}

fn main() -> Result<ExitCode, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        println!("closed_forms: points only under `cargo bench`");
        return Ok(ExitCode::SUCCESS);
    }
    let seeds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(100);
    let rows = measure(&points(), seeds)?;
    println!(
        "| figure | delay ms | Hz | lost % | lost in a repair | predicted ms | measured ms | ratio | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for row in &rows {
        let Point { form, delay_ms, hz, lost_per_mille } = row.point;
        let verdict = match (row.point.is_in_range(), row.is_near()) {
            (true, true) => "holds",
            (true, false) => "BEYOND",
            (false, true) => "out of range, holds",
            (false, false) => "out of range",
        };
        println!(
            "| {form} | {delay_ms} | {hz} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {verdict} |",
            f64::from(lost_per_mille) / 10.0,
            row.point.lost_within_repair(),
            row.point.predicted_ms(),
            row.measured_ms,
            row.ratio(),
        );
    }
    Ok(if Form::ALL.map(|form| sum_up(form, &rows)).into_iter().all(|holds| holds) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for form in Form::ALL {
        for delay_ms in DELAYS_MS {
            for hz in RATES_HZ {
                for lost_per_mille in LOSSES_PER_MILLE {
                    points.push(Point { form, delay_ms, hz, lost_per_mille });
                }
            }
        }
    }
    points
}

/// Measures all points, as many at once as there are CPUs.
fn measure(points: &[Point], seeds: u64) -> Result<Vec<Row>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        while let Some((at, point)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, *points.get(at)?)))
        {
            rows.push((at, Row { point, measured_ms: point.measured_ms(seeds)? }));
        }
        Ok::<_, String>(rows)
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let parts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut rows = Vec::new();
    for part in parts {
        rows.extend(part.map_err(|_| "a thread panicked".to_owned())??);
    }
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Sums up the points of a form; returns whether all in its range hold.
fn sum_up(form: Form, rows: &[Row]) -> bool {
    let of_form = |in_range: bool| {
        rows.iter().filter(move |row| row.point.form == form && row.point.is_in_range() == in_range)
    };
    let held = of_form(true).filter(|row| row.is_near()).count();
    let all = of_form(true).count();
    println!("\n{form}: {held} of {all} points in range within {:.0} %", form.bound() * 100.0);
    for (range, in_range) in [("in range", true), ("out of range", false)] {
        let ratios: Vec<f64> = of_form(in_range).map(Row::ratio).collect();
        let least = ratios.iter().copied().reduce(f64::min);
        let greatest = ratios.iter().copied().reduce(f64::max);
        if let (Some(least), Some(greatest)) = (least, greatest) {
            println!("  measured by predicted, {range}: {least:.3} to {greatest:.3}");
        }
    }
    held == all
}
