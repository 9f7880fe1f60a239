//! Parses proc(5) counters, without I/O. Missing figures are `None`.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MachineCounters {
    /// Ticks of all cores (proc_stat(5)).
    pub(super) ticks: Option<Ticks>,
    pub(super) cores: u64,
    pub(super) switches: Option<u64>,
    pub(super) interrupts: Option<u64>,
    pub(super) runnable: Option<u64>,
    pub(super) blocked: Option<u64>,
    pub(super) blocks_read: Option<u64>,
    pub(super) blocks_written: Option<u64>,
    pub(super) faults: Option<u64>,
    pub(super) major_faults: Option<u64>,
    /// Used by programs, in KiB (proc_meminfo(5)).
    pub(super) memory_used: Option<u64>,
    /// Without loopback (proc_pid_net(5)), in this network namespace.
    pub(super) network: Option<Traffic>,
    pub(super) loopback: Option<Traffic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ticks {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
    pub(super) waiting: u64,
    /// Used by other guests.
    pub(super) stolen: u64,
    pub(super) all: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Traffic {
    pub(super) packets_in: u64,
    pub(super) packets_out: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProcessCounters {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) faults: u64,
    pub(super) major_faults: u64,
    pub(super) threads: u64,
    /// In pages of 4 KiB.
    pub(super) resident: u64,
    /// Context switches of all threads (proc_pid_status(5)).
    pub(super) switches: Option<u64>,
}

fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.split_whitespace().map(|word| word.parse().unwrap_or(0))
}

fn named(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

pub(super) fn context_switches(status: &str) -> Option<u64> {
    let voluntary = named(status, "voluntary_ctxt_switches:")?;
    Some(voluntary.saturating_add(named(status, "nonvoluntary_ctxt_switches:")?))
}

impl MachineCounters {
    pub(super) fn read(stat: &str, vmstat: &str, meminfo: &str, net: &str) -> Self {
        let cores =
            stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let total = named(meminfo, "MemTotal:");
        let available = named(meminfo, "MemAvailable:");
        Self {
            ticks: stat.lines().find_map(|line| line.strip_prefix("cpu ")).and_then(Ticks::read),
            cores: cores.count() as u64,
            switches: named(stat, "ctxt "),
            interrupts: named(stat, "intr "),
            runnable: named(stat, "procs_running "),
            blocked: named(stat, "procs_blocked "),
            blocks_read: named(vmstat, "pgpgin "),
            blocks_written: named(vmstat, "pgpgout "),
            faults: named(vmstat, "pgfault "),
            major_faults: named(vmstat, "pgmajfault "),
            memory_used: total.zip(available).map(|(all, free)| all.saturating_sub(free)),
            network: Traffic::read(net, |name| name != "lo"),
            loopback: Traffic::read(net, |name| name == "lo"),
        }
    }
}

impl Ticks {
    /// user, nice, system, idle, iowait, irq, softirq, steal; user and nice include the later
    /// fields.
    fn read(line: &str) -> Option<Self> {
        let mut all = [0; 8];
        let count = all.iter_mut().zip(numbers(line)).map(|(place, ticks)| *place = ticks).count();
        let [user, nice, system, _, waiting, irq, softirq, stolen] = all;
        let sum = all.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        let user = user.saturating_add(nice);
        (count >= 4).then_some(Self { user, system, irq, softirq, waiting, stolen, all: sum })
    }
}

impl Traffic {
    fn read(net: &str, of: impl Fn(&str) -> bool) -> Option<Self> {
        let lines = net.lines().filter_map(|line| line.split_once(':'));
        let wanted = lines.filter(|(name, _)| of(name.trim()));
        wanted.map(|(_, rest)| Self::line(rest)).reduce(Self::and)
    }

    /// Received: bytes, packets and six more; then the same for sent.
    fn line(rest: &str) -> Self {
        let mut figures = [0; 10];
        figures.iter_mut().zip(numbers(rest)).for_each(|(place, number)| *place = number);
        let [bytes_in, packets_in, _, _, _, _, _, _, bytes_out, packets_out] = figures;
        Self { packets_in, packets_out, bytes_in, bytes_out }
    }

    fn and(self, other: Self) -> Self {
        Self {
            packets_in: self.packets_in.wrapping_add(other.packets_in),
            packets_out: self.packets_out.wrapping_add(other.packets_out),
            bytes_in: self.bytes_in.wrapping_add(other.bytes_in),
            bytes_out: self.bytes_out.wrapping_add(other.bytes_out),
        }
    }
}

impl ProcessCounters {
    /// The program's name may contain a parenthesis.
    pub(super) fn read(stat: &str) -> Option<Self> {
        let (_, after) = stat.rsplit_once(')')?;
        // The third field is a letter.
        let fields: Vec<u64> = numbers(after).collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            faults: field(10)?,
            major_faults: field(12)?,
            user: field(14)?,
            system: field(15)?,
            threads: field(20)?,
            resident: field(24)?,
            switches: None,
        })
    }

    pub(super) fn name(stat: &str) -> Option<&str> {
        let (before, _) = stat.rsplit_once(')')?;
        before.split_once('(').map(|(_, name)| name)
    }
}
