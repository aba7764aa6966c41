//! Frame of every page: the head with its policy, the bar, the end. A page is one file, and its policy
//! admits only this style and this script, by their hashes, and pictures made by the page
//! itself (Content Security Policy Level 3).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::glossary;
use super::markup::{Link, Markup, escape};

/// Style of every page.
pub const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Renders a page: `title` names it, `colours` are further style rules, `links` are the links of the bar,
/// and `content` is its main part, behind which the meanings of its words are.
pub(super) fn page(title: &str, colours: &str, links: &[Link], content: &str) -> String {
    let style = format!("{STYLE}{colours}");
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data: blob:; \
         base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    let mut words = Markup::default();
    let mut links = links.to_vec();
    links.extend(glossary::write(&mut words, content));
    let mut html = Markup::default();
    html.made("<!doctype html>\n").open("html", &[("lang", "en")]).open("head", &[]);
    // The charset must precede all content.
    html.open("meta", &[("charset", "utf-8")]);
    // Not escaped: the policy has no text from elsewhere, and needs its quotes.
    html.made(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"));
    html.open("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    html.open("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    html.open("meta", &[("name", "generator"), ("content", generator())]);
    html.leaf("title", &[], title);
    html.made("<style>").made(&style).made("</style>\n");
    html.made("<script>").made(SCRIPT).made("</script>\n").close("head").open("body", &[]);
    html.leaf("a", &[("class", "skip"), ("href", "#main")], "Skip to the content");
    bar(&mut html, &links);
    html.open("main", &[("id", "main"), ("tabindex", "-1")]).made(content);
    html.made(&words.into_string()).close("main");
    html.open("footer", &[]).open("p", &[]).text("Made by ").text(generator());
    html.text(", the referee for network transports. This page is one file and asks nothing of the network.");
    html.close("p").close("footer").close("body").close("html");
    html.into_string()
}

fn bar(html: &mut Markup, links: &[Link]) {
    html.open("header", &[("class", "bar")]);
    html.leaf("span", &[("class", "brand")], "deadheat");
    if !links.is_empty() {
        html.open("nav", &[("aria-label", "Contents")]).open("ul", &[]);
        for (to, words) in links {
            html.open("li", &[]).leaf("a", &[("href", to)], words).close("li");
        }
        html.close("ul").close("nav");
    }
    html.open("div", &[("class", "bar-end")]).close("div").close("header");
}

fn generator() -> &'static str {
    concat!("deadheat ", env!("CARGO_PKG_VERSION"))
}

/// Returns the hash of an element's text, in the syntax of a policy.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// Writes a command, with a place for a button that copies it.
pub(super) fn command(html: &mut Markup, line: &str) {
    // Escaping must not change a command: `race::command` has written out already the characters that
    // a page would not show.
    html.made("<div class=\"command\"><pre tabindex=\"0\"><code>").made(&escape(line));
    html.made("</code></pre></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_style_nor_script_ends_early_or_fetches_anything() {
        for asset in [STYLE, SCRIPT] {
            let lower = asset.to_lowercase();
            for absent in ["</", "<!--", "http:", "https:", "@import", "fetch(", "eval("] {
                assert!(!lower.contains(absent), "{absent}");
            }
        }
        // In a script it may end `createObjectURL(`.
        assert!(!STYLE.contains("url("));
    }

    #[test]
    fn the_policy_names_exactly_what_is_in_the_page() {
        let page = page("t", ".c0{color:red}", &[], "");
        let style = page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert!(style.ends_with(".c0{color:red}"));
        assert!(page.contains(&format!("style-src 'sha256-{}';", hash(style))));
        assert!(page.contains(&format!("script-src 'sha256-{}';", hash(SCRIPT))));
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("style=").count() + page.matches(" onclick").count(), 0);
    }

    #[test]
    fn a_hash_is_as_the_standard_has_it() {
        // CSP Level 3, 8.2: the hash of `alert('Hello, world.');`.
        let known = "qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=";
        assert_eq!(hash("alert('Hello, world.');"), known);
    }
}
