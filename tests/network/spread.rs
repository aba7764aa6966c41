//! Maps spread over machines, here network namespaces of the test's own: by GNU parallel over OpenSSH, and as an array
//! of Slurm, with the scripts of `docs/map` as they are. What comes together is, to the byte, the map of one run.
//!
//! Needs root, `ip`, `unshare` and what each test names; says so and passes where that is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test fails by panicking.
#![allow(clippy::print_stdout)] // A test that is skipped says why.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A map of six points, each of which takes a moment.
const MAP: &[&str] = &[
    "quic",
    "arq",
    "-w",
    "state:count=30",
    "--path",
    "sim:rate=20mbit",
    "--blocks",
    "8",
    "--seed",
    "7",
    "--over",
    "delay=1ms..100ms/3",
    "--over",
    "loss=0%|5%",
];
const SHARDS: u32 = 4;
/// Maximum time that a daemon takes to come up on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn gnu_parallel_over_ssh_makes_the_map_of_one_run() {
    let Some(programs) = programs(["sshd", "ssh", "ssh-keygen", "parallel", "rsync"]) else {
        return;
    };
    let [sshd, _, keygen, ..] = &programs;
    let mut cluster = Cluster::new("s");
    for key in ["host", "user"] {
        let mut keygen = Command::new(keygen);
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(cluster.file(key));
        succeed(&mut keygen);
    }
    for node in [1, 2] {
        cluster.ssh_server(node, sshd);
    }
    cluster.write("ssh.conf", &cluster.ssh_config());
    let known = fs::read_to_string(cluster.file("host.pub")).unwrap();
    let known = |node| format!("{} {known}", address(node));
    cluster.write("known", &(known(1) + &known(2)));

    let ssh = format!("ssh -F {}", cluster.file("ssh.conf").display());
    let log = cluster.file("jobs");
    let mut command = cluster.in_time(&shipped("parallel.sh"));
    command.arg(SHARDS.to_string()).arg("node1,node2").args(MAP);
    command.env("PARALLEL_SSH", ssh).env("PARALLEL", format!("--joblog {}", log.display()));
    succeed(&mut command);

    cluster.assert_whole("map.json");
    let log = fs::read_to_string(log).unwrap();
    let ran = log.lines().skip(1).map(|line| line.split('\t').nth(1).unwrap());
    let mut ran: Vec<&str> = ran.collect();
    assert_eq!(ran.len(), SHARDS as usize, "{log}");
    ran.sort_unstable();
    ran.dedup();
    assert_eq!(ran, ["node1", "node2"], "{log}");
    // What a part was written to at a node is gone: --cleanup.
    for node in [1, 2] {
        let left =
            fs::read_dir(cluster.home(node)).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("part")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn an_array_of_slurm_makes_the_map_of_one_run() {
    let Some(programs) = programs(["munged", "slurmctld", "slurmd", "sbatch", "srun"]) else {
        return;
    };
    let [munged, slurmctld, slurmd, sbatch, srun] = &programs;
    let mut cluster = Cluster::new("j");
    cluster.write("slurm.conf", &cluster.slurm_config());
    // The plugin for cgroups is loaded and not used, and the second version's wants them mounted.
    cluster.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n");
    cluster.write("munge.key", &"a key of 32 bytes at the least, and no secret".repeat(4));
    let dir = cluster.dir.path().display().to_string();
    let munge = format!(
        "chmod 600 {dir}/munge.key && exec {munged} --foreground --force --key-file {dir}/munge.key \
         --socket {dir}/munge.socket --pid-file {dir}/munged.pid --log-file {dir}/munged.log \
         --seed-file {dir}/munge.seed"
    );
    cluster.daemon(0, &munge, "work threads");
    let controller = format!("exec {slurmctld} -D -f {dir}/slurm.conf");
    cluster.daemon(0, &controller, "Running as primary controller");
    for node in [1, 2] {
        let daemon = format!("mkdir {dir}/spool{node} && exec {slurmd} -D -f {dir}/slurm.conf");
        cluster.daemon(node, &daemon, "slurmd started");
    }

    // Waits until both nodes have registered.
    let names = succeed(cluster.in_time(srun).args(["--nodes=2", "hostname"]));
    let names = String::from_utf8(names.stdout).unwrap();
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    assert_eq!(names, ["node1", "node2"]);

    let mut command = cluster.in_time(sbatch);
    command.arg("--wait").arg(format!("--array=1-{SHARDS}")).arg("--output=%N-%a.txt");
    command.arg(shipped("slurm.sh")).args(MAP);
    succeed(&mut command);

    let parts = (1..=SHARDS).map(|part| format!("part{part}.json"));
    let merge = ["merge".to_owned()].into_iter().chain(parts);
    let mut merge: Vec<String> = merge.collect();
    merge.extend(["-o".to_owned(), "map.json".to_owned()]);
    succeed(cluster.in_time(env!("CARGO_BIN_EXE_deadheat")).args(merge));
    cluster.assert_whole("map.json");
}

/// Machines in namespaces of their own, joined by a bridge: number 0, at which commands are given, and two nodes. All
/// of them, and everything that runs in them, end when it is dropped.
struct Cluster {
    name: String,
    dir: TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn new(name: &str) -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("dh{}{name}", std::process::id());
        let cluster = Cluster { name, dir, daemons: Vec::new() };
        let (hub, first) = (cluster.namespace(0), address(0));
        for machine in 0..=2 {
            fs::create_dir(cluster.home(machine)).unwrap();
            let namespace = cluster.namespace(machine);
            ip(&format!("netns add {namespace}"));
            ip(&format!("-n {namespace} link set lo up"));
        }
        ip(&format!("-n {hub} link add bridge type bridge"));
        ip(&format!("-n {hub} addr add {first}/24 dev bridge"));
        ip(&format!("-n {hub} link set bridge up"));
        for node in [1, 2] {
            let (namespace, address) = (cluster.namespace(node), address(node));
            ip(&format!("-n {hub} link add port{node} type veth peer name v0 netns {namespace}"));
            ip(&format!("-n {hub} link set port{node} master bridge up"));
            ip(&format!("-n {namespace} addr add {address}/24 dev v0"));
            ip(&format!("-n {namespace} link set v0 up"));
        }
        cluster
    }

    fn namespace(&self, machine: u8) -> String {
        format!("{}{machine}", self.name)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.file(name), content).unwrap();
    }

    /// The directory that is the home of root on a machine.
    fn home(&self, machine: u8) -> PathBuf {
        self.file(&format!("home{machine}"))
    }

    /// A command on a machine, in its home.
    fn command(&self, machine: u8, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine), program]);
        command.current_dir(self.home(machine)).env("HOME", self.home(machine));
        command.env("PATH", path()).env("SLURM_CONF", self.file("slurm.conf"));
        command
    }

    /// A command on machine 0 that fails where it takes too long.
    fn in_time(&self, program: &str) -> Command {
        let mut command = self.command(0, "timeout");
        command.arg((2 * LONG).as_secs().to_string()).arg(program);
        command
    }

    /// Starts a daemon by a script, and returns once it has said `ready`. It has a machine's name, a home and a `/run`
    /// of its own there, and all that it starts ends with it.
    fn daemon(&mut self, machine: u8, script: &str, ready: &str) {
        let home = self.home(machine);
        let script = format!(
            "hostname node{machine} && mount --bind {} ~root && mount -t tmpfs none /run && {script}",
            home.display()
        );
        let mut command = self.command(machine, "unshare");
        command.args(["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["sh", "-c", &script]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = command.stdin(Stdio::null()).spawn().unwrap();
        let log = BufReader::new(daemon.stderr.take().unwrap());
        self.daemons.push(daemon);
        let (to_test, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The test listens until the daemon is ready; the rest is read so that it never blocks.
                let _ = to_test.send(line);
            }
        });
        let (mut said, end) = (String::new(), Instant::now() + LONG);
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(ready) => return,
                Ok(line) => said += &(line + "\n"),
                Err(RecvTimeoutError::Timeout) => panic!("`{script}` is not up in time:\n{said}"),
                Err(RecvTimeoutError::Disconnected) => panic!("`{script}` ended:\n{said}"),
            }
        }
    }

    fn ssh_server(&mut self, node: u8, sshd: &str) {
        let dir = self.dir.path().display().to_string();
        let config = format!(
            "ListenAddress {}\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/user.pub\nStrictModes no\n\
             PidFile none\nUsePAM no\nPasswordAuthentication no\nMaxStartups 100\nSetEnv PATH={}\n",
            address(node),
            path()
        );
        self.write(&format!("sshd{node}.conf"), &config);
        let script = format!("mkdir /run/sshd && exec {sshd} -D -e -f {dir}/sshd{node}.conf");
        self.daemon(node, &script, "Server listening on");
    }

    fn ssh_config(&self) -> String {
        let dir = self.dir.path().display();
        let node = |node| format!("Host node{node}\n  HostName {}\n", address(node));
        format!(
            "{}{}Host *\n  User root\n  IdentityFile {dir}/user\n  IdentitiesOnly yes\n  BatchMode yes\n  \
             UserKnownHostsFile {dir}/known\n  GlobalKnownHostsFile none\n",
            node(1),
            node(2)
        )
    }

    fn slurm_config(&self) -> String {
        let dir = self.dir.path().display();
        let node = |node| format!("NodeName=node{node} NodeAddr={} CPUs=2\n", address(node));
        format!(
            "ClusterName=maps\nSlurmctldHost=node0({})\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={dir}/munge.socket\nCredType=cred/munge\n\
             StateSaveLocation={dir}\nSlurmdSpoolDir={dir}/%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/%n.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
             SwitchType=switch/none\nMpiDefault=none\nJobAcctGatherType=jobacct_gather/none\n\
             AccountingStorageType=accounting_storage/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\n{}{}PartitionName=all Nodes=ALL Default=YES State=UP\n",
            address(0),
            node(1),
            node(2)
        )
    }

    /// Checks that a map at machine 0 is that of one run, and that it says something.
    fn assert_whole(&self, map: &str) {
        let mut one = Command::new(env!("CARGO_BIN_EXE_deadheat"));
        one.arg("map").args(MAP).args(["--quiet", "-o", "whole.json"]).current_dir(self.home(0));
        succeed(&mut one);
        let read = |name: &str| fs::read_to_string(self.home(0).join(name)).unwrap();
        assert_eq!(read(map), read("whole.json"));
        assert!(read(map).contains("dead_heat"), "{}", read(map));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for machine in 0..=2 {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(machine)]).status();
        }
    }
}

fn address(machine: u8) -> String {
    format!("198.18.0.{}", machine + 1)
}

/// The programs' folders, that of `deadheat` first.
fn path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_deadheat")).parent().unwrap();
    format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", program.display())
}

fn shipped(script: &str) -> String {
    format!("{}/docs/map/{script}", env!("CARGO_MANIFEST_DIR"))
}

/// Where the programs are, if a test can run them here.
fn programs<const N: usize>(names: [&str; N]) -> Option<[String; N]> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: network namespaces need root");
        return None;
    }
    let found = |name: &str| {
        env::split_paths(&path()).map(|dir| dir.join(name)).find(|file| file.is_file())
    };
    let missing =
        ["ip", "unshare", "hostname"].iter().chain(&names).find(|name| found(name).is_none());
    if let Some(missing) = missing {
        println!("skipped: `{missing}` is not installed (make test installs it)");
        return None;
    }
    Some(names.map(|name| found(name).unwrap().display().to_string()))
}

fn ip(arguments: &str) {
    succeed(Command::new("ip").args(arguments.split_whitespace()));
}

/// Runs a command, which has to end well.
fn succeed(command: &mut Command) -> Output {
    let what = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
