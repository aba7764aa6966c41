//! Part of a page on one result: the answer and the verdicts, the figures, and the evidence.

use std::collections::BTreeSet;

use super::markup::{Link, Markup, slug};
use super::study::RaceDescription;
use super::{Part, blocks, day, figure, opening, section_id, shell};
use crate::content::{self, Place};
use crate::document::{Line, Section, Tone};
use crate::figure::Figure;
use crate::plot::{self, palette};
use crate::{answer, brief, evidence, opening as first_screen, words};
use deadheat_records::host::HostFacts;
use deadheat_result::command;
use deadheat_result::outcome::{Entrant, Outcome};

/// Result to write, and its place.
pub(super) struct PartContent<'a> {
    /// The name of its element.
    pub id: &'a str,
    /// The result.
    pub part: &'a Part<'a>,
    /// True if the page has no other part.
    pub is_alone: bool,
    /// Description of the race by its study.
    pub about: Option<RaceDescription<'a>>,
}

/// Writes the part; returns links to its sections.
pub(super) fn write(html: &mut Markup, written: &PartContent<'_>) -> Vec<Link> {
    let outcome = written.part.shown.outcome;
    let mut writer = Writer { html, id: written.id, level: 2, links: Vec::new() };
    writer.begin(written, outcome);
    let mut sections = content::sections(outcome);
    // The answer is first; the rest keeps its order.
    sections.sort_by_key(|(place, _)| *place);
    let mut figures = plot::figures(&written.part.shown);
    writer.first(outcome, &mut figures);
    let (before, behind): (Vec<_>, Vec<_>) =
        sections.into_iter().partition(|(place, _)| *place <= Place::Results);
    for (_, section) in before.iter().filter(|(_, section)| !section.heading.is_empty()) {
        writer.section(section);
    }
    writer.figures(outcome, &figures);
    for (place, section) in &behind {
        // Bars of letters are left out where there are drawings.
        if *place != Place::Letters || figures.is_empty() {
            writer.section(section);
        }
    }
    writer.options(outcome);
    writer.hosts(outcome);
    writer.again(outcome);
    writer.html.close("article");
    if !written.is_alone {
        writer.html.close("details");
    }
    writer.links
}

/// Writer of sections and notes in their places.
struct Writer<'a> {
    html: &'a mut Markup,
    id: &'a str,
    /// Level of the headings of sections.
    level: usize,
    links: Vec<Link>,
}

impl Writer<'_> {
    fn begin(&mut self, written: &PartContent<'_>, outcome: &Outcome) {
        let document = content::document(outcome);
        let heading = format!("{}-title", self.id);
        let mut screen = first_screen::of_race(outcome);
        let started = if outcome.started.is_empty() {
            String::new()
        } else {
            format!(" · {} UTC", day(&outcome.started))
        };
        let subtitle = format!("{}{started}", document.subtitle);
        if !written.is_alone {
            self.level = 3;
            self.summary(&written.part.name, std::mem::take(&mut screen.headlines));
        }
        self.html
            .open("article", &[("class", "part"), ("id", self.id), ("aria-labelledby", &heading)]);
        if written.is_alone {
            self.html.leaf("h1", &[("id", &heading)], &document.title);
        } else if document.title != written.part.name {
            self.html.leaf("p", &[("class", "lead")], &document.title);
        }
        opening::write(self.html, &screen);
        self.html.leaf("p", &[("class", "subtitle")], &subtitle);
        if let Some(about) = &written.about {
            about.write(self.html);
        }
    }

    /// Begins the fold of a race among others, with its name and its answer.
    fn summary(&mut self, name: &str, headlines: Vec<Line>) {
        let heading = format!("{}-title", self.id);
        self.html.open("details", &[("class", "race")]).open("summary", &[]);
        self.html.leaf("h2", &[("id", &heading)], name);
        for line in headlines {
            self.html.open("span", &[("class", &format!("also {}", line.tone.class()))]);
            opening::signed(self.html, &line);
            self.html.close("span");
        }
        self.html.close("summary");
    }

    /// Writes the part that readers need first, and the whole of a printed page: the answer, whether to trust it, the
    /// claimed figures, and the drawing that shows them. Removes the drawing from `figures`.
    fn first(&mut self, outcome: &Outcome, figures: &mut Vec<Figure>) {
        let screen = first_screen::of_race(outcome);
        let is_new = |line: &Line| !screen.says(&line.text);
        let (fineness, sentences): (Vec<_>, Vec<_>) = answer::lines(outcome)
            .into_iter()
            .filter(is_new)
            .partition(|line| line.tone == Tone::Aside);
        blocks::answer(self.html, &sentences);
        for line in fineness.into_iter().chain(brief::trust(outcome)) {
            self.html.leaf("p", &[("class", line.tone.class())], &words::capital(&line.text));
        }
        let tables = brief::claimed(outcome);
        let drawing = answering(outcome, figures).map(|at| figures.remove(at));
        if tables.is_empty() && drawing.is_none() {
            return;
        }
        let heading = "Claimed figures";
        let id = section_id(self.id, heading);
        self.html.open("section", &[]);
        self.html.leaf(&format!("h{}", self.level), &[("id", &id)], heading);
        self.links.push((format!("#{id}"), heading.to_owned()));
        for table in &tables {
            blocks::table(self.html, heading, table);
        }
        if let Some(drawing) = &drawing {
            legend(self.html, outcome);
            figure::write(self.html, self.id, self.level + 1, drawing);
        }
        self.html.close("section");
    }

    /// Begins a folded part with its heading; the link of the bar unfolds it.
    fn fold(&mut self, heading: &str) {
        let id = section_id(self.id, heading);
        let inner = format!("{id}-all");
        self.html.open("details", &[("class", "fold")]).open("summary", &[]);
        self.html.leaf(&format!("h{}", self.level), &[("id", &id)], heading).close("summary");
        // Without a name it is no landmark; there would be dozens.
        self.html.open("section", &[("id", &inner)]);
        self.links.push((format!("#{inner}"), heading.to_owned()));
    }

    fn unfold(&mut self) {
        self.html.close("section").close("details");
    }

    fn section(&mut self, section: &Section) {
        self.fold(&section.heading);
        for block in &section.blocks {
            blocks::block(self.html, &section.heading, block);
        }
        self.unfold();
    }

    fn figures(&mut self, outcome: &Outcome, figures: &[Figure]) {
        if figures.is_empty() {
            return;
        }
        self.fold("More drawings");
        legend(self.html, outcome);
        for one in figures {
            figure::write(self.html, self.id, self.level + 1, one);
        }
        self.unfold();
    }

    /// Writes the options of each contender, as asked for and as read back.
    fn options(&mut self, outcome: &Outcome) {
        let racing: Vec<&Entrant> =
            outcome.contenders.iter().filter(|one| !one.implementation.is_empty()).collect();
        if racing.is_empty() {
            return;
        }
        self.fold("Contenders");
        for entrant in racing {
            self.html.open("details", &[]);
            self.html.open("summary", &[]).text(&entrant.label);
            self.html.leaf("span", &[("class", "aside")], &format!(" {}", entrant.implementation));
            self.html.close("summary");
            blocks::facts(self.html, &options(entrant));
            self.html.close("details");
        }
        self.unfold();
    }

    fn hosts(&mut self, outcome: &Outcome) {
        let hosts = [Some(&outcome.host), outcome.peer_host.as_ref()];
        let known: Vec<(String, &HostFacts)> = hosts
            .into_iter()
            .flatten()
            .map(|host| (evidence::host(host), host))
            .filter(|(line, _)| !line.is_empty())
            .collect();
        if known.is_empty() {
            return;
        }
        self.fold("Hosts");
        for (line, host) in known {
            self.html.open("details", &[]).leaf("summary", &[], &line);
            blocks::facts(self.html, &host_facts(host));
            self.html.close("details");
        }
        self.unfold();
    }

    /// Writes the command that repeats the race; nothing for an import, which deadheat cannot repeat.
    fn again(&mut self, outcome: &Outcome) {
        if outcome.imported.is_some() {
            return;
        }
        self.fold("Run it again");
        let how = "With the same plan and the same draws on a machine of your own; figures differ as \
                   machines do.";
        self.html.leaf("p", &[("class", "aside")], how);
        shell::command(self.html, &command::again(outcome));
        self.unfold();
    }
}

/// Most pairs of the drawing that shows the answer; with more, the trials of each contender are easier to read.
const MOST_PAIRS: usize = 15;

/// Returns the drawing that shows the answer, which is what the verdicts are about: the pairs of the first claim against
/// the margin. Where there are none, or too many: the work over time beside a load, the load curve of a sweep, figures by
/// level of a race over conditions, long trials over time, the trials of the first claim, or the distribution of round
/// trips.
fn answering(outcome: &Outcome, figures: &[Figure]) -> Option<usize> {
    let few = |figure: &Figure| figure.numbers.rows.len() <= MOST_PAIRS;
    let is_pairs = |figure: &Figure| figure.id.starts_with("pairs-");
    let pairs = figures.iter().position(|figure| is_pairs(figure) && few(figure));
    let claim = outcome.metrics.first().map(|metric| format!("trials-{}", slug(&metric.name)));
    let has_pairs = figures.iter().any(is_pairs);
    // What a trial shows over time says nothing of which of two is ahead.
    let over_time = ["over-time", "offered", "levels-", "long-trial"];
    let over_time = over_time.into_iter().filter(|_| !has_pairs).map(str::to_owned);
    let mut wanted = over_time.chain(claim).chain(["distribution".to_owned()]);
    pairs.or_else(|| {
        wanted.find_map(|start| figures.iter().position(|figure| figure.id.starts_with(&start)))
    })
}

/// Writes contenders with their colours; a script makes switches of them. A race over conditions has the contenders
/// as typed, which share a colour under all conditions.
fn legend(html: &mut Markup, outcome: &Outcome) {
    html.open("ul", &[("class", "legend"), ("aria-label", "Contenders in the figures")]);
    let mut listed = BTreeSet::new();
    for entrant in outcome.contenders.iter().filter(|one| one.is_racing()) {
        let number = palette::number(outcome, entrant.id);
        if !listed.insert(number) {
            continue;
        }
        let row = entrant.cell.as_ref().map(|cell| outcome.contender(cell.contender));
        let class = format!("key c{}", number % palette::CLASSES);
        html.open("li", &[]).open("span", &[("class", "entrant")]);
        html.open("span", &[("class", &class), ("aria-hidden", "true")]).close("span");
        html.text(row.as_ref().unwrap_or(&entrant.label)).close("span").close("li");
    }
    html.close("ul");
}

fn options(entrant: &Entrant) -> Vec<(String, String)> {
    let mut facts = vec![("as typed".to_owned(), entrant.spec.clone())];
    let sides =
        [("asked", &entrant.asked), ("near", &entrant.effective), ("far", &entrant.far_effective)];
    for (side, options) in sides {
        let all: Vec<String> =
            options.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !all.is_empty() {
            let name =
                if side == "asked" { side.to_owned() } else { format!("read back, {side} end") };
            facts.push((name, all.join(", ")));
        }
    }
    facts
}

fn host_facts(host: &HostFacts) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let maybe = |value: &Option<String>| value.clone().unwrap_or_default();
    let cpus: Vec<String> = host.cpus.iter().map(ToString::to_string).collect();
    let mut facts = vec![
        fact("name", &host.hostname),
        fact("kernel", &format!("{} {}", host.kernel, host.arch)),
        fact("CPU", &host.cpu_model),
        fact("CPUs used", &cpus.join(", ")),
        fact("virtualisation", &maybe(&host.virtualisation)),
        fact("frequency governor", &maybe(&host.governor)),
        fact("idle driver", &maybe(&host.idle_driver)),
        fact("clock source", &maybe(&host.clock_source)),
        fact("congestion control", &maybe(&host.congestion_control)),
        fact("deadheat", &host.deadheat),
    ];
    facts.extend(host.sysctls.clone());
    facts.extend(host.mitigations.clone());
    facts.retain(|(_, value)| !value.trim().is_empty());
    facts
}
