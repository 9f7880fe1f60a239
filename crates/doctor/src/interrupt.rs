//! The interrupts of sound and network, as the kernel lists them.

use super::interface::Interface;
use super::root::Root;

/// An interrupt that sound hangs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interrupt {
    pub(crate) number: u32,
    /// What it is for: an interface, or a driver of sound.
    pub(crate) of: String,
    /// All that share its line.
    pub(crate) sharers: Vec<String>,
    /// The cores that take it, or that may, as `0-3`; empty if the kernel does not say.
    pub(crate) cores: String,
}

impl Interrupt {
    pub(crate) fn is_of_sound(&self) -> bool {
        is_of_sound(&self.of)
    }

    /// With a line of its own.
    #[cfg(test)]
    pub(crate) fn alone(number: u32, of: &str, cores: &str) -> Self {
        let sharers = vec![of.to_owned()];
        Self { number, of: of.to_owned(), sharers, cores: cores.to_owned() }
    }
}

/// Whether a driver of this name is one of sound.
fn is_of_sound(name: &str) -> bool {
    name.starts_with("snd")
}

/// Those of sound cards and of the interfaces in use.
pub(crate) fn all(root: &Root, interfaces: &[Interface]) -> Vec<Interrupt> {
    let table = root.read("proc/interrupts").unwrap_or_default();
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
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let sharers = sharers(rest);
        let sound = sharers.iter().find(|name| is_of_sound(name)).cloned();
        let of = sound.or_else(|| of_interface(number, &sharers))?;
        let cores = ["effective_affinity_list", "smp_affinity_list"];
        let cores = cores.iter().find_map(|file| root.read(&format!("proc/irq/{number}/{file}")));
        Some(Interrupt { number, of, sharers, cores: cores.unwrap_or_default() })
    });
    lines.collect()
}

/// The names at the end of a line of `/proc/interrupts`: `… 16-fasteoi   snd_hda_intel:card0, ehci`.
fn sharers(rest: &str) -> Vec<String> {
    let mut names: Vec<_> = rest.split(", ").map(|name| name.trim().to_owned()).collect();
    if let Some(first) = names.first_mut() {
        *first = first.split_whitespace().last().unwrap_or("").to_owned();
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake::Machine;

    const TABLE: &str = "           CPU0       CPU1\n  \
        16:   9   0  IR-IO-APIC   16-fasteoi   snd_hda_intel:card0, ehci_hcd:usb1\n \
        128:   0  77  IR-PCI-MSI  520192-edge  eth0-rx-0\n \
        129:   0  77  IR-PCI-MSI  520193-edge  virtio3-input.0\n \
        130:   0  77  IR-PCI-MSI  520194-edge  eth01-rx-0\n NMI:   0  Non-maskable interrupts\n";

    #[test]
    fn interrupts_of_sound_and_of_interfaces_in_use_are_found() {
        let machine = Machine::of(&[
            ("proc/interrupts", TABLE),
            ("proc/irq/128/smp_affinity_list", "0-1"),
            ("proc/irq/129/effective_affinity_list", "1"),
        ]);
        let mut eth0 = Interface::wired("eth0");
        eth0.interrupts = vec![129];
        let found = all(&machine.root(), &[eth0]);
        let read: Vec<_> = found.iter().map(|i| (i.number, &*i.of, &*i.cores)).collect();
        let wanted = [(16, "snd_hda_intel:card0", ""), (128, "eth0", "0-1"), (129, "eth0", "1")];
        assert_eq!(read, wanted);
    }
}
