//! Elements and text of HTML, and the one place where text is escaped.

use crate::foreign::visible;

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

    /// Adds text from any source, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Markup {
        self.text.push_str(&escape(text));
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn headings_become_names() {
        assert_eq!(slug("Not delivered as sent"), "not-delivered-as-sent");
        assert_eq!(slug(" RTT p99 (µs) "), "rtt-p99-s");
        assert_eq!(slug("…"), "");
    }
}
