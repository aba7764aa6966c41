//! Elements and text of HTML, and the one place where text is escaped.

use deadheat_base::foreign::visible;

/// HTML under construction.
#[derive(Debug, Default)]
pub(super) struct Markup {
    text: String,
}

/// Attributes of an element, their values as raw text.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Markup {
    /// Opens an element. The name and the attributes are constants of this program, never of a file.
    pub(super) fn open(&mut self, name: &str, attributes: Attributes<'_>) -> &mut Markup {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text.push_str(&escape(value));
            self.text.push('"');
        }
        self.text.push('>');
        self
    }

    /// Closes an element.
    pub(super) fn close(&mut self, name: &str) -> &mut Markup {
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
        self
    }

    /// Adds text from any source, escaped, with each figure bound to its unit.
    pub(super) fn text(&mut self, text: &str) -> &mut Markup {
        self.text.push_str(&bound(&escape(text)));
        self
    }

    /// Adds an element with nothing but text in it.
    pub(super) fn leaf(
        &mut self,
        name: &str,
        attributes: Attributes<'_>,
        text: &str,
    ) -> &mut Markup {
        self.open(name, attributes).text(text).close(name)
    }

    /// Adds HTML that this program made and escaped: drawings, the style sheet.
    pub(super) fn made(&mut self, html: &str) -> &mut Markup {
        self.text.push_str(html);
        self
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }
}

/// Escapes `text` for an element and for a quoted attribute: characters that hide or move are
/// written out, and everything that HTML would read as markup is a character reference.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Units before which no line ends, one a line; `scripts/book.sh` reads them, too.
const UNITS: &str = include_str!("units.txt");

/// Replaces the space between a figure and its unit by one at which no line ends (the SI Brochure, 9th edition, 5.4.3, has
/// such a space there).
fn bound(text: &str) -> String {
    let mut bound = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(' ') {
        bound.push_str(before);
        let is_figure = before.ends_with(|c: char| c.is_ascii_digit());
        bound.push(if is_figure && begins_with_unit(behind) { '\u{a0}' } else { ' ' });
        rest = behind;
    }
    bound + rest
}

fn begins_with_unit(text: &str) -> bool {
    let end = text.find(|c: char| !(c.is_alphanumeric() || "%/".contains(c)));
    let word = &text[..end.unwrap_or(text.len())];
    UNITS.lines().any(|unit| unit == word)
}

/// Returns an element's name for a heading: lower case, digits and dashes.
pub(super) fn slug(heading: &str) -> String {
    let mut slug = String::new();
    for c in heading.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// A link of the bar: its target and its text.
pub(super) type Link = (String, String);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;
    use deadheat_base::units::Bytes;
    use deadheat_contract::measurements::Unit;

    #[test]
    fn what_a_file_says_stays_text() {
        let hostile = "</p><script>a('b')</script> \" & \u{202e}\u{1b}\n";
        assert_eq!(
            escape(hostile),
            "&lt;/p&gt;&lt;script&gt;a(&#39;b&#39;)&lt;/script&gt; &quot; &amp; \\u{202e}\\u{1b}\\n"
        );
        let mut html = Markup::default();
        html.leaf("p", &[("title", "\" onload=\"x")], "<b>");
        assert_eq!(html.into_string(), "<p title=\"&quot; onload=&quot;x\">&lt;b&gt;</p>\n");
    }

    #[test]
    fn no_line_ends_between_a_figure_and_its_unit() {
        let shown = |text: &str| {
            let mut html = Markup::default();
            html.text(text);
            html.into_string().replace('\u{a0}', "_")
        };
        assert_eq!(shown("18 % (17 to 18.5 %), ±5 %"), "18_% (17 to 18.5_%), ±5_%");
        assert_eq!(shown("9 min 58 s, 51.5 µs; <3 MB"), "9_min 58_s, 51.5_µs; &lt;3_MB");
        assert_eq!(shown("20 Mbit/s & 5 s"), "20_Mbit/s &amp; 5_s");
        for unchanged in ["in 3 blocks", "2 sites of 4 hosts", "ping ms", "udp 5", "5  s", ""] {
            assert_eq!(shown(unchanged), unchanged);
        }
    }

    #[test]
    fn attributes_and_commands_stay_as_they_are() {
        let mut html = Markup::default();
        html.leaf("a", &[("href", "5 s")], "");
        assert_eq!(html.into_string(), "<a href=\"5 s\"></a>\n");
        assert_eq!(escape("sleep 5 s"), "sleep 5 s");
    }

    #[test]
    fn figures_of_all_units_are_bound() {
        let bits = [1.0, 1e3, 1e6, 1e9, 1e12].map(|size| words::figure(size, Unit::BitRate));
        let times = [1.0, 1e3, 1e6, 1e9].map(|size| words::figure(size, Unit::Nanos));
        let share = words::figure(0.5, Unit::Share);
        let sizes = [1, 1_000, 1_000_000, 1_000_000_000].map(|n| Bytes(n).to_string());
        for figure in bits.iter().chain(&times).chain(&sizes).chain([&share]) {
            assert!(figure.contains(' ') && !bound(figure).contains(' '), "{figure}");
        }
    }

    #[test]
    fn headings_become_names() {
        assert_eq!(slug("Not delivered as sent"), "not-delivered-as-sent");
        assert_eq!(slug(" RTT p99 (µs) "), "rtt-p99-s");
        assert_eq!(slug("…"), "");
    }
}
