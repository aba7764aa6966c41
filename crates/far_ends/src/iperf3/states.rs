//! States of a test: one signed byte each, which the ends send each other on the control connection.

use std::fmt;

/// State, as its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) i8);

impl State {
    pub(crate) const TEST_START: State = State(1);
    pub(crate) const TEST_RUNNING: State = State(2);
    pub(crate) const TEST_END: State = State(4);
    pub(crate) const PARAM_EXCHANGE: State = State(9);
    pub(crate) const CREATE_STREAMS: State = State(10);
    pub(crate) const SERVER_TERMINATE: State = State(11);
    pub(crate) const CLIENT_TERMINATE: State = State(12);
    pub(crate) const EXCHANGE_RESULTS: State = State(13);
    pub(crate) const DISPLAY_RESULTS: State = State(14);
    pub(crate) const IPERF_DONE: State = State(16);
    pub(crate) const ACCESS_DENIED: State = State(-1);
    pub(crate) const SERVER_ERROR: State = State(-2);
}

const NAMES: [(State, &str); 12] = [
    (State::TEST_START, "TEST_START"),
    (State::TEST_RUNNING, "TEST_RUNNING"),
    (State::TEST_END, "TEST_END"),
    (State::PARAM_EXCHANGE, "PARAM_EXCHANGE"),
    (State::CREATE_STREAMS, "CREATE_STREAMS"),
    (State::SERVER_TERMINATE, "SERVER_TERMINATE"),
    (State::CLIENT_TERMINATE, "CLIENT_TERMINATE"),
    (State::EXCHANGE_RESULTS, "EXCHANGE_RESULTS"),
    (State::DISPLAY_RESULTS, "DISPLAY_RESULTS"),
    (State::IPERF_DONE, "IPERF_DONE"),
    (State::ACCESS_DENIED, "ACCESS_DENIED"),
    (State::SERVER_ERROR, "SERVER_ERROR"),
];

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(state, _)| state == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "the unknown state {}", self.0),
        }
    }
}
