//! Warnings to read before believing a race, found in its trials and plan.

use super::causes::{EndPlacement, GateCause, ValueOrigin};
use super::far_end::{self, FarEndNotice};
use super::host_notice::HostNotice;
use super::losses::Losses;
use super::notice::Notice;
use super::table::{Table, TrialFilter};
use super::translated::translated;
use super::{
    black_hole, exclusions, fallbacks, library_limits, nat, order, own_state, path_account,
    rewritten, settings, theory,
};
use crate::analysis::claims::fewest_for;
use crate::outcome::{Entrant, Outcome, Trial};
use deadheat_base::spec::Spec;
use deadheat_base::time::Nanos;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Throttled;
use deadheat_contract::recorded::{RecordedContender, in_force};
use deadheat_path::PathKind;
use deadheat_path::network::Network;
use deadheat_records::placement::Placement;
use deadheat_records::quiet::{Disturbance, Disturber, NOISY};
use deadheat_records::trial::Record;

/// Minimum share of stolen CPU time in a trial for a warning.
const NOTABLE_STEAL: f64 = 0.01;

/// Updates the warnings that follow from trials and plan; warnings of events stay.
pub fn refresh(outcome: &mut Outcome, network: Option<&Network>) {
    let mut derived = derive(outcome);
    derived.extend(path_account::repeated_draws(outcome, network));
    let events = std::mem::take(&mut outcome.warnings);
    outcome.warnings = derived
        .iter()
        .map(Notice::warning)
        .chain(theory::warnings(outcome))
        .chain(events.into_iter().filter(|w| EVENTS.contains(&w.code.as_str())))
        .collect();
    outcome.settle_trust();
}

/// Adds the warning of an event.
pub fn add(outcome: &mut Outcome, notice: &Notice) {
    outcome.warnings.push(notice.warning());
}

/// Code of the warning that part of a journal could not be read.
pub(super) const JOURNAL_SKIPPED: &str = "journal_skipped";

/// Codes of warnings of events, which do not follow from trials and plan.
const EVENTS: &[&str] = &[
    "trial_failed",
    "race_failed",
    "save_failed",
    "resumed_after_last_look",
    "resumed_elsewhere",
    "paused",
    JOURNAL_SKIPPED,
    FarEndNotice::CODES[0],
    FarEndNotice::CODES[1],
    FarEndNotice::CODES[2],
];

/// Derives all notices from trials and plan.
fn derive(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    all.extend(of_plan(outcome));
    all.extend(far_end::notices(outcome).into_iter().map(Notice::FarEnd));
    all.extend(of_contenders(outcome));
    all.extend(settings::changed(outcome));
    all.extend(of_host(outcome));
    all.extend(of_gates(outcome));
    all.extend(exclusions::unequal_losses(outcome).map(|who| {
        let decides = exclusions::change_verdicts(outcome);
        Notice::ExclusionsDiffer { who, decides }
    }));
    all.extend(order::effect(outcome).map(Notice::OrderEffect));
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    all.extend(own_state::own_states(outcome, &table).into_iter().map(Notice::OwnState));
    all.extend(path_account::notices(outcome));
    all.extend(fallbacks::notices(outcome));
    all.extend(nat::notices(outcome).into_iter().map(Notice::NatForgot));
    all.extend(rewritten::notices(outcome).into_iter().map(Notice::DscpRewritten));
    all.extend(library_limits::notices(outcome).into_iter().map(Notice::LibraryLimit));
    all.extend(black_hole::notices(outcome).into_iter().map(Notice::FarPath));
    all.extend(of_ledgers(outcome));
    all.extend(of_losses(outcome));
    all.extend(of_figures(outcome));
    all
}

fn of_plan(outcome: &Outcome) -> Vec<Notice> {
    let plan = &outcome.plan;
    let mut all = Vec::new();
    let claims = usize::try_from(plan.claims).unwrap_or(usize::MAX);
    let fewest = fewest_for(claims, outcome.asked.confidence);
    // A race of one block is run for its figures.
    if claims > 0 && plan.blocks_max < fewest && outcome.asked.blocks != Some(1) {
        let is_by_blocks = outcome.asked.blocks.is_some();
        all.push(Notice::BudgetTooSmall { blocks: plan.blocks_max, fewest, is_by_blocks });
    }
    if outcome.margin_widened() {
        all.push(Notice::MarginWidened { margin: plan.margin, reason: plan.margin_reason.clone() });
    }
    let varied =
        outcome.contenders.iter().any(|e| e.cell.as_ref().is_some_and(|c| c.placement.is_some()));
    if plan.placement == "host" && !varied && outcome.asked.to.is_none() {
        all.push(Notice::Host(HostNotice::Placement));
    }
    all
}

fn of_contenders(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    let mut racing = outcome.contenders.iter().filter(|e| e.is_racing() && !e.floor);
    if let (Some(only), None) = (racing.next(), racing.next()) {
        all.push(Notice::SingleContender { label: only.label.clone() });
    }
    let translated = translated(outcome);
    for entrant in &outcome.contenders {
        let ours = entrant.recorded().ok();
        let is_kernel = |ours: &RecordedContender| ours.peer.is_floor();
        if let Some(translated) = translated.filter(|_| ours.as_ref().is_some_and(is_kernel)) {
            let label = entrant.label.clone();
            all.push(Notice::Host(HostNotice::FloorElsewhere { label, translated }));
        }
        if let Some(why) = entrant.dropped() {
            all.push(Notice::Dropped { label: entrant.label.clone(), why });
        }
        all.extend(not_as_asked(entrant, ours.as_ref()));
    }
    all
}

/// Returns a notice for each option that an end has other than asked for, the near one first.
fn not_as_asked(entrant: &Entrant, ours: Option<&RecordedContender>) -> Vec<Notice> {
    // The kernel rounds sizes in its own ways (tcp(7), socket(7)), but not words.
    let is_word =
        |value: &str| value.parse::<f64>().is_err() && value.starts_with(char::is_alphabetic);
    let of = |(option, asked): (&String, &String)| {
        let meaning = ours.and_then(|ours| ours.meaning(option));
        let differs = |effective: &&String| in_force(meaning, effective) != asked;
        let at = |end| {
            let effective = match end {
                Side::Near => &entrant.effective,
                Side::Far => &entrant.far_effective,
            };
            effective.get(option).filter(differs).map(|value| (end, value))
        };
        let (end, effective) = at(Side::Near).or_else(|| at(Side::Far))?;
        Some(Notice::NotAsAsked {
            label: entrant.label.clone(),
            option: option.clone(),
            asked: asked.clone(),
            effective: effective.clone(),
            end,
            origin: if typed(entrant, option) { ValueOrigin::Typed } else { ValueOrigin::Default },
        })
    };
    let asked = entrant.asked.iter();
    asked.filter(|(_, asked)| is_word(asked) && !is_left_open(asked)).filter_map(of).collect()
}

/// Values of options that leave the choice to the host.
const LEFT_OPEN: &[&str] = &["host", "auto"];

fn is_left_open(asked: &str) -> bool {
    LEFT_OPEN.contains(&asked)
}

/// Returns true if an option of a contender was typed.
fn typed(entrant: &Entrant, option: &str) -> bool {
    let spec = Spec::parse(&entrant.spec).ok();
    spec.is_some_and(|spec| spec.options.iter().any(|(name, _)| name == option))
}

fn of_host(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    let touched = || {
        let shares = outcome.trials.iter().filter_map(|trial| trial.record.steal_share);
        shares.filter(|share| *share > NOTABLE_STEAL)
    };
    if touched().count() > 0 {
        all.push(Notice::Host(HostNotice::Steal {
            trials: touched().count(),
            most: touched().fold(0.0, f64::max),
        }));
    }
    let quota = outcome.host.cpu_quota_milli.map(|milli| milli as f64 / 1_000.0);
    let few = |cpus: &f64| *cpus < outcome.host.cpus.len() as f64;
    all.extend(quota.filter(few).map(|cpus| Notice::Host(HostNotice::Quota { cpus })));
    all.extend(throttled(outcome, "this program", |record| record.throttled));
    if outcome.asked.to.is_some() {
        all.extend(throttled(outcome, "the far end", |record| record.far_throttled));
    }
    let Some(quiet) = &outcome.probe else { return all };
    if let Some(Disturbance { by: Disturber::Programs, share }) = quiet.disturbed {
        let waited = Nanos(quiet.waited_ns);
        all.push(Notice::Host(HostNotice::Busy { share, waited }));
    }
    if let Some(scatter) = quiet.scatter.filter(|scatter| *scatter > NOISY) {
        all.push(Notice::Host(HostNotice::Noisy { scatter }));
    }
    all
}

/// Returns a notice of the throttling of one end by a quota, over all trials.
fn throttled(
    outcome: &Outcome,
    whom: &'static str,
    of: impl Fn(&Record) -> Option<Throttled>,
) -> Option<Notice> {
    let each = || outcome.trials.iter().filter_map(|trial| of(&trial.record));
    let throttled = each().reduce(Throttled::plus)?;
    Some(Notice::Host(HostNotice::Throttled { whom, trials: each().count(), throttled }))
}

fn of_gates(outcome: &Outcome) -> Option<Notice> {
    let racing = || {
        let trials = outcome.trials.iter();
        let counted = trials.filter(|trial| trial.record.lost_ms.is_none());
        counted.filter(|trial| !has_dropped_out(outcome, trial))
    };
    let failed = || racing().filter(|trial| !trial.record.valid);
    let first = failed().next()?;
    Some(Notice::GateFailures {
        failed: failed().count(),
        trials: racing().count(),
        why: first.record.why_invalid.clone().unwrap_or_default(),
        of_path: failed().filter(|trial| trial.record.path_invalid.is_some()).count(),
        cause: gate_cause(&first.record, &outcome.plan.placement),
    })
}

/// Returns the cause of the failure of a trial under a placement.
pub fn gate_cause(record: &Record, placement: &str) -> GateCause {
    match record {
        Record { path_invalid: Some(_), .. } => {
            GateCause::Path { has_cpu: placement == Placement::SameCore.to_string() }
        }
        _ if !record.ran() => GateCause::NoFigures,
        _ if record.ledger.accounts().any(|(_, account)| !account.closes()) => GateCause::Ledger,
        _ => GateCause::Work,
    }
}

fn of_ledgers(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    let accounts = |trial: &Trial| {
        let accounts = trial.record.ledger.accounts();
        accounts.map(|(_, account)| account.clone()).collect::<Vec<_>>()
    };
    let valid = || outcome.trials.iter().filter(|trial| trial.record.valid);
    let open = || valid().filter(|trial| accounts(trial).iter().any(|a| !a.closes()));
    if let Some(first) = open().next() {
        let why = accounts(first).into_iter().find_map(|a| a.open_because);
        all.push(Notice::LedgerOpen {
            trials: open().count(),
            why: why.unwrap_or_else(|| "more or less arrived than was sent".to_owned()),
        });
    }
    if outcome.path.kind == PathKind::Loopback {
        let lost = |trial: &Trial| {
            accounts(trial).into_iter().fold(0u64, |sum, a| sum.saturating_add(a.lost_on_path))
        };
        let losers = outcome.contenders.iter().filter(|entrant| {
            let own = |trial: &&Trial| trial.contender == entrant.id;
            outcome.trials.iter().filter(own).any(|trial| lost(trial) > 0)
        });
        let labels: Vec<String> = losers.map(|entrant| entrant.label.clone()).collect();
        if !labels.is_empty() {
            let lost =
                outcome.trials.iter().fold(0u64, |sum, trial| sum.saturating_add(lost(trial)));
            all.push(Notice::LoopbackLoss { labels, lost });
        }
    }
    all
}

/// Returns notices about fragments, full queues and full receive buffers with a part in the losses. If messages are
/// fragmented, one notice covers all.
fn of_losses(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    for losses in outcome.contenders.iter().filter_map(|entrant| Losses::of(outcome, entrant)) {
        if losses.in_fragments().is_some() {
            all.push(Notice::Fragmented(losses));
            continue;
        }
        // Ignore causes of less than a hundredth of the losses.
        let matters = |part: u64| part > 0 && part >= losses.lost / 100;
        if matters(losses.refused) {
            all.push(Notice::SendQueue(losses.clone()));
        }
        if matters(losses.dropped) {
            all.push(Notice::ReceiveBuffer(losses));
        }
    }
    all
}

fn of_figures(outcome: &Outcome) -> Vec<Notice> {
    let mut all = Vec::new();
    for summary in &outcome.summary {
        let entrant = outcome.contenders.get(summary.contender);
        let metric = outcome.metrics.iter().find(|m| m.name == summary.metric);
        let (Some(entrant), Some(metric)) = (entrant, metric) else {
            continue;
        };
        if metric.role != deadheat_contract::measurements::Role::Claim {
            continue;
        }
        let (label, metric) = (entrant.label.clone(), metric.label.clone());
        if summary.censored {
            let came_late = came_late(outcome, entrant);
            all.push(Notice::Censored { label: label.clone(), metric: metric.clone(), came_late });
        }
        if let Some([lower, upper]) = summary.regimes {
            all.push(Notice::TwoRegimes {
                label,
                metric,
                ratio: upper.centre / lower.centre,
                share: upper.share,
                ends: ends(outcome, entrant),
            });
        }
    }
    all
}

/// Returns true if answers to a contender's messages came late.
fn came_late(outcome: &Outcome, entrant: &Entrant) -> bool {
    let own = outcome.trials.iter().filter(|trial| trial.contender == entrant.id);
    let mut accounts = own.flat_map(|trial| trial.record.ledger.accounts());
    accounts.any(|(_, account)| account.late.is_some_and(|late| late > 0))
}

/// Returns the place of the ends of a contender.
fn ends(outcome: &Outcome, entrant: &Entrant) -> EndPlacement {
    match (outcome.path.kind, outcome.plan.placement.as_str()) {
        _ if entrant.commands.is_some() => EndPlacement::Commands,
        (PathKind::Simulated, _) => EndPlacement::Virtual,
        (_, "host") => EndPlacement::Free,
        _ => EndPlacement::Pinned,
    }
}

fn has_dropped_out(outcome: &Outcome, trial: &Trial) -> bool {
    outcome.contenders.get(trial.contender).is_some_and(|entrant| entrant.out().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judgement::DecisionStage;
    use crate::analysis::verdicts;
    use crate::outcome::{UNTRUSTED_GATE, Warning};
    use crate::testing;
    use deadheat_contract::measurements::series::{Point, Series};
    use deadheat_contract::measurements::{Account, HostCounters, Metrics, Packets, TcpView};
    use deadheat_records::host::HostFacts;
    use deadheat_records::quiet::HostQuiet;

    /// Returns a race of two with ten trials each, without warnings.
    fn calm() -> Outcome {
        let mut outcome = testing::outcome(2);
        outcome.plan.blocks_max = 10;
        outcome.host.cpus = vec![0, 1];
        let name = outcome.metrics[0].name.clone();
        for block in 0..10 {
            for contender in 0..2 {
                let figure = 100.0 + block as f64;
                outcome.trials.push(Trial {
                    block,
                    order: contender as u64,
                    contender,
                    control: false,
                    record: testing::record(Metrics::from([(name.clone(), figure)])),
                });
            }
        }
        outcome
    }

    fn codes(mut outcome: Outcome, change: impl FnOnce(&mut Outcome)) -> Vec<String> {
        change(&mut outcome);
        verdicts::refresh(&mut outcome, DecisionStage::Between { next: None });
        refresh(&mut outcome, None);
        let complete = |w: &Warning| !w.message.is_empty() && !w.advice.is_empty();
        assert!(outcome.warnings.iter().all(complete));
        outcome.warnings.into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_calm_race_has_no_warnings() {
        assert_eq!(codes(calm(), |_| ()), Vec::<String>::new());
    }

    type Change<'a> = Box<dyn FnOnce(&mut Outcome) + 'a>;

    #[test]
    fn what_the_host_did_has_its_code() {
        let cases: Vec<(&str, Change<'_>)> = vec![
            ("steal", Box::new(|o| o.trials[3].record.steal_share = Some(0.2))),
            ("cpu_quota", Box::new(|o| o.host.cpu_quota_milli = Some(1_500))),
            ("cpu_throttled", Box::new(|o| o.trials[3].record.throttled = held(12, 340))),
            (
                "cpu_throttled",
                Box::new(|o| {
                    o.asked.to = Some("far.example".into());
                    o.trials[3].record.far_throttled = held(12, 340);
                }),
            ),
            (
                "busy_host",
                Box::new(|o| {
                    let disturbed = Some(Disturbance { by: Disturber::Programs, share: 0.43 });
                    o.probe = Some(HostQuiet { disturbed, ..HostQuiet::default() });
                }),
            ),
            (
                "noisy_host",
                Box::new(|o| {
                    o.probe = Some(HostQuiet { scatter: Some(0.2), ..HostQuiet::default() });
                }),
            ),
        ];
        for (code, change) in cases {
            assert_eq!(codes(calm(), change), [code]);
        }
    }

    #[test]
    fn an_echo_behind_a_translation_of_addresses_is_no_floor() {
        let to = |reached: &'static str| {
            move |o: &mut Outcome| {
                o.path.address = "192.0.2.7:5210".into();
                let reached_at = Some(reached.parse().unwrap());
                o.peer_host = Some(HostFacts { reached_at, ..HostFacts::default() });
                o.contenders[1].spec = "icmp".into();
                o.contenders[1].floor = true;
            }
        };
        let has = |codes: Vec<String>| codes.iter().any(|code| code == "floor_elsewhere");
        assert!(has(codes(calm(), to("10.0.0.5"))));
        assert!(!has(codes(calm(), to("192.0.2.7"))));
    }

    fn held(times: u64, ms: u64) -> Option<Throttled> {
        Some(Throttled { times, held_ns: ms * 1_000_000 })
    }

    #[test]
    fn what_a_quota_took_is_summed_up_once_for_both_ends_of_one_machine() {
        let mut outcome = calm();
        for trial in &mut outcome.trials[3..5] {
            trial.record.throttled = held(6, 170);
            trial.record.far_throttled = held(6, 170);
        }
        refresh(&mut outcome, None);
        let said: Vec<_> =
            outcome.warnings.iter().map(|warning| warning.message.as_str()).collect();
        let expected = "a CPU quota held this program back 12 times, 340 ms in all, in 2 trials; messages under way waited for it";
        assert_eq!(said, [expected]);
    }

    /// Returns a series of a contender that its library limited for two thirds of its busy time.
    fn mostly_held() -> Series {
        let view =
            TcpView { busy_ns: Some(900), library_limited_ns: Some(600), ..TcpView::default() };
        let point = Point { sent_bytes: 1, tcp: Some(view), ..Point::default() };
        Series::new(100, &[point])
    }

    #[test]
    fn each_thing_seen_has_its_code() {
        let account = |lost, delivered| Account {
            unit: "messages".into(),
            sent: 10,
            delivered,
            lost_on_path: lost,
            ..Account::default()
        };
        let cases: Vec<(&str, Change<'_>)> = vec![
            ("gate_failed", Box::new(|o| o.trials[0].record.valid = false)),
            ("budget_too_small", Box::new(|o| o.plan.blocks_max = 3)),
            ("host_placement", Box::new(|o| o.plan.placement = "host".into())),
            ("margin_widened", Box::new(|o| o.plan.margin = 0.1)),
            ("loss_on_loopback", Box::new(|o| o.trials[0].record.ledger.up = Some(account(2, 8)))),
            (
                "receive_buffer",
                Box::new(|o| {
                    let full = Account { dropped_at_receiver: Some(2), ..account(0, 8) };
                    o.trials[0].record.ledger.up = Some(full);
                }),
            ),
            (
                "send_queue",
                Box::new(|o| {
                    o.path.kind = PathKind::Remote;
                    o.trials[0].record.ledger.up = Some(account(2, 8));
                    o.trials[0].record.counters =
                        Some(HostCounters { udp_send_buffer_errors: 1, ..Default::default() });
                }),
            ),
            (
                "fragmented",
                Box::new(|o| {
                    o.trials[0].record.ledger.up = Some(account(0, 10));
                    o.trials[0].record.packets =
                        Some(Packets { message_bytes: 9_000, header_bytes: 28, path_mtu: 1_500 });
                }),
            ),
            ("library_limit", Box::new(|o| o.trials[0].record.intervals = vec![mostly_held()])),
            ("ledger_open", Box::new(|o| o.trials[0].record.ledger.up = Some(account(0, 8)))),
            (
                "censored_percentile",
                Box::new(|o| o.trials[0].record.censored = vec![o.metrics[0].name.clone()]),
            ),
            (
                "not_as_asked",
                Box::new(|o| {
                    o.contenders[0].asked.insert("cc".into(), "bbr".into());
                    o.contenders[0].effective.insert("cc".into(), "cubic".into());
                }),
            ),
            (
                UNTRUSTED_GATE,
                Box::new(|o| o.trials.iter_mut().take(5).for_each(|t| t.record.valid = false)),
            ),
            (
                "two_regimes",
                Box::new(|o| {
                    let slow = o.trials.iter_mut().filter(|t| t.contender == 1 && t.block % 2 == 0);
                    for trial in slow {
                        trial.record.metrics.values_mut().for_each(|figure| *figure *= 4.0);
                    }
                }),
            ),
        ];
        for (code, change) in cases {
            assert_eq!(codes(calm(), change), [code]);
        }
    }

    #[test]
    fn an_option_that_the_far_end_alone_has_other_than_asked_is_named() {
        let mut outcome = calm();
        let sender = &mut outcome.contenders[0];
        for (options, value) in [
            (&mut sender.asked, "cubic"),
            (&mut sender.effective, "cubic"),
            (&mut sender.far_effective, "bbr"),
        ] {
            options.insert("cc".into(), value.into());
        }
        let label = sender.label.clone();
        refresh(&mut outcome, None);
        let [warning] = outcome.warnings.as_slice() else { panic!("{:?}", outcome.warnings) };
        let said = format!("at the far end {label} has cc=bbr, and not its default, cubic");
        assert_eq!((warning.code.as_str(), &warning.message), ("not_as_asked", &said));
    }

    #[test]
    fn a_blocked_contender_may_leave_one_alone() {
        let found = codes(calm(), |o| o.contenders[1].blocked = Some("silence".into()));
        assert_eq!(found, ["single_contender", "blocked"]);
    }

    #[test]
    fn a_size_that_the_kernel_rounds_and_the_hosts_choice_are_no_surprise() {
        let found = codes(calm(), |o| {
            for (option, asked, got) in [("sndbuf", "64kB", "128000"), ("cc", "host", "bbr")] {
                o.contenders[0].asked.insert(option.into(), asked.into());
                o.contenders[0].effective.insert(option.into(), got.into());
            }
        });
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_option_that_is_left_open_is_no_surprise_and_a_default_that_gave_way_says_why() {
        let found = |spec: &str, asked: &str, effective: &str| {
            let mut outcome = calm();
            outcome.contenders[0].spec = spec.into();
            outcome.contenders[0].asked.insert("io".into(), asked.into());
            outcome.contenders[0].effective.insert("io".into(), effective.into());
            refresh(&mut outcome, None);
            let told = outcome.warnings.pop();
            told.map_or_else(String::new, |told| format!("{}: {}", told.message, told.advice))
        };
        assert_eq!(found("tcp", "auto", "raw"), "");
        let gave_way = found(
            "tcp",
            "gso",
            "sendmmsg (gso: a message of 1400 B exceeds the path MTU of 1280 B)",
        );
        assert!(
            gave_way.starts_with("tcp has io=sendmmsg (gso: a message of 1400 B"),
            "{gave_way}"
        );
        assert!(gave_way.contains("not its default, gso"), "{gave_way}");
        assert!(
            gave_way.ends_with("correct the setting in brackets, or type the value in force"),
            "{gave_way}"
        );
        let another = found("tcp:io=gso", "gso", "gso, send");
        assert!(another.starts_with("tcp asked for io=gso and has gso, send"), "{another}");
        let refused = found("tcp:io=gso", "gso", "send");
        assert!(
            refused.starts_with("tcp asked for io=gso and has send: load the kernel module"),
            "{refused}"
        );
    }

    /// Returns the advice of the only warning of a race changed by `change`.
    fn advice(change: impl FnOnce(&mut Outcome)) -> String {
        let mut outcome = calm();
        change(&mut outcome);
        verdicts::refresh(&mut outcome, DecisionStage::Between { next: None });
        refresh(&mut outcome, None);
        let [warning] = outcome.warnings.as_slice() else { panic!("{:?}", outcome.warnings) };
        warning.advice.clone()
    }

    #[test]
    fn advice_on_two_regimes_fits_the_place_of_the_ends() {
        let regimes = |kind: PathKind, placement: &'static str| {
            advice(|o| {
                (o.path.kind, o.plan.placement) = (kind, placement.into());
                let slow = o.trials.iter_mut().filter(|t| t.contender == 1 && t.block % 2 == 0);
                for trial in slow {
                    trial.record.metrics.values_mut().for_each(|figure| *figure *= 4.0);
                }
            })
        };
        assert!(!regimes(PathKind::Loopback, "same-core").contains("--placement"));
        assert!(!regimes(PathKind::Simulated, "virtual").contains("CPU"));
    }

    #[test]
    fn advice_on_a_failed_gate_fits_its_cause() {
        let failed = |change: fn(&mut Record)| {
            advice(|o| {
                o.trials[0].record.valid = false;
                change(&mut o.trials[0].record);
            })
        };
        assert!(failed(|_| ()).starts_with("close other programs"));
        assert!(failed(|r| r.path_invalid = Some("late".into())).contains("the path's threads"));
        let open = |r: &mut Record| {
            r.ledger.up = Some(Account { sent: 1, ..Account::default() });
        };
        assert!(failed(open).contains("the ledger says why"));
        let gone = |r: &mut Record| *r = Record::without_figures("failed: no route to host".into());
        assert!(failed(gone).contains("path and far end"));
    }

    #[test]
    fn a_longer_timeout_is_advised_only_where_something_came_late() {
        let censored = |late| {
            advice(|o| {
                o.path.kind = PathKind::Remote;
                o.trials[0].record.censored = vec![o.metrics[0].name.clone()];
                let late = Some(late);
                o.trials[0].record.ledger.up = Some(Account { late, ..Account::default() });
            })
        };
        assert!(censored(3).ends_with("a longer timeout shows the tail"));
        assert!(censored(0).contains("would show no more"));
    }

    #[test]
    fn one_trial_in_five_may_fail_and_no_more() {
        let share = |n: usize| {
            let fail = |o: &mut Outcome| {
                o.trials.iter_mut().take(n).for_each(|t| t.record.valid = false);
            };
            codes(calm(), fail)
        };
        assert_eq!(share(4), ["gate_failed"]);
        assert_eq!(share(5), [UNTRUSTED_GATE]);
    }

    #[test]
    fn warnings_of_events_outlive_a_refresh_and_others_do_not() {
        let mut outcome = calm();
        add(&mut outcome, &Notice::TrialFailed { error: "x".into() });
        outcome.warnings.push(Notice::Host(HostNotice::Placement).warning());
        assert_eq!(codes(outcome, |_| ()), ["trial_failed"]);
    }

    #[test]
    fn a_blast_of_fragments_is_explained_by_its_causes_and_their_shares() {
        let mut outcome = calm();
        outcome.path.kind = PathKind::Remote;
        let record = &mut outcome.trials[0].record;
        record.packets = Some(Packets { message_bytes: 32_768, header_bytes: 28, path_mtu: 1_500 });
        record.ledger.up = Some(Account {
            unit: "messages".into(),
            sent: 1_000,
            delivered: 0,
            lost_on_path: 750,
            dropped_at_receiver: Some(250),
            ..Account::default()
        });
        record.far_effective.insert("rcvbuf".into(), "212992".into());
        record.counters = Some(HostCounters { fragment_failures: 300, ..Default::default() });
        record.far_counters = Some(HostCounters {
            fragments_received: 9_000,
            reassembled: 250,
            reassembly_failures: 4_000,
            ..Default::default()
        });
        let label = outcome.contenders[0].label.clone();
        refresh(&mut outcome, None);
        let told = outcome.warnings.iter().find(|w| w.code == "fragmented").unwrap();
        assert_eq!(
            told.message,
            format!(
                "{label} sends messages of 32768 B in 23 fragments each over a path MTU of 1500 B (at \
                 most 1472 B fit one packet), and one lost fragment loses the message; 1000 of 1000 \
                 were lost (100 %): 30 % in the sending host's own queue, which had no room for a \
                 fragment; 45 % for missing fragments (the receiving host put 250 messages together, \
                 and 4000 of 9000 fragments found no room to wait for the others, as incomplete \
                 messages filled net.ipv4.ipfrag_high_thresh); 25 % at the receiver's socket, whose \
                 buffer of 212992 B was full"
            )
        );
    }
}
