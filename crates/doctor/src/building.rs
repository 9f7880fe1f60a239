//! Checks for a node of a building.

use std::net::{IpAddr, SocketAddr};

use tautline_api::v1::NODE_PORT;
use tautline_proto::time::Span;

use crate::Verdict::Warning;
use crate::machine::run;
use crate::{Finding, Machine, observation};

/// Requirements of the building file for this machine.
#[derive(Debug, Clone)]
pub struct NodeRequirements {
    /// Name and address of the machine's node, or why the machine has no node.
    pub place: Result<(String, IpAddr), String>,
    /// Multicast groups that its zones receive, the group of announcements first.
    pub groups: Vec<SocketAddr>,
    /// Maximum time to observe the network.
    pub observes: Span,
    /// Called before the observation, with a line for the user.
    pub progress: fn(&str),
}

pub(crate) fn node(node: &NodeRequirements) -> Finding {
    match &node.place {
        Ok((name, address)) => {
            Finding::passed(format!("this machine is the node {name} at {address}"))
        }
        Err(why) => {
            let what = why.lines().next().unwrap_or_default();
            let why = "taut node does not start here without --node";
            Finding::new(Warning, what, why).details("ip -brief address")
        }
    }
}

/// Whether the announcements' group is joined on the interface that has the node's address. `None`
/// if the machine has no zones.
pub(crate) fn groups(machine: &Machine, node: &NodeRequirements) -> Option<Finding> {
    let group = node.groups.first()?.ip();
    let (index, name) = interface(node.place.as_ref().ok()?.1)?;
    Some(joined(machine, (index, &name), group))
}

/// Index and name of the interface with this address.
fn interface(address: IpAddr) -> Option<(u32, String)> {
    let shown = run("ip", &["-oneline", "address", "show", "to", &address.to_string()]).ok()?;
    // A line such as `4: eth0    inet 10.0.0.2/24 …`.
    let (index, rest) = shown.split_once(": ")?;
    let name = rest.split([' ', '@']).next()?;
    Some((index.parse().ok()?, name.to_owned()))
}

/// IGMP queries, and the DSCP of the sources, at the interface of the node. Nothing without zones,
/// or with IPv6.
pub(crate) fn observed(node: &NodeRequirements) -> Vec<(&'static str, Finding)> {
    let Ok((_, IpAddr::V4(address))) = node.place else { return Vec::new() };
    let [_, sources @ ..] = &node.groups[..] else { return Vec::new() };
    let Some((index, name)) = interface(address.into()) else { return Vec::new() };
    let groups = sources.iter().filter_map(|source| match source.ip() {
        IpAddr::V4(group) if group.is_multicast() => Some(group),
        _ => None,
    });
    let groups: Vec<_> = groups.collect();
    let time = node.observes;
    (node.progress)(&format!("observing {name} for IGMP queries and streams, {time} at most"));
    observation::network((index, &name), address, &groups, time)
}

fn joined(machine: &Machine, (index, name): (u32, &str), group: IpAddr) -> Finding {
    let joined = match group {
        IpAddr::V4(group) => joined_v4(machine, index, u32::from_ne_bytes(group.octets())),
        IpAddr::V6(group) => joined_v6(machine, index, group.to_bits()),
    };
    if joined {
        return Finding::passed(format!("{name} has joined the announcements' group {group}"));
    }
    let what = format!("{name} has not joined the announcements' group {group}");
    let why = "zones of this machine play no announcements; taut node joins the group";
    Finding::new(Warning, what, why).fix("sudo systemctl restart taut-node")
}

/// `/proc/net/igmp`: a line per interface, then one per group, hexadecimal as in memory.
fn joined_v4(machine: &Machine, index: u32, group: u32) -> bool {
    let table = machine.read("proc/net/igmp").unwrap_or_default();
    let mut of_interface = false;
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if line.contains(": ") {
            of_interface = first.parse() == Ok(index);
            return false;
        }
        of_interface && u32::from_str_radix(first, 16) == Ok(group)
    })
}

/// `/proc/net/igmp6`: index, interface and group.
fn joined_v6(machine: &Machine, index: u32, group: u128) -> bool {
    let table = machine.read("proc/net/igmp6").unwrap_or_default();
    table.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [number, _, joined, ..] = words[..] else { return false };
        number.parse() == Ok(index) && u128::from_str_radix(joined, 16) == Ok(group)
    })
}

/// Checks which hosts can reach the node.
pub(crate) fn control(machine: &Machine) -> Finding {
    let text =
        ["tcp", "tcp6"].map(|file| machine.read(&format!("proc/net/{file}")).unwrap_or_default());
    let port = format!("{NODE_PORT:04X}");
    let is_open = text.iter().flat_map(|text| text.lines()).any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let open = words.get(1).and_then(|address| address.split_once(':'));
        // 0A is LISTEN (include/net/tcp_states.h).
        open.is_some_and(|(_, open)| open == port) && words.get(3) == Some(&"0A")
    });
    if !is_open {
        let what = format!("no program listens at TCP port {NODE_PORT}");
        let why = "other machines show the zones of this one as unreachable";
        return Finding::new(Warning, what, why).fix("sudo systemctl enable --now taut-node");
    }
    Finding::passed(format!("TCP port {NODE_PORT} is open for trusted machines"))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    fn requirements() -> NodeRequirements {
        let groups = ["239.255.77.1:5004", "239.255.78.1:5004"].map(|group| group.parse().unwrap());
        let place = Ok(("gym".to_owned(), "10.0.0.2".parse().unwrap()));
        NodeRequirements { groups: groups.into(), ..without_groups(place) }
    }

    fn without_groups(place: Result<(String, IpAddr), String>) -> NodeRequirements {
        NodeRequirements { place, groups: Vec::new(), observes: Span::ZERO, progress: |_| {} }
    }

    fn hexadecimal(address: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(address))
    }

    #[test]
    fn group_counts_only_on_the_interface_of_the_node() {
        let table = |groups: [&str; 2]| {
            let [first, second] = groups;
            let all = hexadecimal([224, 0, 0, 1]);
            format!(
                "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                 1\tlo        :     1      V3\n\t\t\t\t{first}     1 0:00000000\t\t0\n\
                 4\teth0      :     1      V3\n\t\t\t\t{all}     1 0:00000000\t\t0\n\
                 \t\t\t\t{second}     1 0:00000000\t\t0"
            )
        };
        let verdict = |groups| {
            let machine = Machine::of(&[("proc/net/igmp", &*table(groups))]);
            joined(&machine, (4, "eth0"), "239.255.77.1".parse().unwrap()).verdict
        };
        let (announcements, other) = (hexadecimal([239, 255, 77, 1]), hexadecimal([239, 1, 1, 1]));
        assert_eq!(verdict([&other, &announcements]), Passed);
        assert_eq!(verdict([&announcements, &other]), Warning);
    }

    #[test]
    fn group_of_ipv6_is_found() {
        let group: std::net::Ipv6Addr = "ff05::77".parse().unwrap();
        let line = format!("3    eth0            {:032x}     1 00000004 0", group.to_bits());
        let machine = Machine::of(&[("proc/net/igmp6", &*line)]);
        assert!(joined_v6(&machine, 3, group.to_bits()));
        assert!(!joined_v6(&machine, 2, group.to_bits()));
    }

    #[test]
    fn port_must_be_open_for_other_machines() {
        let judged = |state: &str| {
            let text = format!(
                "  sl  local_address rem_address   st\n   0: 00000000:4362 00000000:0000 {state} 00000000:00000000"
            );
            control(&Machine::of(&[("proc/net/tcp", &*text)]))
        };
        assert_eq!(judged("0A").verdict, Passed);
        let absent = judged("01");
        assert_eq!(absent.verdict, Warning);
        snapshot!("absent", absent.message);
    }

    #[test]
    fn machine_without_a_node_is_reported() {
        assert_eq!(node(&requirements()).verdict, Passed);
        let place = Err("no node has an address of this machine\nhint: x".to_owned());
        let found = node(&without_groups(place));
        assert_eq!((found.verdict, found.message.contains('\n')), (Warning, false));
    }
}
