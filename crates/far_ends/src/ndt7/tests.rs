use super::*;
use crate::steps::{PeerFault, StepEnd, StepRow};
use deadheat_base::ends::Direction;

#[test]
fn a_test_has_its_path_and_the_query_that_was_typed() {
    let of = |typed| resource(typed, "upload").map_err(|e| e.to_string());
    assert_eq!(of("/").unwrap(), "/ndt/v7/upload?client_name=deadheat");
    let with_token = "/ndt/v7/upload?client_name=deadheat&access_token=ey.J";
    assert_eq!(of("/?access_token=ey.J").unwrap(), with_token);
    assert_eq!(of("/ndt/v7/download?access_token=ey.J").unwrap(), with_token);
    assert!(of("/speedtest").unwrap_err().contains("paths of its own"));
}

#[test]
fn messages_grow_with_what_was_sent_in_powers_of_two() {
    let upload = Measurements { way: Direction::Up, last: None };
    let lens = [0, 1 << 16, 1 << 17, 1 << 18, (1 << 18) + 1, 1 << 23, 1 << 24, u64::MAX]
        .map(|sent| upload.next_len(sent));
    let kib = [8, 8, 8, 16, 16, 512, 1024, 1024];
    assert_eq!(lens, kib.map(|kib| kib << 10));
}

#[test]
fn a_measurement_is_shown_and_one_that_cannot_be_true_ends_the_test() {
    let mut upload = Measurements { way: Direction::Up, last: None };
    assert!(upload.effective().is_empty());
    let sound = r#"{"AppInfo":{"NumBytes":1000,"ElapsedTime":250000},"Origin":"server","Test":"upload",
        "TCPInfo":{"MinRTT":10100,"BytesSent":2000,"BytesRetrans":20},"ConnectionInfo":{"UUID":"x"}}"#;
    upload.text(sound, 1_000).unwrap();
    let shown = &upload.effective()["far_measurement"];
    assert_eq!(shown, "1.00 kB read after 0.25 s, RTT at least 10.1 ms, 1.00 % sent again");
    let said = upload.text(sound, 999).unwrap_err();
    assert!(said.contains("counts 1000 bytes received, and 999 were sent"), "{said}");
    for wrong in ["", "GET / HTTP/1.1", "[1]", r#"{"AppInfo":7}"#] {
        assert!(upload.text(wrong, 0).unwrap_err().contains("measurement that is none"), "{wrong}");
    }
    // Later versions may add and leave out what they like.
    upload.text(r#"{"Whatever":[1,2]}"#, 0).unwrap();
    assert!(upload.effective().is_empty());
}

#[test]
fn work_that_a_server_does_not_take_is_refused_with_the_work_that_fits() {
    let (up, down) = (Some(Direction::Up), Some(Direction::Down));
    let of = |flows: &[Option<Direction>], planned| {
        let task = TaskInfo { flows: flows.to_vec(), planned, ..TaskInfo::default() };
        misfit(PlainProtocol::WSS, &task).unwrap_or_default()
    };
    let secs = |secs| Some(Nanos::from_secs(secs));
    assert_eq!(of(&[up], secs(9)), "");
    assert_eq!(of(&[down], secs(1)), "");
    assert!(of(&[up, down], secs(1)).contains("one connection and one direction"));
    assert!(of(&[None], secs(1)).contains("bulk fits"));
    assert!(of(&[up], None).contains("give time"));
    assert!(of(&[up], secs(10)).contains("9s at most together"));
}

/// Returns the rows of all steps, for the table. The bytes of messages are bounded by the connection.
pub(crate) fn steps() -> Vec<StepRow> {
    let garbage = format!("{{\"AppInfo\":{}", "[".repeat(100_000));
    let all = [
        (PeerFault::Garbage, "GET / HTTP/1.1".to_owned()),
        (PeerFault::Garbage, garbage),
        (PeerFault::LyingLength, r#"{"AppInfo":{"NumBytes":1e300}}"#.to_owned()),
    ];
    let row = |(fault, text): (PeerFault, String)| StepRow {
        protocol: "ndt7",
        step: "a measurement",
        fault,
        run: Box::new(move || {
            let mut upload = Measurements { way: Direction::Up, last: None };
            let why = upload.text(&text, 1_000).unwrap_err();
            StepEnd { why, took: Nanos::ZERO, bytes: text.len() }
        }),
    };
    all.into_iter().map(row).collect()
}
