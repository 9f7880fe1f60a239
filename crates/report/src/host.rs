//! Report of the machine.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The machine that ran the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Kernel version.
    pub kernel: String,
    /// Scheduling of the device's thread.
    pub scheduler: String,
    /// Number of processors.
    pub cpus: usize,
    /// Simultaneous stalls of all processors for more than 1 ms.
    pub stalls: u64,
    /// CPU time of the program, in nanoseconds.
    pub cpu_ns: i64,
    /// Peak memory, in bytes.
    pub peak_bytes: u64,
    /// Resources that the system refused.
    pub refused: Refused,
    /// TAI on this machine; absent if no packet carried a presentation time.
    pub tai: Option<TaiReport>,
}

/// State of TAI at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaiReport {
    /// `free` without a reference, `locked`, or `holdover` after the reference was lost.
    pub state: Cow<'static, str>,
    /// Current or last reference: `ptp` or `system`.
    pub reference: Option<Cow<'static, str>>,
    /// Start of this state, on this machine's monotonic clock.
    pub since_ns: Option<i64>,
    /// Uncertainty, ± ns; absent if no source reported one.
    pub uncertainty_ns: Option<i64>,
    /// Whether sent packets mark their timestamps as uncertain (`tu`).
    pub uncertain: bool,
    /// Steps, because the error was too large to slew.
    pub steps: u32,
    /// Status of linuxptp; absent if it does not answer.
    pub ptp4l: Option<PtpReport>,
}

/// Status of `ptp4l`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PtpReport {
    /// State of its first port, such as `SLAVE`.
    pub port: Cow<'static, str>,
    /// Grandmaster that it follows, if any.
    pub grandmaster: Option<String>,
    /// Its clock minus its master's, in nanoseconds.
    pub offset_ns: i64,
    /// Path delay from its master, in nanoseconds.
    pub path_delay_ns: i64,
}

/// Refused requests, each as a sentence with its fix; `None` if granted or not requested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The device's thread runs without real-time priority.
    pub priority: Option<String>,
    /// The stall monitor's threads run without real-time priority.
    pub stall_monitor_priority: Option<String>,
    /// Memory is not locked.
    pub locked_memory: Option<String>,
    /// Whether a limit or a capability can grant the priority. It cannot for a deadline, so that
    /// sentence has its own fix.
    #[serde(skip)]
    pub by_limit: bool,
}

impl Refused {
    /// All sentences.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        let all = [&self.priority, &self.stall_monitor_priority, &self.locked_memory];
        all.into_iter().filter_map(|sentence| sentence.as_deref())
    }

    /// All refusals in one line; `None` without any.
    pub fn line(&self) -> Option<String> {
        const HINT: &str = "`taut doctor` shows how to allow it";
        let priority = self.priority.as_ref().filter(|_| self.by_limit);
        let lacks = [
            priority.map(|_| "no real-time priority"),
            self.locked_memory.as_ref().map(|_| "no locked memory"),
        ];
        let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
        let own = self.priority.clone().filter(|_| !self.by_limit);
        let lacking = (!lacks.is_empty())
            .then(|| format!("{}: sound may drop out under load; {HINT}", lacks.join(", ")));
        let witness = self.stall_monitor_priority.clone().filter(|_| self.priority.is_none());
        let all: Vec<String> = [own, lacking, witness].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
