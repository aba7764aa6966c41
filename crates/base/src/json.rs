//! JSON in two layouts: a line for other processes, and indented text for people. In the text the numbers of one array
//! share a line: series over time consist of such arrays, and would otherwise need a line per number.
//!
//! Both layouts are states of one formatter, and all writers are one type, so that the program has the code of a saved
//! type once, not for each layout and each writer.

mod members;

use std::io::{self, Write};

use crate::foreign::is_obeyed;
pub use members::ReadValue;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Writes `value` as indented JSON, without a newline at its end.
///
/// # Errors
/// Error of the writer, or of a value that JSON cannot hold.
pub fn write<T: Serialize + ?Sized>(value: &T, writer: &mut dyn Write) -> serde_json::Result<()> {
    write_as(Shape::Text, value, writer)
}

/// Returns `value` as indented JSON, without a newline at its end.
///
/// # Errors
/// As [`write()`].
pub fn text<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    write(value, &mut bytes)?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

/// Returns `value` as JSON without any space, and without a newline at its end.
///
/// # Errors
/// As [`write()`].
pub fn line<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_as(Shape::Line, value, &mut bytes)?;
    Ok(bytes)
}

/// Reads a value from its JSON; structs are objects there.
///
/// # Errors
/// If it is not JSON, or has another form.
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice::<ReadValue<T>>(text).map(|read| read.0)
}

/// Returns `value` as the tree that its JSON is read as.
///
/// # Errors
/// As [`write()`].
pub fn tree<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Value> {
    serde_json::from_slice(&line(value)?)
}

fn write_as<T: Serialize + ?Sized>(
    shape: Shape,
    value: &T,
    writer: &mut dyn Write,
) -> serde_json::Result<()> {
    let layout = Layout { shape, ..Layout::default() };
    value.serialize(&mut Serializer::with_formatter(writer, layout))
}

/// Shape of the whole.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Indented text.
    #[default]
    Text,
    /// All in one line.
    Line,
}

impl Shape {
    /// Returns the separator for this shape.
    fn either(self, in_text: &'static [u8], in_line: &'static [u8]) -> &'static [u8] {
        match self {
            Shape::Text => in_text,
            Shape::Line => in_line,
        }
    }
}

/// State of a new array element. The separator before it depends on its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenElement {
    First,
    Further,
}

#[derive(Debug, Default)]
struct Layout {
    shape: Shape,
    depth: usize,
    begun: Option<OpenElement>,
    /// True if the last value shares its line with the previous one.
    inline: bool,
    /// True if the current container has any element.
    filled: bool,
}

impl Layout {
    /// Begins a line, where there are several.
    #[inline(never)]
    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        if self.shape == Shape::Line {
            return Ok(());
        }
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }

    /// Writes the separator before a number, null or truth value.
    #[inline(never)]
    fn scalar<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inline = true;
        match self.begun.take() {
            Some(OpenElement::Further) => writer.write_all(self.shape.either(b", ", b",")),
            Some(OpenElement::First) | None => Ok(()),
        }
    }

    /// Writes the separator before any other value.
    #[inline(never)]
    fn other<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inline = false;
        match self.begun.take() {
            Some(OpenElement::Further) => writer.write_all(b",").and_then(|()| self.line(writer)),
            Some(OpenElement::First) => self.line(writer),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.other(writer)?;
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    #[inline(never)]
    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled && !self.inline {
            self.line(writer)?;
        }
        (self.inline, self.filled) = (false, true);
        writer.write_all(bracket)
    }
}

macro_rules! scalars {
    ($($write:ident($($value:ident: $type:ty)?),)*) => {
        $(fn $write<W: ?Sized + Write>(
            &mut self,
            writer: &mut W,
            $($value: $type)?
        ) -> io::Result<()> {
            self.scalar(writer)?;
            CompactFormatter.$write(writer, $($value)?)
        })*
    };
}

impl Formatter for Layout {
    /// Escapes control characters above U+001F, which a terminal would execute; JSON itself escapes none of them. No
    /// terminal shows a line for another process.
    #[inline(never)]
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if self.shape == Shape::Line {
            return writer.write_all(fragment.as_bytes());
        }
        for part in fragment.split_inclusive(is_obeyed) {
            let (text, obeyed) = match part.char_indices().next_back() {
                Some((at, c)) if is_obeyed(c) => (&part[..at], Some(c)),
                _ => (part, None),
            };
            writer.write_all(text.as_bytes())?;
            let mut units = [0; 2];
            for unit in obeyed.iter().flat_map(|c| c.encode_utf16(&mut units).to_vec()) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    scalars! {
        write_null(),
        write_bool(value: bool),
        write_i8(value: i8),
        write_i16(value: i16),
        write_i32(value: i32),
        write_i64(value: i64),
        write_u8(value: u8),
        write_u16(value: u16),
        write_u32(value: u32),
        write_u64(value: u64),
        write_f32(value: f32),
        write_f64(value: f64),
    }

    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.other(writer)?;
        writer.write_all(b"\"")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.begun = Some(if first { OpenElement::First } else { OpenElement::Further });
        Ok(())
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inline = false;
        self.close(writer, b"}")
    }

    #[inline(never)]
    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.line(writer)
    }

    #[inline(never)]
    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.shape.either(b": ", b":"))
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_share_a_line_and_all_else_has_its_own() {
        let value = json!({
            "a": [1, -2, 3.5, null, true],
            "b": [],
            "c": {},
            "d": [[1], [], ["x", "y"], {"e": [7]}],
            "f": "g",
        });
        let expected = r#"{
  "a": [1, -2, 3.5, null, true],
  "b": [],
  "c": {},
  "d": [
    [1],
    [],
    [
      "x",
      "y"
    ],
    {
      "e": [7]
    }
  ],
  "f": "g"
}"#;
        assert_eq!(text(&value).unwrap(), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mixed = json!([null, {"k": [1, {"l": []}, 2]}, 3, "s", [[], [[4, "t"]]], false]);
        for value in [mixed, json!(5), json!("x"), json!(null), json!([{}])] {
            assert_eq!(serde_json::from_str::<Value>(&text(&value).unwrap()).unwrap(), value);
            assert_eq!(line(&value).unwrap(), value.to_string().into_bytes());
            assert_eq!(tree(&value).unwrap(), value);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_read_back_whole() {
        let said = "a\u{9b}2J\u{202e}b\u{e0001}\u{1b}µ\n";
        let json = text(&said).unwrap();
        assert_eq!(json, r#""a\u009b2J\u202eb\udb40\udc01\u001bµ\n""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), said);
    }
}
