//! The peers, run as their users run them, each end on the CPU that deadheat uses.

use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::floor::{Cpus, Protocol, Wait};

/// sockperf's ping-pong of 64 bytes: the median round trip in nanoseconds.
pub(crate) fn sockperf(protocol: Protocol, cpus: Cpus, wait: Wait) -> Outcome<f64> {
    installed("sockperf")?;
    installed("taskset")?;
    let port = free_port(protocol)?;
    let mut options = vec!["-i", "127.0.0.1", "-p", port.as_str()];
    if protocol == Protocol::Tcp {
        options.push("--tcp");
    }
    if wait == Wait::Busy {
        options.push("--nonblocked");
    }
    let _server =
        Server::start(on_cpu(cpus.far, "sockperf", &["server"]).args(&options), protocol, &port)?;
    let said = output(on_cpu(cpus.near, "sockperf", &["ping-pong"]).args(&options).args([
        "-m",
        "64",
        "-t",
        "2",
        "--full-rtt",
    ]))?;
    // `sockperf: ---> percentile 50.000 =    4.567`, in microseconds.
    let value = said
        .lines()
        .find_map(|line| line.split_once("percentile 50.000 =")?.1.trim().parse::<f64>().ok());
    Ok(value.ok_or("sockperf printed no median")? * 1e3)
}

/// `iperf3`, or a program that takes its words, for two seconds, with more options: what the
/// receiver had, in bits per second. UDP is sent as fast as it goes.
pub(crate) fn iperf3(
    program: &str,
    protocol: Protocol,
    cpus: Cpus,
    options: &[&str],
) -> Outcome<f64> {
    installed(program)?;
    let port = free_port(Protocol::Tcp)?;
    let mut server = Command::new(program);
    server.args(["-s", "-1", "-p", &port]);
    let _server = Server::start(&mut server, Protocol::Tcp, &port)?;
    let affinity = format!("{},{}", cpus.near, cpus.far);
    let kind: &[&str] = match protocol {
        Protocol::Tcp => &["-C", "cubic"],
        Protocol::Udp => &["-u", "-b", "0"],
    };
    let said = output(
        Command::new(program)
            .args(["-c", "127.0.0.1", "-p", &port, "-A", &affinity, "-t", "2", "-J"])
            .args(kind)
            .args(options),
    )?;
    let result: serde_json::Value = serde_json::from_str(&said)?;
    // The receiver's own report; older versions put a UDP test's only sum elsewhere.
    let end = &result["end"];
    let received = &end["sum_received"]["bits_per_second"];
    if protocol == Protocol::Tcp {
        return Ok(received.as_f64().ok_or("no goodput was printed")?);
    }
    let sum = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
    let figure = |name: &str| sum[name].as_f64().ok_or_else(|| format!("no {name} was printed"));
    match received.as_f64().filter(|bps| *bps > 0.0) {
        Some(bps) => Ok(bps),
        None => Ok(figure("bits_per_second")? * (1.0 - figure("lost_percent")? / 100.0)),
    }
}

/// irtt at 1 kHz for three seconds: its mean timer error in nanoseconds.
pub(crate) fn irtt() -> Outcome<f64> {
    let result: serde_json::Value = serde_json::from_str(&irtt_sends("1ms", "3s")?)?;
    let mean = &result["stats"]["timer_error"]["mean"];
    Ok(mean.as_f64().ok_or("irtt printed no timer error")?)
}

/// iperf3 sends datagrams of 64 bytes at a rate for two seconds, paced as it does by itself.
pub(crate) fn iperf3_paced(cpus: Cpus, packets_a_second: u64) -> Outcome<()> {
    let rate = (packets_a_second * 64 * 8).to_string();
    iperf3("iperf3", Protocol::Udp, cpus, &["-b", &rate, "-l", "64"]).map(drop)
}

/// irtt sends packets of 64 bytes at a rate for two seconds.
pub(crate) fn irtt_paced(packets_a_second: u64) -> Outcome<()> {
    irtt_sends(&format!("{}ns", 1_000_000_000 / packets_a_second), "2s").map(drop)
}

/// What irtt says after sending packets of 64 bytes.
fn irtt_sends(interval: &str, time: &str) -> Outcome<String> {
    installed("irtt")?;
    let port = free_port(Protocol::Udp)?;
    let address = format!("127.0.0.1:{port}");
    let mut server = Command::new("irtt");
    server.args(["server", "-b", &address, "-i", "0", "-d", "0"]);
    let _server = Server::start(&mut server, Protocol::Udp, &port)?;
    output(
        Command::new("irtt")
            .args(["client", "-i", interval, "-d", time, "-l", "64", "-Q", "-o", "-", &address]),
    )
}

/// A QUIC peer for two seconds, in bits per second at the receiver: a command that takes `SECONDS NEAR_CPU FAR_CPU PACKET
/// WINDOW`, sends one stream over loopback from one CPU to the other in packets of so many bytes with so many bytes of
/// flow control, and prints the figure.
pub(crate) fn quic(program: &str, cpus: Cpus) -> Outcome<f64> {
    installed(program)?;
    let (near, far) = (cpus.near.to_string(), cpus.far.to_string());
    let said = output(Command::new(program).args(["2", &near, &far, "1500", "8000000"]))?;
    Ok(said.trim().parse().map_err(|_| format!("{program} printed no figure: {said}"))?)
}

/// xfr's QUIC for two seconds, in bits per second, with whatever windows and packets it has.
pub(crate) fn xfr(cpus: Cpus) -> Outcome<f64> {
    installed("xfr")?;
    let port = free_port(Protocol::Tcp)?;
    let _server = Server::start(
        &mut on_cpu(cpus.far, "xfr", &["serve", "--one-off", "--no-mdns", "-p", &port]),
        Protocol::Tcp,
        &port,
    )?;
    let client = ["127.0.0.1", "-p", &port, "--quic", "-t", "2s", "--json", "--no-tui"];
    let result: serde_json::Value =
        serde_json::from_str(&output(&mut on_cpu(cpus.near, "xfr", &client))?)?;
    Ok(result["throughput_mbps"].as_f64().ok_or("xfr printed no throughput")? * 1e6)
}

fn on_cpu(cpu: usize, program: &str, first: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]).args(first);
    command
}

fn installed(program: &str) -> Outcome<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&paths).any(|path| path.join(program).is_file()) {
        return Ok(());
    }
    Err(format!("{program} is not installed").into())
}

fn output(command: &mut Command) -> Outcome<String> {
    let ran = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    if !ran.status.success() {
        let program = command.get_program().to_string_lossy().into_owned();
        let why = String::from_utf8_lossy(&ran.stderr);
        return Err(format!("{program} failed: {}", why.trim()).into());
    }
    Ok(said)
}

fn free_port(protocol: Protocol) -> Outcome<String> {
    let address = match protocol {
        Protocol::Tcp => TcpListener::bind("127.0.0.1:0")?.local_addr()?,
        Protocol::Udp => UdpSocket::bind("127.0.0.1:0")?.local_addr()?,
    };
    Ok(address.port().to_string())
}

/// A peer's server, ended when dropped.
struct Server(Child);

impl Server {
    /// Starts it and waits until its port is bound. Looks in /proc, as a connection could be taken
    /// for the client.
    fn start(command: &mut Command, protocol: Protocol, port: &str) -> Outcome<Server> {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut server = Server(child);
        let bound = format!(":{:04X}", port.parse::<u16>()?);
        let table = match protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let is_bound = ["", "6"].iter().any(|family| {
                let sockets = std::fs::read_to_string(format!("/proc/net/{table}{family}"));
                sockets.is_ok_and(|text| {
                    let mut locals = text.lines().filter_map(|line| line.split_whitespace().nth(1));
                    locals.any(|local| local.ends_with(&bound))
                })
            });
            if is_bound {
                return Ok(server);
            }
            if let Some(status) = server.0.try_wait()? {
                return Err(format!("the server ended at once: {status}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("the server did not bind its port within 5 s".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended by itself can be neither killed nor missed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
