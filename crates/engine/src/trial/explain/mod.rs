//! Notes of an end of an instrumented trial: the times at which each message passed each point, and
//! how long its thread and its CPU worked. Such a trial explains where time goes; its figures are
//! never a headline, because noting costs time, too.

use serde::{Deserialize, Serialize};

use crate::measurements::TcpView;
use crate::time::Realtime;
use crate::transport::spent::ProtocolTime;

pub mod parts;
pub mod probed;

/// Purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Measuring its figures.
    #[default]
    Figures,
    /// Explaining what its figures are made of.
    Explain,
}

impl Pass {
    /// Returns true if it is the usual one, which JSON leaves out.
    pub fn is_usual(&self) -> bool {
        *self == Pass::Figures
    }
}

/// The most messages an end has rows of: the last ones of a trial. Their JSON stays below 200 kB.
pub const MOST_ROWS: usize = 1024;

/// Ratio of messages to stamped ones: one in so many is stamped, by its number, so that both ends
/// choose the same ones. Those in between pass without most of what stamps cost, and so tell how
/// much that is.
pub const STAMPED: u64 = 4;

/// Times at which one message and its answer passed each point of one end, in nanoseconds of
/// `CLOCK_REALTIME`. At the near end sending comes first, at the far end arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "[Option<u64>; 8]", into = "[Option<u64>; 8]")]
pub struct Row {
    /// The message's number.
    pub number: u64,
    /// The application called to send.
    pub call: Option<u64>,
    /// The call returned.
    pub returned: Option<u64>,
    /// The protocol had done its work: the packet was handed to the queueing discipline.
    pub scheduled: Option<u64>,
    /// The driver took it.
    pub left: Option<u64>,
    /// The peer's kernel had acknowledged it (TCP).
    pub acknowledged: Option<u64>,
    /// The packet with the message from the peer was received from the driver.
    pub arrived: Option<u64>,
    /// The application had that message.
    pub got: Option<u64>,
}

impl From<[Option<u64>; 8]> for Row {
    fn from(row: [Option<u64>; 8]) -> Row {
        let [number, call, returned, scheduled, left, acknowledged, arrived, got] = row;
        let number = number.unwrap_or(u64::MAX);
        Row { number, call, returned, scheduled, left, acknowledged, arrived, got }
    }
}

impl From<Row> for [Option<u64>; 8] {
    fn from(row: Row) -> [Option<u64>; 8] {
        let Row { number, call, returned, scheduled, left, acknowledged, arrived, got } = row;
        [Some(number), call, returned, scheduled, left, acknowledged, arrived, got]
    }
}

/// Notes of one end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EndNotes {
    /// Names the running kernel (`/proc/sys/kernel/random/boot_id`), so that two ends know whether
    /// they share its clock; empty if unknown.
    pub boot: String,
    /// Amount by which the time of day was set meanwhile, in nanoseconds.
    pub step_ns: i64,
    /// The CPU on which its flows are held; absent if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_on: Option<usize>,
    /// The work of that CPU, or of all.
    pub cpu: CpuUse,
    /// Notes by flow.
    pub flows: Vec<FlowNotes>,
}

/// Notes of one flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FlowNotes {
    /// Reason why the kernel stamped nothing, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstamped: Option<String>,
    /// Rows of the last messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Bulk data sent.
    #[serde(default, skip_serializing_if = "Visits::is_none")]
    pub sending: Visits,
    /// Bulk data received.
    #[serde(default, skip_serializing_if = "Visits::is_none")]
    pub receiving: Visits,
    /// CPU time of the flow's thread, in nanoseconds.
    pub thread_ns: u64,
    /// Time in the protocol, if it runs in user space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<ProtocolTime>,
    /// The kernel's view at the end, of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<TcpView>,
}

/// The driver's visits to a connection to move bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Visits {
    /// Number of visits.
    pub visits: u64,
    /// The time inside them, waits in the kernel included, in nanoseconds.
    pub inside_ns: u64,
    /// Time from the start of the first to the end of the last, in nanoseconds.
    pub span_ns: u64,
}

impl Visits {
    fn is_none(&self) -> bool {
        self.visits == 0
    }
}

/// Use of the CPUs of one end, in nanoseconds (proc_stat(5)), which counts in steps of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// Number of CPUs.
    pub cpus: u64,
    /// Total time, idle time included.
    pub all_ns: u64,
    /// Programs and the calls they made.
    pub programs_ns: u64,
    /// Interrupts and soft interrupts: where the kernel receives packets.
    pub interrupts_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuUse {
    /// Returns the time since boot of one CPU, or of all.
    pub fn read(cpu: Option<usize>) -> CpuUse {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        CpuUse::parse(&text, cpu)
    }

    fn parse(text: &str, cpu: Option<usize>) -> CpuUse {
        let wanted = cpu.map(|cpu| format!("cpu{cpu}"));
        let is_wanted = |name: &str| match &wanted {
            Some(wanted) => name == wanted,
            None => name.len() > 3 && name.starts_with("cpu"),
        };
        let mut sum = CpuUse::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if !words.next().is_some_and(is_wanted) {
                continue;
            }
            // user nice system idle iowait irq softirq steal, in hundredths of a second.
            let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
            let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] else {
                continue;
            };
            let add = |to: &mut u64, ticks: &[u64]| {
                let ticks = ticks.iter().fold(0u64, |sum, tick| sum.saturating_add(*tick));
                *to = to.saturating_add(ticks.saturating_mul(10_000_000));
            };
            sum.cpus += 1;
            add(&mut sum.programs_ns, &[user, nice, system]);
            add(&mut sum.interrupts_ns, &[irq, softirq]);
            add(&mut sum.steal_ns, &[steal]);
            add(&mut sum.all_ns, &[user, nice, system, idle, iowait, irq, softirq, steal]);
        }
        sum
    }

    /// Returns the use since an `earlier` reading.
    pub fn since(&self, earlier: &CpuUse) -> CpuUse {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        CpuUse {
            cpus: self.cpus,
            all_ns: less(self.all_ns, earlier.all_ns),
            programs_ns: less(self.programs_ns, earlier.programs_ns),
            interrupts_ns: less(self.interrupts_ns, earlier.interrupts_ns),
            steal_ns: less(self.steal_ns, earlier.steal_ns),
        }
    }
}

/// Readings at the start of an instrumented trial, for comparison with its end.
#[derive(Debug)]
pub(super) struct Before {
    cpu: Option<usize>,
    used: CpuUse,
    ahead: i64,
}

impl Before {
    /// Reads the values for an end held on `cpu`, or on none.
    pub(super) fn read(cpu: Option<usize>) -> Before {
        Before { cpu, used: CpuUse::read(cpu), ahead: Realtime::ahead_of_monotonic() }
    }

    /// Returns the notes of a trial that ends now.
    pub(super) fn conclude(&self, flows: Vec<FlowNotes>) -> EndNotes {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        EndNotes {
            boot: boot.unwrap_or_default().trim().to_owned(),
            step_ns: Realtime::ahead_of_monotonic() - self.ahead,
            held_on: self.cpu,
            cpu: CpuUse::read(self.cpu).since(&self.used),
            flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_short_list_in_json() {
        let row = Row { number: 7, call: Some(1), got: Some(9), ..Row::default() };
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(json, "[7,1,null,null,null,null,null,9]");
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), row);
        assert!(serde_json::from_str::<Row>("[7]").is_err());
        let longest = Row::from([Some(u64::MAX); 8]);
        let rows = serde_json::to_string(&vec![longest; MOST_ROWS]).unwrap();
        assert!(rows.len() < 200_000, "{}", rows.len());
    }

    #[test]
    fn cpu_time_is_that_of_the_cpus_asked_for() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 0 2 90 3 1 4 5 0 0\ncpu1 1 1 1 1 1 1 1 1\nintr 5\n";
        let one = CpuUse::parse(text, Some(0));
        let ms = 10_000_000;
        assert_eq!((one.cpus, one.all_ns), (1, 106 * ms));
        assert_eq!((one.programs_ns, one.interrupts_ns, one.steal_ns), (3 * ms, 5 * ms, 5 * ms));
        assert_eq!(CpuUse::parse(text, None).cpus, 2);
        assert_eq!(CpuUse::parse(text, None).since(&one).programs_ns, 3 * ms);
        assert_eq!(CpuUse::parse(text, Some(7)), CpuUse::default());
        assert_eq!(CpuUse::parse("cpu0 1 2\n", Some(0)), CpuUse::default());
    }
}
