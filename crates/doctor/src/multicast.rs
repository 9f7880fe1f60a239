//! Whether groups can be sent to and heard.

use super::interface::Interface;
use super::root::Root;
use super::{Finding, Verdict};

pub(crate) fn check(root: &Root, interfaces: &[Interface]) -> Vec<Finding> {
    if interfaces.is_empty() {
        return Vec::new();
    }
    let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let routes = root.read("proc/net/route").unwrap_or_default();
    let table = root.read("proc/net/igmp").unwrap_or_default();
    let mut found = vec![route(&routes, &names)];
    found.extend(names.iter().filter_map(|name| igmp(name, &Igmp::read(root, &table, name))));
    found.extend(reverse_path(&filters(root, &names)));
    found
}

/// Whether a group has a way out without `?iface=`. Figures are in hexadecimal, in the order of the
/// network as a little-endian machine reads it.
fn route(routes: &str, names: &[&str]) -> Finding {
    const CHECK: &str = "multicast-route";
    let group = u32::from_ne_bytes([224, 0, 0, 1]);
    let by = routes.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, mask) = (number(1)?, number(7)?);
        (group & mask == destination).then(|| fields[0].to_owned())
    });
    if let Some(by) = by {
        return Finding::fine(CHECK, format!("groups are reached by {by} where no iface is named"));
    }
    let name = names.first().copied().unwrap_or("eth0");
    let what = "there is no route to multicast groups";
    let why = "groups are reached and joined with ?iface= alone";
    Finding::of(Verdict::Warns, CHECK, what, why)
        .mended_by(format!("sudo ip route add 224.0.0.0/4 dev {name}"))
}

/// How groups are joined by an interface.
#[derive(Debug, PartialEq, Eq)]
struct Igmp {
    spoken: Option<String>,
    /// The version that somebody set; 0 if nobody did.
    forced: u32,
}

impl Igmp {
    fn read(root: &Root, table: &str, name: &str) -> Self {
        let spoken = table.lines().find_map(|line| {
            let (before, after) = line.split_once(':')?;
            let known = before.split_whitespace().nth(1) == Some(name);
            known.then(|| after.split_whitespace().nth(1).unwrap_or("").to_owned())
        });
        let forced = ["all", name].map(|which| {
            let path = format!("proc/sys/net/ipv4/conf/{which}/force_igmp_version");
            root.number(&path).unwrap_or(0)
        });
        Self { spoken, forced: forced[0].max(forced[1]) }
    }
}

fn igmp(name: &str, igmp: &Igmp) -> Option<Finding> {
    const CHECK: &str = "igmp";
    let spoken = igmp.spoken.as_deref()?;
    if spoken == "V3" && matches!(igmp.forced, 0 | 3) {
        return Some(Finding::fine(CHECK, format!("{name} joins groups by IGMPv3")));
    }
    let version = spoken.trim_start_matches('V');
    let why =
        "the network is not told of source=, and switches may hand on every sender of a group";
    if igmp.forced == 0 {
        let what = format!(
            "{name} joins groups by IGMPv{version}, as a router there asks: the network is not told \
             of source="
        );
        return Some(Finding::fine(CHECK, what));
    }
    let what = format!("{name} joins groups by IGMPv{}, as somebody set", igmp.forced);
    let mend = format!(
        "sudo sysctl -w net.ipv4.conf.all.force_igmp_version=0 \
         net.ipv4.conf.{name}.force_igmp_version=0"
    );
    Some(Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend))
}

/// `rp_filter` of each interface: the greater of its own and that of all (ip-sysctl).
fn filters(root: &Root, names: &[&str]) -> Vec<(String, u32)> {
    let value = |which: &str| -> u32 {
        root.number(&format!("proc/sys/net/ipv4/conf/{which}/rp_filter")).unwrap_or(0)
    };
    let all = value("all");
    names.iter().map(|name| ((*name).to_owned(), all.max(value(name)))).collect()
}

fn reverse_path(filters: &[(String, u32)]) -> Option<Finding> {
    const CHECK: &str = "reverse-path";
    const STRICT: u32 = 1;
    let strict: Vec<_> = filters.iter().filter(|(_, how)| *how == STRICT).collect();
    if filters.len() < 2 {
        return None;
    }
    if strict.is_empty() {
        return Some(Finding::fine(
            CHECK,
            "packets may come by another interface than the way back",
        ));
    }
    let names: Vec<_> = strict.iter().map(|(name, _)| name.as_str()).collect();
    let what = format!("{} drops what would be answered by another interface", names.join(" and "));
    let why = "a group, or the second of two networks, is not heard there (rp_filter)";
    let ones: String =
        names.iter().map(|name| format!(" net.ipv4.conf.{name}.rp_filter=2")).collect();
    let mend = format!("sudo sysctl -w net.ipv4.conf.all.rp_filter=2{ones}");
    Some(Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend))
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;

    const HEAD: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n";
    const LOCAL: &str = "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
    const DEFAULT: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\n";
    const GROUPS: &str = "eth1\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\n";

    #[test]
    fn groups_need_a_default_route_or_one_of_their_own() {
        let judged = |lines: &[&str]| route(&(HEAD.to_owned() + &lines.concat()), &["eth0"]);
        let found = judged(&[LOCAL]);
        snapshot!(found.mend().unwrap());
        assert!(judged(&[LOCAL, DEFAULT]).what.contains("by eth0"));
        assert!(judged(&[LOCAL, GROUPS]).what.contains("by eth1"));
    }

    #[test]
    fn an_old_igmp_is_told_with_who_asked_for_it() {
        let table = |version: &str| {
            format!(
                "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
                 1\tlo        :     1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n\
                 4\teth0      :     1      {version}\n\t\t\t\t010000E0     1 0:00000000\t\t0"
            )
        };
        let judged = |version: &str, files: &[(&str, &str)]| {
            let read = Igmp::read(&Machine::of(files).root(), &table(version), "eth0");
            igmp("eth0", &read)
        };
        assert_eq!(judged("V3", &[]).unwrap().verdict, Verdict::Fine);
        let found = judged("V2", &[]).unwrap();
        assert_eq!(found.verdict, Verdict::Fine);
        snapshot!(found.what);
        let forced = [("proc/sys/net/ipv4/conf/all/force_igmp_version", "2")];
        let found = judged("V3", &forced).unwrap();
        snapshot!(found.what);
        assert!(igmp("eth1", &Igmp { spoken: None, forced: 0 }).is_none());
    }

    #[test]
    fn a_strict_reverse_path_matters_where_there_are_two_networks() {
        let files = [
            ("proc/sys/net/ipv4/conf/all/rp_filter", "0"),
            ("proc/sys/net/ipv4/conf/eth1/rp_filter", "1"),
        ];
        let root = Machine::of(&files);
        let judged = |names: &[&str]| reverse_path(&filters(&root.root(), names));
        assert_eq!(judged(&["eth1"]), None);
        let found = judged(&["eth0", "eth1"]).unwrap();
        assert!(found.what.starts_with("eth1 drops"), "{found:?}");
        assert_eq!(judged(&["eth0", "eth2"]).unwrap().verdict, Verdict::Fine);
    }
}
