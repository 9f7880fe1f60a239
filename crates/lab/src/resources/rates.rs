use tautline_proto::time::Span;

use super::counters::{MachineCounters, ProcessCounters, Ticks, Traffic};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) key: &'static str,
    pub(super) words: &'static str,
    pub(super) shown: bool,
}

const fn shown(key: &'static str, words: &'static str) -> Quantity {
    Quantity { key, words, shown: true }
}

const fn kept(key: &'static str, words: &'static str) -> Quantity {
    Quantity { key, words, shown: false }
}

/// In the order of [`machine`].
pub(super) const MACHINE: [Quantity; 20] = [
    shown("user_percent", "user, % of all cores"),
    shown("system_percent", "system, % of all cores"),
    shown("irq_percent", "interrupts, % of all cores"),
    shown("softirq_percent", "soft interrupts, % of all cores"),
    kept("iowait_percent", "waiting for disks, % of all cores"),
    kept("stolen_percent", "taken by the host, % of all cores"),
    shown("switches_per_s", "context switches, 1/s"),
    shown("interrupts_per_s", "interrupts, 1/s"),
    shown("runnable", "run queue, threads"),
    kept("blocked", "waiting for a disk, threads"),
    kept("blocks_read_kib_per_s", "read from disks, KiB/s"),
    kept("blocks_written_kib_per_s", "written to disks, KiB/s"),
    shown("faults_per_s", "page faults, 1/s"),
    kept("major_faults_per_s", "page faults from disk, 1/s"),
    shown("memory_used_mib", "memory in use, MiB"),
    shown("packets_in_per_s", "packets in, 1/s"),
    shown("packets_out_per_s", "packets out, 1/s"),
    shown("bytes_in_per_s", "bytes in, 1/s"),
    shown("bytes_out_per_s", "bytes out, 1/s"),
    kept("loopback_packets_per_s", "packets over loopback, 1/s"),
];

/// In the order of [`process`].
pub(super) const PROCESS: [Quantity; 7] = [
    shown("user_core_percent", "user, % of a core"),
    shown("system_core_percent", "system, % of a core"),
    shown("switches_per_s", "context switches, 1/s"),
    shown("faults_per_s", "page faults, 1/s"),
    kept("major_faults_per_s", "page faults from disk, 1/s"),
    shown("resident_mib", "in memory, MiB"),
    kept("threads", "threads"),
];

/// A decreasing counter (removed interface) counts as zero.
fn since(before: u64, after: u64) -> f64 {
    after.saturating_sub(before) as f64
}

pub(super) fn machine(
    before: &MachineCounters,
    after: &MachineCounters,
    passed: Span,
) -> [Option<f64>; 20] {
    let seconds = (passed.as_nanos().max(1) as f64) / 1e9;
    let share = |of: fn(&Ticks) -> u64| {
        let (before, after) = before.ticks.zip(after.ticks)?;
        let all = since(before.all, after.all);
        (all > 0.0).then(|| 100.0 * since(of(&before), of(&after)) / all)
    };
    let rate = |of: fn(&MachineCounters) -> Option<u64>| {
        of(before).zip(of(after)).map(|(before, after)| since(before, after) / seconds)
    };
    let traffic = |of: fn(&MachineCounters) -> Option<Traffic>, which: fn(&Traffic) -> u64| {
        let (before, after) = of(before).zip(of(after))?;
        Some(since(which(&before), which(&after)) / seconds)
    };
    let now = |value: Option<u64>| value.map(|value| value as f64);
    [
        share(|ticks| ticks.user),
        share(|ticks| ticks.system),
        share(|ticks| ticks.irq),
        share(|ticks| ticks.softirq),
        share(|ticks| ticks.waiting),
        share(|ticks| ticks.stolen),
        rate(|machine| machine.switches),
        rate(|machine| machine.interrupts),
        // Without this thread.
        now(after.runnable).map(|threads| (threads - 1.0).max(0.0)),
        now(after.blocked),
        rate(|machine| machine.blocks_read),
        rate(|machine| machine.blocks_written),
        rate(|machine| machine.faults),
        rate(|machine| machine.major_faults),
        now(after.memory_used).map(|kib| kib / 1024.0),
        traffic(|machine| machine.network, |traffic| traffic.packets_in),
        traffic(|machine| machine.network, |traffic| traffic.packets_out),
        traffic(|machine| machine.network, |traffic| traffic.bytes_in),
        traffic(|machine| machine.network, |traffic| traffic.bytes_out),
        traffic(|machine| machine.loopback, |traffic| traffic.packets_in),
    ]
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RatesMeanwhile {
    pub(super) ticks: u64,
    pub(super) cores: u64,
    pub(super) passed: Span,
}

pub(super) fn process(
    before: &ProcessCounters,
    after: &ProcessCounters,
    machine: RatesMeanwhile,
) -> [Option<f64>; 7] {
    let seconds = (machine.passed.as_nanos().max(1) as f64) / 1e9;
    let core = machine.ticks as f64 / machine.cores.max(1) as f64;
    let share = |before, after| (core > 0.0).then(|| 100.0 * since(before, after) / core);
    let rate = |before, after| Some(since(before, after) / seconds);
    [
        share(before.user, after.user),
        share(before.system, after.system),
        before.switches.zip(after.switches).map(|(before, after)| since(before, after) / seconds),
        rate(before.faults, after.faults),
        rate(before.major_faults, after.major_faults),
        Some(after.resident as f64 * 4.0 / 1024.0),
        Some(after.threads as f64),
    ]
}
