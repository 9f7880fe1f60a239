use crate::Verdict::Warning;
use crate::{Finding, Machine};

/// The kernel's numbers are hexadecimal, in network byte order read by a little-endian machine.
pub(crate) fn route(machine: &Machine, names: &[&str]) -> Finding {
    let routes = machine.read("proc/net/route").unwrap_or_default();
    let group = u32::from_ne_bytes([224, 0, 0, 1]);
    let by = routes.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, mask) = (number(1)?, number(7)?);
        (group & mask == destination).then(|| fields[0].to_owned())
    });
    if let Some(by) = by {
        return Finding::passed(format!("multicast uses {by} unless iface is set"));
    }
    let name = names.first().copied().unwrap_or("eth0");
    let what = "no route to multicast groups";
    let why = "multicast works only with ?iface=";
    Finding::new(Warning, what, why).fix(format!("sudo ip route add 224.0.0.0/4 dev {name}"))
}

pub(crate) fn igmp(machine: &Machine, name: &str) -> Option<Finding> {
    let table = machine.read("proc/net/igmp").unwrap_or_default();
    let spoken = table.lines().find_map(|line| {
        let (before, after) = line.split_once(':')?;
        let is_known = before.split_whitespace().nth(1) == Some(name);
        is_known.then(|| after.split_whitespace().nth(1).unwrap_or(""))
    })?;
    // 0 means no forced version.
    let forced = ["all", name].map(|which| {
        let path = format!("proc/sys/net/ipv4/conf/{which}/force_igmp_version");
        machine.number::<u32>(&path).unwrap_or(0)
    });
    let forced = forced[0].max(forced[1]);
    if spoken == "V3" && matches!(forced, 0 | 3) {
        return Some(Finding::passed(format!("{name} joins groups with IGMPv3")));
    }
    let version = spoken.trim_start_matches('V');
    let why =
        "source= is not announced to the network, and switches may forward every sender of a group";
    if forced == 0 {
        let what = format!(
            "{name} joins groups with IGMPv{version}, as a router requests: source= is not \
             announced to the network"
        );
        return Some(Finding::passed(what));
    }
    let what = format!("{name} joins groups with IGMPv{forced}, as configured");
    let fix = format!(
        "sudo sysctl -w net.ipv4.conf.all.force_igmp_version=0 \
         net.ipv4.conf.{name}.force_igmp_version=0"
    );
    Some(Finding::new(Warning, what, why).fix(fix))
}

/// Bridges that stop groups some minutes after the last query of a querier.
pub(crate) fn snooping(machine: &Machine) -> Vec<Finding> {
    const FOLDER: &str = "sys/class/net";
    let bridges = machine.list(FOLDER).into_iter().filter_map(|name| {
        let on =
            |file: &str| machine.number::<u32>(&format!("{FOLDER}/{name}/bridge/multicast_{file}"));
        let (snooping, querier) = (on("snooping")? != 0, on("querier")? != 0);
        Some(match (snooping, querier) {
            (false, _) => Finding::passed(format!("{name} sends groups to all ports")),
            (true, true) => Finding::passed(format!("{name} has IGMP snooping and a querier")),
            (true, false) => {
                let what = format!("{name} has IGMP snooping without its own querier");
                let why = "if no router of this network is one, groups may stop after minutes";
                let file = format!("/{FOLDER}/{name}/bridge/multicast_querier");
                Finding::new(Warning, what, why).fix(format!("echo 1 | sudo tee {file}"))
            }
        })
    });
    bridges.collect()
}

/// The maximum of both `rp_filter` applies (ip-sysctl).
pub(crate) fn reverse_path(machine: &Machine, names: &[&str]) -> Option<Finding> {
    const STRICT: u32 = 1;
    if names.len() < 2 {
        return None;
    }
    let value = |which: &str| -> u32 {
        machine.number(&format!("proc/sys/net/ipv4/conf/{which}/rp_filter")).unwrap_or(0)
    };
    let all = value("all");
    let is_strict = |name: &&&str| all.max(value(name)) == STRICT;
    let strict: Vec<_> = names.iter().filter(is_strict).copied().collect();
    if strict.is_empty() {
        return Some(Finding::passed("packets may arrive via another interface than the way back"));
    }
    let what =
        format!("{} drops packets whose replies use another interface", strict.join(" and "));
    let why = "a group, or the second of two networks, is not received there (rp_filter)";
    let ones: String =
        strict.iter().map(|name| format!(" net.ipv4.conf.{name}.rp_filter=2")).collect();
    let fix = format!("sudo sysctl -w net.ipv4.conf.all.rp_filter=2{ones}");
    Some(Finding::new(Warning, what, why).fix(fix))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    const HEAD: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n";
    const LOCAL: &str = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
    const DEFAULT: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\n";
    const GROUPS: &str = "eth1\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\n";

    #[test]
    fn groups_need_a_default_route_or_one_of_their_own() {
        let judged = |lines: &[&str]| {
            let table = HEAD.to_owned() + &lines.concat();
            route(&Machine::of(&[("proc/net/route", &*table)]), &["eth0"])
        };
        let found = judged(&[LOCAL]);
        snapshot!(found.fix.unwrap());
        assert!(judged(&[LOCAL, DEFAULT]).message.contains("uses eth0"));
        assert!(judged(&[LOCAL, GROUPS]).message.contains("uses eth1"));
    }

    #[test]
    fn old_igmp_version_is_reported_with_its_querier() {
        let table = |version: &str| {
            format!(
                "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                 1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                 4\teth0      :     1      {version}\n\t\t\t\t010000E0     1 0:00000000\t\t0"
            )
        };
        let judged = |version: &str, files: &[(&str, &str)]| {
            let table = table(version);
            let files = [files, &[("proc/net/igmp", &*table)]].concat();
            igmp(&Machine::of(&files), "eth0")
        };
        assert_eq!(judged("V3", &[]).unwrap().verdict, Passed);
        let found = judged("V2", &[]).unwrap();
        assert_eq!(found.verdict, Passed);
        snapshot!(found.message);
        let forced = [("proc/sys/net/ipv4/conf/all/force_igmp_version", "2")];
        let found = judged("V3", &forced).unwrap();
        snapshot!(found.message);
        assert!(igmp(&Machine::empty(), "eth1").is_none());
    }

    #[test]
    fn bridge_that_snoops_without_a_querier_is_reported() {
        let judged = |snooping: &str, querier: &str| {
            let folder = "sys/class/net/br0/bridge/multicast_";
            let [snoops, queries] = ["snooping", "querier"].map(|file| format!("{folder}{file}"));
            let files =
                [(&*snoops, snooping), (&*queries, querier), ("sys/class/net/eth0/mtu", "1")];
            let [found] = snooping_of(&files);
            found
        };
        assert_eq!(judged("0", "0").verdict, Passed);
        assert_eq!(judged("1", "1").verdict, Passed);
        let found = judged("1", "0");
        assert_eq!(found.verdict, Warning);
        snapshot!(found.fix.unwrap());
    }

    fn snooping_of(files: &[(&str, &str)]) -> [Finding; 1] {
        snooping(&Machine::of(files)).try_into().unwrap()
    }

    #[test]
    fn a_strict_reverse_path_matters_where_there_are_two_networks() {
        let files = [
            ("proc/sys/net/ipv4/conf/all/rp_filter", "0"),
            ("proc/sys/net/ipv4/conf/eth1/rp_filter", "1"),
        ];
        let machine = Machine::of(&files);
        let judged = |names: &[&str]| reverse_path(&machine, names);
        assert_eq!(judged(&["eth1"]), None);
        let found = judged(&["eth0", "eth1"]).unwrap();
        assert!(found.message.starts_with("eth1 drops"), "{found:?}");
        assert_eq!(judged(&["eth0", "eth2"]).unwrap().verdict, Passed);
    }
}
