//! A server and its clients under attack, over real sockets and with real agents, in network namespaces of
//! their own. Each test is what was once seen to go wrong (docs/security.md).
#![allow(clippy::print_stdout)]
// A test that is skipped says why.
// Clippy's leave for tests ends at functions that are no tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The program under attack; another build of it where `DEADHEAT_UNDER_ATTACK` names one.
fn program() -> String {
    let asked = std::env::var("DEADHEAT_UNDER_ATTACK");
    asked.unwrap_or_else(|_| env!("CARGO_BIN_EXE_deadheat").to_owned())
}

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell script in a network namespace and a directory of its own, with its loopback interface up; its output.
pub(crate) fn isolated(script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("ip link set lo up; {script}");
    let ran = Command::new("unshare")
        .args(["--map-root-user", "--net", "bash", "-euo", "pipefail", "-c", &script])
        .env("DEADHEAT", program())
        .current_dir(dir.path())
        .output()
        .unwrap();
    let [out, err] = [&ran.stdout, &ran.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(ran.status.success(), "{out}{err}");
    format!("{out}{err}")
}

/// Starts a server with these options, waits until it listens, and leaves its log in `log`.
pub(crate) const SERVE: &str = r#"
    serve() {
        : > log # The last server's says that it listens.
        "$DEADHEAT" serve --bind 127.0.0.1:5210 "$@" 2> log & server=$!
        until grep -q listens log; do sleep 0.05; done
    }
"#;

/// The bytes that crossed the loopback interface are a third count, which neither end can bend.
fn carried_on_loopback(options: &str, race: &str) -> (u64, String) {
    let said = isolated(&format!(
        r#"{SERVE}
        serve {options}
        "$DEADHEAT" race {race} --to 127.0.0.1 --blocks 5 -q -o race.json || true
        kill $server; wait $server
        cat log
        echo "carried $(awk '$1 == "lo:" {{ print $10 }}' /proc/net/dev)"
        "#
    ));
    let carried = said.lines().find_map(|line| line.strip_prefix("carried ")).unwrap();
    (carried.parse().unwrap(), said)
}

/// At 10 Mbit/s a burst has 125 kB. A trial that is let run at full speed for 200 ms carries a hundred
/// times that and more.
#[test]
fn a_rate_binds_from_the_first_call_in_both_directions() {
    for (contender, direction) in [("udp", "down"), ("udp", "up"), ("tcp", "down"), ("tcp", "up")] {
        let race = format!("{contender} -w bulk:time=200ms,direction={direction}");
        let (carried, said) = carried_on_loopback("--max-rate 10mbit", &race);
        assert!(said.contains("the server's limits end it"), "{race}: {said}");
        assert!(said.contains(" sent, "), "the log says what was paid: {said}");
        // Nobody can keep a client from sending datagrams that nobody takes. Two trials were let in, each with
        // its burst, one call and what TCP's buffers hold.
        let is_own = (contender, direction) == ("udp", "up");
        assert!(carried < 20_000_000 || is_own, "{race}: {carried} bytes\n{said}");
    }
}

/// KCP with 128 packets of parity for each of data: 8 Mbit/s of messages are a gigabit on the wire.
#[test]
fn a_rate_binds_what_a_protocol_adds_to_its_work() {
    let race = "kcp:fec=1+128 -w cbr:rate=8mbit,time=1s,direction=down";
    let (carried, said) = carried_on_loopback("--max-rate 10mbit --max-total 20MB", race);
    assert!(said.contains("the server's limits end it"), "{said}");
    assert!(said.contains("--max-rate") && !said.contains("firewall"), "{said}");
    assert!(carried < 5_000_000, "{carried} bytes\n{said}");
}

/// All that a server hands over, in one race. The interface counts control as well, and Ethernet's 14 bytes a packet; a
/// burst that the kernel cuts late has one header there, and one for each datagram in the log. A contender has about 5 %
/// of the bytes: none can leave out what it sends.
#[test]
fn the_log_has_the_bytes_of_packets_for_every_contender() {
    let served = deadheat::transport::ALL.iter().filter(|transport| {
        let info = transport.info();
        info.reach == deadheat::contract::Reach::Network
            && info.peer.is_process_of_ours()
            && transport.check().is_ok()
    });
    let ids: Vec<&str> = served.map(|transport| transport.info().id).collect();
    // Control has some 12 kB a trial, so each carries much more, also on a host that is late.
    let work = "-w bulk:time=200ms,warmup=0ms,direction=down";
    let said = isolated(&format!(
        r#"{SERVE}
        serve
        "$DEADHEAT" race {} {work} --to 127.0.0.1 --blocks 1 -q -o race.json || true
        kill $server; wait $server
        cat log
        echo "carried $(awk '$1 == "lo:" {{ print $10 }}' /proc/net/dev)"
        "#,
        ids.join(" ")
    ));
    let carried = said.lines().find_map(|line| line.strip_prefix("carried ")).unwrap();
    let carried: u64 = carried.parse().unwrap();
    let counted: u64 = said.lines().filter_map(in_line).sum();
    assert!(counted * 100 >= carried * 98, "{counted} of {carried}\n{said}");
    assert!(counted * 100 <= carried * 104, "{counted} of {carried}\n{said}");
    for id in ids {
        let title = format!(" {id} bulk:");
        let own = said.lines().filter(|line| line.contains(&title)).filter_map(in_line);
        assert!(own.sum::<u64>() > 100_000, "{id}: {said}");
    }
}

/// Bytes that a trial's line says were sent and received.
fn in_line(line: &str) -> Option<u64> {
    let (before, _) = line.contains(" trial ").then(|| line.split_once(" received"))??;
    let (sent, received) = before.rsplit_once("; ")?.1.split_once(" sent, ")?;
    let bytes = |text: &str| {
        let (number, unit) = text.split_once(' ')?;
        let unit = match unit {
            "B" => 1.0,
            "kB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            _ => return None,
        };
        Some((number.parse::<f64>().ok()? * unit) as u64)
    };
    Some(bytes(sent)? + bytes(received)?)
}

/// A server that is stopped says so, and keeps what a race has: it is not taken for one that vanished.
#[test]
fn a_race_whose_server_is_stopped_says_so_and_keeps_its_blocks() {
    for (signal, says) in [("TERM", "its operator stopped it"), ("KILL", "vanished")] {
        let said = isolated(&format!(
            r#"{SERVE}
            serve
            "$DEADHEAT" race tcp udp -w ping:count=1000,interval=1ms --to 127.0.0.1 --blocks 5 --patience 0s -o race.json > said 2>&1 & race=$!
            until test -s race.json; do sleep 0.05; done
            kill -{signal} $server; wait $server || true
            wait $race && echo "ended well" || echo "code $?"
            cat said
            "$DEADHEAT" report race.json --details || [ $? = 3 ] # Not trusted, and also where a busy host gives the page more to say.
            "#
        ));
        assert!(said.contains(says), "{signal}: {said}");
        assert!(!said.contains("ended well"), "{signal}: {said}");
        let is_both = said.contains("vanished") && said.contains("operator");
        assert!(!is_both, "{signal}: {said}");
        assert!(said.contains("could not go on after "), "{signal}: {said}");
    }
}

/// The near end's connection breaks with its server. Where the race sees both at once, as on a busy host, the server is
/// the cause that it tells.
#[test]
fn a_server_that_vanishes_is_told_before_what_follows_from_it() {
    let said = isolated(&format!(
        r#"{SERVE}
        serve
        "$DEADHEAT" race tcp -w ping:count=30000,interval=1ms --to 127.0.0.1 --blocks 1 --patience 0s -o race.json > said 2>&1 & race=$!
        until [ "$(awk '$1 == "lo:" {{ print $2 }}' /proc/net/dev)" -gt 200000 ]; do sleep 0.02; done # Messages pass.
        kill -STOP $race
        kill -KILL $server; wait $server || true
        until ps -o stat= --ppid $race | grep Z > ended; do sleep 0.02; done # The near end has reported, and ended.
        kill -CONT $race
        wait $race && echo "ended well" || true
        cat said
        "#
    ));
    assert!(said.contains("vanished"), "{said}");
    assert!(!said.contains("ended well") && !said.contains("connection reset"), "{said}");
}

/// A server that is killed and started again costs a race the block that it was in.
#[test]
fn a_race_goes_on_with_a_server_that_restarts() {
    let said = isolated(&format!(
        r#"{SERVE}
        serve
        "$DEADHEAT" race tcp udp -w ping:count=200,interval=1ms --to 127.0.0.1 --blocks 5 -o race.json > said 2>&1 & race=$!
        until test -s race.json; do sleep 0.05; done
        kill -KILL $server; wait $server || true
        until grep -q "waiting for 127.0.0.1 since" said; do sleep 0.05; done
        serve
        wait $race || echo "code $?"
        kill $server; wait $server
        cat said
        echo "lost $(grep -o '"lost_ms"' race.json | wc -l), last block $(grep -o '"block": *4' race.json | wc -l)"
        "#
    ));
    assert!(!said.contains("code 1") && !said.contains("code 2"), "{said}");
    assert!(said.contains("127.0.0.1 answers again after "), "{said}");
    assert!(said.contains("Outage: the far end was away for "), "{said}");
    assert!(!said.contains("lost 0,") && !said.contains("last block 0"), "{said}");
}

#[test]
fn what_is_known_to_be_too_much_is_refused_at_the_door() {
    let race = "udp -w cbr:rate=100mbit,time=200ms";
    let (carried, said) = carried_on_loopback("--max-rate 10mbit", race);
    assert!(said.contains("this server allows 10.0 Mbit/s"), "{said}");
    assert!(carried < 1_000_000, "{carried}");
}

/// Each trial carries 2 MB and may; all together may carry 5 MB.
#[test]
fn a_total_binds_across_trials() {
    let race = "tcp -w bulk:bytes=2MB,direction=down";
    let (carried, said) = carried_on_loopback("--max-total 5MB", race);
    assert!(said.contains("of what this server's operator allows"), "{said}");
    assert!(carried < 7_000_000, "{carried}: {said}");
}

/// A client that stops, without its host saying so, in the middle of a trial of three seconds. The server ends that trial
/// by its own length, long before the 60 s that a trial may take, and the next client has its turn. The test needs no
/// figures of that client: the host may be too busy for any.
#[test]
fn a_client_that_freezes_gives_its_turn_back_soon() {
    let said = isolated(&format!(
        r#"{SERVE}
        serve
        "$DEADHEAT" race udp -w ping:count=3000,interval=1ms,timeout=300ms --to 127.0.0.1 -q -o a.json & frozen=$!
        until grep -q started log; do sleep 0.02; done
        kill -STOP $frozen
        "$DEADHEAT" race udp -w ping:count=30 --to 127.0.0.1 --blocks 1 -q -o b.json || true
        kill -CONT $frozen; kill -INT $frozen; wait $frozen || true
        kill $server; wait $server
        cat log
        "#
    ));
    let place = |words: &[&str]| {
        said.lines().position(|line| words.iter().all(|word| line.contains(word))).expect(&said)
    };
    // The turn is given on before the line of the trial that had it is written.
    place(&["trial 1 ", "within 5.00 s", "ended here"]);
    let waits = place(&["trial 2 ", "waits, 1 before it"]);
    assert!(waits < place(&["trial 2 ", "count=30", "started"]), "{said}");
}

fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "it hangs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ctrl-C while a server lets a client in, a byte at a time.
#[test]
fn a_dripping_server_does_not_hold_a_client_that_is_interrupted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut race = Command::new(program())
        .args(["race", "--idle", "host", "udp", "--to", &address.to_string()])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&[0, 0, 16, 0]).unwrap();
    let dripping = std::thread::spawn(move || {
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    // SAFETY: kill(2) takes integers.
    unsafe { libc::kill(race.id() as i32, libc::SIGINT) };
    assert_ne!(wait(&mut race).code(), Some(0));
    let mut said = String::new();
    race.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    // It has not waited for the time in which a server is to let it in.
    assert!(!said.contains("did not let us in"), "{said}");
    dripping.join().unwrap();
}

/// Without one: the whole of being let in has a deadline, however it is dripped out.
#[test]
fn a_dripping_server_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let mut race = Command::new(program())
        .args(["race", "--idle", "host", "udp", "--to", &address])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let whole = [0, 0, 1, 0];
    stream.write_all(&whole).unwrap();
    let mut drips = 0;
    while stream.write_all(b" ").is_ok() {
        drips += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(wait(&mut race).code(), Some(1));
    // Long before all that was announced.
    assert!(drips < u32::from_be_bytes(whole), "{drips}");
    let mut said = String::new();
    race.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("did not let us in within 10.0 s"), "{said}");
}

/// A crowd without the secret, from one origin, that comes again and again; and a client that has it.
#[test]
fn who_knows_the_secret_gets_in_past_those_who_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "open sesame").unwrap();
    let mut server = Command::new(program())
        .args(["serve", "--bind", "127.0.0.1:0", "--secret-file", "secret"])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listens at ") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "no server");
    }
    let address = line.split("listens at ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let protocol = deadheat::trial::control::PROTOCOL;
    let greeting = format!(r#"{{"magic":"deadheat","protocol":{protocol},"version":"0.1.0"}}"#);
    let greeting = greeting.as_bytes();
    let crowd: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(&(greeting.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(greeting).unwrap();
            stream
        })
        .collect();
    let ran = Command::new(program())
        .args([
            "race",
            "--idle",
            "host",
            "udp",
            "-w",
            "ping:count=30",
            "--blocks",
            "1",
            "--to",
            &address,
        ])
        .args(["--secret-file", "secret", "-q", "-o", "race.json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    drop(crowd);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(dir.path().join("race.json").exists(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// A host that lets a user have no more tasks: the race says so and ends.
#[test]
fn a_race_that_may_start_no_more_threads_says_so_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: only root may become another user");
        return;
    }
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let copy = dir.path().join("deadheat");
    std::fs::copy(program(), &copy).unwrap();
    for tasks in [2, 4, 6, 9] {
        let mut race = Command::new("setpriv")
            .args(["--reuid", "54321", "--regid", "54321", "--clear-groups", "bash", "-c"])
            .arg(format!(
                "ulimit -u {tasks}; exec ./deadheat race udp -w ping:count=30 --blocks 1 -q"
            ))
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = wait(&mut race);
        let mut said = String::new();
        race.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains("panicked"), "{tasks}: {said}");
        match status.code() {
            Some(0 | 3) => {}
            // Where the limit was reached before the agent could speak, that it is gone is all there is to say.
            Some(1) => {
                let is_said = ["start a", "vanished"].iter().any(|word| said.contains(word));
                assert!(is_said, "{tasks}: {said}");
            }
            other => panic!("{tasks}: {other:?} {said}"),
        }
    }
}
