//! The machine, as a report has it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Its version.
    pub kernel: String,
    /// How the device's thread ran.
    pub scheduler: String,
    /// Processors.
    pub cpus: usize,
    /// Times that all processors stalled at once for more than a millisecond.
    pub stalls: u64,
    /// Processor time of the whole program, in nanoseconds.
    pub cpu_ns: i64,
    /// Most memory it held, in bytes.
    pub peak_bytes: u64,
    /// What it did not let the run have.
    pub refused: Refused,
    /// How TAI is known here; absent where no packet said when it is to be presented.
    pub tai: Option<TaiReport>,
}

/// How TAI is known at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaiReport {
    /// `free` where nothing keeps it, `locked`, or `holdover` where what kept it went.
    pub state: Cow<'static, str>,
    /// What keeps it, or did: `ptp` or `system`.
    pub by: Option<Cow<'static, str>>,
    /// Since when it is so, by this machine's monotonic clock.
    pub since_ns: Option<i64>,
    /// How far it may be from the truth, either way; absent where nothing ever said.
    pub uncertainty_ns: Option<i64>,
    /// Whether packets say that their times are not to be relied upon (`tu`).
    pub uncertain: bool,
    /// How often it was too far off to be slewed.
    pub steps: u32,
    /// What linuxptp says of itself; absent where it does not run or does not answer.
    pub ptp4l: Option<PtpReport>,
}

/// What `ptp4l` says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PtpReport {
    /// What its foremost port does, as `SLAVE`.
    pub port: Cow<'static, str>,
    /// Whom it follows; absent where it follows nobody.
    pub grandmaster: Option<String>,
    /// Its clock less its master's.
    pub offset_ns: i64,
    /// From its master to it.
    pub path_delay_ns: i64,
}

/// What was asked of the system and refused, each in a sentence with its own mend; `None` where it was
/// granted, or not asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The device's thread runs without real-time priority.
    pub priority: Option<String>,
    /// So do the threads of the stall witness.
    pub witness_priority: Option<String>,
    /// Memory is not locked.
    pub locked_memory: Option<String>,
    /// Whether the priority is one that a limit or a capability gives to an ordinary user. A deadline
    /// is not: its own sentence says what to do.
    #[serde(skip)]
    pub by_limit: bool,
}

impl Refused {
    /// Each sentence.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        let all = [&self.priority, &self.witness_priority, &self.locked_memory];
        all.into_iter().filter_map(|sentence| sentence.as_deref())
    }

    /// All of it for people, in one line; `None` if nothing was refused.
    pub fn line(&self) -> Option<String> {
        const MEND: &str = "`taut doctor` says how to allow it";
        let priority = self.priority.as_ref().filter(|_| self.by_limit);
        let lacks = [
            priority.map(|_| "no real-time priority"),
            self.locked_memory.as_ref().map(|_| "no locked memory"),
        ];
        let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
        let own = self.priority.clone().filter(|_| !self.by_limit);
        let lacking = (!lacks.is_empty())
            .then(|| format!("{}: sound may drop out under load; {MEND}", lacks.join(", ")));
        // The witness's is the same matter as the device's thread's.
        let witness = self.witness_priority.clone().filter(|_| self.priority.is_none());
        let all: Vec<String> = [own, lacking, witness].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
