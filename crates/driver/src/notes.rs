//! Instrumented trials: the notes of an end, that is the times at which each message passed each point, and the work of
//! its thread and its CPU. Such a trial explains where time goes; its figures are never a headline, because taking notes
//! costs time, too.

use serde::{Deserialize, Serialize};

use deadheat_base::time::Realtime;
use deadheat_contract::measurements::TcpView;
use deadheat_datapath::transport::spent::ProtocolTime;

pub mod probed;

/// Purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Measures the trial's figures.
    #[default]
    Figures,
    /// Explains the figures by their parts.
    Explain,
}

impl Pass {
    /// Returns true for the default purpose, which JSON leaves out.
    pub fn is_usual(&self) -> bool {
        *self == Pass::Figures
    }
}

/// Most messages for which an end has rows: the last ones of a trial. Their JSON stays below 200 kB.
pub const MOST_ROWS: usize = 1024;

/// Ratio of messages to stamped messages. The number of a message decides, so that both ends choose the same ones.
/// Unstamped messages avoid most of the cost of stamps, and so show that cost.
pub const STAMPED: u64 = 4;

/// Times at which one message and its answer passed each point of one end, in nanoseconds of `CLOCK_REALTIME`. At the
/// near end sending is first, at the far end arriving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "[Option<u64>; 8]", into = "[Option<u64>; 8]")]
pub struct Row {
    /// Number of the message.
    pub number: u64,
    /// Time of the application's sending call.
    pub call: Option<u64>,
    /// Time at which the call returned.
    pub returned: Option<u64>,
    /// Time at which the protocol handed the packet to the queueing discipline.
    pub scheduled: Option<u64>,
    /// Time at which the driver took the packet.
    pub left: Option<u64>,
    /// Time at which the peer's kernel had acknowledged it (TCP).
    pub acknowledged: Option<u64>,
    /// Time at which the packet with the peer's message was received from the driver.
    pub arrived: Option<u64>,
    /// Time at which the application received that message.
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
    /// Name of the running kernel (`/proc/sys/kernel/random/boot_id`), by which two ends know if they share its clock;
    /// empty if unknown.
    pub boot: String,
    /// Amount by which the time of day was set during the trial, in nanoseconds.
    pub step_ns: i64,
    /// CPU to which its flows are pinned; absent if they are not pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_on: Option<usize>,
    /// Use of that CPU, or of all CPUs.
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
    /// Kernel's view of a TCP connection at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<TcpView>,
}

/// Visits of the driver to a connection to move bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Visits {
    /// Number of visits.
    pub visits: u64,
    /// Time inside the visits, waits in the kernel included, in nanoseconds.
    pub inside_ns: u64,
    /// Time from the start of the first to the end of the last visit, in nanoseconds.
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
    /// Time in programs and their system calls.
    pub programs_ns: u64,
    /// Time in interrupts and soft interrupts, where the kernel receives packets.
    pub interrupts_ns: u64,
    /// Time taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuUse {
    /// Returns the use since boot of one CPU, or of all.
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
pub struct Before {
    cpu: Option<usize>,
    used: CpuUse,
    ahead: i64,
}

impl Before {
    /// Reads the values for an end pinned to `cpu`, or to none.
    pub fn read(cpu: Option<usize>) -> Before {
        Before { cpu, used: CpuUse::read(cpu), ahead: Realtime::ahead_of_monotonic() }
    }

    /// Returns the notes of a trial that ends now.
    pub fn conclude(&self, flows: Vec<FlowNotes>) -> EndNotes {
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
