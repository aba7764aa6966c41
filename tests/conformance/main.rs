//! One body of tests for every transport, `conformance/`, and what else the transports of this program keep.

// Clippy takes only functions marked #[test] for tests; the helpers fail tests the same way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../common/handed_in.rs"]
mod handed_in;

use deadheat::transport::Contender;
use deadheat_conformance::{CHECKS, Subjects};

mod booted;
mod certificate;
mod paced;
#[path = "../common/pem.rs"]
mod pem;
#[path = "../common/uml.rs"]
mod uml;

/// Makes a test of each check, and one that none is left out.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            deadheat_conformance::$name(&Subjects::all());
        })*

        #[test]
        fn every_check_is_a_test() {
            let names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

tests![
    a_wrong_token_gets_nothing_and_the_right_one_still_gets_in,
    messages_of_all_sizes_come_back_as_they_went,
    a_window_of_messages_arrives_whole_and_in_order,
    every_service_on_offer_is_had_on_several_lanes_at_once,
    what_a_full_transport_took_arrives_once_there_is_room,
    bulk_arrives_as_sent_both_ways,
    every_byte_arrives_as_sent_whichever_engines_move_it,
    an_ended_direction_shows_and_the_other_one_still_works,
    the_last_bytes_arrive_after_the_application_has_finished,
    timers_fire_though_the_window_is_full_and_nobody_answers,
    knobs_that_were_asked_for_are_read_back_at_both_ends,
    calls_are_counted,
    a_peer_that_vanishes_hangs_nobody,
    nobody_at_home_is_an_error_in_time,
    messages_that_cannot_be_are_refused,
    a_silent_stranger_holds_nobody_up,
    a_transport_of_one_machine_takes_nothing_from_a_server,
    connections_at_a_port_of_its_own_reach_the_agent_that_they_are_handed_to,
    a_byte_stream_says_what_marks_its_messages,
];

#[test]
fn knobs_that_make_no_sense_are_refused_by_name() {
    let say = |typed: &str| Contender::parse(typed).unwrap_err().to_string();
    assert!(say("tpc").contains("did you mean `tcp`?"));
    assert!(say("tcp:nodlay=on").contains("did you mean `nodelay`?"));
    assert!(say("tcp:nodelay=yes").contains("valid: on, off"));
    assert!(say("tcp:cc=cubic/reno").contains("not a word"));
    assert!(say("tcp:mss=40").contains("`40` is outside 88B..32767B"));
    assert!(say("tcp:mss=64kB").contains("outside"));
    assert!(say("tcp:sndbuf=1").contains("outside"));
    assert!(say("tcp:sndbuf=4KB").contains("did you mean `kB`?"));
    assert!(say("tcp:quickack=1").contains("valid: on, off"));
    assert!(say("tcp:notsent_lowat=0").contains("outside"));
    assert!(say("unix:nodelay=on").contains("unknown key of `unix`: `nodelay`"));
    assert!(say("unix:rcvbuf=2TB").contains("outside"));
    assert!(say("unixgram:cc=reno").contains("valid: sndbuf, rcvbuf"));
}
