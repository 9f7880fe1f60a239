//! The network interfaces that are in use.

use super::root::Root;

/// A network interface that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    /// Of the largest packet, in bytes.
    pub(crate) mtu: usize,
    pub(crate) is_wireless: bool,
    pub(crate) interrupts: Vec<u32>,
}

#[cfg(test)]
impl Interface {
    /// A wired one, as most are.
    pub(crate) fn wired(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, index: 2, mtu: 1500, is_wireless: false, interrupts: Vec::new() }
    }
}

/// Of an interface (linux/if.h).
const UP: u32 = 0x1;
const LOOPBACK: u32 = 0x8;

/// Those that are up, but for the loopback interface.
pub(crate) fn in_use(root: &Root) -> Vec<Interface> {
    const FOLDER: &str = "sys/class/net";
    let used = root.list(FOLDER).into_iter().filter_map(|name| {
        let file = |file: &str| format!("{FOLDER}/{name}/{file}");
        let flags = root.read(&file("flags"))?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        let is_down = root.read(&file("operstate")).as_deref() == Some("down");
        // A virtual port of a bridge, such as a container's: the bridge speaks for it.
        let is_port = root.has(&file("brport")) && !root.has(&file("device"));
        if flags & UP == 0 || flags & LOOPBACK != 0 || is_down || is_port {
            return None;
        }
        // A virtio device has its interrupts one folder up, with its PCI function.
        let folders = ["device/msi_irqs", "device/../msi_irqs"];
        let interrupts = folders.map(|folder| root.list(&file(folder)));
        let interrupts = interrupts.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        Some(Interface {
            index: root.number(&file("ifindex"))?,
            mtu: root.number(&file("mtu"))?,
            is_wireless: root.has(&file("phy80211")) || root.has(&file("wireless")),
            interrupts: interrupts.iter().filter_map(|number| number.parse().ok()).collect(),
            name,
        })
    });
    used.collect()
}
