//! Warnings to read before believing a race, found in its trials and plan.

use super::losses::Losses;
use super::notice::EVENTS;
use super::table::{Table, TrialFilter};
use super::translated::{TranslatedAddress, translated};
use super::{
    black_hole, exclusions, fallbacks, far_end, host_notice, library_limits, loss_words, nat,
    order, own_state, path_account, rewritten, settings, theory,
};
use crate::analysis::claims::fewest_for;
use crate::outcome::{
    Entrant, GATE_FAILED, Outcome, Trial, UNTRUSTED_EXCLUSIONS, UNTRUSTED_GATE, UNTRUSTED_STATE,
    Warning,
};
use deadheat_base::figures::{percent, times};
use deadheat_base::spec::Spec;
use deadheat_contract::contract::Side;
use deadheat_contract::measurements::Role;
use deadheat_contract::recorded::{RecordedContender, in_force};
use deadheat_path::PathKind;
use deadheat_path::network::Network;
use deadheat_records::placement::Placement;
use deadheat_records::trial::Record;

/// Share of trials that may fail their gate before the race is not trusted.
const MOST_GATE_FAILURES: f64 = 0.2;

/// Updates the warnings that follow from trials and plan; warnings of events stay.
pub fn refresh(outcome: &mut Outcome, network: Option<&Network>) {
    let mut derived = derive(outcome);
    derived.extend(path_account::repeated_draws(outcome, network));
    derived.extend(theory::warnings(outcome));
    let events = std::mem::take(&mut outcome.warnings).into_iter();
    derived.extend(events.filter(|warning| EVENTS.contains(&warning.code.as_str())));
    outcome.warnings = derived;
    outcome.settle_trust();
}

/// Derives all warnings from trials and plan.
fn derive(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    all.extend(of_plan(outcome));
    all.extend(far_end::warnings(outcome));
    all.extend(of_contenders(outcome));
    all.extend(settings::changed(outcome));
    all.extend(host_notice::warnings(outcome));
    all.extend(of_gates(outcome));
    all.extend(of_exclusions(outcome));
    let of_order = |effect: order::OrderEffect| {
        Warning::new("order_effect", effect.to_string(), order::ADVICE)
    };
    all.extend(order::effect(outcome).map(of_order));
    let table = Table::of(&outcome.trials, TrialFilter::Valid);
    let states = own_state::own_states(outcome, &table).into_iter();
    all.extend(states.map(|state| Warning::new(UNTRUSTED_STATE, state.words(), own_state::ADVICE)));
    all.extend(path_account::warnings(outcome));
    all.extend(fallbacks::warnings(outcome));
    let forgotten = nat::notices(outcome).into_iter();
    all.extend(forgotten.map(|flow| Warning::new("nat_forgot", flow.to_string(), nat::ADVICE)));
    let changed = rewritten::notices(outcome).into_iter();
    all.extend(
        changed.map(|dscp| Warning::new("dscp_rewritten", dscp.to_string(), rewritten::ADVICE)),
    );
    let limits = library_limits::notices(outcome).into_iter();
    all.extend(limits.map(|limit| {
        Warning::new("library_limit", limit.to_string(), library_limits::LIBRARY_ADVICE)
    }));
    all.extend(black_hole::warnings(outcome));
    all.extend(of_ledgers(outcome));
    all.extend(of_losses(outcome));
    all.extend(of_figures(outcome));
    all
}

fn of_plan(outcome: &Outcome) -> Vec<Warning> {
    let plan = &outcome.plan;
    let mut all = Vec::new();
    let claims = usize::try_from(plan.claims).unwrap_or(usize::MAX);
    let fewest = fewest_for(claims, outcome.asked.confidence);
    // A race of one block is run for its figures.
    if claims > 0 && plan.blocks_max < fewest && outcome.asked.blocks != Some(1) {
        all.push(Warning::new(
            "budget_too_small",
            format!(
                "blocks planned: {}; {fewest} are the fewest that can decide all \
                 claims, so some must stay undecided",
                plan.blocks_max
            ),
            match outcome.asked.blocks {
                Some(_) => "raise --blocks, or race fewer contenders",
                None => "raise --budget, shorten the workload, or race fewer contenders",
            },
        ));
    }
    if outcome.margin_widened() {
        all.push(Warning::new(
            "margin_widened",
            format!(
                "margin widened: {} ({}), by the rule of its time",
                percent(plan.margin),
                plan.margin_reason
            ),
            "race again: the margin is 5 % or what --margin says, and no longer grows",
        ));
    }
    let varied =
        outcome.contenders.iter().any(|e| e.cell.as_ref().is_some_and(|c| c.placement.is_some()));
    if plan.placement == "host" && !varied && outcome.asked.to.is_none() {
        all.push(Warning::new(
            "host_placement",
            "the host's scheduler placed the two ends, perhaps differently in each trial",
            "use --placement same-core, cross-core or busy to hold it equal",
        ));
    }
    all
}

fn of_contenders(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut racing = outcome.contenders.iter().filter(|e| e.is_racing() && !e.floor);
    if let (Some(only), None) = (racing.next(), racing.next()) {
        all.push(Warning::new(
            "single_contender",
            format!(
                "{} raced alone, so there is no verdict; its hidden copy ran beside it",
                only.label
            ),
            "name a second contender to have a verdict",
        ));
    }
    let translated = translated(outcome);
    for entrant in &outcome.contenders {
        let ours = entrant.recorded().ok();
        let is_kernel = |ours: &RecordedContender| ours.peer.is_floor();
        let elsewhere = translated.filter(|_| ours.as_ref().is_some_and(is_kernel));
        if let Some(TranslatedAddress { dialled, reached }) = elsewhere {
            all.push(Warning::new(
                "floor_elsewhere",
                format!(
                    "{} is no floor here: the race dials {dialled}, and the server is reached at {reached}, so a \
                     port-forward or another translation of addresses lies between, and a router may answer echo requests \
                     instead of the server",
                    entrant.label
                ),
                "leave it out, or race to the server's own address from a host that can reach it",
            ));
        }
        if let Some(why) = entrant.dropped() {
            all.push(Warning::new(why.word(), why.sentence(&entrant.label), why.advice()));
        }
        all.extend(not_as_asked(entrant, ours.as_ref()));
    }
    all
}

/// Returns a warning for each option that an end has other than asked for, the near one first.
fn not_as_asked(entrant: &Entrant, ours: Option<&RecordedContender>) -> Vec<Warning> {
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
        let (label, place) =
            (&entrant.label, if end == Side::Far { "at the far end " } else { "" });
        let message = if typed(entrant, option) {
            format!("{place}{label} asked for {option}={asked} and has {effective}")
        } else {
            format!("{place}{label} has {option}={effective}, and not its default, {asked}")
        };
        let advice = match end {
            _ if effective.contains(" (") => {
                "correct the setting in brackets, or type the value in force"
            }
            Side::Near => {
                "load the kernel module or allow the setting, or ask for what the host has"
            }
            Side::Far => {
                "that end sends with this value: have its operator allow the setting (sysctl \
                 net.ipv4.tcp_allowed_congestion_control for cc), or ask for what that host has"
            }
        };
        Some(Warning::new("not_as_asked", message, advice))
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

fn of_gates(outcome: &Outcome) -> Option<Warning> {
    let racing = || {
        let trials = outcome.trials.iter();
        let counted = trials.filter(|trial| trial.record.lost_ms.is_none());
        counted.filter(|trial| !has_dropped_out(outcome, trial))
    };
    let invalid = || racing().filter(|trial| !trial.record.valid);
    let first = &invalid().next()?.record;
    let (failed, trials) = (invalid().count(), racing().count());
    let path = match invalid().filter(|trial| trial.record.path_invalid.is_some()).count() {
        0 => String::new(),
        all if all == failed => ", all for the path".to_owned(),
        some => format!(", {some} of them for the path"),
    };
    let is_trusted = failed as f64 <= MOST_GATE_FAILURES * trials as f64;
    Some(Warning::new(
        if is_trusted { GATE_FAILED } else { UNTRUSTED_GATE },
        format!(
            "{failed} of {trials} trials failed their gate{path}; the first: {}",
            first.why_invalid.as_deref().unwrap_or_default()
        ),
        gate_advice(first, &outcome.plan.placement),
    ))
}

/// Advice about a failure of the work itself: usually a late generator.
pub const OF_WORK: &str = "close other programs, or ask for less: a longer interval, a lower rate";

/// Returns the advice about the failure of a trial under a placement.
pub fn gate_advice(record: &Record, placement: &str) -> &'static str {
    match record {
        // Both ends are on one CPU already.
        Record { path_invalid: Some(_), .. } if placement == Placement::SameCore.to_string() => {
            "the path's threads have a CPU of their own: stop other programs on it, emulate a longer delay or a lower \
             rate, or race on a host with more CPUs"
        }
        Record { path_invalid: Some(_), .. } => {
            "leave the path's threads a CPU of their own (--placement same-core, fewer programs), \
             emulate a longer delay or a lower rate, or use wait=spin where CPUs are to spare"
        }
        _ if !record.ran() => {
            "look at what path and far end did at that time: the result has when each trial began and how long it took"
        }
        _ if record.ledger.accounts().any(|(_, account)| !account.closes()) => {
            "do not rely on the figures of these trials; the ledger says why"
        }
        _ => OF_WORK,
    }
}

fn of_exclusions(outcome: &Outcome) -> Option<Warning> {
    let exclusions::UnequalLosses { more, less } = exclusions::unequal_losses(outcome)?;
    let (code, then) = if exclusions::change_verdicts(outcome) {
        (UNTRUSTED_EXCLUSIONS, "counted with them, a verdict changes")
    } else {
        ("exclusions_differ", "counted with them, the verdicts are the same")
    };
    Some(Warning::new(
        code,
        format!(
            "gates excluded {} of {} trials of {} and {} of {} of {}; {then}",
            more.failed, more.trials, more.label, less.failed, less.trials, less.label
        ),
        "race again when host and path are quieter; with --details the verdicts on \
         all trials stand beside the others",
    ))
}

fn of_ledgers(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    let accounts = |trial: &Trial| {
        let accounts = trial.record.ledger.accounts();
        accounts.map(|(_, account)| account.clone()).collect::<Vec<_>>()
    };
    let valid = || outcome.trials.iter().filter(|trial| trial.record.valid);
    let open = || valid().filter(|trial| accounts(trial).iter().any(|a| !a.closes()));
    if let Some(first) = open().next() {
        let why = accounts(first).into_iter().find_map(|a| a.open_because);
        all.push(Warning::new(
            "ledger_open",
            format!(
                "the ledger does not close in {} trials; the first: {}",
                open().count(),
                why.as_deref().unwrap_or("more or less arrived than was sent")
            ),
            "do not rely on the loss figures of these trials; the ledger says why",
        ));
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
            all.push(Warning::new(
                "loss_on_loopback",
                format!(
                    "{lost} messages of {} were lost on loopback, where only full buffers lose any",
                    labels.join(", ")
                ),
                "raise the receive buffer (rcvbuf, net.core.rmem_max) or lower the rate",
            ));
        }
    }
    all
}

/// Returns warnings about fragments, full queues and full receive buffers with a part in the losses. If messages are
/// fragmented, one warning covers all.
fn of_losses(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    for losses in outcome.contenders.iter().filter_map(|entrant| Losses::of(outcome, entrant)) {
        if losses.in_fragments().is_some() {
            all.push(Warning::new(
                "fragmented",
                loss_words::fragmented(&losses),
                "send messages that fit the path MTU; where the receive buffer lost some, raise it, \
                 too (rcvbuf, net.core.rmem_max on the receiving host)",
            ));
            continue;
        }
        // Ignore causes of less than a hundredth of the losses.
        let matters = |part: u64| part > 0 && part >= losses.lost / 100;
        if matters(losses.refused) {
            all.push(Warning::new(
                "send_queue",
                loss_words::send_queue(&losses),
                "lower the rate to that of the first link: a sender without congestion control only fills its own queue",
            ));
        }
        if matters(losses.dropped) {
            all.push(Warning::new(
                "receive_buffer",
                loss_words::receive_buffer(&losses),
                "raise the receive buffer (rcvbuf, and net.core.rmem_max on the receiving host where \
                 that holds it down), or lower the rate",
            ));
        }
    }
    all
}

fn of_figures(outcome: &Outcome) -> Vec<Warning> {
    let mut all = Vec::new();
    for summary in &outcome.summary {
        let entrant = outcome.contenders.get(summary.contender);
        let metric = outcome.metrics.iter().find(|m| m.name == summary.metric);
        let (Some(entrant), Some(metric)) = (entrant, metric) else {
            continue;
        };
        if metric.role != Role::Claim {
            continue;
        }
        let (label, metric) = (&entrant.label, &metric.label);
        if summary.censored {
            all.push(Warning::new(
                "censored_percentile",
                format!(
                    "{metric} of {label} falls among messages without an answer in time: it is at least the timeout"
                ),
                if came_late(outcome, entrant) {
                    "read the loss in the ledger first; a longer timeout shows the tail"
                } else {
                    "read the loss in the ledger first; a longer timeout would show no more, as nothing came late"
                },
            ));
        }
        if let Some([lower, upper]) = summary.regimes {
            all.push(Warning::new(
                "two_regimes",
                format!(
                    "{label} has two regimes: in {} of its trials {metric} is {} times as high as in the others",
                    percent(upper.share),
                    times(upper.centre / lower.centre)
                ),
                on_regimes(outcome, entrant),
            ));
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

/// Returns the advice about two regimes, by the place of a contender's ends.
fn on_regimes(outcome: &Outcome, entrant: &Entrant) -> &'static str {
    match (outcome.path.kind, outcome.plan.placement.as_str()) {
        _ if entrant.commands.is_some() => {
            "look at the trials one by one: nothing holds commands on CPUs, unless their file does (taskset -c 0 …)"
        }
        (PathKind::Simulated, _) => {
            "look at the trials one by one: in virtual time only the path and the contender make a difference"
        }
        (_, "host") => {
            "pin both ends with --placement same-core or cross-core, and look at the trials \
             one by one"
        }
        _ => {
            "look at the trials one by one for a difference between the two groups other than the CPUs"
        }
    }
}

fn has_dropped_out(outcome: &Outcome, trial: &Trial) -> bool {
    outcome.contenders.get(trial.contender).is_some_and(|entrant| entrant.out().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::judgement::DecisionStage;
    use crate::analysis::{notice, verdicts};
    use crate::testing;
    use deadheat_base::error::Error;
    use deadheat_contract::measurements::series::{Point, Series};
    use deadheat_contract::measurements::{
        Account, HostCounters, Metrics, Packets, TcpView, Throttled,
    };
    use deadheat_records::host::HostFacts;
    use deadheat_records::quiet::{Disturbance, Disturber, HostQuiet};

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
        outcome.warnings.push(notice::trial_failed(&Error::usage("x")));
        outcome.warnings.push(Warning::new("host_placement", "", ""));
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
