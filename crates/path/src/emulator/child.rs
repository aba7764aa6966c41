//! The emulator's own side: carries out the requests of its parent.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use deadheat_base::process::{die_with_parent, ignore_interrupts, is_hung_up, live_without_parent};
use deadheat_base::{descriptor, frame};

use super::{BuiltNetwork, FromEmulator, LinkAddresses, Rights, SenderCpus, ToEmulator};
use crate::emulated::card::Cards;
use crate::emulated::forward::{Forwarder, grouping_for};
use crate::emulated::hosts::Hosts;
use crate::emulated::routing::Rerouter;
use crate::gate::IdlePing;
use crate::measurements::PathFigures;
use crate::network::Network;
use crate::observe::Observation;
use crate::{PathSpec, netem, routes};
use deadheat_base::ends::Direction;
use deadheat_base::error::{Error, Result};

/// Runs an emulator on its control channel until that ends; returns the process's exit code.
pub(super) fn run(mut control: UnixStream) -> i32 {
    leave_the_terminal();
    ignore_interrupts();
    // While it builds, nothing reads the control channel, so the end of the channel would go unnoticed. The thread
    // that waits for the building started this process, and ends only after it, or together with all of its
    // process.
    die_with_parent();
    if is_hung_up(&control) {
        // The parent had ended before that call.
        return 1;
    }
    let mut engine = None;
    while let Ok(word) = frame::read::<ToEmulator>(&mut control) {
        let answered = match answer(word, &mut engine, &control) {
            Ok(Some(answer)) => frame::write(&mut control, &answer),
            Ok(None) => Ok(()),
            Err(error) => frame::write(&mut control, &FromEmulator::Fault(error.to_fault())),
        };
        if answered.is_err() {
            return 1;
        }
    }
    0
}

/// Carries out a request. `None` where the answer was sent already.
fn answer(
    word: ToEmulator,
    engine: &mut Option<(Engine, Network)>,
    control: &UnixStream,
) -> Result<Option<FromEmulator>> {
    match (word, engine) {
        (ToEmulator::Build { path, senders }, engine @ None) => {
            *engine = Some(build(&path, senders, control)?);
            // From now on the end of control ends this process. Its parent may hand it to another thread.
            live_without_parent();
            Ok(None)
        }
        (ToEmulator::Observe(observation), Some((engine, _))) => {
            engine.observe(observation)?;
            Ok(Some(FromEmulator::Begun))
        }
        (ToEmulator::Begin { seed }, Some((engine, network))) => {
            engine.begin(network.seed.unwrap_or(seed))?;
            Ok(Some(FromEmulator::Begun))
        }
        (ToEmulator::End, Some((engine, _))) => {
            Ok(Some(FromEmulator::Figures(Box::new(engine.end()?))))
        }
        (ToEmulator::Capture, Some((engine, network))) => {
            let captured = match &mut engine.mover {
                Mover::Forwarder(forwarder) => forwarder.capture(network)?,
                Mover::Netem(_) => None,
            };
            Ok(Some(FromEmulator::Captured(captured)))
        }
        _ => Err(Error::peer("control", "a path is built once, and first")),
    }
}

/// Network under way: the hosts' cards, and the mover of packets.
struct Engine {
    cards: Cards,
    routes: Rerouter,
    mover: Mover,
}

/// Mover of packets.
enum Mover {
    /// Threads of this process.
    Forwarder(Forwarder),
    /// The kernel's netem.
    Netem(Box<netem::Middle>),
}

impl Engine {
    fn begin(&mut self, seed: u64) -> Result<()> {
        self.cards.begin()?;
        self.routes.begin()?;
        match &mut self.mover {
            Mover::Forwarder(forwarder) => forwarder.begin(seed),
            Mover::Netem(middle) => middle.begin(seed),
        }
    }

    fn observe(&mut self, observation: Observation) -> Result<()> {
        match &mut self.mover {
            Mover::Forwarder(forwarder) => forwarder.observe(observation),
            Mover::Netem(_) if observation == Observation::default() => {}
            Mover::Netem(_) => {
                return Err(Error::unsupported(
                    "backend=netem",
                    "the kernel moves the packets, so they are not observed; use backend=tun, or run tcpdump beside it",
                ));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<PathFigures> {
        let mut figures = match &mut self.mover {
            Mover::Forwarder(forwarder) => forwarder.end()?,
            Mover::Netem(middle) => middle.end()?,
        };
        self.cards.account(&mut figures)?;
        self.routes.check()?;
        Ok(figures)
    }
}

fn build(path: &str, senders: SenderCpus, mut control: &UnixStream) -> Result<(Engine, Network)> {
    let network = emulated(path)?;
    let hosts = Hosts::build(&network)?;
    let mover = match hosts.kernel {
        Some(middle) => Mover::Netem(middle),
        None => Mover::Forwarder(Forwarder::start(&network, hosts.ports, senders)?),
    };
    let first = |host: usize| {
        let link = network.links_of(host).next()?;
        let end = network.links[link].ends.iter().position(|end| *end == host)?;
        Some(hosts.addresses[link][end].as_slice())
    };
    let known = |host| routes::known(&network, host, first(host).unwrap_or_default());
    let known = (0..network.hosts.len()).map(known).collect();
    let built = BuiltNetwork {
        backend: hosts.backend,
        why: hosts.why,
        rights: if hosts.namespaces.user().is_some() { Rights::UserNamespace } else { Rights::Own },
        hosts: network.hosts.clone(),
        roles: [network.near, network.far],
        links: network
            .links
            .iter()
            .zip(hosts.addresses)
            .enumerate()
            .map(|(at, (link, addresses))| LinkAddresses {
                name: network.link_name(at),
                ways: [Direction::Up, Direction::Down].map(|way| network.way_name(at, way)),
                ends: link.ends,
                addresses,
            })
            .collect(),
        grouping: grouping_for(&network),
        mtu: network.mtu(),
        pings: network.links.iter().map(IdlePing::of).collect(),
        nics: hosts.cards.rates(),
        known,
        seed: network.seed,
        notes: hosts.notes,
    };
    let failed = |e| Error::setup("hand over the namespaces of a path", e);
    frame::write(&mut control, &FromEmulator::Built(Box::new(built))).map_err(failed)?;
    for fd in hosts.namespaces.hosts().chain(hosts.namespaces.user()) {
        descriptor::send(control.as_fd(), &[0], Some(fd)).map_err(failed)?;
    }
    let routes = Rerouter::start(hosts.routes)?;
    Ok((Engine { cards: hosts.cards, routes, mover }, network))
}

/// Parses the network as typed.
fn emulated(typed: &str) -> Result<Network> {
    let other = match PathSpec::parse(typed)? {
        PathSpec::Emulated(network) => return Ok(network),
        PathSpec::Loopback => "the loopback interface is there already",
        PathSpec::Simulated(_) => "a simulated network has no hosts; without `sim:` it is built",
    };
    Err(Error::usage(format!(
        "path `{typed}`: {other}, and what can be built is as in `delay=20ms`"
    )))
}

/// Moves this process to a process group of its own, and unblocks signals: keys at the terminal (Ctrl-C, Ctrl-Z)
/// are for the foreground group, the parent and the commands that it runs. Signals that the parent blocks are not
/// blocked here.
fn leave_the_terminal() {
    // SAFETY: the calls take integers and a set that was made just before.
    unsafe {
        libc::setpgid(0, 0);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
