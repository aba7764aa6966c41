//! Styles of the classes of a drawing, and drawings that stand alone.

use std::fmt::Write;

use super::palette::{self, DARK_PAGE, LIGHT_PAGE, Tint};
use super::svg::escape;
use crate::figure::Figure;

/// Style rules of every class, in terms of variables that [`variables`] sets. For pages, too.
pub const RULES: &str = "\
.t{fill:var(--ink);font:12px system-ui,sans-serif;font-variant-numeric:tabular-nums}\
.ts{fill:var(--soft);font-size:11px}.tb{font-weight:600}\
.a,.g,.r,.w,.q,.l{fill:none}\
.a{stroke:var(--line)}.g{stroke:var(--grid)}\
.z{fill:var(--zone);fill-opacity:.7}\
.r{stroke:var(--soft);stroke-dasharray:3 3}\
.u{--c:var(--soft)}.i{--c:var(--ink)}\
.d{fill:var(--c);fill-opacity:.85;stroke:var(--page);stroke-width:.4}\
.o{fill:var(--page);stroke:var(--c);stroke-width:1.3}\
.l{stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}\
.k{stroke-width:1;opacity:.28}.y{stroke-width:1.4;opacity:.85}\
.s{fill:var(--c);stroke:var(--c);stroke-width:4;stroke-linecap:round;opacity:.6}\
.b{fill:var(--c);fill-opacity:.16;stroke:var(--c);stroke-width:1}\
.h{fill:var(--c);fill-opacity:.18}\
.q{stroke:var(--c);stroke-width:2.6}\
.w{stroke:var(--c);stroke-width:1.4}\
.f{fill:var(--c);fill-opacity:.85;stroke:var(--page);stroke-width:.6}\
.f2{fill-opacity:.42}\
.n{fill:var(--grid);stroke:var(--page);stroke-width:.6}";

/// Neutral colours: name, on a light page, on a dark one.
const NEUTRAL: [(&str, &str, &str); 6] = [
    ("page", LIGHT_PAGE, DARK_PAGE),
    ("ink", "#1b1f24", "#e8eaed"),
    ("soft", "#59626d", "#a3acb8"),
    ("line", "#8b939d", "#6d7681"),
    ("grid", "#e6e9ed", "#2a3038"),
    ("zone", "#dfe8e2", "#26352c"),
];

/// Returns the variables of the classes `c0` … and `p0` …, with their colours for light and dark pages,
/// and the classes that use them. Neutral variables, which a page may set itself, are not included.
pub fn variables(tints: &[Tint]) -> (String, String, String) {
    let parts = palette::parts();
    let (mut light, mut dark, mut classes) = (String::new(), String::new(), String::new());
    let named = |name: char, tints: &[Tint]| -> Vec<(String, Tint)> {
        tints.iter().enumerate().map(|(at, tint)| (format!("{name}{at}"), tint.clone())).collect()
    };
    for (name, tint) in named('c', tints).into_iter().chain(named('p', &parts)) {
        // Writing to a String cannot fail.
        let _ = write!(light, "--{name}:{};", tint.light);
        let _ = write!(dark, "--{name}:{};", tint.dark);
        let _ = write!(classes, ".{name}{{--c:var(--{name})}}");
    }
    (light, dark, classes)
}

/// Returns a figure's wide drawing as a file of its own: light and dark, with title and caption in it, and
/// with the colours of its contenders.
pub fn standalone(figure: &Figure, tints: &[Tint]) -> String {
    let (light, dark, classes) = variables(tints);
    let neutral =
        |pick: fn(&(&str, &str, &str)) -> String| -> String { NEUTRAL.iter().map(pick).collect() };
    let bright = neutral(|(name, light, _)| format!("--{name}:{light};"));
    let dim = neutral(|(name, _, dark)| format!("--{name}:{dark};"));
    let (open, rest) = figure.wide.split_once('>').unwrap_or(("<svg", "</svg>"));
    let mut svg = format!("{open} role=\"img\"><title>");
    escape(&mut svg, &figure.title);
    svg.push_str("</title><desc>");
    escape(&mut svg, &figure.caption);
    let _ = writeln!(
        svg,
        "</desc><style>svg{{{bright}{light}background:var(--page)}}\
         @media(prefers-color-scheme:dark){{svg{{{dim}{dark}}}}}{classes}{RULES}</style>{rest}"
    );
    svg
}
