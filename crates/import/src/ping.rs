//! ping: output of the ICMP pings of iputils, the BSDs, macOS, BusyBox and Windows, and of hping3, in any language,
//! with a comma as decimal point, and with times in front of its lines. Several runs in a file are trials.

use super::echo::{self, RoundTripRun};
use super::foreign_file::ForeignFile;
use super::stamp::{self, LineStamp, StampBasis};
use super::{FileContent, Format, NONE, ReaderContext};

mod line;

use line::{PingDialect, PingLine};

/// Number of lines that are looked at to recognise the format.
const LINES: usize = 200;

/// Half a day, in seconds: a time of day that is earlier by more belongs to the next day.
const HALF_DAY_S: f64 = 43_200.0;

/// The format.
pub(super) static FORMAT: Format = Format {
    id: "ping",
    summary: "what ping prints: iputils, BSD, macOS, BusyBox, Windows; hping3",
    signs: &[&["ping statistics ---"]],
    sniff: is_own,
    read: Some(read),
    program: "ping",
    unit: "ms",
    trial: "a run of ping",
    ..NONE
};

fn is_own(head: &str) -> bool {
    let lines = || head.lines().take(LINES).map(|line| PingLine::of(stamp::split(line).1));
    let is_ping = |line| matches!(line, PingLine::Start { .. } | PingLine::Answer(_));
    let first = lines().find(|line| *line != PingLine::Blank);
    lines().any(is_ping) || matches!(first, Some(PingLine::Message(_)))
}

pub(super) fn read(
    file: &mut ForeignFile,
    context: &mut ReaderContext<'_>,
) -> Result<FileContent, String> {
    let mut log = PingLog::default();
    file.each_line(|line| log.line(line))?;
    log.content(context)
}

/// One run of ping.
#[derive(Default)]
struct PingRun {
    echo: RoundTripRun,
    dialect: Option<PingDialect>,
    /// True behind its requests, among its counts and sums.
    in_sums: bool,
    /// First message of the program itself.
    message: Option<String>,
}

/// Runs read so far.
#[derive(Default)]
struct PingLog {
    runs: Vec<PingRun>,
    is_hping: bool,
    /// Time of the last line, in seconds.
    clock: Option<f64>,
}

impl PingLog {
    fn line(&mut self, line: &str) {
        let (stamp, text) = stamp::split(line);
        let stamp = stamp.map(|stamp| self.in_order(stamp));
        let found = PingLine::of(text);
        self.is_hping |= text.starts_with("HPING ");
        if let PingLine::Start { target, dialect } = found {
            // hping3 prints its sums to standard error, which comes first where standard output is a file.
            // Steps of the clock are printed there, too.
            let is_before = |run: &PingRun| {
                run.dialect.is_none()
                    && (self.is_hping && run.echo.counted.is_some() || run.echo.has_steps_alone())
            };
            if !self.runs.last().is_some_and(is_before) {
                self.runs.push(PingRun::default());
            }
            let run = self.run(stamp);
            (run.dialect, run.in_sums) = (Some(dialect), false);
            run.echo.target = target.to_owned();
        } else if found != PingLine::Blank {
            self.within(found, text, stamp);
        }
    }

    /// Takes a line of a run.
    fn within(&mut self, found: PingLine<'_>, text: &str, stamp: Option<LineStamp>) {
        if self.starts_anew(&found) {
            let mut run = PingRun::default();
            run.echo.target =
                self.runs.last().map_or_else(String::new, |run| run.echo.target.clone());
            self.runs.push(run);
        }
        let run = self.run(stamp);
        let is_ordered = run.dialect == Some(PingDialect::Ordered);
        let is_open = !run.in_sums;
        match found {
            PingLine::Answer(answer) => {
                let dialect = match answer.number {
                    Some(_) => PingDialect::Numbered,
                    None => PingDialect::Ordered,
                };
                run.dialect.get_or_insert(dialect);
                run.in_sums = false;
                if !(answer.has_remark && run.echo.damaged(answer.number)) {
                    run.echo.answer(answer.number, answer.time, stamp.map(|stamp| stamp.seconds));
                }
            }
            PingLine::Unanswered(number) => run.echo.unanswered(Some(number)),
            PingLine::Error(_) if is_ordered => run.echo.answered_by_error(),
            PingLine::Error(number) => run.echo.error(number),
            PingLine::Unsent => run.echo.error(None),
            PingLine::Damage => run.echo.spoil_last(),
            PingLine::ClockStep(back_us) => {
                let (steps, sum) = run.echo.steps;
                run.echo.steps = (steps + 1, sum.saturating_add(back_us));
            }
            PingLine::Message(words) => {
                run.message.get_or_insert_with(|| words.to_owned());
            }
            // Windows has a line for each request, and says of the lost ones that they timed out.
            PingLine::Words if is_ordered && is_open => run.echo.unanswered(None),
            PingLine::Rule => run.in_sums = true,
            // In the middle of a run, other words may have numbers and a share, too.
            PingLine::Counts { sent, received }
                if !is_open || text.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                run.in_sums = true;
                run.echo.counted = Some((sent, received));
            }
            PingLine::Sums(sums) if !is_open => run.echo.sums = Some(sums),
            _ => {}
        }
    }

    /// Returns true if a line belongs to another run than the last one. Windows goes on after sums that were asked for
    /// with Ctrl-Break.
    fn starts_anew(&self, found: &PingLine<'_>) -> bool {
        let Some(last) = self.runs.last() else { return true };
        let is_over = last.in_sums && last.dialect != Some(PingDialect::Ordered);
        match found {
            PingLine::Answer(_) => is_over,
            PingLine::Message(_) => last.in_sums || last.message.is_some(),
            _ => false,
        }
    }

    /// Returns the run that lines belong to.
    fn run(&mut self, stamp: Option<LineStamp>) -> &mut PingRun {
        if self.runs.is_empty() {
            self.runs.push(PingRun::default());
        }
        let at = self.runs.len() - 1;
        let run = &mut self.runs[at];
        run.echo.started = run.echo.started.or(stamp);
        run
    }

    /// Returns a stamp whose seconds go on after midnight, if it has no date.
    fn in_order(&mut self, mut stamp: LineStamp) -> LineStamp {
        if let (StampBasis::Undated, Some(clock)) = (stamp.basis, self.clock)
            && stamp.seconds < clock - HALF_DAY_S
        {
            let days = ((clock - stamp.seconds) / (2.0 * HALF_DAY_S)).round();
            stamp.seconds += days * 2.0 * HALF_DAY_S;
        }
        self.clock = Some(stamp.seconds);
        stamp
    }

    fn content(mut self, context: &mut ReaderContext<'_>) -> Result<FileContent, String> {
        let is_windows = self.runs.iter().any(|run| run.dialect == Some(PingDialect::Ordered));
        // Words before the first run are no run.
        self.runs
            .retain(|run| run.dialect.is_some() || run.message.is_some() || !run.echo.is_empty());
        if self.runs.iter().all(|run| run.echo.is_empty() && run.message.is_none()) {
            return Err("there is neither an answer nor a summary of ping in it".into());
        }
        let runs = self.runs.into_iter().map(|run| (run.echo, run.message));
        let mut content = echo::content(runs, context)?;
        if is_windows {
            content.unknown.push("parts of a millisecond".into());
        }
        if self.is_hping {
            content.program = "hping3".into();
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> PingLog {
        let mut log = PingLog::default();
        text.lines().for_each(|line| log.line(line));
        log
    }

    #[test]
    fn an_answer_behind_sums_is_of_another_run_but_not_on_windows() {
        let unix = "64 bytes from h: icmp_seq=1 ttl=64 time=1 ms\n\n--- h ping statistics ---\n\
                    1 packets transmitted, 1 received, 0% packet loss, time 0ms\n";
        assert_eq!(read(&unix.repeat(3)).runs.len(), 3);
        let windows = "Reply from 10.0.0.1: bytes=32 time=1ms TTL=64\n\n\
                       Ping statistics for 10.0.0.1:\n\
                       Packets: Sent = 1, Received = 1, Lost = 0 (0% loss),\n";
        assert_eq!(read(&windows.repeat(3)).runs.len(), 1);
    }

    #[test]
    fn a_time_of_day_goes_on_after_midnight() {
        let mut log = PingLog::default();
        for at in ["23:59:59", "00:00:01", "00:00:02"] {
            log.line(&format!("{at} 64 bytes from h: icmp_seq=1 ttl=64 time=1 ms"));
        }
        assert_eq!(log.clock, Some(86_402.0));
    }
}
