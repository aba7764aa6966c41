//! Summaries of programs that load web servers.

use super::super::echo::DUE;
use super::readings::Repeats;
use super::{Format, SUMMARY};

/// Requests of which each waits for the answer before it.
const CLOSED: &[&str] = &[DUE];

/// These summaries.
pub(super) static FORMATS: &[Format] = &[
    Format {
        id: "h2load",
        summary: "what h2load prints at its end, over HTTP/1, 2 and 3",
        signs: &[&["finished in ", "time for request:"], &["finished in ", " req/s", "TTFB"]],
        lines: &[
            "finished in <took>, <transactions> req/s, *",
            "requests: <asked> total, * started, * done, <answered> succeeded, …",
            "time for request: * * <request_mean> * *",
            "time for connect: * * <connect_mean> * *",
            "time to 1st byte: * * <first_byte_mean> * *",
            "request : * * <request_p50> * <request_p99> <request_mean> * *",
            "connect : * * <connect_p50> * <connect_p99> <connect_mean> * *",
            "TTFB : * * <first_byte_p50> * <first_byte_p99> <first_byte_mean> * *",
        ],
        unknown: CLOSED,
        ..SUMMARY
    },
    Format {
        id: "wrk",
        summary: "what wrk and wrk2 print, with --latency or without",
        signs: &[&["Running ", "Thread Stats"]],
        lines: &[
            "Latency <request_mean> * * *",
            "50% <request_p50>",
            "90% <request_p90>",
            "99% <request_p99>",
            "99.9% <request_p999>",
            "<answered> requests in <took>, …",
            "Socket errors: connect <failed>, read <failed>, write <failed>, timeout <failed>",
            "Non-2xx or 3xx responses: <wrong>",
            "Requests/sec: <transactions>",
        ],
        repeats: Repeats::Intervals("Running "),
        unknown: CLOSED,
        ..SUMMARY
    },
    Format {
        id: "oha",
        summary: "oha: JSON (`--output-format json`, `-j`) and text; hey: text",
        signs: &[
            &["\"successRate\"", "\"requestsPerSec\""],
            &["Summary:", "Slowest:", "Requests/sec:"],
        ],
        json: &[
            ("summary/total", "took:s"),
            ("summary/requestsPerSec", "transactions"),
            ("summary/average", "request_mean:s"),
            ("latencyPercentiles/p50", "request_p50:s"),
            ("latencyPercentiles/p90", "request_p90:s"),
            ("latencyPercentiles/p99", "request_p99:s"),
            ("latencyPercentiles/p99.9", "request_p999:s"),
            ("statusCodeDistribution/*", "answered"),
            // Requests under way at the end of the time are cut off, and did not fail.
            ("errorDistribution/!aborted due to deadline", "failed"),
        ],
        lines: &[
            "Total: <took+>",
            "Average: <request_mean+>",
            "Requests/sec: <transactions>",
            "50% in <request_p50+>",
            "90% in <request_p90+>",
            "99% in <request_p99+>",
            "99.9% in <request_p999+>",
        ],
        repeats: Repeats::Intervals("Summary:"),
        unknown: CLOSED,
        ..SUMMARY
    },
    Format {
        id: "k6",
        summary: "k6: --summary-export, handleSummary's data, and the text at its end",
        signs: &[&["http_req_duration", "http_reqs"]],
        json: &[
            ("metrics/http_reqs/values?/count", "asked"),
            ("metrics/http_reqs/values?/rate", "transactions"),
            ("metrics/http_req_failed/values?/passes", "failed"),
            ("metrics/http_req_duration/values?/avg", "request_mean:ms"),
            ("metrics/http_req_duration/values?/med", "request_p50:ms"),
            ("metrics/http_req_duration/values?/p(90)", "request_p90:ms"),
            ("metrics/http_req_duration/values?/p(99)", "request_p99:ms"),
        ],
        lines: &[
            "… http_req_duration.… avg=<request_mean> * med=<request_p50> * p(90)=<request_p90> …",
            "… http_req_failed.… * ✓ <failed> ✗ *",
            "… http_req_failed.… * <failed> out of *",
            "… http_reqs.… <asked> <transactions>/s",
        ],
        unknown: CLOSED,
        ..SUMMARY
    },
    Format {
        id: "vegeta",
        summary: "vegeta report, as text and as JSON",
        signs: &[
            &["\"latencies\"", "\"bytes_in\"", "\"success\""],
            &["Requests ", "[total, rate, throughput]"],
        ],
        json: &[
            ("duration", "took:ns"),
            ("requests", "asked"),
            ("success", "success"),
            ("throughput", "transactions"),
            ("latencies/mean", "request_mean:ns"),
            ("latencies/50th", "request_p50:ns"),
            ("latencies/90th", "request_p90:ns"),
            ("latencies/99th", "request_p99:ns"),
        ],
        lines: &[
            "Requests [total, rate, throughput] <asked>, * <transactions>",
            "Success [ratio] <success:%>",
            "Latencies [min, mean, 50, 90, 95, 99, max] * <request_mean>, <request_p50>, <request_p90>, * \
             <request_p99>, *",
        ],
        ..SUMMARY
    },
    Format {
        id: "ab",
        summary: "what ApacheBench (ab) prints",
        signs: &[&["This is ApacheBench"], &["Complete requests:", "Time per request:"]],
        lines: &[
            "Time taken for tests: <took:s> seconds",
            "Complete requests: <asked>",
            "Failed requests: <failed>",
            "Requests per second: <transactions> [#/sec] (mean)",
            "Time per request: <request_mean:ms> [ms] (mean)",
            "50% <request_p50:ms>",
            "90% <request_p90:ms>",
            "99% <request_p99:ms>",
        ],
        unknown: CLOSED,
        ..SUMMARY
    },
];
