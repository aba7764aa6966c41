//! `deadheat serve`: be the far end of other people's races.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::SystemTime;

use clap::Args;
use deadheat_base::clocks::ClockMap;
use deadheat_web::WebOptions;

use super::responders::ResponderArgs;
use super::secret;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::{Clock, Monotonic, Nanos};
use deadheat_base::units::{Bare, parse_bytes, parse_rate, parse_span};
use deadheat_result::date;
use deadheat_server::processes::Processes;
use deadheat_server::{
    Allowance, AllowedPairs, Backlog, Bind, Config, DEFAULT_LIMITS, DEFAULT_PORT, Encryption,
    Log as _, RelayTo, Secret, Server, ServerKey, Stop, parse_also,
};
use deadheat_trial::control::{Limits, SECRET_VARIABLE, private_file};

/// Environment variable with a clock for the far ends in test builds: its lead over this host's in seconds, and its gain
/// in parts per million: `18000,100`.
const TEST_CLOCK: &str = "DEADHEAT_TEST_CLOCK";

/// Returns the clock of the far ends: this host's, unless a test build is asked for another.
fn test_clock() -> ClockMap {
    let typed = std::env::var(TEST_CLOCK).ok().filter(|_| cfg!(debug_assertions));
    let parsed =
        typed.as_deref().and_then(|typed| typed.split_once(',')).and_then(|(lead, gain)| {
            Some((lead.parse().ok().map(Nanos::from_secs)?, gain.parse().ok()?))
        });
    parsed.map_or(ClockMap::SAME, |(lead, gain_ppm)| {
        let from_ns = Monotonic.now();
        ClockMap { from_ns, to_ns: from_ns + lead, gain_ppm }
    })
}

/// Options as typed.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ServeArgs {
    /// Listen at this address only [default: every address of this host]
    #[arg(long, value_name = "ADDR[:PORT]")]
    pub bind: Option<String>,
    /// Listen at this port, TCP and UDP [default: 5210]
    #[arg(short, long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Longest trial [default: 60s]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub max_duration: Option<String>,
    /// Highest rate per direction, of all trials that run at once [default: 10gbit]
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<String>,
    /// Maximum bytes of a trial, as IP packets, per direction [default: 100GB]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub max_bytes: Option<String>,
    /// Maximum bytes of all trials together, as IP packets, per direction [default: no limit]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub max_total: Option<String>,
    /// Maximum bytes of one client's trials, as IP packets, per direction [default: no limit]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub max_per_client: Option<String>,
    /// Trials that run at once, each on CPUs of its own where there are enough; others wait [default: 1]
    #[arg(long, value_name = "N", alias = "max-trials")]
    pub trials: Option<u32>,
    /// End after the race of one client
    #[arg(short = '1', long)]
    pub once: bool,
    /// Admit only clients with the secret in this file
    ///
    /// The variable DEADHEAT_SECRET may hold it instead.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Keep the key that control is encrypted with in this file, so that its pin stays the same
    ///
    /// The file is created if it does not exist. Without this option each start has a new key.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub key_file: Option<PathBuf>,
    /// Refuse clients that do not encrypt control (see `race --pin`)
    #[arg(long, hide_short_help = true)]
    pub require_tls: bool,
    /// Open the ports of these protocols, too, with the same number: sctp, udplite, dccp [default: none]
    ///
    /// TCP and UDP carry most contenders. These have ports of their own, which firewalls and the kernel's modules have to
    /// know.
    #[arg(long, value_name = "PROTOCOL,...", hide_short_help = true)]
    pub also: Option<String>,
    /// Relay to far ends at these hosts for clients with via=relay@HOST: addresses, networks, any [default: none]
    ///
    /// Such as 192.0.2.7, 192.0.2.0/24, or any for every address of the public Internet. A relay leads to a server that proves
    /// that it has the trial's far end, and its traffic counts among this server's limits.
    #[arg(long, value_name = "ADDR[/BITS],...", hide_short_help = true)]
    pub relay_to: Option<String>,
    /// Run the server command of this pair for clients that race it with --to (cmd:file=FILE) [default: none]
    ///
    /// With ,set=NAME=VALUE for each variable of the file, and once for each pair. A client names the pair and the bytes, the time
    /// and the seed of a trial; what runs is the command of this file, in the turn of a trial and within its time. It runs with the
    /// rights of this server, its port is open to everyone while it runs, and neither --max-rate nor a number of bytes binds it.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub command: Vec<String>,
    /// Choose the ports of server commands from these: 5300, or 5300-5309 [default: any free port]
    #[arg(long, value_name = "PORT[-PORT]", hide_short_help = true)]
    pub command_ports: Option<String>,
    /// Save the results of browsers' races to this folder (--web) [default: none; the page offers them]
    #[arg(long, value_name = "FOLDER", requires = "web", hide_short_help = true)]
    pub web_results: Option<PathBuf>,
    /// Serve the page over TLS with this certificate chain, in PEM (--web, --web-key) [default: without TLS]
    ///
    /// Without TLS browsers on other hosts have no WebTransport and no HTTP/2, and coarser clocks. WebTransport and HTTP/2 have the certificate, too; for
    /// WebTransport browsers take it only from an authority that they know by themselves, not from a private authority that was added to them.
    #[arg(long, value_name = "FILE", requires_all = ["web", "web_key"], hide_short_help = true)]
    pub web_cert: Option<PathBuf>,
    /// Private key of the page's certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "web_cert", hide_short_help = true)]
    pub web_key: Option<PathBuf>,
    /// Answer browsers that ask for the page by this name, too (--web) [default: this host's name, localhost and addresses]
    ///
    /// Without TLS a request by another name is refused: a stranger's name that leads to this host's address would make a
    /// stranger's page one of this server. May be given several times.
    #[arg(long, value_name = "NAME", requires = "web", hide_short_help = true)]
    pub web_name: Vec<String>,
    /// Responders to the clients of other programs.
    #[command(flatten)]
    pub responders: ResponderArgs,
    /// Write no log lines
    #[arg(short, long)]
    pub quiet: bool,
}

fn lets_nothing_run(option: &str) -> Error {
    Error::usage(format!("`{option} 0` would let nothing run; raise it, or leave it out"))
}

/// Serves until SIGINT or SIGTERM; then kills the running trials and returns.
///
/// # Errors
/// [`Error::Usage`] for options that make no sense; [`Error::Setup`] if the port cannot be bound.
pub(super) fn run(args: &ServeArgs) -> Result<()> {
    // Without it every trial would fail, and its client would get the error.
    deadheat_trial::process::program()?;
    let starter = Box::new(Processes);
    let variable = std::env::var(SECRET_VARIABLE).ok();
    let config = args.resolve(variable.as_deref())?;
    deadheat_web::set_options(args.web_options())?;
    let is_open = config.secret.is_none();
    let pin = config.encryption.key().map(ServerKey::pin);
    let limits = config.limits;
    let also = config.also.join(", ");
    let relays = args.relay_to.clone().filter(|_| config.relay_to.is_any());
    let commands: Vec<String> = config.pairs.sentences().collect();
    let quiet = args.quiet;
    let backlog = Backlog::new(Box::new(move |line: &str| {
        if !quiet {
            write_line(line);
        }
    }))?;
    let log = |line: &str| backlog.line(line);
    let server =
        Server::bind(config, deadheat_host::facts::gather(), starter, Box::new(backlog.clone()))?;
    let stop = stop_on_signals()?;
    log(&format!(
        "deadheat {} listens at {}, TCP and UDP",
        env!("CARGO_PKG_VERSION"),
        server.local_addr()
    ));
    if !also.is_empty() {
        log(&format!("open with the same number, too: the ports of {also}"));
    }
    if let Some(relays) = relays {
        log(&format!("relays for its clients to far ends at {relays}"));
    }
    commands.iter().for_each(|sentence| log(sentence));
    server.responders().for_each(|sentence| log(&sentence));
    if !is_open && server.responders().next().is_some() {
        log(
            "the secret does not bind the clients of other programs: their protocols have no place for it",
        );
    }
    log(&format!(
        "each trial may last {} and carry {} at {} per direction; trials at once: {}",
        limits.duration_ns,
        deadheat_base::units::Bytes(limits.bytes),
        limits.rate_bps,
        limits.concurrent
    ));
    if let Some(pin) = pin {
        log(&format!("control is encrypted for who gives this pin: --pin {pin}"));
    }
    let files = [&args.secret_file, &args.key_file, &args.web_key].into_iter().flatten();
    for file in files.chain(args.responders.files()) {
        private_file::exposed(file).iter().for_each(|warning| log(warning));
    }
    if is_open {
        log(
            "anyone who reaches this port may use it; --secret-file FILE admits only those who know \
             the secret",
        );
    }
    let ran = server.run(&stop);
    // From here on the descriptor may be reused by another file.
    HANDLER_FD.store(-1, Ordering::SeqCst);
    ran?;
    log(&format!("stopped; {}", server.summary()));
    backlog.flush();
    Ok(())
}

impl ServeArgs {
    /// Returns the options as typed values. `variable` is the secret from the environment.
    fn resolve(&self, variable: Option<&str>) -> Result<Config> {
        let port = self.port.unwrap_or(DEFAULT_PORT);
        let bind = match &self.bind {
            None => Bind::Any(port),
            Some(typed) => self.bind_at(typed, port)?,
        };
        let (limits, allowance) = (self.limits()?, self.allowance()?);
        Ok(Config {
            bind,
            limits,
            allowance,
            pairs: self.pairs(limits.concurrent)?,
            secret: self.secret(variable)?,
            encryption: self.encryption()?,
            serves_one: self.once,
            also: self.also.as_deref().map_or(Ok(Vec::new()), parse_also)?,
            relay_to: self
                .relay_to
                .as_deref()
                .map_or_else(|| Ok(RelayTo::default()), RelayTo::parse)?,
            responders: self.responders.resolve(|name| std::env::var(name).ok())?,
            clock: test_clock(),
            ..Config::default()
        })
    }

    /// Returns the options of the page for browsers.
    fn web_options(&self) -> WebOptions {
        let certificate = self.web_cert.clone().zip(self.web_key.clone());
        WebOptions { results: self.web_results.clone(), certificate, names: self.web_name.clone() }
    }

    fn bind_at(&self, typed: &str, port: u16) -> Result<Bind> {
        let bind = Bind::parse(typed, port)?;
        let bound = match bind {
            Bind::Any(port) => port,
            Bind::At(address) => address.port(),
        };
        match self.port {
            Some(port) if port != bound => Err(Error::usage(format!(
                "`--bind {typed}` and `--port {port}` name two ports; leave one out"
            ))),
            _ => Ok(bind),
        }
    }

    fn limits(&self) -> Result<Limits> {
        let mut limits = DEFAULT_LIMITS;
        if let Some(typed) = &self.max_duration {
            limits.duration_ns = parse_span(typed)?;
        }
        if let Some(typed) = &self.max_rate {
            limits.rate_bps = parse_rate(typed)?;
        }
        if let Some(typed) = &self.max_bytes {
            limits.bytes = parse_bytes(typed, Bare::Refused)?.0;
        }
        if let Some(trials) = self.trials {
            limits.concurrent = trials;
        }
        let nothing = [
            ("--max-duration", limits.duration_ns.0),
            ("--max-rate", limits.rate_bps.0),
            ("--max-bytes", limits.bytes),
            ("--trials", u64::from(limits.concurrent)),
        ];
        if let Some((name, _)) = nothing.iter().find(|(_, value)| *value == 0) {
            return Err(lets_nothing_run(name));
        }
        // Trials that run at once share the rate.
        limits.rate_bps.0 = (limits.rate_bps.0 / u64::from(limits.concurrent)).max(1);
        Ok(limits)
    }

    fn allowance(&self) -> Result<Allowance> {
        let bytes = |name: &str, typed: &Option<String>| match typed {
            None => Ok(None),
            Some(typed) => match parse_bytes(typed, Bare::Refused)?.0 {
                0 => Err(lets_nothing_run(name)),
                bytes => Ok(Some(bytes)),
            },
        };
        Ok(Allowance {
            total: bytes("--max-total", &self.max_total)?,
            per_client: bytes("--max-per-client", &self.max_per_client)?,
        })
    }

    /// Returns the pairs of commands that it runs, with a port for each of so many trials at once.
    fn pairs(&self, trials: u32) -> Result<AllowedPairs> {
        let pairs = AllowedPairs::parse(&self.command, self.command_ports.as_deref())?;
        pairs.check_ports(trials)?;
        let totals = [("--max-total", &self.max_total), ("--max-per-client", &self.max_per_client)];
        match totals.iter().find(|(_, typed)| typed.is_some() && pairs.is_any()) {
            Some((name, _)) => Err(Error::usage(format!(
                "{name} and --command: the bytes of a command are not counted, so this limit would not hold; leave one of them out, or \
                 run two servers"
            ))),
            None => Ok(pairs),
        }
    }

    fn encryption(&self) -> Result<Encryption> {
        let key = match &self.key_file {
            Some(file) => ServerKey::in_file(file)?,
            None => ServerKey::fresh()?,
        };
        Ok(if self.require_tls { Encryption::Required(key) } else { Encryption::Offered(key) })
    }

    fn secret(&self, variable: Option<&str>) -> Result<Option<Secret>> {
        match (&self.secret_file, variable) {
            (Some(file), _) => secret::in_file(file).map(Some),
            (None, Some(text)) => Secret::new(text, SECRET_VARIABLE).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// Writes a log line to standard error, with the time of day.
fn write_line(line: &str) {
    // Standard error may be gone; serving goes on.
    let _ = writeln!(std::io::stderr().lock(), "{} {line}", date::rfc3339(SystemTime::now()));
}

/// Descriptor that the signal handler writes to.
static HANDLER_FD: AtomicI32 = AtomicI32::new(-1);

/// Returns a stop that the first SIGINT or SIGTERM triggers; the second one ends the process as usual.
fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::new()?;
    HANDLER_FD.store(stop.handler_fd(), Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: an all-zero sigaction is valid; the handler only loads an atomic and calls
        // write(2), which signal-safety(7) allows.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if done < 0 {
            let error = std::io::Error::last_os_error();
            return Err(Error::setup("prepare for Ctrl-C (install a signal handler)", error));
        }
    }
    Ok(stop)
}

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: one byte from a static to a descriptor; errno is put back, as the interrupted
    // thread may be about to read it.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(HANDLER_FD.load(Ordering::SeqCst), c"!".as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_is_the_defaults() {
        let config = ServeArgs::default().resolve(None).unwrap();
        assert_eq!(config.bind, Bind::Any(5210));
        assert_eq!(config.limits, DEFAULT_LIMITS);
        assert!(config.secret.is_none());
    }

    #[test]
    fn what_is_typed_is_meant() {
        let args = ServeArgs {
            bind: Some("127.0.0.1".into()),
            port: Some(7),
            max_duration: Some("5s".into()),
            max_rate: Some("1gbit".into()),
            max_bytes: Some("1GB".into()),
            trials: Some(2),
            max_total: Some("1TB".into()),
            ..ServeArgs::default()
        };
        let config = args.resolve(Some("sesame")).unwrap();
        assert_eq!(config.bind, Bind::At("127.0.0.1:7".parse().unwrap()));
        assert_eq!(config.limits.duration_ns.0, 5_000_000_000);
        assert_eq!(config.limits.rate_bps.0, 500_000_000, "two trials at once share the rate");
        assert_eq!(config.limits.bytes, 1_000_000_000);
        assert_eq!(config.limits.concurrent, 2);
        assert!(!config.serves_one);
        assert_eq!(config.allowance.total, Some(1_000_000_000_000));
        assert_eq!(config.allowance.per_client, None);
        assert_eq!(config.secret, Some(Secret::new("sesame", "").unwrap()));
    }

    #[test]
    fn mistakes_are_named() {
        let say = |args: ServeArgs| args.resolve(None).unwrap_err().to_string();
        let two =
            ServeArgs { bind: Some("127.0.0.1:9".into()), port: Some(7), ..ServeArgs::default() };
        assert!(say(two).contains("name two ports"));
        let none = ServeArgs { trials: Some(0), ..ServeArgs::default() };
        assert!(say(none).contains("`--trials 0`"));
        let command = vec!["/nonexistent/pair.toml".to_owned()];
        assert!(
            say(ServeArgs { command, ..ServeArgs::default() }).contains("/nonexistent/pair.toml")
        );
        let ports = ServeArgs { command_ports: Some("5300".into()), ..ServeArgs::default() };
        assert!(say(ports).contains("without --command"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pair.toml");
        std::fs::write(&file, "server = 'sh {port}'\nclient = 'sh {port}'").unwrap();
        let (command, max_total) = (vec![file.display().to_string()], Some("1TB".into()));
        let counted = ServeArgs { command, max_total, ..ServeArgs::default() };
        assert!(say(counted).contains("--max-total and --command"));
        let missing =
            ServeArgs { secret_file: Some("/nonexistent/secret".into()), ..ServeArgs::default() };
        assert!(say(missing).contains("read the secret from /nonexistent/secret"));
    }

    #[test]
    fn a_file_goes_before_the_variable_and_must_not_be_empty() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = ServeArgs { secret_file: Some(file.path().into()), ..ServeArgs::default() };
        let say = args.resolve(Some("other")).unwrap_err().to_string();
        assert!(say.contains("is empty"), "{say}");
        std::fs::write(file.path(), "sesame\n").unwrap();
        let config = args.resolve(Some("other")).unwrap();
        assert_eq!(config.secret, Some(Secret::new("sesame", "").unwrap()));
    }
}
