//! Network interfaces: queues, packet size and interrupt moderation.

use tautline_engine::plan::pacing::{PacingMode, heeded};
use tautline_io::network::ethtool::Moderation;
use tautline_io::network::qdisc::{QdiscPlace, QueueDiscipline};
use tautline_proto::time::Span;

use crate::Verdict::{Failure, Unknown, Warning};
use crate::{Finding, Machine, kernel};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mtu: usize,
    pub(crate) is_wireless: bool,
    pub(crate) interrupts: Vec<u32>,
}

#[cfg(test)]
impl Interface {
    pub(crate) fn wired(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, index: 2, mtu: 1500, is_wireless: false, interrupts: Vec::new() }
    }
}

/// linux/if.h.
const UP: u32 = 0x1;
const LOOPBACK: u32 = 0x8;

pub(crate) fn interfaces(machine: &Machine) -> Vec<Interface> {
    const FOLDER: &str = "sys/class/net";
    let used = machine.list(FOLDER).into_iter().filter_map(|name| {
        let file = |file: &str| format!("{FOLDER}/{name}/{file}");
        let flags = machine.read(&file("flags"))?;
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()?;
        let is_down = machine.read(&file("operstate")).as_deref() == Some("down");
        // A virtual bridge port: the bridge itself is checked.
        let is_port = machine.has(&file("brport")) && !machine.has(&file("device"));
        if flags & UP == 0 || flags & LOOPBACK != 0 || is_down || is_port {
            return None;
        }
        // A virtio device has them one folder up.
        let folders = ["device/msi_irqs", "device/../msi_irqs"];
        let interrupts = folders.map(|folder| machine.list(&file(folder)));
        let interrupts = interrupts.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        Some(Interface {
            index: machine.number(&file("ifindex"))?,
            mtu: machine.number(&file("mtu"))?,
            is_wireless: machine.has(&file("phy80211")) || machine.has(&file("wireless")),
            interrupts: interrupts.iter().filter_map(|number| number.parse().ok()).collect(),
            name,
        })
    });
    used.collect()
}

/// Disciplines that fixes use, but this kernel lacks. Empty if unknown.
pub(crate) fn lacking(machine: &Machine) -> Vec<&'static str> {
    let release = kernel::release(machine);
    let list = |name: &str| machine.read(&format!("lib/modules/{release}/{name}"));
    let lists = list("modules.builtin").zip(list("modules.dep"));
    let config = if lists.is_some() { String::new() } else { kernel::config(machine) };
    let lacks = |name: &&str| {
        let module = format!("sch_{name}");
        if machine.has(&format!("sys/module/{module}")) {
            return false;
        }
        match &lists {
            Some((built_in, loadable)) => {
                // Modules may be compressed: sch_fq.ko.xz.
                let file = format!("/{module}.ko");
                ![built_in, loadable].iter().any(|list| list.contains(&file))
            }
            None => {
                let unset = format!("# CONFIG_NET_{} is not set", module.to_uppercase());
                config.lines().any(|line| line == unset)
            }
        }
    };
    ["fq", "fq_codel", "etf", "prio", "mqprio"].into_iter().filter(lacks).collect()
}

pub(crate) fn none() -> Finding {
    let why = "sound cannot leave this machine";
    Finding::new(Warning, "no network interface is up", why).details("ip -brief link")
}

/// Sufficient latency over Wi-Fi: several retransmissions.
const WIRELESS: Span = Span::from_millis(30);

pub(crate) fn wireless(interface: &Interface, latency: Span) -> Option<Finding> {
    let name = &interface.name;
    if !interface.is_wireless {
        return None;
    }
    if latency >= WIRELESS {
        return Some(Finding::passed(format!("{name} is Wi-Fi; {latency} may be enough")));
    }
    let why = format!(
        "retransmissions and power saving delay packets by more than {latency}; use a cable, or \
         --latency 40ms --redundancy auto"
    );
    let fix = format!("sudo iw dev {name} set power_save off");
    Some(Finding::new(Failure, format!("{name} is Wi-Fi"), why).fix(fix))
}

pub(crate) fn queue(interface: &Interface, all: &[QueueDiscipline], lacking: &[&str]) -> Finding {
    let name = &interface.name;
    let of_it = |place: QdiscPlace| {
        let queues = all.iter().filter(move |queue| queue.interface == interface.index);
        queues.filter(move |queue| queue.place == place).map(|queue| queue.kind.as_str())
    };
    let Some(root) = of_it(QdiscPlace::Root).next() else {
        let what = format!("cannot read the queue of {name}");
        let finding = Finding::new(Unknown, what, "some queues delay packets");
        return finding.details(format!("tc qdisc show dev {name}"));
    };
    // With several queues, the queue below the root matters.
    let kind = if root == "mq" { of_it(QdiscPlace::Below).next().unwrap_or(root) } else { root };
    let what = format!("{name} has {kind}");
    let to_fair = format!("sudo tc qdisc replace dev {name} root {}", fairest(lacking));
    let bad = |verdict, why: &str| Finding::new(verdict, what.clone(), why).fix(&to_fair);
    match kind {
        // taut's sockets request the first band (SO_PRIORITY).
        "fq" | "fq_codel" | "cake" | "noqueue" | "mq" | "mqprio" | "taprio" | "cbs" | "prio"
        | "pfifo_fast" => Finding::passed(what),
        "pfifo" | "bfifo" | "fifo" => {
            bad(Warning, "sound waits behind all packets queued before it")
        }
        "etf" if root == "etf" => {
            let why = "it drops packets without a launch time, including ARP: hosts that leave \
                       the ARP cache become unreachable";
            let found = Finding::new(Warning, what, why);
            found.fix(etf_below(name, lacking).unwrap_or(to_fair))
        }
        "netem" => bad(Failure, "it delays or loses packets on purpose"),
        "tbf" | "htb" | "hfsc" => {
            bad(Warning, "it delays packets above a rate: sound arrives late in bursts")
        }
        _ => Finding::passed(what),
    }
}

/// Every kernel has `pfifo_fast`.
fn fairest(lacking: &[&str]) -> &'static str {
    let fair = ["fq", "fq_codel"].into_iter().find(|one| !lacking.contains(one));
    fair.unwrap_or("pfifo_fast")
}

pub(crate) fn pacing(
    interface: &Interface,
    all: &[QueueDiscipline],
    lacking: &[&str],
) -> Option<Finding> {
    let name = &interface.name;
    let mut of_it = all.iter().filter(|queue| queue.interface == interface.index).peekable();
    of_it.peek()?;
    let has_etf = of_it.any(|queue| queue.kind == "etf");
    let (what, improvement) = match heeded(all, interface.index).first() {
        Some(PacingMode::Offload) => {
            (format!("the card of {name} is configured to launch packets itself"), None)
        }
        Some(PacingMode::Etf) => {
            let what = format!("{name} supports launch times with etf, to a few microseconds");
            (what, offloaded(name, lacking))
        }
        Some(_) => {
            let what = format!("{name} supports launch times with fq, to some ten microseconds");
            (what, etf_below(name, lacking))
        }
        None if has_etf => {
            let what = format!(
                "{name} has an etf queue with another clock than TAI, or in \
                                deadline mode"
            );
            let why = "it drops packets without such a time, and taut sets none";
            let fix = etf_below(name, lacking).unwrap_or_else(|| {
                format!("sudo tc qdisc replace dev {name} root {}", fairest(lacking))
            });
            return Some(Finding::new(Warning, what, why).fix(fix));
        }
        None => {
            let what = format!(
                "{name} does not support launch times: packets leave when a thread sends them"
            );
            if lacking.contains(&"fq") {
                (what + ", and this kernel has no fq", etf_below(name, lacking))
            } else {
                (what, Some(format!("sudo tc qdisc replace dev {name} root fq")))
            }
        }
    };
    Some(Finding { improvement, ..Finding::passed(what) })
}

/// ETF for class A, as of taut's AVTP, and a fair queue for the rest.
fn etf_below(name: &str, lacking: &[&str]) -> Option<String> {
    if lacking.contains(&"prio") || lacking.contains(&"etf") {
        return None;
    }
    Some(format!(
        "sudo tc qdisc replace dev {name} root handle 100: prio bands 3 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 \
         && sudo tc qdisc replace dev {name} parent 100:1 etf clockid CLOCK_TAI delta 300000 \
         && sudo tc qdisc replace dev {name} parent 100:2 {}",
        fairest(lacking)
    ))
}

fn offloaded(name: &str, lacking: &[&str]) -> Option<String> {
    if lacking.contains(&"mqprio") {
        return None;
    }
    Some(format!(
        "sudo tc qdisc replace dev {name} root handle 100: mqprio num_tc 2 map 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 \
         queues 1@0 1@1 hw 0 && sudo tc qdisc replace dev {name} parent 100:1 etf clockid CLOCK_TAI delta 300000 \
         offload  # perhaps: few cards can, and their clock must be kept in step (phc2sys)"
    ))
}

/// Divisor of the latency: acceptable interrupt delay.
const GATHERED_PART: i64 = 20;

pub(crate) fn moderated(interface: &Interface, moderation: &Moderation, latency: Span) -> Finding {
    let (name, delay) = (&interface.name, moderation.delay);
    let what = match (delay, moderation.adaptive) {
        (Span::ZERO, false) => format!("{name} interrupts immediately for packets"),
        (_, false) => format!("{name} delays interrupts for up to {delay} to collect packets"),
        (_, true) => format!("{name} adapts its interrupt delay to the load, up to {delay} now"),
    };
    if delay <= latency.divided(GATHERED_PART) {
        return Finding::passed(what);
    }
    let verdict = if delay > latency.half() { Failure } else { Warning };
    let why = format!("each packet may wait that long, with a latency of {latency}");
    let adaptive = if moderation.adaptive { " adaptive-rx off" } else { "" };
    let fix = format!("sudo ethtool -C {name}{adaptive} rx-usecs 0");
    Finding::new(verdict, what, why).fix(fix)
}

#[cfg(test)]
mod tests {
    use tautline_io::network::qdisc::EtfSettings;
    use tautline_trial::snapshot;

    use super::*;
    use crate::Verdict::Passed;

    const MILLIS_5: Span = Span::from_millis(5);

    #[test]
    fn interfaces_that_are_up_and_lead_out_are_in_use() {
        let file = |name: &str, file: &str| format!("sys/class/net/{name}/{file}");
        let mut files = Vec::new();
        for (name, flags, state) in [
            ("eth0", "0x1003", "up"),
            ("eth1", "0x1003", "down"),
            ("eth2", "0x1002", "down"),
            ("lo", "0x9", "unknown"),
            ("veth0", "0x1003", "up"),
            ("wlan0", "0x1003", "unknown"),
        ] {
            files.push((file(name, "flags"), flags));
            files.push((file(name, "operstate"), state));
            files.push((file(name, "ifindex"), "2"));
            files.push((file(name, "mtu"), "1500"));
        }
        files.push((file("wlan0", "wireless/x"), ""));
        files.push((file("veth0", "brport/x"), ""));
        files.push((file("eth0", "device/msi_irqs/41"), ""));
        let eth0 = Interface { interrupts: vec![41], ..Interface::wired("eth0") };
        let wlan0 = Interface { is_wireless: true, ..Interface::wired("wlan0") };
        assert_eq!(interfaces(&Machine::of(&files)), [eth0, wlan0.clone()]);
        assert_eq!(wireless(&wlan0, MILLIS_5).unwrap().verdict, Failure);
        assert_eq!(wireless(&wlan0, Span::from_millis(40)).unwrap().verdict, Passed);
    }

    fn queued(kind: &str, place: QdiscPlace) -> QueueDiscipline {
        QueueDiscipline { interface: 2, kind: kind.to_owned(), place, etf: None }
    }

    #[test]
    fn queue_is_judged_by_its_effect_on_sound() {
        for (kind, verdict) in [
            ("fq", Passed),
            ("noqueue", Passed),
            ("fq_codel", Passed),
            ("pfifo_fast", Passed),
            ("pfifo", Warning),
            ("tbf", Warning),
            ("etf", Warning),
            ("netem", Failure),
        ] {
            let queued = [queued(kind, QdiscPlace::Root)];
            let found = queue(&Interface::wired("eth0"), &queued, &[]);
            assert_eq!(found.verdict, verdict, "{kind}");
            assert_eq!(found.message, format!("eth0 has {kind}"));
        }
        let below = [queued("mq", QdiscPlace::Root), queued("pfifo", QdiscPlace::Below)];
        let found = queue(&Interface::wired("eth0"), &below, &[]);
        assert_eq!((&*found.message, found.verdict), ("eth0 has pfifo", Warning));
        let other = QueueDiscipline { interface: 3, ..queued("fq", QdiscPlace::Root) };
        let elsewhere = [other, queued("fq", QdiscPlace::Ingress)];
        let unseen = queue(&Interface::wired("eth0"), &elsewhere, &[]);
        assert_eq!(unseen.verdict, Unknown);
    }

    #[test]
    fn better_pacing_is_suggested_for_each_mode() {
        let reported = |queues: &[QueueDiscipline]| {
            let found = pacing(&Interface::wired("eth0"), queues, &[]).unwrap();
            assert_eq!(found.verdict, Passed);
            found.improvement
        };
        let root = |kind| queued(kind, QdiscPlace::Root);
        let fq = "sudo tc qdisc replace dev eth0 root fq";
        assert_eq!(reported(&[root("fq_codel")]).as_deref(), Some(fq));
        let lines = reported(&[root("fq")]).unwrap();
        assert!(lines.contains("parent 100:1 etf clockid CLOCK_TAI"), "{lines}");
        let (delta, by_tai, deadlines) = (Span::from_micros(300), true, false);
        let etf = EtfSettings { delta, by_tai, deadlines, offload: false };
        let below = |etf| {
            [root("prio"), QueueDiscipline { etf: Some(etf), ..queued("etf", QdiscPlace::Below) }]
        };
        assert!(reported(&below(etf)).unwrap().contains("CLOCK_TAI delta 300000 offload"));
        assert_eq!(reported(&below(EtfSettings { offload: true, ..etf })), None);
        for useless in
            [EtfSettings { by_tai: false, ..etf }, EtfSettings { deadlines: true, ..etf }]
        {
            let interface = Interface::wired("eth0");
            let found = pacing(&interface, &below(useless), &[]).unwrap();
            assert_eq!(found.verdict, Warning, "{}", found.message);
        }
        assert_eq!(pacing(&Interface::wired("eth0"), &[], &[]), None);
    }

    #[test]
    fn no_queue_is_advised_that_the_kernel_lacks() {
        let eth0 = Interface::wired("eth0");
        let root = |kind| [queued(kind, QdiscPlace::Root)];
        let fix = |lacks: &[&str]| queue(&eth0, &root("pfifo"), lacks).fix.unwrap();
        assert!(fix(&["fq"]).ends_with("root fq_codel"));
        assert!(fix(&["fq", "fq_codel"]).ends_with("root pfifo_fast"));
        let etf = queue(&eth0, &root("etf"), &["fq", "prio"]);
        snapshot!(etf.fix.unwrap());
        let better = |kind, lacks: &[&str]| {
            let found = pacing(&eth0, &root(kind), lacks).unwrap();
            (found.improvement, found.message)
        };
        let (line, what) = better("pfifo_fast", &["fq"]);
        let line = line.unwrap();
        assert!(line.contains("parent 100:1 etf") && line.ends_with("100:2 fq_codel"), "{line}");
        snapshot!(what);
        assert_eq!(better("pfifo_fast", &["fq", "etf"]).0, None);
        assert_eq!(better("fq", &["etf", "mqprio"]).0, None);
    }

    #[test]
    fn a_card_that_gathers_is_judged_by_the_latency() {
        let judged = |micros, adaptive, millis| {
            let delay = Span::from_micros(micros);
            let moderation = Moderation { delay, packets: 0, adaptive };
            moderated(&Interface::wired("eth0"), &moderation, Span::from_millis(millis))
        };
        assert_eq!(judged(3, false, 5).verdict, Passed);
        assert_eq!(judged(250, false, 5).verdict, Passed);
        let found = judged(1000, true, 5);
        assert_eq!(found.verdict, Warning);
        snapshot!(found.fix.unwrap());
        assert_eq!(judged(3000, false, 5).verdict, Failure);
        assert_eq!(judged(3000, false, 100).verdict, Passed);
    }

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-9\n");

    fn lacks(files: &[(&str, &str)]) -> Vec<&'static str> {
        lacking(&Machine::of(&[&[RELEASE], files].concat()))
    }

    #[test]
    fn missing_qdisc_is_not_loaded_built_in_or_a_module() {
        let built_in =
            ("lib/modules/6.1.0-9/modules.builtin", "kernel/net/sched/sch_fq_codel.ko\n");
        let loadable = (
            "lib/modules/6.1.0-9/modules.dep",
            "kernel/net/sched/sch_prio.ko.xz:\nkernel/net/sched/sch_mqprio.ko.xz: kernel/a/b.ko.xz\n",
        );
        assert_eq!(lacks(&[built_in, loadable]), ["fq", "etf"]);
        let loaded = ("sys/module/sch_fq/refcnt", "2\n");
        assert_eq!(lacks(&[built_in, loadable, loaded]), ["etf"]);
    }

    #[test]
    fn missing_qdiscs_come_from_the_kernel_config() {
        let config = (
            "boot/config-6.1.0-9",
            "CONFIG_NET_SCH_FQ_CODEL=y\n# CONFIG_NET_SCH_FQ is not set\nCONFIG_NET_SCH_PRIO=m\n",
        );
        assert_eq!(lacks(&[config]), ["fq"]);
        assert!(lacks(&[]).is_empty());
        assert!(lacks(&[("lib/modules/6.1.0-9/modules.dep", "")]).is_empty());
    }
}
