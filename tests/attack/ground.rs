//! Where an attack takes place: a network namespace of its own, so that nothing can reach beyond it and the
//! interface counts nothing else. The test runs itself again in there.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// The test that runs inside a namespace.
const INSIDE: &str = "DEADHEAT_ATTACK_INSIDE";

/// An attack that hangs is ended after this and its own time, and that is a failure.
const PATIENCE: Duration = Duration::from_secs(240);

/// A CPU is shared by the attackers, the server and the honest clients here, which is no fault of anybody's.
/// Races would wait ten seconds for the attackers to go away, so they see the CPU times of one moment.
///
/// All of 2001:db8::/32 leads here, as all of 127.0.0.0/8 does anyway: attackers come from many origins.
const PRELUDE: &str = r#"
    ip link set lo up
    ip -6 route add local 2001:db8::/32 dev lo
    still="$(mktemp)"
    cat /proc/stat > "$still"
    mount --bind "$still" /proc/stat || true
    rm -f "$still"
    ulimit -n "$(ulimit -H -n)"
    exec "$@"
"#;

/// What measures others takes turns.
static ALONE: Mutex<()> = Mutex::new(());
static HEADER: Once = Once::new();

/// Runs `attack`, the body of the test `name`, in a namespace of its own. Says so and passes where the host
/// gives none.
pub(crate) fn isolated(name: &str, attack: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    beside_others(name, attack);
}

/// The same, while other attacks go on elsewhere.
pub(crate) fn beside_others(name: &str, attack: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        end_with_parent();
        return attack();
    }
    if !has_namespaces() {
        println!("skipped: no network namespaces here, nor user namespaces to make them in");
        return;
    }
    let mut child = unshare()
        .args(["bash", "-euc", PRELUDE, "attack"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = child.id() as i32;
    let alive = child.stdin.take();
    let said = [read(child.stdout.take()), read(child.stderr.take())];
    let status = wait(&mut child, PATIENCE + 4 * crate::longest());
    // Whatever it left behind, if it died: its servers, and their agents with them.
    // SAFETY: kill(2) takes integers; the group is that of a child of ours.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    let _ = child.wait();
    drop(alive);
    let said = said.map(|reader| reader.join().unwrap());
    HEADER.call_once(|| println!("\n{}", crate::table::HEADER));
    // Apart from what the test harness writes on the same line.
    let rows = said[0].lines().filter(|line| line.starts_with('|') || line.starts_with("  "));
    rows.for_each(|row| println!("\n{row}"));
    let ran = status.is_some_and(|status| status.success());
    assert!(ran, "{name}: {status:?}\n{}\n{}", said[0], said[1]);
}

/// Ends this process and all that it started once the one that started it is gone, however that ended.
fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // SAFETY: kill(2) takes integers; 0 is our own process group, which was made for us.
        unsafe { libc::kill(0, libc::SIGKILL) };
    });
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--mount"]);
    command
}

fn has_namespaces() -> bool {
    let tried = unshare().arg("true").stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn read(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stream.unwrap().read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// How `child` ended within `patience`; nothing where it did not.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            ended => return ended,
        }
    }
}

/// Packets and bytes that the loopback interface has carried: a count that no program can bend.
pub(crate) fn carried() -> (u64, u64) {
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    let lo = devices.lines().find_map(|line| line.trim().strip_prefix("lo:")).unwrap();
    let columns: Vec<u64> = lo.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (columns[9], columns[8])
}

/// Datagrams of UDP that programs in this namespace have sent and read, by the kernel's count.
#[derive(Clone, Copy)]
pub(crate) struct Datagrams {
    pub(crate) sent: u64,
    pub(crate) read: u64,
}

pub(crate) fn datagrams() -> Datagrams {
    let v4 = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let v6 = std::fs::read_to_string("/proc/net/snmp6").unwrap();
    // Two lines: the names, and the figures below them.
    let mut udp = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, figures) = (udp.next().unwrap(), udp.next().unwrap());
    let number = |figure: &str| figure.trim().parse::<u64>().unwrap();
    let count = |name: &str| {
        let place = names.split(' ').position(|one| one == name).unwrap();
        let own = v6.lines().find_map(|line| line.strip_prefix(&format!("Udp6{name} ")));
        number(figures.split(' ').nth(place).unwrap()) + own.map_or(0, number)
    };
    Datagrams { sent: count("OutDatagrams"), read: count("InDatagrams") }
}

/// The same as [`carried`], once nothing has crossed it for a while.
pub(crate) fn calm() -> (u64, u64) {
    let mut before = carried();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = carried();
        if now == before {
            return now;
        }
        before = now;
    }
}
