//! One body of checks for every transport: what it promises in its guarantees, it keeps, over every kind of address it
//! reaches, on this machine. [`hold`] runs them all for transports of your own; `docs/own-transport.md` shows how. Uses the
//! public interface only.
// The checks fail as tests do.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod checks;
pub mod rig;

pub use checks::*;
pub use rig::Subjects;

/// Check of contenders, which panics with what they do not keep.
pub type Check = fn(&Subjects);

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        /// All checks, by their names.
        pub const CHECKS: &[(&str, Check)] = &[$((stringify!($name), $name)),*];
    };
}

checks![
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

/// Hands in a program, and holds the contenders `typed` to all checks.
///
/// # Panics
/// At the first promise that is not kept, and where a contender does not work on this host.
pub fn hold(program: deadheat::Program, typed: &[&str]) {
    // Another test of the same process may have handed in the same program.
    let _ = program.hand_in();
    let subjects = Subjects::of(typed);
    for one in typed {
        let contender = deadheat::transport::Contender::parse(one).unwrap();
        contender.check().unwrap();
    }
    for (name, check) in CHECKS {
        println!("{name}");
        check(&subjects);
    }
}
