//! Words of this program that a page uses, with their meanings, at its end.

use std::sync::LazyLock;

use super::markup::{Link, Markup};

/// Word with a meaning of its own.
struct Term {
    /// Its name in the list, which its element has, too, and other forms.
    forms: Vec<&'static str>,
    meaning: &'static str,
}

/// Heading of the list, and name of its element.
const HEADING: &str = "Words on this page";
const ID: &str = "words";

/// A line for each term, in alphabetical order: its name, other forms under which a page has it, in lower case, and its
/// meaning.
static TERMS: LazyLock<Vec<Term>> = LazyLock::new(|| {
    let term = |line: &'static str| {
        let (names, meaning) = line.split_once(": ")?;
        Some(Term { forms: names.split(", ").collect(), meaning })
    };
    include_str!("glossary.txt").lines().filter_map(term).collect()
});

impl Term {
    fn name(&self) -> &'static str {
        self.forms[0]
    }

    fn id(&self) -> String {
        format!("{ID}-{}", super::slug(self.name()))
    }

    /// Returns the first place of the term in `text`, which is in lower case, with its length.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        self.forms.iter().filter_map(|form| Some((word(text, form)?, form.len()))).min()
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
        let open = TERMS.iter().filter(|term| !linked.contains(&term.name()));
        let next = open.filter_map(|term| Some((term.find(rest)?, term)));
        // Of two terms at one place the longer one is meant.
        let next = next.min_by_key(|((from, length), _)| (*from, usize::MAX - length));
        let Some(((from, length), term)) = next else { break };
        let (from, to) = (at + from, at + from + length);
        html.text(&text[at..from]);
        html.open("a", &[("class", "term"), ("href", &format!("#{}", term.id()))]);
        html.text(&text[from..to]).made("</a>");
        linked.push(term.name());
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
        html.leaf("dt", &[], term.name()).leaf("dd", &[], term.meaning).close("div");
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
        assert!(TERMS.windows(2).all(|pair| pair[0].name() < pair[1].name()));
        assert_eq!(TERMS.len(), include_str!("glossary.txt").lines().count());
        let mut all: Vec<&&str> = TERMS.iter().flat_map(|term| &term.forms).collect();
        assert!(all.iter().all(|form| **form == form.to_ascii_lowercase()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a form belongs to one term");
    }
}
