//! Network of the demo: a namespace per machine, and a namespace with the switch that connects
//! them.

use std::process::Command;

use crate::failure::Failure;

const NAMED: &str = "taut-building-";
/// Namespace of the switch.
pub(super) const SWITCH: &str = "switch";

/// Removed when dropped.
pub(super) struct Network {
    prefix: String,
    namespaces: Vec<String>,
}

impl Network {
    /// Connects machines with these names and addresses. Removes networks of killed demos first.
    pub(super) fn make<'a>(
        machines: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Failure> {
        remove_abandoned();
        let prefix = format!("{NAMED}{}-", std::process::id());
        let mut made = Self { prefix, namespaces: Vec::new() };
        let switch = made.add(SWITCH)?;
        // All ports are in one building, so the switch needs no list of the groups' members.
        ip(&format!("-n {switch} link add {SWITCH} type bridge forward_delay 0 mcast_snooping 0"))?;
        ip(&format!("-n {switch} link set {SWITCH} up"))?;
        for (machine, address) in machines {
            let namespace = made.add(machine)?;
            ip(&format!(
                "-n {switch} link add {machine} type veth peer name eth0 netns {namespace}"
            ))?;
            ip(&format!("-n {switch} link set {machine} master {SWITCH} up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            ip(&format!("-n {namespace} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} route add 224.0.0.0/4 dev eth0"))?;
        }
        Ok(made)
    }

    pub(super) fn namespace(&self, machine: &str) -> String {
        format!("{}{machine}", self.prefix)
    }

    fn add(&mut self, machine: &str) -> Result<String, Failure> {
        let namespace = self.namespace(machine);
        ip(&format!("netns add {namespace}"))?;
        self.namespaces.push(namespace.clone());
        Ok(namespace)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = ip(&format!("netns delete {namespace}"));
        }
    }
}

/// Removes namespaces of killed demos. Their nodes ended with the demo.
fn remove_abandoned() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    let own = name_of("self");
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let process = name.strip_prefix(NAMED).and_then(|rest| rest.split_once('-'));
        let number = process.and_then(|(process, _)| process.parse::<u32>().ok());
        // A new process can have the process number of the old demo.
        if number.is_some_and(|number| name_of(&number.to_string()) != own) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn name_of(process: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/comm")).ok()
}

fn ip(step: &str) -> Result<(), Failure> {
    let failed = |why: &str| {
        Failure::open(format!(
            "cannot create a network with `ip {step}`: {why}\nhint: run as root, with iproute2 installed"
        ))
    };
    let done = Command::new("ip").args(step.split(' ')).output();
    let done = done.map_err(|error| failed(&error.to_string()))?;
    let why = String::from_utf8_lossy(&done.stderr);
    done.status.success().then_some(()).ok_or_else(|| failed(why.trim()))
}
