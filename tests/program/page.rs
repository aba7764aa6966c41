//! Pages in a real browser: what they show, what they do, and what they never do.
//!
//! Needs Chromium; says so and passes where it is missing.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

#[path = "../common/browser.rs"]
mod browser;
use crate::common;
#[path = "../common/rulings.rs"]
mod study;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::Browser;
use deadheat::report::html::{self, Page, Part};
use deadheat::result::outcome::Outcome;
use serde_json::{Value, json};

/// Contrast at least of text (WCAG 2.2, 1.4.3).
const CONTRAST: &str = r"
    (() => {
        const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
        const channels = (colour) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        };
        const luminance = (rgb) => {
            const [r, g, b] = rgb.map((c) => c / 255)
                .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const colour = channels(getComputedStyle(at).backgroundColor);
                if (colour[3] === 255) return colour.slice(0, 3);
            }
            return channels(getComputedStyle(document.documentElement).backgroundColor).slice(0, 3);
        };
        const low = [];
        for (const element of document.querySelectorAll('main *, header *')) {
            const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
            if (!own || element.closest('svg') || !element.checkVisibility()) continue;
            const [a, b] = [channels(getComputedStyle(element).color).slice(0, 3), ground(element)]
                .map(luminance);
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < 4.5) low.push(`${element.className} ${element.textContent.slice(0, 40)} ${ratio}`);
        }
        return low;
    })()";

fn page_of(outcome: &Outcome) -> String {
    html::page(&Page::of(Part { name: "race".into(), shown: outcome.into() }))
}

/// A page in a folder of its own, opened, and all in it unfolded.
fn opened(page: &str) -> Option<(Browser, tempfile::TempDir)> {
    let (mut browser, dir) = folded(page)?;
    browser.eval("document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; })");
    Some((browser, dir))
}

/// The same as its reader finds it.
fn folded(page: &str) -> Option<(Browser, tempfile::TempDir)> {
    let mut browser = Browser::start()?;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("page.html");
    fs::write(&file, page).unwrap();
    browser.resize(1_280);
    browser.open(&file);
    assert_eq!(browser.text("document.documentElement.dataset.ready"), "yes");
    Some((browser, dir))
}

/// Nothing was fetched but the page, and nothing went wrong.
fn assert_calm(browser: &Browser) {
    assert!(browser.troubles().is_empty(), "{:#?}", browser.troubles());
    for url in browser.requests() {
        let is_own = ["file:///", "data:", "blob:"].iter().any(|start| url.starts_with(start));
        assert!(is_own, "the page asked for {url}");
    }
    let files = browser.requests().iter().filter(|url| url.starts_with("file:")).count();
    assert_eq!(files, 1, "{:?}", browser.requests());
}

#[test]
fn a_page_answers_first_and_shows_what_that_stands_on() {
    let outcome = common::full();
    let Some((mut browser, _dir)) = opened(&page_of(&outcome)) else { return };
    assert_eq!(browser.text("document.title"), "Echo between two cores");
    assert_eq!(browser.text("document.querySelector('h1').textContent"), "Echo between two cores");
    let first = browser.text("document.querySelector('h1 + .opening .headline').innerText");
    assert!(first.contains("RTT p50: udp is ahead of tcp and unix."), "{first}");
    let answer = browser.text("document.querySelector('main .answer').textContent");
    assert!(answer.contains("icmp blocked") && !answer.contains("RTT p50: udp"), "{answer}");
    let headings =
        browser.eval("[...document.querySelectorAll('main h2')].map((h) => h.textContent)");
    let headings: Vec<&str> =
        headings.as_array().unwrap().iter().filter_map(|h| h.as_str()).collect();
    assert_eq!(headings[0], "Claimed figures");
    assert_eq!(headings[headings.len() - 2..], ["Run it again", "Words on this page"]);
    let at = |heading: &str| {
        headings
            .iter()
            .position(|h| *h == heading)
            .unwrap_or_else(|| panic!("{heading}: {headings:?}"))
    };
    assert!(at("Verdicts") < at("Results") && at("Results") < at("More drawings"), "{headings:?}");
    assert!(at("More drawings") < at("Not equal"), "{headings:?}");
    assert!(at("Conditions") < at("Hosts"), "{headings:?}");
    let command = browser.text("document.querySelector('.command code').textContent");
    assert!(command.starts_with("deadheat race tcp unix udp tcp:cc=bbr icmp "), "{command}");
    assert!(command.contains(" --seed 42 "), "{command}");
    // Each figure is drawn twice, with marks in it, and has its numbers.
    let figures = browser.count("document.querySelectorAll('.figure').length");
    assert!(figures >= 3, "{figures}");
    let whole = "[...document.querySelectorAll('.figure')].filter((f) => f.querySelectorAll('.plot svg')\
                 .length === 2 && f.querySelector('.m[data-t]') && f.querySelector('.numbers td')).length";
    assert_eq!(browser.count(whole), figures);
    assert_calm(&browser);
}

#[test]
fn the_first_part_is_the_answer_and_the_rest_is_folded() {
    let Some((mut browser, _dir)) = folded(&page_of(&common::ordinary::ordinary())) else { return };
    let seen = |what: &str| {
        format!(
            "[...document.querySelectorAll('{what}')].filter((e) => e.checkVisibility()).length"
        )
    };
    assert_eq!(browser.count(&seen("main figure")), 1, "one figure answers");
    assert_eq!(browser.count(&seen("main table")), 1, "and one table");
    let main = browser.text("document.querySelector('main').innerText");
    for said in ["identical copies of tcp differed by 0.6\u{a0}%", "286 of 289 trials valid"] {
        assert!(main.contains(said), "{said} is not in {main}");
    }
    let cut = "[...document.querySelectorAll('.scroll')].filter((e) => e.checkVisibility() \
               && e.scrollWidth > e.clientWidth).length";
    assert_eq!(browser.count(cut), 0, "nothing is cut off at 1280");
    // A term of the first screen leads to its meaning.
    let meaning = "(() => { const it = document.querySelector('.trust a[href=\"#words-control\"]'); it.click(); \
                   const to = document.querySelector(it.hash); return to.closest('details').open && to.textContent; })()";
    assert!(browser.text(meaning).contains("shows how much noise there is here"));
    // The link of the bar unfolds what it leads to.
    let link = "(() => { const all = [...document.querySelectorAll('.bar nav a')]; \
                const it = all.find((a) => a.textContent === 'Not equal'); it.click(); \
                return document.querySelector(it.hash).closest('details').open; })()";
    assert_eq!(browser.eval(link), json!(true));
    assert_calm(&browser);
}

#[test]
fn headings_landmarks_and_names_are_in_order() {
    let outcome = common::full();
    let shown = || Part { name: "a".into(), shown: (&outcome).into() };
    let other = Part { name: "b".into(), ..shown() };
    let several = Page { title: "2 races".into(), parts: vec![shown(), other], study: None };
    for page in [page_of(&outcome), html::page(&several)] {
        let Some((mut browser, _dir)) = opened(&page) else { return };
        let levels = browser.eval(
            "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((h) => Number(h.tagName[1]))",
        );
        let levels: Vec<u64> =
            levels.as_array().unwrap().iter().filter_map(|l| l.as_u64()).collect();
        assert_eq!(levels[0], 1);
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
        let twice = "(() => { const all = [...document.querySelectorAll('[id]')].map((e) => e.id); \
                     return all.filter((id, at) => all.indexOf(id) !== at); })()";
        assert_eq!(browser.eval(twice), json!([]));
        let dead = "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.hash.slice(1)) \
                    .filter((id) => !document.getElementById(id))";
        assert_eq!(browser.eval(dead), json!([]));
        let unnamed = "[...document.querySelectorAll('[aria-labelledby],[aria-describedby]')] \
                       .flatMap((e) => [e.getAttribute('aria-labelledby'), e.getAttribute('aria-describedby')]) \
                       .filter((id) => id && !document.getElementById(id))";
        assert_eq!(browser.eval(unnamed), json!([]));
        assert_eq!(browser.count("document.querySelectorAll('main').length"), 1);
        assert_calm(&browser);
    }
}

#[test]
fn a_plot_is_one_stop_and_arrow_keys_read_its_marks() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    browser.eval("document.querySelector('.plot.wide').focus()");
    let marks = "[...document.querySelectorAll('.plot.wide')[0].querySelectorAll('.m[data-t]')]";
    let readout = "document.querySelector('.readout').textContent";
    let count = browser.count(&format!("{marks}.length"));
    assert!(count > 1);
    let read = |browser: &mut Browser, at: u64| {
        assert_eq!(browser.text(readout), browser.text(&format!("{marks}[{at}].dataset.t")));
        let lit = format!("{marks}.filter((m) => m.classList.contains('on')).length");
        assert_eq!(browser.count(&lit), 1);
        assert_eq!(browser.eval("document.querySelector('.tip').hidden"), json!(false));
    };
    browser.press("ArrowRight");
    read(&mut browser, 0);
    browser.press("ArrowRight");
    read(&mut browser, 1);
    browser.press("End");
    read(&mut browser, count - 1);
    browser.press("ArrowRight");
    read(&mut browser, count - 1);
    browser.press("Home");
    browser.press("ArrowLeft");
    read(&mut browser, 0);
    browser.press("Escape");
    assert_eq!(browser.text(readout), "");
    assert_eq!(browser.eval("document.querySelector('.tip').hidden"), json!(true));
    browser.press("Tab");
    let left = "!document.activeElement.closest('.plot')";
    assert_eq!(browser.eval(left), json!(true));
    assert_eq!(
        browser.text("document.querySelector('.readout').getAttribute('aria-live')"),
        "polite"
    );
    assert_calm(&browser);
}

#[test]
fn a_mark_can_be_pointed_at() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    let place = browser.eval(
        "(() => { const mark = document.querySelector('.plot.wide .m[data-t]'); \
         mark.scrollIntoView({ block: 'center', behavior: 'instant' }); \
         const box = mark.getBoundingClientRect(); \
         return [box.x + box.width / 2, box.y + box.height / 2]; })()",
    );
    browser.point(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    let tip = browser.text("document.querySelector('.tip').textContent");
    let all = browser.eval("[...document.querySelectorAll('.m[data-t]')].map((m) => m.dataset.t)");
    assert!(!tip.is_empty() && all.as_array().unwrap().contains(&json!(tip)), "{tip}");
    browser.point(3.0, 3.0);
    assert_eq!(browser.eval("document.querySelector('.tip').hidden"), json!(true));
    assert_calm(&browser);
}

#[test]
fn a_contender_can_be_hidden_in_all_plots() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    let which = browser.text(
        "[...document.querySelector('button.entrant .key').classList].find((c) => /^c\\d/.test(c))",
    );
    let shown = format!(
        "[...document.querySelectorAll('svg .{which}')].filter((e) => getComputedStyle(e).display !== 'none').length"
    );
    let before = browser.count(&shown);
    assert!(before > 0);
    browser.eval("document.querySelector('button.entrant').focus()");
    browser.press("Enter");
    assert_eq!(
        browser.text("document.querySelector('button.entrant').getAttribute('aria-pressed')"),
        "false"
    );
    assert_eq!(browser.count(&shown), 0);
    browser.press("Enter");
    assert_eq!(browser.count(&shown), before);
    assert_calm(&browser);
}

#[test]
fn light_and_dark_follow_the_reader_then_the_switch_then_paper() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    let colours =
        "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color";
    browser.media("screen", "light");
    let light = browser.text(colours);
    assert_eq!(browser.eval(CONTRAST), json!([]), "in light");
    browser.media("screen", "dark");
    let dark = browser.text(colours);
    assert_ne!(light, dark);
    assert_eq!(browser.eval(CONTRAST), json!([]), "in dark");
    let switch = "(() => { const it = document.getElementById('theme'); it.click(); return it.textContent; })()";
    assert_eq!(browser.text(switch), "Theme: light");
    assert_eq!(browser.text(colours), light);
    assert_eq!(browser.text(switch), "Theme: dark");
    browser.media("screen", "light");
    assert_eq!(browser.text(colours), dark);
    browser.media("print", "dark");
    assert_eq!(browser.text(colours), light, "paper is light");
    assert_calm(&browser);
}

#[test]
fn on_paper_there_is_no_bar_and_no_button_and_two_pages_at_most() {
    let page = page_of(&common::ordinary::ordinary());
    let Some((mut browser, _dir)) = folded(&page) else { return };
    let controls = "[...document.querySelectorAll('.bar, .tools, .tip, .skip')] \
                    .filter((e) => e.checkVisibility()).length";
    assert!(browser.count(controls) > 2);
    browser.media("print", "light");
    assert_eq!(browser.count(controls), 0);
    let pdf = browser.print();
    assert!(pdf.starts_with(b"%PDF-"));
    let text = String::from_utf8_lossy(&pdf);
    let pages = text.matches("/Type /Page\n").count() + text.matches("/Type /Page ").count();
    assert!((1..=2).contains(&pages), "{pages} pages");
    browser.eval("document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; })");
    let text = String::from_utf8_lossy(&browser.print()).into_owned();
    let unfolded = text.matches("/Type /Page\n").count() + text.matches("/Type /Page ").count();
    assert!(unfolded > pages, "what was unfolded is printed");
    assert_calm(&browser);
}

#[test]
fn a_phone_shows_narrow_drawings_and_nothing_runs_out_of_it() {
    for outcome in [common::full(), common::large::large(), common::hostile(), common::varied()] {
        let Some((mut browser, _dir)) = opened(&page_of(&outcome)) else { return };
        browser.resize(360);
        let wider = "[...document.querySelectorAll('body *')].filter((e) => !e.closest('.scroll, svg, nav, .skip') \
                     && e.checkVisibility() && e.getBoundingClientRect().right > 361) \
                     .map((e) => e.outerHTML.slice(0, 120))";
        assert_eq!(browser.eval(wider), json!([]));
        assert_eq!(browser.count("document.documentElement.scrollWidth"), 360);
        let shown = "[...document.querySelectorAll('.plot')].filter((p) => p.checkVisibility())";
        let of =
            |class: &str| format!("{shown}.filter((p) => p.classList.contains('{class}')).length");
        assert_eq!(browser.count(&of("wide")), 0);
        assert_eq!(
            browser.count(&of("narrow")),
            browser.count("document.querySelectorAll('.figure').length")
        );
        assert_calm(&browser);
    }
}

/// Clicks a button of the first figure, waits until it says that it is done, and answers what was saved.
const SAVED: &str = r"
    (async (words) => {
        const blobs = [];
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { blobs.push(blob); return make.call(URL, blob); };
        HTMLAnchorElement.prototype.click = function () {};
        const button = [...document.querySelectorAll('.figure .tools button')]
            .find((one) => one.textContent === words);
        const done = new Promise((answer) => {
            new MutationObserver(() => answer(button.textContent))
                .observe(button, { childList: true, characterData: true, subtree: true });
        });
        button.click();
        const said = await done;
        const blob = blobs.at(-1);
        const bytes = [...new Uint8Array(await blob.arrayBuffer())];
        return { said, type: blob.type, bytes };
    })";

#[test]
fn figures_can_be_saved_as_pictures() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    let saved = browser.eval(&format!("{SAVED}('SVG')"));
    assert_eq!((&saved["said"], &saved["type"]), (&json!("Saved"), &json!("image/svg+xml")));
    let bytes = |saved: &Value| -> Vec<u8> {
        saved["bytes"].as_array().unwrap().iter().map(|b| b.as_u64().unwrap() as u8).collect()
    };
    let svg = String::from_utf8(bytes(&saved)).unwrap();
    assert!(!svg.contains("class=") && !svg.contains("style=") && !svg.contains("var("), "{svg}");
    let root = format!(
        "(() => {{ const it = new DOMParser().parseFromString({}, 'image/svg+xml'); \
         return [it.documentElement.localName, it.querySelectorAll('parsererror').length, \
         it.querySelector('title').textContent, it.querySelectorAll('[fill^=rgb]').length > 5]; }})()",
        json!(svg)
    );
    let title = browser.text("document.querySelector('.figure h3').textContent");
    assert_eq!(browser.eval(&root), json!(["svg", 0, title, true]));
    let saved = browser.eval(&format!("{SAVED}('PNG')"));
    assert_eq!((&saved["said"], &saved["type"]), (&json!("Saved"), &json!("image/png")));
    let png = bytes(&saved);
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let width = u32::from_be_bytes([png[16], png[17], png[18], png[19]]);
    assert!(width > 1_400, "at twice the size: {width}");
    assert_calm(&browser);
}

#[test]
fn numbers_and_the_command_can_be_copied() {
    let Some((mut browser, _dir)) = opened(&page_of(&common::full())) else { return };
    let copied = |browser: &mut Browser, button: &str, stub: &str| {
        browser.text(&format!(
            "(async () => {{ let copied = ''; {stub} const it = document.querySelector('{button}'); \
             const done = new Promise((answer) => new MutationObserver(() => answer(it.textContent)) \
             .observe(it, {{ childList: true }})); it.click(); return `${{await done}}|${{copied}}`; }})()"
        ))
    };
    let works = "navigator.clipboard.writeText = async (text) => { copied = text; };";
    let said = copied(&mut browser, ".figure .tools button", works);
    let rows = said.strip_prefix("Copied|").unwrap();
    let cells: Vec<usize> = rows.lines().map(|line| line.split('\t').count()).collect();
    assert!(cells.len() > 1 && cells.iter().all(|count| *count == cells[0]), "{rows}");
    // Where the clipboard is refused, a selection does it.
    let refused = "navigator.clipboard.writeText = async () => { throw new Error('no'); }; \
                   document.execCommand = () => { copied = document.activeElement.value; return true; };";
    let said = copied(&mut browser, ".command button", refused);
    let command = browser.text("document.querySelector('.command code').textContent");
    assert_eq!(said, format!("Copied|{command}"));
    assert_calm(&browser);
}

/// What would run if any of it were taken for markup.
const MARKUP: &str = "</script><script>window.ran=1;alert(1)</script></style></title>\"'><img src=x \
                      onerror=window.ran=1><svg/onload=window.ran=1>]]>--><a href=javascript:window.ran=1>";

#[test]
fn nothing_in_a_hostile_file_runs() {
    let whole = serde_json::to_value(common::everything()).unwrap();
    // Every text of a result that may be anything: one that does not fit is no longer a result.
    let mut keys = BTreeSet::new();
    text_keys(&whole, "", &mut keys);
    let is_free = |key: &String| {
        let one = BTreeSet::from([key.clone()]);
        serde_json::from_value::<Outcome>(poisoned(whole.clone(), "", &one)).is_ok()
    };
    let free: BTreeSet<String> = keys.into_iter().filter(is_free).collect();
    assert!(free.len() > 40, "{free:?}");
    let hostile = serde_json::from_value(poisoned(whole, "", &free)).unwrap();
    for outcome in [hostile, common::hostile()] {
        let Some((mut browser, _dir)) = opened(&page_of(&outcome)) else { return };
        assert_eq!(browser.eval("typeof window.ran"), json!("undefined"));
        assert_eq!(
            browser.count("document.querySelectorAll('main img, main script, main style').length"),
            0
        );
        let handlers = "[...document.querySelectorAll('*')].filter((e) => [...e.attributes] \
                        .some((a) => a.name.startsWith('on') || a.name === 'style')).length";
        assert_eq!(browser.count(handlers), 0);
        let links = "[...document.querySelectorAll('a')].filter((a) => !a.getAttribute('href').startsWith('#')).length";
        assert_eq!(browser.count(links), 0);
        assert_calm(&browser);
    }
}

/// The names of fields that hold text.
fn text_keys(value: &Value, key: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| text_keys(value, key, keys)),
        Value::Array(list) => list.iter().for_each(|value| text_keys(value, key, keys)),
        Value::String(_) => drop(keys.insert(key.to_owned())),
        _ => {}
    }
}

/// `value` with markup in the text of every field in `keys`.
fn poisoned(value: Value, key: &str, keys: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key.clone(), poisoned(value, &key, keys))).collect()
        }
        Value::Array(list) => list.into_iter().map(|value| poisoned(value, key, keys)).collect(),
        Value::String(text) if keys.contains(key) => Value::String(format!("{text}{MARKUP}")),
        other => other,
    }
}

#[test]
fn the_largest_race_is_small_enough_and_ready_at_once() {
    let page = page_of(&common::large::large());
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    let Some((mut browser, _dir)) = opened(&page) else { return };
    assert!(browser.count("document.querySelectorAll('.figure').length") >= 5);
    assert_calm(&browser);
}

#[test]
fn a_study_shows_its_claims_first_and_each_race_as_a_part() {
    let (run, outcome) = study::ran();
    let part = |name: &str| Part { name: name.into(), shown: (&outcome).into() };
    let page = Page {
        title: run.study.title.clone(),
        parts: vec![part("published"), part("right")],
        study: Some(&run),
    };
    let Some((mut browser, _dir)) = opened(&html::page(&page)) else { return };
    assert_eq!(browser.text("document.querySelector('h2').textContent"), "Claims");
    let rulings =
        browser.eval("[...document.querySelectorAll('.ruling')].map((r) => r.textContent)");
    assert_eq!(
        rulings,
        json!(["✓\nholds\n", "✗\ndoes not hold\n", "±\ndepends on the call size\n", "?\nopen\n"])
    );
    assert_eq!(browser.count("document.querySelectorAll('article.part').length"), 3);
    let main = browser.text("document.querySelector('main').textContent");
    for said in [
        "An echo over udp is quicker",
        "as published",
        "The mean of one run.",
        "published, µs",
        "<Ada>",
    ] {
        assert!(main.contains(said), "{said}: {main}");
    }
    for scheme in ["light", "dark"] {
        browser.media("screen", scheme);
        assert_eq!(browser.eval(CONTRAST), json!([]), "in {scheme}");
    }
    assert_calm(&browser);
}

fn deadheat(args: &[&str], dir: &Path) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_deadheat")).args(args).current_dir(dir).output().unwrap()
}

fn save(outcome: &Outcome, file: PathBuf) {
    deadheat::result::save::save(outcome, &file).unwrap();
}

#[test]
fn a_folder_has_an_index_that_leads_to_each_page() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("results/deep/study")).unwrap();
    save(&common::full(), at("results/a.json"));
    let hostile = Outcome { started: "2027-01-01T00:00:00Z".into(), ..common::hostile() };
    save(&hostile, at("results/deep/b.json"));
    let (run, outcome) = study::ran();
    for race in ["published", "right"] {
        save(&outcome, at(&format!("results/deep/study/{race}.json")));
    }
    deadheat::study::save::save(&run, &at("results/deep/study")).unwrap();
    fs::write(at("results/cut.json"), "{\"format\": 1, \"dead").unwrap();
    fs::write(at("results/empty.json"), "").unwrap();
    fs::write(at("results/note.txt"), "not a result").unwrap();
    let output = deadheat(&["report", "results", "--format", "html", "-o", "out"], dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let mut pages: Vec<String> = fs::read_dir(at("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    let index = fs::read_to_string(at("out/index.html")).unwrap();
    let left_out = index.split("id=\"left-out\"").nth(1).unwrap_or_default();
    assert!(said.contains("3 pages and an index: out/index.html"), "{said} {left_out}");
    assert_eq!(pages, ["a.html", "deep-b.html", "deep-study-study.html", "index.html"]);
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(1_280);
    browser.open(&at("out/index.html"));
    let links = browser
        .eval("[...document.querySelectorAll('.card a')].map((a) => a.getAttribute('href'))");
    assert_eq!(
        links,
        json!(["deep-b.html", "deep-study-study.html", "a.html"]),
        "the newest first"
    );
    let left_out = browser.text("document.querySelector('.facts').textContent");
    assert!(left_out.contains("cut.json") && left_out.contains("the file ends in the middle"));
    assert!(left_out.contains("empty.json") && left_out.contains("the file is empty"));
    assert_eq!(browser.eval("typeof window.ran"), json!("undefined"));
    assert_calm(&browser);
}

#[test]
fn several_results_are_one_page_of_folded_races() {
    let dir = tempfile::tempdir().unwrap();
    save(&common::full(), dir.path().join("before.json"));
    save(&common::minimal(), dir.path().join("after.json"));
    let args = ["report", "before.json", "after.json", "--format", "html", "-o", "both.html"];
    let output = deadheat(&args, dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Some(mut browser) = Browser::start() else { return };
    browser.resize(1_280);
    browser.open(&dir.path().join("both.html"));
    // The races are folded below their names and answers, each of which is there once.
    let races = browser.eval(
        "[...document.querySelectorAll('details.race > summary > h2')].map((h) => h.textContent)",
    );
    assert_eq!(races, json!(["before", "after"]));
    assert_eq!(browser.count("document.querySelectorAll('details.race[open]').length"), 0);
    let said = browser.eval(
        "[...document.querySelectorAll('.race > summary .said')].map((s) => s.textContent.trim())",
    );
    let first = said[0].as_str().unwrap();
    assert!(first.starts_with("RTT p50: udp is ahead of tcp and unix"), "{said}");
    let text = browser.text("document.body.textContent");
    assert_eq!(text.matches(first).count(), 1, "{text}");
    assert_calm(&browser);
}

#[test]
fn a_race_writes_its_page_and_refuses_one_that_it_could_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let race =
        ["race", "sim-datagram", "arq", "--path", "sim:delay=1ms", "--blocks", "2", "-o", "r.json"];
    let output = deadheat(&[&race[..], &["--html", "none/x.html"]].concat(), dir.path());
    assert!(!output.status.success());
    assert!(!dir.path().join("r.json").exists(), "nothing ran");
    let output = deadheat(&[&race[..], &["--html", "r.html"]].concat(), dir.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("page: r.html"), "{said}");
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("sim-datagram"));
    let again = deadheat(&["report", "r.json", "--format", "html"], dir.path());
    assert_eq!(String::from_utf8(again.stdout).unwrap(), page, "the same from the file");
}
