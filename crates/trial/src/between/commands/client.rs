//! Keeper of a client command: in place of the near agent. It measures from just before the command is started to the kernel's
//! notice of its end.

use std::collections::BTreeMap;
use std::io::PipeWriter;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::absolute;
use std::process::Command;
use std::time::Duration;

use deadheat_base::descriptor::ready;
use deadheat_base::process::is_hung_up;

use super::folder::OwnFolder;
use super::{FigurePlan, NodePlan, receive, send, with_usage};
use crate::between::launched::{CommandEnd, LaunchedCommand, StartingCpu};
use crate::between::output::{CommandOutput, STORED};
use crate::control::{AgentReport, FromAgent, ToAgent};
use crate::meters::Meters;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::Bytes;
use deadheat_contract::contract::Direction;
use deadheat_contract::measurements::Tally;
use deadheat_contract::workload::programs::FigureUnit;
use deadheat_contract::workload::{EndpointReport, ReceiveSpan};
use deadheat_datapath::transport::commands::FigureText;
use deadheat_host::process_tree::TreeTimes;
use deadheat_records::commands::{CommandReport, ReceivedContent};

/// Longest time until all output of a command is read, once it has ended.
const UNTIL_SAID: Duration = Duration::from_millis(500);

/// Runs a client command for a trial.
///
/// # Errors
/// The fault of the command, with its file and line, its last output, and what would be right.
pub(super) fn run(plan: &NodePlan, control: &mut UnixStream) -> Result<AgentReport> {
    let folder = OwnFolder::fresh()?;
    send(control, &FromAgent::Connected)?;
    match receive(control)? {
        ToAgent::Start => {}
        _ => return Err(Error::Interrupted),
    }
    let (mut output, ends) = CommandOutput::new(None)?;
    let command = command(plan, plan.server, &folder, ends)?;
    let place = StartingCpu::take(plan.cpu)?;
    let meters = Meters::read();
    let before = TreeTimes::read();
    let began = Monotonic.now();
    let mut launched = LaunchedCommand::start(command).map_err(|e| plan.wrong(&e.to_string()))?;
    drop(place);
    await_end(plan, &launched, control)?;
    let took = Monotonic.now() - began;
    check_end(plan, &launched, &mut output)?;
    launched.stop(libc::SIGTERM, Nanos::ZERO);
    let report = meters.report_with(with_usage(TreeTimes::read().since(&before)));
    let received = received(plan, &folder, control)?;
    let figures = figures(plan, took, &output, &folder)?;
    let half = half(plan, began, took, figures);
    send(control, &FromAgent::Finished { sent: vec![half.sent] })?;
    // The server is stopped meanwhile.
    receive(control)?;
    let took_ns = Some(took.0);
    let command = CommandReport { took_ns, printed_bytes: output.bytes(), received };
    Ok(AgentReport { halves: vec![half], command: Some(Box::new(command)), ..report })
}

/// Returns the command to start, in its folder; `at` is the address at which the server listens. A command that carries a
/// contender runs where the race was typed.
///
/// # Errors
/// [`Error::Usage`] if it is empty.
pub(super) fn command(
    plan: &NodePlan,
    at: SocketAddr,
    folder: &OwnFolder,
    [stdout, stderr]: [PipeWriter; 2],
) -> Result<Command> {
    let values = plan.values.clone().with("dir", folder.path().display());
    let words = plan.command.filled(&values.with_address("", at).with_address("listen", at));
    let (program, arguments) =
        words.split_first().ok_or_else(|| Error::usage("an empty command"))?;
    // A relative path is one from the directory of the race, and the command runs in another.
    let mut command = if program.contains('/') {
        Command::new(absolute(program).unwrap_or_else(|_| program.into()))
    } else {
        Command::new(program)
    };
    command.args(arguments).stdout(stdout).stderr(stderr);
    if !plan.carries {
        command.current_dir(folder.path());
    }
    Ok(command)
}

/// Waits until the command has ended.
fn await_end(plan: &NodePlan, launched: &LaunchedCommand, control: &UnixStream) -> Result<()> {
    let give_up = Monotonic.now() + plan.timeout;
    loop {
        let left = give_up - Monotonic.now();
        if left == Nanos::ZERO {
            return Err(plan.wrong(&format!(
                "it still ran after {}; a longer one needs timeout = \"…\" in the file",
                plan.timeout
            )));
        }
        let watched = [(launched.ended(), libc::POLLIN), (control.as_fd(), libc::POLLIN)];
        let ready =
            ready(watched, Some(left)).map_err(|e| Error::setup("wait for a command", e))?;
        if ready[0] {
            return Ok(());
        }
        // Whatever the race has to say now, the trial is over.
        if ready[1] {
            return Err(Error::Interrupted);
        }
    }
}

/// Checks that the command ended well, and everything that it started with it.
fn check_end(
    plan: &NodePlan,
    launched: &LaunchedCommand,
    output: &mut CommandOutput,
) -> Result<()> {
    let end = launched.how_ended();
    let is_all =
        output.await_end(if end == CommandEnd::Exit(0) { UNTIL_SAID } else { UNTIL_SAID / 4 });
    if end != CommandEnd::Exit(0) {
        let words = output.last_words();
        return Err(plan.wrong(&format!("it failed ({end}){words}{}", plan.hint())));
    }
    let left = launched.left_behind().len();
    if left > 0 || !is_all {
        return Err(plan.wrong(&format!(
            "it ended and left {left} of its processes in the background; a client has to end when its work is done, and not \
             before"
        )));
    }
    Ok(())
}

/// Returns the received content, if the command writes it to a file, after checking its length.
///
/// # Errors
/// [`Error::Peer`] if there is no such file, or if it is of another length than the work.
pub(super) fn received(
    plan: &NodePlan,
    folder: &OwnFolder,
    control: &UnixStream,
) -> Result<Option<ReceivedContent>> {
    let Some(name) = &plan.received else { return Ok(None) };
    let content = folder.content(name, &|| !is_hung_up(control)).map_err(|error| {
        plan.broke(&format!(
            "received = `{name}`: {error}; the command has to write it to {{dir}}/{name}"
        ))
    })?;
    match (plan.transfer, plan.bytes) {
        (Some(_), Some(bytes)) if bytes != content.bytes => Err(plan.broke(&format!(
            "{} arrived in {name}, of {} that were to be moved",
            Bytes(content.bytes),
            Bytes(bytes)
        ))),
        _ => Ok(Some(content)),
    }
}

fn figures(
    plan: &NodePlan,
    took: Nanos,
    output: &CommandOutput,
    folder: &OwnFolder,
) -> Result<BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for figure in &plan.figures {
        let value = read(plan, figure, took, output, folder);
        let value = value.map_err(|error| {
            Error::peer(
                format!("{}: figure in {}", figure.place, figure.text.name()),
                error.to_string(),
            )
        })?;
        all.insert(figure.metric.clone(), value);
    }
    Ok(all)
}

fn read(
    plan: &NodePlan,
    figure: &FigurePlan,
    took: Nanos,
    output: &CommandOutput,
    folder: &OwnFolder,
) -> Result<f64> {
    let (text, whole) = match &figure.text {
        FigureText::Stdout => output.first(0),
        FigureText::Stderr => output.first(1),
        FigureText::File(name) => {
            let text = folder.text(name, STORED as u64).map_err(|error| {
                Error::usage(format!("{error}; the client has to write it to {{dir}}/{name}"))
            })?;
            let length = text.len() as u64;
            (text, length)
        }
    };
    let unit = FigureUnit::parse(&figure.unit)?;
    let printed = figure.source.read(took, plan.bytes, &text).map_err(|error| {
        let cut = text.len() as u64 != whole;
        let note = format!(
            "; of {} that were printed the first {} are read",
            Bytes(whole),
            Bytes(STORED as u64)
        );
        Error::usage(format!("{error}{}", if cut { note } else { String::new() }))
    })?;
    unit.value(printed).ok_or_else(|| {
        Error::usage(format!("{printed} {} is no value that such a figure can have", figure.unit))
    })
}

/// Returns the half of this end: of a transfer, what its end confirms.
fn half(
    plan: &NodePlan,
    began: Nanos,
    took: Nanos,
    figures: BTreeMap<String, f64>,
) -> EndpointReport {
    let moved = Tally { bytes: plan.bytes.unwrap_or(0), ..Tally::default() };
    let whole = EndpointReport {
        figures,
        send_began_ns: Some(began.0),
        send_span_ns: Some(took.0),
        ..EndpointReport::default()
    };
    let (first_ns, last_ns) = (began.0, (began + took).0);
    let span = ReceiveSpan { first_ns, last_ns, first_bytes: 0, warmup_bytes: 0 };
    match plan.transfer {
        Some(Direction::Up) => EndpointReport { sent: moved, ..whole },
        Some(Direction::Down) => EndpointReport {
            received: moved,
            receive_span: Some(span),
            send_began_ns: None,
            send_span_ns: None,
            ..whole
        },
        None => EndpointReport { figures: whole.figures, ..EndpointReport::default() },
    }
}
