//! Advice in at most twenty lines: places, contenders that are left out with the reason, and changes of the path that
//! would change the answer. Each sentence names the file of its race.

use super::document::{Block, Document, Line, Section, Tone};
use super::study::Form;
use super::{Style, markdown, terminal, text, why, words};
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_result::advise::outcome::{
    Advice, ContenderFigure, Crossover, ExcludedContender, RankedContender, VerdictEvidence,
};
use deadheat_result::advise::search::{Lead, SearchFinding};
use deadheat_result::layout;

mod opening;

/// Maximum number of lines on a terminal.
const MOST_LINES: usize = 20;

/// Maximum number of places with a line each; the others are named together.
const MOST_PLACES: usize = 5;

/// Indent of sentences on a terminal.
const INDENT: usize = 2;

/// Renders advice in `form`; text has a newline at its end.
///
/// # Errors
/// [`Error::Data`] if the advice cannot be written in this form.
pub fn render(advice: &Advice, form: Form, style: &Style) -> Result<String> {
    match form {
        Form::Terminal => {
            let mut document = document(advice);
            shorten(&mut document, style.width);
            Ok(terminal::render(&document, style))
        }
        Form::Markdown => Ok(markdown::render(&document(advice))),
        Form::Json => layout::text(advice)
            .map(|text| text + "\n")
            .map_err(|e| Error::data("advice", format!("cannot be written as JSON: {e}"))),
    }
}

fn document(advice: &Advice) -> Document {
    let content = Content { advice, is_mixed: advice.races.iter().any(|race| !race.is_virtual) };
    let virtual_races = advice.races.iter().filter(|race| race.is_virtual).count();
    let races = words::count(advice.races.len() as u64, "race");
    let of_which = match virtual_races {
        0 => String::new(),
        all if all == advice.races.len() => " in virtual time".to_owned(),
        some => format!(", {some} of them in virtual time"),
    };
    Document {
        title: format!("{} over {}", advice.app.title, advice.path),
        subtitle: format!("{races}{of_which}{}", took(advice)),
        sections: Section::new("", vec![Block::Sentences(content.lines())]).into_iter().collect(),
    }
}

/// Returns the time that the races took; empty if they had no budget.
fn took(advice: &Advice) -> String {
    match advice.budget_ns {
        Some(_) => format!(" · took {} s", advice.took_ns.div_ceil(1_000_000_000)),
        None => String::new(),
    }
}

/// Advice to put into sentences.
struct Content<'a> {
    advice: &'a Advice,
    /// True if only some races ran in virtual time, so that each of these is marked.
    is_mixed: bool,
}

/// Leaves out the last sentences of a document that takes more than [`MOST_LINES`].
fn shorten(document: &mut Document, width: usize) {
    let rows = |text: &str| text::wrap(text, width.min(100).saturating_sub(INDENT)).len();
    // Title and subtitle, an empty line, and a line that reports the cut.
    let mut left = MOST_LINES.saturating_sub(rows(&document.title) + rows(&document.subtitle) + 2);
    let sentences = document.sections.iter_mut().flat_map(|section| &mut section.blocks);
    for block in sentences {
        let Block::Sentences(lines) = block else { continue };
        let fits = |line: &&Line| {
            let taken = rows(&line.text);
            let fits = taken <= left;
            left = left.saturating_sub(taken);
            fits
        };
        let kept = lines.iter().take_while(fits).count();
        let out = lines.len() - kept;
        lines.truncate(kept);
        if out > 0 {
            let all = "--format markdown has all";
            let text = format!("{} more; {all}.", words::count(out as u64, "sentence"));
            lines.push(Line::new(text, Tone::Aside));
        }
    }
}

/// Returns a note with a capital letter and a full stop.
fn sentence(note: &str, tone: Tone) -> Line {
    let end = if note.ends_with('.') { "" } else { "." };
    Line::new(format!("{}{end}", words::capital(note)), tone)
}

impl Content<'_> {
    /// Returns the sentences, the most important first.
    fn lines(&self) -> Vec<Line> {
        let Advice { places, crossovers, excluded, notes, not_searched, .. } = self.advice;
        let alike = alike(places);
        let mut lines = opening::lines(places);
        lines.extend(alike.iter().take(MOST_PLACES).map(|placed| self.places(placed)));
        let more = alike.iter().skip(MOST_PLACES).flatten();
        let more: Vec<String> =
            more.map(|placed| format!("{}. {}", self.mark(placed), placed.contender)).collect();
        if !more.is_empty() {
            lines.push(Line::new(format!("{}.", more.join(", ")), Tone::Plain));
        }
        lines.extend(self.confirmed());
        lines.extend(notes.iter().map(|note| sentence(note, Tone::Open)));
        lines.extend(self.crossovers(crossovers));
        lines.extend(self.alone());
        lines.extend(left_out(excluded));
        if !not_searched.is_empty() {
            let text = format!("not searched: {}", not_searched.join("; "));
            lines.push(sentence(&text, Tone::Aside));
        }
        lines
    }

    /// Returns a place: `1`, or `2=` where it is shared.
    fn mark(&self, placed: &RankedContender) -> String {
        let shares = |other: &&RankedContender| other.place == placed.place;
        let is_shared = self.advice.places.iter().filter(shares).count() > 1;
        format!("{}{}", placed.place, if is_shared { "=" } else { "" })
    }

    /// Returns a line for contenders that share a place for the same reason.
    fn places(&self, alike: &[&RankedContender]) -> Line {
        let (Some((one, _)), Some(first)) = (alike.split_first(), self.advice.places.first())
        else {
            return Line::new(String::new(), Tone::Plain);
        };
        let Some(evidence) = one.against.as_ref().filter(|_| alike.len() > 1) else {
            return self.place(one);
        };
        let names: Vec<&str> = alike.iter().map(|placed| placed.contender.as_str()).collect();
        let (said, tone) = match evidence.lead {
            Lead::Tie => ("dead heat with", Tone::Tie),
            Lead::Open | Lead::First | Lead::Second => ("undecided beside", Tone::Open),
        };
        let source = self.source(&evidence.file, evidence.is_virtual);
        let (mark, names) = (self.mark(one), words::list(&names));
        Line::new(format!("{mark}. {names}: {said} {} {source}", first.contender), tone)
    }

    fn place(&self, placed: &RankedContender) -> Line {
        let places = &self.advice.places;
        let is_first = places.first() == Some(placed);
        let first = places.first().map_or("", |first| first.contender.as_str());
        let (text, tone) = match (&placed.against, &placed.figure) {
            (Some(evidence), _) => {
                let tone = match evidence.lead {
                    Lead::Tie => Tone::Tie,
                    Lead::Open => Tone::Open,
                    Lead::First | Lead::Second => Tone::Plain,
                };
                let missing = if evidence.first == *first {
                    String::new()
                } else {
                    format!("; no verdict on it and {first}")
                };
                (format!("{}{missing}", self.in_words(evidence)), tone)
            }
            (None, Some(figure)) if is_first => (self.measured(figure), Tone::Good),
            (None, Some(figure)) => {
                (format!("{}; no verdict on it and {first}", self.measured(figure)), Tone::Open)
            }
            (None, None) if is_first => ("it alone carries everything".to_owned(), Tone::Open),
            (None, None) => (format!("no verdict on it and {first}"), Tone::Open),
        };
        Line::new(format!("{}. {}: {text}", self.mark(placed), placed.contender), tone)
    }

    /// Returns the file of a race in brackets.
    fn source(&self, file: &str, is_virtual: bool) -> String {
        let of = if is_virtual && self.is_mixed { ", in virtual time" } else { "" };
        format!("[{file}{of}]")
    }

    fn in_words(&self, evidence: &VerdictEvidence) -> String {
        let cause = evidence.cause.as_ref();
        let cause = cause.map(|one| format!(" Cause: {}.", why::clause(one, "its")));
        let source = self.source(&evidence.file, evidence.is_virtual);
        format!("{}{} {source}", evidence.note, cause.unwrap_or_default())
    }

    fn measured(&self, figure: &ContenderFigure) -> String {
        let value = words::figure(figure.estimate, figure.metric.unit);
        let limit = figure.limit_ns.map(|limit| {
            let low = figure.low.unwrap_or(figure.estimate);
            let high = figure.high.unwrap_or(figure.estimate);
            let way = match limit as f64 {
                limit if high <= limit => "within",
                limit if low > limit => "beyond",
                _ => "about",
            };
            format!(", {way} the {} allowed", Nanos(limit))
        });
        format!(
            "{} of `{}` {value}{} {}",
            figure.metric.label,
            figure.traffic,
            limit.unwrap_or_default(),
            self.source(&figure.file, figure.is_virtual)
        )
    }

    /// Returns verdicts on means, measured on the path.
    fn confirmed(&self) -> Vec<Line> {
        let line = |evidence: &VerdictEvidence| {
            let text = format!("On the path, `{}`: {}", evidence.traffic, self.in_words(evidence));
            Line::new(text, Tone::Plain)
        };
        self.advice.confirmed.iter().map(line).collect()
    }

    /// Returns a line for each part of the traffic in which other contenders do better that cannot carry all of it.
    fn alone(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut named: Vec<&str> = Vec::new();
        for evidence in &self.advice.alone {
            if named.contains(&evidence.traffic.as_str()) {
                continue;
            }
            named.push(&evidence.traffic);
            let same = |other: &&VerdictEvidence| other.traffic == evidence.traffic;
            let others = self.advice.alone.iter().filter(same).skip(1);
            let others: Vec<&str> = others.map(|other| other.first.as_str()).collect();
            let too = match others.len() {
                0 => String::new(),
                n => format!(" So {} {}.", words::is_are(n), words::list(&others)),
            };
            let text =
                format!("For `{}` alone: {}{too}", evidence.traffic, self.in_words(evidence));
            lines.push(Line::new(text, Tone::Plain));
        }
        lines
    }

    /// Returns the effects of a change of the path: first the changes of the leader.
    fn crossovers(&self, all: &[Crossover]) -> Vec<Line> {
        let (same, changes): (Vec<&Crossover>, Vec<&Crossover>) =
            all.iter().partition(|one| one.found == SearchFinding::Unchanged);
        let mut lines: Vec<Line> = changes.into_iter().map(|one| self.change(one)).collect();
        lines.extend(self.unchanged(&same));
        lines
    }

    fn unchanged(&self, same: &[&Crossover]) -> Option<Line> {
        let one = same.first()?;
        let at: Vec<String> = same
            .iter()
            .map(|one| format!("{} {}", one.axis.name(), one.axis.text(one.end)))
            .collect();
        let stays = match winner(one, one.lead) {
            Some((winner, loser)) => format!("{winner} stays ahead of {loser}"),
            None => format!("{} and {} stay a dead heat", one.first, one.second),
        };
        let files = same.iter().flat_map(|one| one.steps.last());
        let files = files.map(|step| step.file.as_str());
        let files = self.sources(files, one.is_virtual);
        let text = format!("No crossover: {stays} at {}. {files}", words::list(&at));
        Some(Line::new(text, Tone::Plain))
    }

    fn change(&self, one: &Crossover) -> Line {
        let value = |value: f64| one.axis.text(value);
        let open: Vec<String> = one.open.iter().map(|at| value(*at)).collect();
        let open = match open.len() {
            0 => String::new(),
            _ => format!(" (undecided at {})", words::list(&open)),
        };
        let (what, [from, to]) = match one.found {
            SearchFinding::Between { from, to, lead } => {
                let what = match (winner(one, one.lead), winner(one, lead)) {
                    (_, Some((winner, loser))) => format!("{winner} comes ahead of {loser}"),
                    (Some((winner, _)), None) => {
                        format!("the lead of {winner} ends in a dead heat")
                    }
                    (None, None) => "the dead heat ends".to_owned(),
                };
                (what, [from, to])
            }
            SearchFinding::Unknown { from, to } => ("cannot tell".to_owned(), [from, to]),
            SearchFinding::Unchanged => ("no change".to_owned(), [one.base, one.end]),
        };
        let behind = one.steps.iter().filter(|step| [from, to].contains(&step.value));
        let here = (from == one.base).then_some(one.file.as_str());
        let files = here.into_iter().chain(behind.map(|step| step.file.as_str()));
        let files = self.sources(files, one.is_virtual);
        let axis = words::capital(one.axis.name());
        let (low, high) = (value(from.min(to)), value(from.max(to)));
        let text = format!("{axis}: {what} between {low} and {high}{open}. {files}");
        Line::new(text, Tone::Open)
    }

    /// Returns the files of races in brackets, in the order given; races without a result have no file.
    fn sources<'s>(&self, files: impl Iterator<Item = &'s str>, is_virtual: bool) -> String {
        let files: Vec<&str> = files.filter(|file| !file.is_empty()).collect();
        if files.is_empty() { String::new() } else { self.source(&files.join(", "), is_virtual) }
    }
}

/// Returns the places, grouped where contenders are tied or undecided with the first by the same race.
fn alike(places: &[RankedContender]) -> Vec<Vec<&RankedContender>> {
    let Some(first) = places.first() else { return Vec::new() };
    let reason = |placed: &RankedContender| {
        let evidence = placed.against.as_ref()?;
        let is_even = matches!(evidence.lead, Lead::Tie | Lead::Open);
        let of_first = is_even && evidence.first == first.contender;
        of_first.then(|| (placed.place, evidence.lead, evidence.file.clone()))
    };
    let mut groups: Vec<Vec<&RankedContender>> = Vec::new();
    for placed in places {
        let is_same = |group: &&mut Vec<&RankedContender>| {
            reason(placed).is_some() && reason(group[0]) == reason(placed)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(placed),
            None => groups.push(vec![placed]),
        }
    }
    groups
}

/// Returns the winner and the loser of a verdict.
fn winner(one: &Crossover, lead: Lead) -> Option<(&str, &str)> {
    match lead {
        Lead::First => Some((&one.first, &one.second)),
        Lead::Second => Some((&one.second, &one.first)),
        Lead::Tie | Lead::Open => None,
    }
}

/// Returns a line for each reason to leave contenders out.
fn left_out(all: &[ExcludedContender]) -> Vec<Line> {
    let mut groups: Vec<(&ExcludedContender, Vec<&str>)> = Vec::new();
    for one in all {
        let same = |other: &ExcludedContender| other.why == one.why && other.traffic == one.traffic;
        match groups.iter_mut().find(|(first, _)| same(first)) {
            Some((_, names)) => names.push(&one.contender),
            None => groups.push((one, vec![&one.contender])),
        }
    }
    let line = |(one, names): (&ExcludedContender, Vec<&str>)| {
        let why = one.why.split(';').next().unwrap_or_default();
        let names = words::list(&names);
        let text = match &one.traffic {
            Some(traffic) => format!("Left out of `{traffic}`: {names} ({why})."),
            None => format!("Left out: {names} ({why})."),
        };
        Line::new(text, Tone::Aside)
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests;
