//! Where the interrupts of sound and network arrive, and who may hold them up.

use super::interface::Interface;
use super::interrupt::{self, Interrupt};
use super::interrupt_cores::{self, Cores};
use super::root::Root;
use super::{Finding, Verdict};

/// Above this runs nothing of taut's but what watches for stalls: `--scheduler fifo:70`.
const OURS: u32 = 70;
const FIFO: u32 = 1;

/// A process of this machine, by `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunningProcess {
    id: u32,
    pub(crate) name: String,
    /// Of real time; 0 for others.
    priority: u32,
    policy: u32,
}

#[cfg(test)]
impl RunningProcess {
    pub(crate) fn ordinary(id: u32, name: &str) -> Self {
        Self { id, name: name.to_owned(), priority: 0, policy: 0 }
    }
}

/// All that may be seen.
pub(crate) fn processes(root: &Root) -> Vec<RunningProcess> {
    let ids = root.list("proc").into_iter().filter_map(|name| name.parse().ok());
    ids.filter_map(|id| process(id, &root.read(&format!("proc/{id}/stat"))?)).collect()
}

fn process(id: u32, stat: &str) -> Option<RunningProcess> {
    // The name stands in parentheses and may hold some itself.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    // Fields 40 and 41 (proc_pid_stat(5)); the third is the first after the name.
    let field = |number: usize| after.split_whitespace().nth(number - 3)?.parse().ok();
    Some(RunningProcess { id, name, priority: field(40)?, policy: field(41)? })
}

pub(crate) fn check(
    root: &Root,
    interfaces: &[Interface],
    processes: &[RunningProcess],
) -> Vec<Finding> {
    let interrupts = interrupt::all(root, interfaces);
    let cores = root.list("sys/devices/system/cpu");
    let cores = cores.iter().filter(|name| {
        name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok())
    });
    let mut found = vec![balance(processes, cores.count())];
    found.extend(lines(&interrupts));
    found.extend(interrupt_cores::check(&interrupts, &Cores::of(root)));
    found.extend(threads(&interrupts, processes));
    found
}

fn balance(processes: &[RunningProcess], cores: usize) -> Finding {
    const CHECK: &str = "irqbalance";
    if cores < 2 || !processes.iter().any(|process| process.name == "irqbalance") {
        return Finding::fine(CHECK, "nothing moves interrupts between cores");
    }
    let why =
        "it moves interrupts of sound and network while they play: each move costs a late one";
    Finding::of(Verdict::Warns, CHECK, "irqbalance moves interrupts between cores", why)
        .mended_by("sudo systemctl disable --now irqbalance")
}

fn lines(interrupts: &[Interrupt]) -> Vec<Finding> {
    const CHECK: &str = "interrupts";
    if interrupts.is_empty() {
        return Vec::new();
    }
    let shared = interrupts.iter().filter(|interrupt| interrupt.sharers.len() > 1);
    let mut found: Vec<_> = shared.map(|Interrupt { number, of, sharers, .. }| {
        let others: Vec<_> = sharers.iter().filter(|name| *name != of).map(String::as_str).collect();
        let what = format!("{of} shares interrupt {number} with {}", others.join(" and "));
        let why = "each of its interrupts waits for their drivers; another slot, or another socket of \
                   USB, may have a line of its own";
        Finding::of(Verdict::Warns, CHECK, what, why).seen_by("cat /proc/interrupts")
    }).collect();
    if found.is_empty() {
        found.push(Finding::fine(CHECK, places(interrupts).join(", ")));
    }
    found
}

/// The cores that interrupts of each arrive at.
fn places(interrupts: &[Interrupt]) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for Interrupt { of, cores, .. } in interrupts {
        match all.iter_mut().find(|(other, _)| other == of) {
            Some((_, known)) if known.contains(&cores.as_str()) => {}
            Some((_, known)) => known.push(cores),
            None => all.push((of, vec![cores])),
        }
    }
    let place = |(of, mut cores): (&str, Vec<&str>)| {
        cores.sort_unstable();
        let word = if cores.len() == 1 { "core" } else { "cores" };
        format!("{of} at {word} {}", cores.join(" "))
    };
    all.into_iter().map(place).collect()
}

/// Where interrupts are threads, as under PREEMPT_RT, their priority counts.
fn threads(interrupts: &[Interrupt], processes: &[RunningProcess]) -> Vec<Finding> {
    const CHECK: &str = "interrupt-threads";
    let threads = interrupts.iter().filter_map(|interrupt| {
        let begins = format!("irq/{}-", interrupt.number);
        let thread = processes.iter().find(|process| process.name.starts_with(&begins))?;
        Some((interrupt, thread))
    });
    let threads: Vec<_> = threads.collect();
    let low = |thread: &RunningProcess| thread.policy != FIFO || thread.priority < OURS;
    let low: Vec<_> = threads.iter().filter(|(_, thread)| low(thread)).collect();
    let Some((Interrupt { of, .. }, thread)) = low.first() else {
        let fine =
            Finding::fine(CHECK, format!("those of sound and network run above fifo:{OURS}"));
        return if threads.is_empty() { Vec::new() } else { vec![fine] };
    };
    let others = match low.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let (name, priority) = (&thread.name, thread.priority);
    let what = format!("{name} of {of}{others} runs at priority {priority}, below fifo:{OURS}");
    let why = "the device's thread holds up the interrupt that brings what it waits for";
    let ids: Vec<_> = low.iter().map(|(_, thread)| thread.id.to_string()).collect();
    let mend = format!("for id in {}; do sudo chrt -f -p 80 $id; done", ids.join(" "));
    vec![Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend)]
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;

    fn process(id: u32, name: &str, priority: u32, policy: u32) -> RunningProcess {
        RunningProcess { id, name: name.to_owned(), priority, policy }
    }

    #[test]
    fn an_interrupt_that_is_shared_is_told_with_whom() {
        let name = |name: &str| name.to_owned();
        let sharers = vec![name("snd_hda_intel:card0"), name("ehci_hcd:usb1")];
        let shared =
            Interrupt { number: 16, of: name("snd_hda_intel:card0"), sharers, cores: name("0") };
        let found = lines(&[shared, Interrupt::alone(128, "eth0", "0-1")]);
        snapshot!(found[0].what);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn interrupts_with_lines_of_their_own_are_fine() {
        let interrupt = |number, cores| Interrupt::alone(number, "eth0", cores);
        let found = lines(&[interrupt(1, "0"), interrupt(2, "0"), interrupt(3, "1")]);
        assert_eq!(found[0].what, "eth0 at cores 0 1");
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn a_thread_of_an_interrupt_below_ours_is_told_with_its_process() {
        let interrupts = [Interrupt {
            number: 128,
            of: "eth0".to_owned(),
            sharers: vec!["eth0-rx-0".to_owned()],
            cores: "1".to_owned(),
        }];
        let found = threads(&interrupts, &[process(77, "irq/128-eth0-rx", 50, FIFO)]);
        assert_eq!(found[0].verdict, Verdict::Warns);
        let mend = found[0].mend();
        snapshot!(mend.unwrap());
        let found = threads(&interrupts, &[process(77, "irq/128-eth0-rx", 80, FIFO)]);
        assert_eq!(found[0].verdict, Verdict::Fine);
        assert!(threads(&interrupts, &[process(7, "irq/12-other", 50, FIFO)]).is_empty());
    }

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        let fields: Vec<_> = (4..=52).map(|number| number.to_string()).collect();
        let stat = format!("77 (irq/1) (x) S {}", fields.join(" "));
        let machine = Machine::of(&[("proc/77/stat", &stat), ("proc/uptime", "1 2")]);
        assert_eq!(processes(&machine.root()), [process(77, "irq/1) (x", 40, 41)]);
    }

    #[test]
    fn irqbalance_matters_where_there_are_two_cores() {
        let running = [process(5, "irqbalance", 0, 0)];
        assert_eq!(balance(&running, 2).verdict, Verdict::Warns);
        assert_eq!(balance(&running, 1).verdict, Verdict::Fine);
        assert_eq!(balance(&[], 2).verdict, Verdict::Fine);
    }
}
