//! Parameters of a test, which the client sends as JSON.

use serde_json::{Map, Value, json};

use super::login::Login;
use super::stream_counts::StreamCounts;
use deadheat_datapath::transport::far_end::SessionOrder;
use deadheat_datapath::transport::options;
use deadheat_datapath::transport::plain::PlainProtocol;

/// Version of the client, which servers look at since 3.17.
const CLIENT_VERSION: &str = "3.12";

/// Bytes per call of a server that sends a byte stream, as iperf3 has them by default.
const STREAM_LEN: usize = 128 << 10;

/// Value of the knob for congestion control that leaves it to the host.
const HOSTS_OWN: &str = "host";
const SWITCHED_ON: &str = "on";

/// Returns the bytes of a call of the server.
pub(super) fn call_len(order: &SessionOrder<'_>) -> usize {
    let task = order.task;
    // A server that sends blocks as long as messages sends messages, whose boundaries are known by counting.
    let sends_blocks = task.is_paced && StreamCounts::of(task).down > 0;
    if order.over.keeps_boundaries || sends_blocks { task.largest_message } else { STREAM_LEN }
}

/// Returns the parameters of the test.
pub(super) fn parameters(order: &SessionOrder<'_>, login: Option<&Login>) -> Value {
    let task = order.task;
    let ways = StreamCounts::of(task);
    let key = match order.over {
        PlainProtocol::UDP => "udp",
        PlainProtocol::SCTP => "sctp",
        _ => "tcp",
    };
    let streams = ways.parallel();
    // The near end decides when a test ends. With a time the server ends a test of a client that vanished, too.
    let secs = task.planned.map_or(0, |planned| planned.0.div_ceil(1_000_000_000) + 1);
    let bytes = match task.planned {
        Some(_) => 0,
        None => task.most_bytes.unwrap_or(0),
    };
    let rate = task.offered().map_or(0, |rate| rate.0 / streams);
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
    put(key, json!(true));
    if order.over == PlainProtocol::MPTCP {
        put("mptcp", json!(1));
    }
    put("omit", json!(0));
    put("time", json!(secs));
    put("num", json!(bytes));
    put("blockcount", json!(0));
    put("parallel", json!(streams));
    put("len", json!(call_len(order)));
    put("bandwidth", json!(rate));
    put("pacing_timer", json!(1000));
    match ways {
        StreamCounts { up: 0, .. } => put("reverse", json!(true)),
        StreamCounts { down: 0, .. } => None,
        StreamCounts { .. } => put("bidirectional", json!(true)),
    };
    if ways.down > 0 {
        let asked = order.knobs.text(options::CC);
        if let Some(control) = asked.filter(|cc| *cc != HOSTS_OWN && !cc.is_empty()) {
            put("congestion", json!(control));
        }
        if order.knobs.text(options::NODELAY.name) == Some(SWITCHED_ON) {
            put("nodelay", json!(true));
        }
    }
    if let Some(login) = login {
        put("authtoken", json!(login.token));
    }
    put("client_version", json!(CLIENT_VERSION));
    Value::Object(all)
}
