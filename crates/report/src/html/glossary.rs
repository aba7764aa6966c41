//! Words of this program that a page uses, with their meanings, at its end.

use super::markup::{Link, Markup};

/// Word with a meaning of its own.
struct Term {
    /// Name in the list, and of its element.
    name: &'static str,
    /// Other forms under which a page has it, in lower case.
    forms: &'static [&'static str],
    meaning: &'static str,
}

const fn term(name: &'static str, forms: &'static [&'static str], meaning: &'static str) -> Term {
    Term { name, forms, meaning }
}

/// Heading of the list, and name of its element.
const HEADING: &str = "Words on this page";
const ID: &str = "words";

const TERMS: &[Term] = &[
    term(
        "ahead",
        &[],
        "Better by more than the margin, with an interval that leaves out that both are equal.",
    ),
    term(
        "block",
        &["blocks"],
        "Every contender once, in random order, one right after the other. Contenders are compared block by block, so \
         that a slow minute of the machine harms none of them.",
    ),
    term(
        "claim",
        &["claims", "claimed"],
        "A comparison that was chosen before the race. It gets a verdict; all other figures only describe.",
    ),
    term(
        "confidence",
        &["interval", "intervals"],
        "An interval at 95 % confidence has the true value in it in 95 of 100 races such as this one.",
    ),
    term("contender", &["contenders"], "A transport with its options: a row of the tables."),
    term(
        "control",
        &["identical copies"],
        "A second copy of the first contender that runs with the others. Two identical contenders are equal, so their \
         difference shows how much noise there is here.",
    ),
    term(
        "dead heat",
        &["dead heats"],
        "A tie that was shown: the difference lies within the margin, and so does its interval.",
    ),
    term(
        "emulated path",
        &["emulated paths"],
        "A network that deadheat builds inside one machine, with the delay, losses and rate that were asked for.",
    ),
    term(
        "floor",
        &[],
        "The round trip that the far kernel answers by itself, without a program. It takes part in no verdict.",
    ),
    term(
        "gate",
        &["gates"],
        "A check of each trial that was fixed before the race and does not look at its result. A trial that fails it is \
         left out, and listed.",
    ),
    term("goodput", &[], "Data of the application that arrived at the receiver, per second."),
    term(
        "load beside the work",
        &["beside a load"],
        "Bulk data of a contender that shares the path with the measured work, as a download of another user does.",
    ),
    term("loopback", &[], "Both ends run on one machine, and nothing passes a network card."),
    term(
        "margin",
        &[],
        "The difference that does not matter to the reader, fixed before the race: 5 % unless another one was asked for.",
    ),
    term("p50", &["median", "medians"], "The median: half of all values are below it."),
    term("p90", &[], "Nine of ten values are below it."),
    term("p99", &[], "99 of 100 values are below it: the slowest 1 % are above."),
    term("p99.9", &[], "999 of 1000 values are below it."),
    term(
        "resolution",
        &[],
        "The difference that this race would have found 4 times in 5. It belongs to the machine, the time and the noise.",
    ),
    term(
        "round trip",
        &["rtt", "round trips"],
        "RTT: the time from the moment at which a message was due until its answer arrived.",
    ),
    term(
        "simulation",
        &["simulated"],
        "The transport's own code over a path that is computed, in virtual time. It is no measurement of a machine.",
    ),
    term(
        "trial",
        &["trials"],
        "One contender does the work once, in new processes and over a new connection.",
    ),
    term("undecided", &[], "Neither ahead nor a dead heat: the interval is too wide for either."),
    term("verdict", &["verdicts"], "The outcome of a claim: ahead, dead heat, or undecided."),
];

impl Term {
    fn id(&self) -> String {
        format!("{ID}-{}", super::slug(self.name))
    }

    /// Returns the first place of the term in `text`, which is in lower case, with its length.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let forms = std::iter::once(&self.name).chain(self.forms);
        forms.filter_map(|form| Some((word(text, form)?, form.len()))).min()
    }
}

/// Returns the place of a word that is not a part of a longer one.
fn word(text: &str, form: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(form).map(|(at, _)| at).find(|at| {
        let behind = &text[at + form.len()..];
        let goes_on = behind.starts_with(is_part)
            || behind
                .strip_prefix('.')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        !text[..*at].ends_with(is_part) && !goes_on
    })
}

/// Writes a text in which each term is a link to its meaning, where it is first used.
pub(super) fn linked(html: &mut Markup, text: &str) {
    let lower = text.to_ascii_lowercase();
    let mut linked: Vec<&str> = Vec::new();
    let mut at = 0;
    loop {
        let rest = &lower[at..];
        let open = TERMS.iter().filter(|term| !linked.contains(&term.name));
        let next = open.filter_map(|term| Some((term.find(rest)?, term)));
        // Of two terms at one place the longer one is meant.
        let next = next.min_by_key(|((from, length), _)| (*from, usize::MAX - length));
        let Some(((from, length), term)) = next else { break };
        let (from, to) = (at + from, at + from + length);
        html.text(&text[at..from]);
        html.open("a", &[("class", "term"), ("href", &format!("#{}", term.id()))]);
        html.text(&text[from..to]).made("</a>");
        linked.push(term.name);
        at = to;
    }
    html.text(&text[at..]);
}

/// Writes the meanings of the terms in `content`, which is the HTML of a page; returns the link to them.
pub(super) fn write(html: &mut Markup, content: &str) -> Option<Link> {
    let text = text_of(content);
    let used: Vec<&Term> = TERMS.iter().filter(|term| term.find(&text).is_some()).collect();
    if used.is_empty() {
        return None;
    }
    let heading = format!("{ID}-title");
    html.open("details", &[("class", "fold")]).open("summary", &[]);
    html.leaf("h2", &[("id", &heading)], HEADING).close("summary");
    html.open("section", &[("id", ID)]);
    html.open("dl", &[("class", "facts")]);
    for term in used {
        html.open("div", &[("id", &term.id())]);
        html.leaf("dt", &[], term.name).leaf("dd", &[], term.meaning).close("div");
    }
    html.close("dl").close("section").close("details");
    Some((format!("#{ID}"), HEADING.to_owned()))
}

/// Returns the text between the tags of HTML, in lower case.
fn text_of(content: &str) -> String {
    let pieces =
        content.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text));
    pieces.collect::<Vec<&str>>().join(" ").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut html = Markup::default();
        linked(&mut html, text);
        html.into_string()
    }

    #[test]
    fn a_term_is_a_link_where_it_is_first_used_and_text_stays_text() {
        assert_eq!(
            shown("A dead heat: <b> in blocks, a block"),
            "A <a class=\"term\" href=\"#words-dead-heat\">dead heat</a>: &lt;b&gt; in <a class=\"term\" \
             href=\"#words-block\">blocks</a>, a block"
        );
        assert_eq!(shown("roadblock, blocky, p99.5"), "roadblock, blocky, p99.5");
        assert!(shown("Ärger, p99.9").contains("href=\"#words-p99-9\">p99.9</a>"));
    }

    #[test]
    fn a_page_explains_the_words_that_it_uses_and_no_others() {
        let mut html = Markup::default();
        let link = write(&mut html, "<p class=\"margin\">A dead heat in 3 blocks.</p>").unwrap();
        let text = html.into_string();
        assert_eq!(link.0, "#words");
        assert_eq!(text.matches("<dt>").count(), 2);
        assert!(
            text.contains("<dt>dead heat</dt>") && text.contains("id=\"words-block\""),
            "{text}"
        );
        assert_eq!(write(&mut Markup::default(), "<p>Nothing.</p>"), None);
    }

    #[test]
    fn terms_are_in_order_and_their_forms_are_in_lower_case() {
        assert!(TERMS.windows(2).all(|pair| pair[0].name < pair[1].name));
        let forms = TERMS.iter().flat_map(|term| term.forms.iter().chain([&term.name]));
        let mut all: Vec<&&str> = forms.collect();
        assert!(all.iter().all(|form| **form == form.to_ascii_lowercase()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a form belongs to one term");
    }
}
