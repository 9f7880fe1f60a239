//! At which cores the interrupts of sound and network arrive, and whether they are the right ones.

use super::interrupt::Interrupt;
use super::root::Root;
use super::{Finding, Verdict};

const CHECK: &str = "interrupt-cores";

/// The cores of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cores {
    online: Vec<u32>,
    /// Those that the scheduler leaves alone (`isolcpus=`).
    isolated: Vec<u32>,
}

impl Cores {
    pub(crate) fn of(root: &Root) -> Self {
        let read = |file: &str| {
            listed(&root.read(&format!("sys/devices/system/cpu/{file}")).unwrap_or_default())
        };
        Self { online: read("online"), isolated: read("isolated") }
    }
}

/// `0-3,8` as the kernel writes it.
fn listed(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Interrupts of the network are judged: they are many, and what they hold up is sound.
pub(crate) fn check(interrupts: &[Interrupt], cores: &Cores) -> Vec<Finding> {
    let (sound, network): (Vec<_>, Vec<_>) =
        interrupts.iter().partition(|interrupt| interrupt.is_of_sound());
    let mut names: Vec<_> = network.iter().map(|interrupt| interrupt.of.as_str()).collect();
    names.dedup();
    let of = |name: &str| -> Vec<_> {
        network.iter().copied().filter(|interrupt| interrupt.of == name).collect()
    };
    let judged = names.iter().filter_map(|name| {
        let own = of(name);
        isolated(&own, cores).or_else(|| beside_sound(&own, &sound, cores))
    });
    let judged: Vec<_> = judged.collect();
    if judged.is_empty() && !sound.is_empty() && !network.is_empty() {
        return vec![Finding::fine(CHECK, "sound and network are not bound to one core")];
    }
    judged
}

/// Those of one interface that arrive at cores that are kept for something else.
fn isolated(own: &[&Interrupt], cores: &Cores) -> Option<Finding> {
    let is_kept = |interrupt: &&&Interrupt| {
        let at = listed(&interrupt.cores);
        !at.is_empty() && at.iter().all(|core| cores.isolated.contains(core))
    };
    let kept: Vec<_> = own.iter().filter(is_kept).copied().collect();
    let first = kept.first()?;
    let what = format!("{} interrupts core {}, which is isolated", first.of, first.cores);
    let why = "what was put there to be alone waits for every packet";
    moved(Finding::of(Verdict::Warns, CHECK, what, why), &kept, &[], cores)
}

/// All of one interface that arrive where those of a sound card do, while other cores are there.
fn beside_sound(own: &[&Interrupt], sound: &[&Interrupt], cores: &Cores) -> Option<Finding> {
    let mut at: Vec<_> = own.iter().flat_map(|interrupt| listed(&interrupt.cores)).collect();
    at.sort_unstable();
    at.dedup();
    let [core] = at.as_slice() else { return None };
    let card = sound.iter().find(|interrupt| listed(&interrupt.cores) == at)?;
    let what =
        format!("all interrupts of {} and {} arrive at core {core}", own.first()?.of, card.of);
    let why = "a burst of packets holds up the interrupt of the card";
    moved(Finding::of(Verdict::Warns, CHECK, what, why), own, &at, cores)
}

/// With the command that has them arrive at a core that is free for them; `None` if there is none.
fn moved(finding: Finding, which: &[&Interrupt], taken: &[u32], cores: &Cores) -> Option<Finding> {
    let is_free = |core: &&u32| !taken.contains(core) && !cores.isolated.contains(core);
    let free = cores.online.iter().find(is_free)?;
    let numbers: Vec<_> = which.iter().map(|interrupt| interrupt.number.to_string()).collect();
    let files = match numbers.as_slice() {
        [one] => format!("/proc/irq/{one}/smp_affinity_list"),
        all => format!("/proc/irq/{{{}}}/smp_affinity_list", all.join(",")),
    };
    Some(finding.mended_by(format!("echo {free} | sudo tee {files}")))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;

    fn interrupt(number: u32, of: &str, cores: &str) -> Interrupt {
        Interrupt::alone(number, of, cores)
    }

    fn cores(online: &str, isolated: &str) -> Cores {
        Cores { online: listed(online), isolated: listed(isolated) }
    }

    const CARD: &str = "snd_hda_intel:card0";

    #[test]
    fn a_network_that_interrupts_the_cards_core_alone_is_moved_to_another() {
        let card = interrupt(16, CARD, "0");
        let network = [interrupt(128, "eth0", "0"), interrupt(129, "eth0", "0")];
        let all = [card.clone(), network[0].clone(), network[1].clone()];
        let found = check(&all, &cores("0-3", "1"));
        snapshot!(found[0].what);
        let mend = "echo 2 | sudo tee /proc/irq/{128,129}/smp_affinity_list";
        assert_eq!((found[0].verdict, found[0].mend()), (Verdict::Warns, Some(mend)));
        assert_eq!(
            check(&all, &cores("0", ""))[0].verdict,
            Verdict::Fine,
            "there is no other core"
        );
        let apart = [card, interrupt(128, "eth0", "0"), interrupt(129, "eth0", "1")];
        assert_eq!(check(&apart, &cores("0-3", ""))[0].verdict, Verdict::Fine);
        assert!(check(&network, &cores("0-3", "")).is_empty(), "there is no card");
    }

    #[test]
    fn a_card_that_any_core_may_take_is_beside_nobody() {
        let all = [interrupt(16, CARD, "0-3"), interrupt(128, "eth0", "0")];
        assert_eq!(check(&all, &cores("0-3", ""))[0].verdict, Verdict::Fine);
        let unknown = [interrupt(16, CARD, ""), interrupt(128, "eth0", "")];
        assert_eq!(check(&unknown, &cores("0-3", ""))[0].verdict, Verdict::Fine);
    }

    #[test]
    fn a_network_that_interrupts_isolated_cores_is_moved_from_there() {
        let network = [interrupt(128, "eth0", "0"), interrupt(129, "eth0", "3")];
        let found = check(&network, &cores("0-3", "2-3"));
        snapshot!(found[0].what);
        snapshot!(found[0].mend().unwrap());
        // A card's may have been put there by hand.
        assert!(check(&[interrupt(16, CARD, "3")], &cores("0-3", "2-3")).is_empty());
        let anywhere = [interrupt(128, "eth0", "0-3")];
        assert!(check(&anywhere, &cores("0-3", "2-3")).is_empty());
    }

    #[test]
    fn cores_are_read_as_the_kernel_writes_them() {
        let machine = Machine::of(&[
            ("sys/devices/system/cpu/online", "0-2,5\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
        ]);
        let read = Cores { online: vec![0, 1, 2, 5], isolated: vec![] };
        assert_eq!(Cores::of(&machine.root()), read);
    }
}
