//! Summaries of speed tests.

use super::readings::Repeats;
use super::{Format, SUMMARY};

/// These summaries.
pub(super) static FORMATS: &[Format] = &[
    Format {
        id: "ndt7",
        summary: "ndt7-client: the JSON of its end (-format json)",
        signs: &[&["\"ServerFQDN\""], &["\"Origin\":\"client\"", "\"AppInfo\""]],
        json: &[
            ("Download/Throughput?/Value", "download:Mbit/s"),
            ("Upload/Throughput?/Value", "upload:Mbit/s"),
            ("Download/Latency/Value", "rtt_min:ms"),
            ("MinRTT/Value", "rtt_min:ms"),
        ],
        ..SUMMARY
    },
    Format {
        id: "ookla",
        summary: "Ookla's speedtest (--format=json, jsonl)",
        signs: &[
            &["\"type\":\"result\"", "\"bandwidth\""],
            &["\"type\": \"result\"", "\"bandwidth\""],
        ],
        json: &[
            ("timestamp", "started"),
            ("error", "why"),
            ("download/bandwidth", "download:B/s"),
            ("upload/bandwidth", "upload:B/s"),
            ("ping/latency", "rtt:ms"),
            ("download/latency/iqm", "rtt_download:ms"),
            ("upload/latency/iqm", "rtt_upload:ms"),
            ("packetLoss", "lost:%"),
        ],
        says: &["Its round trips under load are means of the middle half."],
        ..SUMMARY
    },
    Format {
        id: "speedtest-cli",
        summary: "speedtest-cli --json",
        signs: &[&["\"bytes_received\"", "\"sponsor\"", "\"ping\""]],
        json: &[
            ("timestamp", "started"),
            ("download", "download:bit/s"),
            ("upload", "upload:bit/s"),
            ("ping", "rtt:ms"),
        ],
        ..SUMMARY
    },
    Format {
        id: "librespeed",
        summary: "librespeed-cli --json",
        signs: &[&["\"bytes_received\"", "\"jitter\"", "\"ping\""]],
        json: &[
            ("timestamp", "started"),
            ("download", "download:Mbit/s"),
            ("upload", "upload:Mbit/s"),
            ("ping", "rtt:ms"),
        ],
        ..SUMMARY
    },
    Format {
        id: "fast",
        summary: "fast --json (fast.com)",
        signs: &[&["\"downloadSpeed\"", "\"downloadUnit\""]],
        json: &[
            ("downloadSpeed", "download:Mbit/s"),
            ("uploadSpeed", "upload:Mbit/s"),
            ("latency", "rtt:ms"),
        ],
        ..SUMMARY
    },
    Format {
        id: "networkquality",
        summary: "networkQuality of macOS, its text and -c; `mach rpm` of networkquality-rs",
        signs: &[
            &["==== SUMMARY ====", "apacity:"],
            &["\"dl_throughput\"", "\"ul_throughput\""],
            &["\"unloaded_latency_ms\"", "\"rpm\""],
        ],
        json: &[
            ("dl_throughput", "download:bit/s"),
            ("download/throughput", "download:bit/s"),
            ("ul_throughput", "upload:bit/s"),
            ("upload/throughput", "upload:bit/s"),
            ("base_rtt", "rtt:ms"),
            ("unloaded_latency_ms", "rtt:ms"),
            ("download/loaded_latency_ms", "rtt_download:ms"),
            ("upload/loaded_latency_ms", "rtt_upload:ms"),
            ("responsiveness", "rpm"),
            ("dl_responsiveness", "rpm_download"),
            ("download/rpm", "rpm_download"),
            ("ul_responsiveness", "rpm_upload"),
            ("upload/rpm", "rpm_upload"),
        ],
        lines: &[
            "Downlink capacity: <download+>",
            "Download capacity: <download+>",
            "Uplink capacity: <upload+>",
            "Upload capacity: <upload+>",
            "Idle Latency: <rtt+> | * RPM",
            "Downlink Responsiveness: * (<rtt_download+> | <rpm_download> RPM)",
            "Uplink Responsiveness: * (<rtt_upload+> | <rpm_upload> RPM)",
            "Responsiveness: * (<rtt_download+> | <rpm> RPM)",
            "Responsiveness: * (<rpm> RPM)",
        ],
        repeats: Repeats::Intervals("==== SUMMARY ===="),
        ..SUMMARY
    },
];
