//! Views of races of a fake runner, at several sizes and moments.

use std::path::Path;
use std::sync::mpsc;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::event::{LiveEvent, LiveLines, LiveObserver, path};
use super::ink::Ink;
use super::model::{LiveModel, SteeringState, Wish};
use crate::cli::progress::Progress;
use deadheat_base::time::Nanos;
use deadheat_path::measurements::{
    DirectionFigures, Distribution, LinkFigures, PacketOutcomes, PathFigures, Quantile,
};
use deadheat_race::race::context::RaceContext;
use deadheat_race::race::{Request, testing};
use deadheat_report::columns;
use deadheat_trial::{Order, TrialOutcome};

/// Returns the events of a race of two contenders, of which the second takes `level` of the first one's time; its ninth
/// trial is not valid, and its path is emulated.
fn events(level: f64) -> Vec<LiveEvent> {
    let (to, from) = mpsc::channel();
    let (screen, _) = LiveLines::screen(to.clone());
    let mut observer = LiveObserver::new(to, Progress::new(screen));
    let mut noisy =
        testing::noisy(1, 0.03, move |name| if name == "udp" { 90e3 * level } else { 90e3 });
    let mut n = 0;
    let mut runner = deadheat_trial::sim::fake::Fake(|order: &Order| {
        n += 1;
        let TrialOutcome::Ran(mut record) = noisy(order) else { unreachable!() };
        record.path = Some(account());
        if n == 30 {
            record.valid = false;
            record.why_invalid = Some("the generator was late by 3.00 ms".into());
        }
        TrialOutcome::Ran(record)
    });
    let clock = deadheat_base::time::Manual::default();
    let request = Request::new(["tcp", "udp"]).workload(testing::WORKLOAD).blocks(40).seed(1);
    let stage = RaceContext::new(&mut runner, &mut observer).at(&clock, testing::day());
    request.run_with(stage).unwrap();
    drop(observer);
    from.try_iter().collect()
}

fn account() -> PathFigures {
    let fates = PacketOutcomes { arrived: 1_200, full: 12, lost: 3, ..PacketOutcomes::default() };
    let queued_ns = Distribution {
        n: 1_185,
        p50: Some(Quantile::Ns(4_100_000)),
        p99: Some(Quantile::Ns(9_800_000)),
        ..Distribution::default()
    };
    let up = DirectionFigures { fates, queued_ns: Some(queued_ns), ..DirectionFigures::default() };
    PathFigures { links: vec![LinkFigures { up, down: DirectionFigures::default() }] }
}

/// Returns the model after the events of a race up to the end of this block.
fn after(events: &[LiveEvent], blocks: u64) -> LiveModel {
    let mut model = LiveModel { elapsed: Nanos::from_secs(42), ..LiveModel::default() };
    for event in events {
        model.take(event.clone());
        if model.standing.as_ref().is_some_and(|standing| standing.blocks == blocks) {
            break;
        }
    }
    model
}

/// Returns a frame as text.
fn page(model: &LiveModel, width: u16, height: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    super::draw::draw(model, Ink::Colour, &mut buffer);
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| row.trim_end().to_owned() + "\n").collect()
}

/// Holds `text` against `tests/golden/NAME.txt`; `UPDATE_GOLDEN=1` writes it.
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{name}: UPDATE_GOLDEN=1 cargo test writes it");
}

#[test]
fn a_view_fits_windows_of_all_sizes() {
    let events = events(1.02);
    let mut model = after(&events, 12);
    golden("live-60x15", &page(&model, 60, 15));
    golden("live-80x24", &page(&model, 80, 24));
    golden("live-120x40", &page(&model, 120, 40));
    for key in *b"d?x" {
        model.key(key);
        for width in 0..130 {
            for height in [0, 1, 2, 9, 10, 11, 15, 19, 20, 24, 60] {
                let text = page(&model, width, height);
                let most = text.lines().map(columns).max().unwrap_or(0);
                assert!(most <= usize::from(width), "{width} × {height}:\n{text}");
            }
        }
    }
}

#[test]
fn panes_say_the_terms_and_the_keys() {
    let mut model = after(&events(1.02), 12);
    model.key(b'd');
    golden("live-details", &page(&model, 80, 24));
    model.key(b'?');
    golden("live-help", &page(&model, 80, 24));
    model.key(b' ');
    assert!(page(&model, 80, 24).contains("Last trials"), "any key closes it");
}

#[test]
fn no_verdict_is_shown_before_its_look() {
    let mut model = LiveModel::default();
    let (mut before, mut since) = (0, 0);
    for event in events(0.8) {
        model.take(event);
        let Some(standing) = &model.standing else { continue };
        let text = page(&model, 80, 24);
        let is_said = text.contains("ahead") || text.contains("dead heat");
        if standing.decided.is_empty() {
            assert!(!is_said, "{text}");
            before += u64::from(standing.blocks > 0);
            assert!(
                standing.blocks == 0 || text.contains("Not a verdict: intervals so far"),
                "{text}"
            );
        } else {
            assert!(text.contains("◆ ") && text.contains("udp"), "{text}");
            since += 1;
        }
    }
    assert!(before > 5 && since > 0, "{before}, {since}");
}

#[test]
fn a_window_of_the_first_trials_says_that_there_are_no_figures_yet() {
    let mut model = LiveModel::default();
    for event in events(1.0).into_iter().take(2) {
        model.take(event);
    }
    let text = page(&model, 80, 24);
    assert!(text.contains("measuring how much trials vary: trial"), "{text}");
    assert!(text.contains("No figures before the first block."), "{text}");
    assert_eq!(model.key(b's'), None);
    assert!(page(&model, 80, 24).contains("none is complete yet"));
}

#[test]
fn keys_steer_the_race_and_the_view_says_so() {
    let mut model = after(&events(1.02), 3);
    assert_eq!(model.key(b'p'), Some(Wish::Pause));
    assert!(page(&model, 80, 24).contains("PAUSE AFTER THIS BLOCK"));
    model.take(LiveEvent::Paused);
    let text = page(&model, 80, 24);
    assert!(
        text.contains("PAUSED after 3 blocks; p goes on") && text.contains("p go on"),
        "{text}"
    );
    assert_eq!(model.key(b'p'), Some(Wish::Continue));
    model.take(LiveEvent::Continued(Nanos::from_secs(12)));
    assert!(page(&model, 80, 24).contains("! went on after a pause of 12.0 s"));
    model.take(LiveEvent::Saved("race.json".into()));
    model.key(b's');
    assert!(page(&model, 80, 24).contains("saved after every block; 3 blocks in race.json"));
    assert_eq!((model.key(b'q'), model.steered), (Some(Wish::End), SteeringState::Ending));
    assert_eq!(model.key(b'p'), None, "an end is no pause");
    assert!(page(&model, 80, 24).contains("ENDS AFTER THIS BLOCK"));
    assert_eq!(model.key(0x0c), Some(Wish::Redraw));
}

#[test]
fn text_of_strangers_moves_no_cursor() {
    let (to, from) = mpsc::channel();
    let (screen, notes) = LiveLines::screen(to);
    screen.above("a\x1b[2Jb");
    screen.show(vec!["c\x1b[2J".into()]);
    let events: Vec<LiveEvent> = from.try_iter().collect();
    assert_eq!(events[0], LiveEvent::Note("a\\u{1b}[2Jb".into()));
    assert_eq!(events[1], LiveEvent::Doing("c\\u{1b}[2J".into()));
    assert_eq!(*notes.borrow(), ["a\\u{1b}[2Jb"]);
}

#[test]
fn an_account_of_the_path_has_a_line_for_each_direction_that_carried_something() {
    assert_eq!(
        path(&account(), &[]),
        [
            "up    1200 packets, in the queue p50 4.10 ms, p99 9.80 ms, 12 dropped by the full queue, 3 lost"
        ]
    );
}
