//! Interrupts of sound and network: cores and thread priorities.

use crate::Verdict::Warning;
use crate::network::Interface;
use crate::{Finding, Machine};

/// Priority of `taut`'s threads: `--scheduler fifo:70`.
const OURS: u32 = 70;
const FIFO: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    id: u32,
    pub(crate) name: String,
    /// Real-time priority; 0 for other policies.
    priority: u32,
    policy: u32,
}

pub(crate) fn processes(machine: &Machine) -> Vec<Process> {
    let ids = machine.list("proc").into_iter().filter_map(|name| name.parse().ok());
    let process = |id: u32| {
        let stat = machine.read(&format!("proc/{id}/stat"))?;
        // The name may contain parentheses.
        let (before, after) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        // Fields 40 and 41 of proc_pid_stat(5).
        let field = |number: usize| after.split_whitespace().nth(number - 3)?.parse().ok();
        Some(Process { id, name, priority: field(40)?, policy: field(41)? })
    };
    ids.filter_map(process).collect()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interrupt {
    number: u32,
    of: String,
    sharers: Vec<String>,
    /// As in `0-3`; empty if unknown.
    cores: String,
}

fn is_of_sound(name: &str) -> bool {
    name.starts_with("snd")
}

pub(crate) fn of_sound_and_network(machine: &Machine, interfaces: &[Interface]) -> Vec<Interrupt> {
    let table = machine.read("proc/interrupts").unwrap_or_default();
    let of_interface = |number: u32, sharers: &[String]| {
        let hit = interfaces.iter().find(|interface| {
            interface.interrupts.contains(&number)
                || sharers.iter().any(|sharer| {
                    let rest = sharer.strip_prefix(interface.name.as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                })
        });
        hit.map(|interface| interface.name.clone())
    };
    let lines = table.lines().filter_map(|line| {
        // `16:   9   0  IR-IO-APIC   16-fasteoi   snd_hda_intel:card0, ehci_hcd:usb1`
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let mut sharers: Vec<_> = rest.split(", ").map(|name| name.trim().to_owned()).collect();
        if let Some(first) = sharers.first_mut() {
            *first = first.split_whitespace().last().unwrap_or("").to_owned();
        }
        let sound = sharers.iter().find(|name| is_of_sound(name)).cloned();
        let of = sound.or_else(|| of_interface(number, &sharers))?;
        let cores = ["effective_affinity_list", "smp_affinity_list"];
        let cores =
            cores.iter().find_map(|file| machine.read(&format!("proc/irq/{number}/{file}")));
        Some(Interrupt { number, of, sharers, cores: cores.unwrap_or_default() })
    });
    lines.collect()
}

pub(crate) fn balance(machine: &Machine, processes: &[Process]) -> Finding {
    if machine.cores().len() < 2 || !processes.iter().any(|process| process.name == "irqbalance") {
        return Finding::passed("nothing moves interrupts between cores");
    }
    let why = "it moves interrupts of sound and network during playback: each move delays one";
    Finding::new(Warning, "irqbalance moves interrupts between cores", why)
        .fix("sudo systemctl disable --now irqbalance")
}

pub(crate) fn lines(interrupts: &[Interrupt]) -> Vec<Finding> {
    let shared = interrupts.iter().filter(|interrupt| interrupt.sharers.len() > 1);
    let mut found: Vec<_> = shared.map(|Interrupt { number, of, sharers, .. }| {
        let others: Vec<_> = sharers.iter().filter(|name| *name != of).map(String::as_str).collect();
        let what = format!("{of} shares interrupt {number} with {}", others.join(" and "));
        let why = "each of its interrupts waits for their drivers; another slot or USB port may \
                   have its own line";
        Finding::new(Warning, what, why).details("cat /proc/interrupts")
    }).collect();
    if found.is_empty() && !interrupts.is_empty() {
        found.push(Finding::passed(places(interrupts).join(", ")));
    }
    found
}

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

/// As in `0-3,8`.
fn listed(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Network interrupts are frequent and delay sound.
pub(crate) fn cores(machine: &Machine, interrupts: &[Interrupt]) -> Vec<Finding> {
    let read = |file: &str| {
        listed(&machine.read(&format!("sys/devices/system/cpu/{file}")).unwrap_or_default())
    };
    // The scheduler does not use isolated cores (`isolcpus=`).
    let (online, isolated) = (read("online"), read("isolated"));
    let (sound, network): (Vec<_>, Vec<_>) =
        interrupts.iter().partition(|interrupt| is_of_sound(&interrupt.of));
    let mut names: Vec<_> = network.iter().map(|interrupt| interrupt.of.as_str()).collect();
    names.dedup();
    let judged = names.iter().filter_map(|name| {
        let own: Vec<_> =
            network.iter().copied().filter(|interrupt| interrupt.of == *name).collect();
        at_isolated(&own, &online, &isolated)
            .or_else(|| at_core_of_sound(&own, &sound, &online, &isolated))
    });
    let judged: Vec<_> = judged.collect();
    if judged.is_empty() && !sound.is_empty() && !network.is_empty() {
        return vec![Finding::passed("sound and network are not bound to one core")];
    }
    judged
}

fn at_isolated(own: &[&Interrupt], online: &[u32], isolated: &[u32]) -> Option<Finding> {
    let is_kept = |interrupt: &&&Interrupt| {
        let at = listed(&interrupt.cores);
        !at.is_empty() && at.iter().all(|core| isolated.contains(core))
    };
    let kept: Vec<_> = own.iter().filter(is_kept).copied().collect();
    let first = kept.first()?;
    let what = format!("{} interrupts core {}, which is isolated", first.of, first.cores);
    let why = "programs isolated there wait for every packet";
    Some(Finding::new(Warning, what, why).fix(moved(&kept, &[], online, isolated)?))
}

fn at_core_of_sound(
    own: &[&Interrupt],
    sound: &[&Interrupt],
    online: &[u32],
    isolated: &[u32],
) -> Option<Finding> {
    let mut at: Vec<_> = own.iter().flat_map(|interrupt| listed(&interrupt.cores)).collect();
    at.sort_unstable();
    at.dedup();
    let [core] = at.as_slice() else { return None };
    let card = sound.iter().find(|interrupt| listed(&interrupt.cores) == at)?;
    let what =
        format!("all interrupts of {} and {} arrive at core {core}", own.first()?.of, card.of);
    let why = "a burst of packets delays the interrupt of the card";
    Some(Finding::new(Warning, what, why).fix(moved(own, &at, online, isolated)?))
}

fn moved(which: &[&Interrupt], taken: &[u32], online: &[u32], isolated: &[u32]) -> Option<String> {
    let free = online.iter().find(|core| !taken.contains(core) && !isolated.contains(core))?;
    let numbers: Vec<_> = which.iter().map(|interrupt| interrupt.number.to_string()).collect();
    let numbers = match numbers.as_slice() {
        [one] => one.clone(),
        all => format!("{{{}}}", all.join(",")),
    };
    Some(format!("echo {free} | sudo tee /proc/irq/{numbers}/smp_affinity_list"))
}

pub(crate) fn threads(interrupts: &[Interrupt], processes: &[Process]) -> Option<Finding> {
    let threads = interrupts.iter().filter_map(|interrupt| {
        let begins = format!("irq/{}-", interrupt.number);
        let thread = processes.iter().find(|process| process.name.starts_with(&begins))?;
        Some((&interrupt.of, thread))
    });
    let threads: Vec<_> = threads.collect();
    threads.first()?;
    let is_low = |thread: &Process| thread.policy != FIFO || thread.priority < OURS;
    let low: Vec<_> = threads.iter().filter(|(_, thread)| is_low(thread)).collect();
    let Some((of, thread)) = low.first() else {
        return Some(Finding::passed(format!(
            "interrupts of sound and network run above fifo:{OURS}"
        )));
    };
    let others = match low.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    let (name, priority) = (&thread.name, thread.priority);
    let what = format!("{name} of {of}{others} runs at priority {priority}, below fifo:{OURS}");
    let why = "the device's thread blocks the interrupt that it waits for";
    let ids: Vec<_> = low.iter().map(|(_, thread)| thread.id.to_string()).collect();
    let fix = format!("for id in {}; do sudo chrt -f -p 80 $id; done", ids.join(" "));
    Some(Finding::new(Warning, what, why).fix(fix))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    const CARD: &str = "snd_hda_intel:card0";

    impl Process {
        pub(crate) fn new(id: u32, name: &str, priority: u32, policy: u32) -> Self {
            Self { id, name: name.to_owned(), priority, policy }
        }
    }

    fn interrupt(number: u32, of: &str, cores: &str) -> Interrupt {
        let sharers = vec![of.to_owned()];
        Interrupt { number, of: of.to_owned(), sharers, cores: cores.to_owned() }
    }

    fn with_cores(online: &str, isolated: &str) -> Machine {
        let file = |name: &str| format!("sys/devices/system/cpu/{name}");
        Machine::of(&[(file("online"), online), (file("isolated"), isolated)])
    }

    #[test]
    fn interrupts_of_sound_and_of_interfaces_in_use_are_found() {
        const TABLE: &str = "           CPU0       CPU1\n  \
            16:   9   0  IR-IO-APIC   16-fasteoi   snd_hda_intel:card0, ehci_hcd:usb1\n \
            128:   0  77  IR-PCI-MSI  520192-edge  eth0-rx-0\n \
            129:   0  77  IR-PCI-MSI  520193-edge  virtio3-input.0\n \
            130:   0  77  IR-PCI-MSI  520194-edge  eth01-rx-0\n NMI:   0  Non-maskable interrupts\n";
        let machine = Machine::of(&[
            ("proc/interrupts", TABLE),
            ("proc/irq/128/smp_affinity_list", "0-1"),
            ("proc/irq/129/effective_affinity_list", "1"),
        ]);
        let eth0 = Interface { interrupts: vec![129], ..Interface::wired("eth0") };
        let found = of_sound_and_network(&machine, &[eth0]);
        let read: Vec<_> = found.iter().map(|i| (i.number, &*i.of, &*i.cores)).collect();
        assert_eq!(read, [(16, CARD, ""), (128, "eth0", "0-1"), (129, "eth0", "1")]);
    }

    #[test]
    fn shared_interrupt_is_reported_with_the_other_user() {
        let sharers = vec![CARD.to_owned(), "ehci_hcd:usb1".to_owned()];
        let shared = Interrupt { sharers, ..interrupt(16, CARD, "0") };
        let found = lines(&[shared, interrupt(128, "eth0", "0-1")]);
        snapshot!(found[0].message);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn interrupts_with_lines_of_their_own_are_fine() {
        let cores = [(1, "0"), (2, "0"), (3, "1")];
        let found = lines(&cores.map(|(number, cores)| interrupt(number, "eth0", cores)));
        assert_eq!(found[0].message, "eth0 at cores 0 1");
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn interrupt_thread_below_ours_is_reported_with_its_process() {
        let interrupts = [interrupt(128, "eth0", "1")];
        let threads = |process| threads(&interrupts, &[process]);
        let found = threads(Process::new(77, "irq/128-eth0-rx", 50, FIFO)).unwrap();
        assert_eq!(found.verdict, Warning);
        snapshot!(found.fix.unwrap());
        let found = threads(Process::new(77, "irq/128-eth0-rx", 80, FIFO)).unwrap();
        assert_eq!(found.verdict, Passed);
        assert_eq!(threads(Process::new(7, "irq/12-other", 50, FIFO)), None);
    }

    #[test]
    fn a_process_is_read_whatever_its_name_holds() {
        let fields: Vec<_> = (4..=52).map(|number| number.to_string()).collect();
        let stat = format!("77 (irq/1) (x) S {}", fields.join(" "));
        let machine = Machine::of(&[("proc/77/stat", &*stat), ("proc/uptime", "1 2")]);
        assert_eq!(processes(&machine), [Process::new(77, "irq/1) (x", 40, 41)]);
    }

    #[test]
    fn irqbalance_matters_where_there_are_two_cores() {
        let running = [Process::new(5, "irqbalance", 0, 0)];
        let cores = ["cpu0", "cpu1"].map(|core| (format!("sys/devices/system/cpu/{core}/x"), ""));
        let two = Machine::of(&cores);
        assert_eq!(balance(&two, &running).verdict, Warning);
        assert_eq!(balance(&Machine::of(&cores[..1]), &running).verdict, Passed);
        assert_eq!(balance(&two, &[]).verdict, Passed);
    }

    #[test]
    fn network_interrupts_move_off_the_sound_cards_core() {
        let card = interrupt(16, CARD, "0");
        let network = [interrupt(128, "eth0", "0"), interrupt(129, "eth0", "0")];
        let all = [card.clone(), network[0].clone(), network[1].clone()];
        let found = cores(&with_cores("0-3", "1"), &all);
        snapshot!(found[0].message);
        let fix = "echo 2 | sudo tee /proc/irq/{128,129}/smp_affinity_list";
        assert_eq!((found[0].verdict, found[0].fix.as_deref()), (Warning, Some(fix)));
        let alone = cores(&with_cores("0", ""), &all);
        assert_eq!(alone[0].verdict, Passed, "there is no other core");
        let machine = with_cores("0-3", "");
        let apart = [card, interrupt(128, "eth0", "0"), interrupt(129, "eth0", "1")];
        assert_eq!(cores(&machine, &apart)[0].verdict, Passed);
        assert!(cores(&machine, &network).is_empty(), "there is no card");
    }

    #[test]
    fn card_interrupt_on_any_core_shares_with_no_thread() {
        let machine = with_cores("0-3", "");
        let all = [interrupt(16, CARD, "0-3"), interrupt(128, "eth0", "0")];
        assert_eq!(cores(&machine, &all)[0].verdict, Passed);
        let unknown = [interrupt(16, CARD, ""), interrupt(128, "eth0", "")];
        assert_eq!(cores(&machine, &unknown)[0].verdict, Passed);
    }

    #[test]
    fn a_network_that_interrupts_isolated_cores_is_moved_from_there() {
        let machine = with_cores("0-3", "2-3");
        let network = [interrupt(128, "eth0", "0"), interrupt(129, "eth0", "3")];
        let found = cores(&machine, &network);
        snapshot!(found[0].message);
        snapshot!("fix", found[0].fix.as_ref().unwrap());
        // The user may have moved them on purpose.
        assert!(cores(&machine, &[interrupt(16, CARD, "3")]).is_empty());
        assert!(cores(&machine, &[interrupt(128, "eth0", "0-3")]).is_empty());
    }

    #[test]
    fn cores_are_read_as_the_kernel_writes_them() {
        assert_eq!((listed("0-2,5"), listed("")), (vec![0, 1, 2, 5], vec![]));
    }
}
