//! A few lines at the end of a terminal that are rewritten in place, and leave nothing behind.
//!
//! Only control functions of ECMA-48 that every terminal has: cursor up (CUU), erase in line (EL) and in
//! page (ED). The cursor stays visible, so there is nothing to put back when the program is killed.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use deadheat_base::foreign::visible;
use deadheat_report::columns;

/// Columns and rows of a terminal.
pub(super) type Size = fn() -> (usize, usize);

/// Minimum time between two redraws while a trial runs.
const PAUSE: Duration = Duration::from_millis(80);

/// Lines that are rewritten on a terminal; other outputs have none. Clones share them.
#[derive(Clone)]
pub(super) struct Screen {
    output: Output,
}

#[derive(Clone)]
enum Output {
    /// A terminal, with lines that are rewritten.
    Terminal(Rc<RefCell<Drawing>>),
    /// A view that shows the lines in its own way.
    #[cfg_attr(not(feature = "live"), allow(dead_code, reason = "builds without it have no view"))]
    View(Rc<dyn LinesView>),
    /// A file or a pipe, which takes only the lines that stay.
    Plain,
    /// No output.
    Nothing,
}

/// View of lines.
pub(super) trait LinesView {
    /// Replaces the lines.
    fn show(&self, lines: &[String]);

    /// Adds a line that stays.
    fn above(&self, text: &str);
}

struct Drawing {
    out: Box<dyn Write>,
    size: Size,
    pause: Duration,
    at: Option<Instant>,
    /// Lines to show.
    lines: Vec<String>,
    /// Lines on the terminal now; the cursor is at the end of the last.
    height: usize,
}

impl Screen {
    /// Creates a screen without output.
    pub(super) fn none() -> Screen {
        Screen { output: Output::Nothing }
    }

    /// Creates a screen for standard error that is no terminal: it takes only the lines that stay.
    pub(super) fn plain() -> Screen {
        Screen { output: Output::Plain }
    }

    /// Creates a screen whose lines a view shows.
    #[cfg(feature = "live")]
    pub(super) fn view(view: Rc<dyn LinesView>) -> Screen {
        Screen { output: Output::View(view) }
    }

    /// Returns true if the lines are rewritten, as on a terminal.
    pub(super) fn is_rewritten(&self) -> bool {
        matches!(self.output, Output::Terminal(_) | Output::View(_))
    }

    /// Creates a screen on the terminal behind standard error.
    pub(super) fn stderr() -> Screen {
        let size = || super::terminal_size(libc::STDERR_FILENO).unwrap_or((80, 24));
        Screen::on(Box::new(io::stderr()), size, PAUSE)
    }

    fn on(out: Box<dyn Write>, size: Size, pause: Duration) -> Screen {
        let drawing = Drawing { out, size, pause, at: None, lines: Vec::new(), height: 0 };
        Screen { output: Output::Terminal(Rc::new(RefCell::new(drawing))) }
    }

    /// Replaces the lines; draws them unless the last drawing was less than [`PAUSE`] ago.
    pub(super) fn show(&self, lines: Vec<String>) {
        if let Output::View(view) = &self.output {
            return view.show(&lines);
        }
        self.with(|drawing| {
            drawing.lines = lines;
            if drawing.at.is_none_or(|at| at.elapsed() >= drawing.pause) {
                drawing.draw("");
            }
        });
    }

    /// Removes the lines.
    pub(super) fn clear(&self) {
        self.with(|drawing| {
            drawing.lines.clear();
            if drawing.height > 0 {
                drawing.draw("");
            }
        });
    }

    /// Writes a line that stays, above the others.
    pub(super) fn above(&self, text: &str) {
        if matches!(self.output, Output::Plain) {
            // As below: output that fails is no reason to end a race.
            let _ = writeln!(io::stderr(), "{}", visible(text));
        }
        if let Output::View(view) = &self.output {
            view.above(text);
        }
        self.with(|drawing| drawing.draw(&format!("{text}\x1b[K\n")));
    }

    fn with(&self, change: impl FnOnce(&mut Drawing)) {
        if let Output::Terminal(drawing) = &self.output {
            change(&mut drawing.borrow_mut());
        }
    }
}

impl Drawing {
    /// Writes `first` and the lines over the present lines, in one write.
    fn draw(&mut self, first: &str) {
        let (width, rows) = (self.size)();
        let mut text = String::from("\r");
        if self.height > 1 {
            text += &format!("\x1b[{}A", self.height - 1);
        }
        text += first;
        // A line in the last column, or one line more than there are rows, would move the lines above.
        let lines = self.lines.iter().take(rows.saturating_sub(1).max(1));
        let lines: Vec<String> =
            lines.map(|line| cut(line, width.saturating_sub(1)) + "\x1b[K").collect();
        text += &lines.join("\n");
        text += "\x1b[J";
        self.height = lines.len();
        self.at = Some(Instant::now());
        // Progress that cannot be shown is no reason to end a race.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// Returns the part of `line` that fits, with control characters made visible.
fn cut(line: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += columns(c.encode_utf8(&mut [0; 4]));
        used <= width
    };
    visible(line).chars().take_while(fits).collect()
}

#[cfg(test)]
pub(super) mod fake {
    use super::*;

    /// A terminal of [`WIDTH`] columns that interprets only the control functions used here.
    #[derive(Default, Clone)]
    pub(crate) struct Terminal(Rc<RefCell<TerminalPage>>);

    #[derive(Default)]
    struct TerminalPage {
        rows: Vec<Vec<char>>,
        row: usize,
        column: usize,
    }

    /// Number of columns of the terminal.
    pub(crate) const WIDTH: usize = 60;

    impl Terminal {
        /// Returns a screen on the terminal.
        pub(crate) fn screen(&self) -> Screen {
            Screen::on(Box::new(self.clone()), || (WIDTH, 10), Duration::ZERO)
        }

        /// Returns the lines on the terminal, and the position of the cursor.
        pub(crate) fn shows(&self) -> (Vec<String>, (usize, usize)) {
            let page = self.0.borrow();
            let rows = page.rows.iter();
            let mut rows: Vec<String> =
                rows.map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect();
            while rows.last().is_some_and(String::is_empty) {
                rows.pop();
            }
            (rows, (page.row, page.column))
        }
    }

    impl TerminalPage {
        fn put(&mut self, c: char) {
            if self.column == WIDTH {
                (self.row, self.column) = (self.row + 1, 0);
            }
            let rows = self.rows.len().max(self.row + 1);
            self.rows.resize(rows, Vec::new());
            let row = &mut self.rows[self.row];
            row.resize(row.len().max(self.column + 1), ' ');
            row[self.column] = c;
            self.column += 1;
        }

        fn erase_line(&mut self) {
            if let Some(row) = self.rows.get_mut(self.row) {
                row.truncate(self.column);
            }
        }
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = std::str::from_utf8(bytes).unwrap();
            let mut page = self.0.borrow_mut();
            let mut characters = text.chars();
            while let Some(c) = characters.next() {
                match c {
                    '\r' => page.column = 0,
                    '\n' => (page.row, page.column) = (page.row + 1, 0),
                    '\x1b' => {
                        assert_eq!(characters.next(), Some('['));
                        let number: String =
                            characters.clone().take_while(char::is_ascii_digit).collect();
                        let function = characters.by_ref().nth(number.len());
                        match function {
                            Some('A') => page.row -= number.parse::<usize>().unwrap(),
                            Some('K') => page.erase_line(),
                            Some('J') => {
                                page.erase_line();
                                let rows = page.row + 1;
                                page.rows.truncate(rows);
                            }
                            other => panic!("unknown control function {other:?}"),
                        }
                    }
                    c => {
                        assert!(!c.is_control(), "{c:?}");
                        page.put(c);
                    }
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{Terminal, WIDTH};
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_are_rewritten_in_place_and_leave_nothing_behind() {
        let terminal = Terminal::default();
        let screen = terminal.screen();
        for (shown, wanted) in [
            (&["one", "two", "three"][..], &["one", "two", "three"][..]),
            (&["1", "2"], &["1", "2"]),
            (&["a longer one", "b", "c", "d"], &["a longer one", "b", "c", "d"]),
        ] {
            screen.show(lines(shown));
            assert_eq!(terminal.shows().0, lines(wanted));
        }
        screen.above("kept");
        assert_eq!(terminal.shows().0, lines(&["kept", "a longer one", "b", "c", "d"]));
        screen.clear();
        assert_eq!(terminal.shows(), (lines(&["kept"]), (1, 0)));
        screen.clear();
        assert_eq!(terminal.shows(), (lines(&["kept"]), (1, 0)));
    }

    #[test]
    fn nothing_is_wider_or_higher_than_the_terminal_or_moves_its_cursor() {
        let terminal = Terminal::default();
        let screen = terminal.screen();
        let hostile = format!("x\x1b[2J\n{}", "日本".repeat(40));
        for _ in 0..3 {
            screen.show(vec![hostile.clone(); 30]);
            let (rows, _) = terminal.shows();
            assert_eq!(rows.len(), 9, "one row less than there are");
            assert!(rows.iter().all(|row| columns(row) < WIDTH && row.starts_with("x\\u{1b}[2J")));
        }
        screen.clear();
        assert_eq!(terminal.shows(), (Vec::new(), (0, 0)));
    }

    #[test]
    fn what_changes_too_fast_is_drawn_once() {
        let terminal = Terminal::default();
        let size: Size = || (WIDTH, 10);
        let screen = Screen::on(Box::new(terminal.clone()), size, Duration::from_secs(3600));
        screen.show(lines(&["first"]));
        screen.show(lines(&["second"]));
        assert_eq!(terminal.shows().0, lines(&["first"]));
        screen.clear();
        assert!(terminal.shows().0.is_empty());
    }
}
