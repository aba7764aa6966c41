//! First screen of a page: the answer, its figure, and how far to trust it, with links to the meanings of its terms.

use super::glossary;
use super::markup::Markup;
use crate::document::{Line, Tone};
use crate::opening::Opening;

const TRUST: &str = "How far to trust it";

/// Writes the first screen.
pub(super) fn write(html: &mut Markup, opening: &Opening) {
    html.open(
        "div",
        &[("class", "opening"), ("role", "group"), ("aria-label", "The answer in short")],
    );
    for (at, line) in opening.headlines.iter().enumerate() {
        let rank = if at == 0 { "headline" } else { "also" };
        html.open("p", &[("class", &format!("{rank} {}", line.tone.class()))]);
        signed(html, line);
        html.close("p");
    }
    if let Some(figure) = &opening.figure {
        html.open("p", &[("class", "in-figures")]);
        html.leaf("strong", &[], &figure.value);
        if !figure.interval.is_empty() {
            html.open("span", &[]);
            glossary::linked(html, &format!("({})", figure.interval));
            html.close("span");
        }
        html.open("span", &[("class", "aside")]);
        glossary::linked(html, &figure.about);
        html.close("span").close("p");
    }
    if !opening.trust.is_empty() {
        html.leaf("p", &[("class", "aside trust-lead")], TRUST);
        html.open("ul", &[("class", "trust"), ("aria-label", TRUST)]);
        for line in &opening.trust {
            html.open("li", &[("class", line.tone.class())]);
            // The sign of a lead would claim that a contender is ahead.
            let sign = if line.tone == Tone::Good { "✓" } else { line.tone.sign() };
            sentence(html, sign, &line.text);
            html.close("li");
        }
        html.close("ul");
    }
    html.close("div");
}

/// Writes a sentence with the sign of its meaning.
pub(super) fn signed(html: &mut Markup, line: &Line) {
    sentence(html, line.tone.sign(), &line.text);
}

fn sentence(html: &mut Markup, sign: &str, text: &str) {
    html.open("span", &[("class", "sign"), ("aria-hidden", "true")]);
    html.text(sign).close("span");
    html.open("span", &[("class", "said")]);
    glossary::linked(html, text);
    html.close("span");
}
