//! Work that programs of others do by themselves: a transfer of given bytes, or any figures that they print.

use std::fmt;

use crate::contract::{Direction, PeerFacts};
use crate::measurements::name::{MetricName, Suffix};
use crate::measurements::scale::{self, Scale};
use crate::measurements::{Better, ClockNeed, Metric, Role, Unit};
use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::time::Nanos;

/// Key of a workload that takes the figures of the contenders, as [`ProgramFigure`]s joined by `+`.
pub const FIGURES: &str = "figures";

/// Key of such a workload that names one of them for the claim.
pub const FIGURE: &str = "figure";

/// Figure that every program has: the time from its start to its end.
pub const TIME_TAKEN: &str = "time:s:lower";

/// Figure that every pair of programs has: the CPU time of both, with all that they start.
pub const CPU_USED: &str = "cpu:s:lower";

/// Part of a task that programs of others can do, of which only the outcome is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ProgramWork {
    /// None: it consists of messages of our ends.
    #[default]
    None,
    /// None with these settings; the reason, and other settings.
    Refused(&'static str),
    /// Transfer of all bytes, from the start of a program to its end.
    Transfer {
        /// Number of bytes.
        bytes: u64,
        /// Their direction.
        direction: Direction,
    },
    /// Figures that the programs print.
    Figures(FiguresAsked),
}

/// Figures that are asked of programs, and values for their command lines.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FiguresAsked {
    /// Figures; the first is the claim.
    pub figures: Vec<ProgramFigure>,
    /// Duration to ask of the programs, if given.
    pub time: Option<Nanos>,
    /// Bytes to ask of the programs, if given.
    pub bytes: Option<u64>,
}

impl ProgramWork {
    /// Returns the reason why a contender with this peer cannot do such work, as a sentence; `None` if it can, or if
    /// that depends on its guarantees.
    pub fn misfit(&self, peer: PeerFacts) -> Option<String> {
        let why = match (peer.is_command, self) {
            (true, ProgramWork::None) => {
                "its commands do work of their own, and do not know the messages of this work; bulk:bytes=10MB fits if \
                 they move bytes, and `command` takes any figure that they print"
            }
            (true, ProgramWork::Refused(why)) => why,
            (false, ProgramWork::Figures(_)) => {
                "the work is the commands of a file and the figures that they print, and this contender has none; write \
                 cmd:file=PATH, or give it bytes to move beside them with -w bulk:bytes=10MB"
            }
            _ => return None,
        };
        Some(why.to_owned())
    }
}

/// Figure that a program yields.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramFigure {
    /// Name: small letters, digits and `_`.
    pub name: String,
    /// Unit of the numbers as printed.
    pub unit: FigureUnit,
    /// Better end of the scale.
    pub better: Better,
}

/// Unit of a figure of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureUnit(Scale);

/// Units beside times and rates.
const OTHERS: [Scale; 3] = [
    Scale { name: "count", unit: Unit::Count, factor: 1.0 },
    Scale { name: "share", unit: Unit::Share, factor: 1.0 },
    Scale { name: "%", unit: Unit::Share, factor: 0.01 },
];

impl FigureUnit {
    /// Reads a unit.
    ///
    /// # Errors
    /// [`Error::Usage`] with the list of all units.
    pub fn parse(typed: &str) -> Result<FigureUnit> {
        let other = OTHERS.into_iter().find(|unit| unit.name == typed);
        other.or_else(|| Scale::named(typed)).map(FigureUnit).ok_or_else(|| {
            let others: Vec<&str> = OTHERS.iter().map(|unit| unit.name).collect();
            let all = format!("{}, {}", scale::list(), others.join(", "));
            Error::usage(format!("unknown unit `{typed}` (valid: {all})"))
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Converts a printed number to nanoseconds, bits per second, a fraction, or leaves it a plain number; `None` if it is
    /// no number that the unit can have.
    pub fn value(&self, printed: f64) -> Option<f64> {
        let value = printed * self.0.factor;
        let most = if self.0.unit == Unit::Share { 1.0 } else { 9e15 };
        (0.0..=most).contains(&value).then_some(value)
    }

    /// Returns the better end of the scale where that is plain from the unit; `None` for plain numbers.
    pub fn better(&self) -> Option<Better> {
        (self.0.unit != Unit::Count).then(|| self.0.better())
    }
}

/// Words for the better end of a scale.
const BETTER: [(&str, Better); 2] = [("higher", Better::Higher), ("lower", Better::Lower)];

/// Reads the better end of a scale.
///
/// # Errors
/// [`Error::Usage`] with both words.
pub fn better(typed: &str) -> Result<Better> {
    let found = BETTER.into_iter().find(|(word, _)| *word == typed);
    found.map(|(_, better)| better).ok_or_else(|| unknown("direction", typed, &BETTER.map(|b| b.0)))
}

/// Largest length of a figure's name.
const LONGEST_NAME: usize = 40;

impl ProgramFigure {
    /// Creates a figure. Without `better`, its unit decides.
    ///
    /// # Errors
    /// [`Error::Usage`] with the problem and a remedy.
    pub fn new(name: &str, unit: &str, better_end: Option<&str>) -> Result<ProgramFigure> {
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || !name.chars().all(is_fine) || name.len() > LONGEST_NAME {
            return Err(Error::usage(format!(
                "`{name}` is no name of a figure; write at most {LONGEST_NAME} small letters, digits and `_`, a letter first"
            )));
        }
        let unit = FigureUnit::parse(unit)?;
        let better = match better_end {
            Some(typed) => better(typed)?,
            None => unit.better().ok_or_else(|| {
                Error::usage(format!("figure `{name}`: write better = \"higher\" or \"lower\""))
            })?,
        };
        Ok(ProgramFigure { name: name.to_owned(), unit, better })
    }

    /// Reads `NAME:UNIT:higher|lower`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the correct form.
    pub fn parse(typed: &str) -> Result<ProgramFigure> {
        match typed.splitn(3, ':').collect::<Vec<_>>()[..] {
            [name, unit, better] => ProgramFigure::new(name, unit, Some(better)),
            _ => Err(Error::usage(format!(
                "`{typed}` is no figure; write NAME:UNIT:higher or lower"
            ))),
        }
    }

    /// Returns its metric, with this role.
    pub fn metric(&self, role: Role) -> Metric {
        Metric {
            name: self.metric_name(),
            label: self.name.replace('_', " "),
            unit: self.unit.0.unit,
            better: self.better,
            role,
            clock: ClockNeed::None,
        }
    }

    /// Returns the name of its metric: with the unit last.
    pub fn metric_name(&self) -> String {
        let suffix = match self.unit.0.unit {
            Unit::Nanos => Suffix::Nanos,
            Unit::BitRate => Suffix::BitRate,
            Unit::Share => Suffix::Share,
            Unit::Count => Suffix::Count,
        };
        MetricName::new(&self.name, suffix).to_string()
    }
}

impl fmt::Display for ProgramFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = BETTER.iter().find(|(_, better)| *better == self.better).map_or("", |b| b.0);
        write!(f, "{}:{}:{word}", self.name, self.unit.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_as_it_is_written_and_its_unit_decides_the_rest() {
        for typed in
            ["rate:Mbit/s:higher", "wait:ms:lower", "requests:count:higher", "lost:%:lower"]
        {
            assert_eq!(ProgramFigure::parse(typed).unwrap().to_string(), typed);
        }
        let rate = ProgramFigure::new("rate", "Mbit/s", None).unwrap();
        assert_eq!((rate.better, rate.metric_name().as_str()), (Better::Higher, "rate_bps"));
        assert_eq!(rate.unit.value(2.5), Some(2.5e6));
        let lost = ProgramFigure::new("lost", "%", None).unwrap();
        assert_eq!((lost.better, lost.unit.value(3.0)), (Better::Lower, Some(0.03)));
        for wrong in [f64::NAN, -1.0, f64::INFINITY, 101.0] {
            assert_eq!(lost.unit.value(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_figure_without_sense_is_refused_with_a_remedy() {
        let said =
            |name, unit, better| ProgramFigure::new(name, unit, better).unwrap_err().to_string();
        assert!(said("Rate", "s", None).contains("small letters"));
        assert!(said("rate", "furlong", None).contains("valid: ns, us, ms"));
        assert!(said("rate", "furlong", None).contains("count, share, %"));
        assert!(said("requests", "count", None).contains("better = \"higher\""));
        assert!(said("rate", "s", Some("more")).contains("higher, lower"));
        assert!(ProgramFigure::parse("rate").unwrap_err().to_string().contains("NAME:UNIT"));
    }
}
