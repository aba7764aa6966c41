//! Tests of `transport::external` with the transports of this crate.

use deadheat_base::error::Result;
use deadheat_datapath::transport::Contender;
use deadheat_datapath::transport::commands::{CommandValues, Port};
use std::fs;
use std::net::SocketAddr;

const NEAR: &str = "kcptun-client -l {listen} -r {far}";
const FAR: &str = "kcptun-server -l {listen} -t {target}";

fn parsed(near: &str, far: &str, carries: &str) -> Result<Contender> {
    Contender::parse(&format!("external:near={near},far={far},carries={carries}"))
}

fn said(near: &str, far: &str, carries: &str) -> String {
    parsed(near, far, carries).unwrap_err().to_string()
}

#[test]
fn a_pair_of_commands_carries_what_fits_a_port() {
    let external = parsed(NEAR, FAR, "tcp:nodelay=off+cc=reno").unwrap();
    let pair = external.external.as_deref().unwrap();
    assert_eq!((&*pair.carries, pair.port), ("tcp:nodelay=off,cc=reno", Port::Tcp));
    assert_eq!(external.asked()["near"], NEAR);
    assert_eq!(external.asked()["cc"], "reno");
    assert_eq!(external.knobs.text("nodelay"), Some("off"));
    assert_eq!(parsed(NEAR, FAR, "udp").unwrap().external.unwrap().port, Port::Udp);
    assert_eq!(parsed(NEAR, FAR, "kcp").unwrap().external.unwrap().port, Port::Udp);
    for (carries, why) in [
        ("icmp", "needs something else"),
        ("unix", "needs something else"),
        ("tcp:via=relay", "needs something else"),
        ("tpc", "did you mean"),
        ("external:file=x", "no contender"),
        ("mix:a=tcp", "no contender"),
    ] {
        let said = said(NEAR, FAR, carries);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn addresses_stand_where_the_placeholders_were_and_other_braces_stay() {
    let at = |port| SocketAddr::from(([10, 0, 0, 2], port));
    let places = [("listen", 1), ("far", 2), ("target", 3)].into_iter();
    let values =
        places.fold(CommandValues::default(), |all, (name, port)| all.with_address(name, at(port)));
    let typed = r#"run -l {listen_port} '{"a": "{far}"}' "it's {target_host}" {A} ''"#;
    let pair = parsed(typed, FAR, "tcp").unwrap().external.unwrap();
    let wanted = ["run", "-l", "1", r#"{"a": "10.0.0.2:2"}"#, "it's 10.0.0.2", "{A}", ""];
    assert_eq!(pair.near.filled(&values), wanted);
}

#[test]
fn what_a_pair_lacks_is_named() {
    for (near, far, why) in [
        ("run {far}", FAR, "near = `run {far}` has no {listen}"),
        ("run {listen}", FAR, "has no {far}"),
        (NEAR, "run {target}", "far = `run {target}` has no {listen}"),
        (NEAR, "run {listen}", "has no {target}"),
        (NEAR, "run {listen} {target} {far}", "its own address is {listen}"),
        ("run {listen} {far} {port}", FAR, "listen_port"),
        ("run '{listen} {far}", FAR, "is no command"),
        ("'' {listen} {far}", FAR, "is no command"),
    ] {
        let said = said(near, far, "tcp");
        assert!(said.contains(why), "{said}");
    }
    assert!(
        parsed("ssh -L {listen}:{target} {far_host} -p {far_port}", "sshd -p {listen_port}", "tcp")
            .is_ok()
    );
    for typed in ["external", "external:near=a", "external:file=a,near=b", "external:fil=a"] {
        assert!(Contender::parse(typed).is_err(), "{typed}");
    }
}

#[test]
fn a_file_is_read_and_what_a_result_recorded_needs_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        format!("external:file={}", file.display())
    };
    let text =
        format!("near = \"{NEAR}\"\nfar = \"{FAR}\"\ncarries = \"tcp:cc=reno,nodelay=off\"\n");
    let typed = write("good.toml", &text);
    let read = Contender::parse(&typed).unwrap();
    assert_eq!(read.spec.to_string(), typed);
    assert_eq!(read.external.as_ref().unwrap().carries, "tcp:cc=reno,nodelay=off");
    let again = Contender::recorded("external:file=gone.toml", &read.asked()).unwrap();
    assert_eq!(again.asked(), read.asked());
    for (name, text, why) in [
        ("key.toml", format!("{text}more = 1"), "unknown field `more`"),
        ("none.toml", "near = \"a\"".to_owned(), "missing field `far`"),
        ("long.toml", " ".repeat(70_000), "larger than 64 KiB"),
    ] {
        let said = Contender::parse(&write(name, &text)).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    for (typed, why) in
        [("external:file=/dev/zero", "not a regular file"), ("external:file=/none", "No such")]
    {
        let said = Contender::parse(typed).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_file_that_changed_is_read_anew_in_the_same_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml");
    let carries = |control: &str| {
        let carries = format!("tcp:cc={control}");
        let text = format!("near = \"{NEAR}\"\nfar = \"{FAR}\"\ncarries = \"{carries}\"\n");
        fs::write(&file, text).unwrap();
        let contender = Contender::parse(&format!("external:file={}", file.display())).unwrap();
        (contender, carries)
    };
    let ((before, reno), (after, cubic)) = (carries("reno"), carries("cubic"));
    assert_eq!(before.external.as_deref().unwrap().carries, reno);
    assert_eq!(after.external.as_deref().unwrap().carries, cubic);
    assert!(before != after);
}

#[test]
fn a_program_that_is_not_there_is_named_before_anything_runs() {
    let contender = parsed("no-such-tunnel {listen} {far}", "sh {listen} {target}", "tcp").unwrap();
    let said = contender.check().unwrap_err().to_string();
    assert!(said.contains("no program `no-such-tunnel`"), "{said}");
}

#[test]
fn what_a_stranger_sends_names_no_command_and_no_file() {
    let said = Contender::listed("external:file=/etc/passwd").unwrap_err().to_string();
    assert!(said.contains("no contender"), "{said}");
}
