//! How packets leave and arrive: interfaces, their queues, and how they gather packets.

use tautline_engine::plan::pacing::{PacingRung, heeded};
use tautline_io::network::ethtool::{Moderation, moderation};
use tautline_io::network::qdisc::{QdiscPlace, QueueDiscipline, queue_disciplines};
use tautline_proto::time::Span;

use super::disciplines::{Discipline, Lacking};
use super::interface::Interface;
use super::root::Root;
use super::{Finding, Requirements, Verdict, packets};

pub(crate) fn check(root: &Root, interfaces: &[Interface], asked: &Requirements) -> Vec<Finding> {
    if interfaces.is_empty() {
        let what = "no network interface is up";
        let why = "sound goes no further than this machine";
        let finding = Finding::of(Verdict::Warns, "network", what, why);
        return vec![finding.seen_by("ip -brief link")];
    }
    let queues = queue_disciplines().unwrap_or_default();
    let lacking = Lacking::read(root);
    let mut found = Vec::new();
    for interface in interfaces {
        found.extend(wireless(interface, asked));
        found.push(queue(interface, &queues, &lacking));
        found.extend(pacing(interface, &queues, &lacking));
        let moderation = moderation(&interface.name).ok();
        found.extend(moderation.map(|moderation| gathered(interface, &moderation, asked)));
        found.push(packets::longest(interface, asked));
    }
    found.push(packets::buffers(root, asked));
    found
}

/// What Wi-Fi takes to send a packet again, some times over: what `taut lab impair` has as wifi-5ghz.
const WIRELESS: Span = Span::from_millis(30);

fn wireless(interface: &Interface, asked: &Requirements) -> Option<Finding> {
    let name = &interface.name;
    if !interface.is_wireless {
        return None;
    }
    if asked.latency >= WIRELESS {
        return Some(Finding::fine(
            "wifi",
            format!("{name} is Wi-Fi, and {} may do", asked.latency),
        ));
    }
    let what = format!("{name} is Wi-Fi");
    let why = format!(
        "packets that are sent again, and a card that saves power, take more than {}; use a cable, \
         or --latency 40ms --redundancy auto",
        asked.latency
    );
    let finding = Finding::of(Verdict::Spoils, "wifi", what, why);
    Some(finding.mended_by(format!("sudo iw dev {name} set power_save off")))
}

fn queue(interface: &Interface, all: &[QueueDiscipline], lacking: &Lacking) -> Finding {
    const CHECK: &str = "qdisc";
    let name = &interface.name;
    let of_it = |place: QdiscPlace| {
        let queues = all.iter().filter(move |queue| queue.interface == interface.index);
        queues.filter(move |queue| queue.place == place).map(|queue| queue.kind.as_str())
    };
    let Some(root) = of_it(QdiscPlace::Root).next() else {
        let what = format!("the queue of {name} is not to be seen");
        let finding = Finding::of(Verdict::Unknown, CHECK, what, "some queues hold packets back");
        return finding.seen_by(format!("tc qdisc show dev {name}"));
    };
    // A card with several queues of its own: what matters hangs below.
    let kind = if root == "mq" { of_it(QdiscPlace::Below).next().unwrap_or(root) } else { root };
    let what = format!("{name} has {kind}");
    let fair = fairest(lacking);
    let to_fair = format!("sudo tc qdisc replace dev {name} root {fair}");
    let bad =
        |verdict, why: &str| Finding::of(verdict, CHECK, what.clone(), why).mended_by(&to_fair);
    match kind {
        // taut's sockets ask for the first band of pfifo_fast and prio (SO_PRIORITY).
        "fq" | "fq_codel" | "cake" | "noqueue" | "mq" | "mqprio" | "taprio" | "cbs" | "prio"
        | "pfifo_fast" => Finding::fine(CHECK, what),
        "pfifo" | "bfifo" | "fifo" => {
            bad(Verdict::Warns, "sound waits behind everything that was to be sent before")
        }
        "etf" if root == "etf" => {
            let why = "it drops all that has no launch time, the questions for addresses (ARP) among it: who is \
                       not known any more is not found again";
            let found = Finding::of(Verdict::Warns, CHECK, what, why);
            found.mended_by(etf_below(name, lacking).unwrap_or(to_fair))
        }
        "netem" => bad(Verdict::Spoils, "it delays or loses packets on purpose"),
        "tbf" | "htb" | "hfsc" => bad(
            Verdict::Warns,
            "it holds packets back that exceed a rate: sound comes late in bursts",
        ),
        _ => Finding::fine(CHECK, what),
    }
}

/// The queue that keeps sound waiting least, of those that this kernel has: of `pfifo_fast`, which none lacks, it is the
/// first band.
fn fairest(lacking: &Lacking) -> &'static str {
    let fair = [Discipline::Fq, Discipline::FqCodel].into_iter().find(|one| !lacking.has(*one));
    fair.map_or("pfifo_fast", Discipline::name)
}

/// What keeps launch times on the way out, and what would keep them better, if this kernel has that.
fn pacing(interface: &Interface, all: &[QueueDiscipline], lacking: &Lacking) -> Option<Finding> {
    const CHECK: &str = "pacing";
    let name = &interface.name;
    let mut of_it = all.iter().filter(|queue| queue.interface == interface.index).peekable();
    of_it.peek()?;
    let has_etf = of_it.any(|queue| queue.kind == "etf");
    let (what, better) = match heeded(all, interface.index).first() {
        Some(PacingRung::Offload) => {
            let what = format!("the card of {name} is told to launch packets itself");
            return Some(Finding::fine(CHECK, what));
        }
        Some(PacingRung::Etf) => {
            let what = format!("{name} keeps launch times by etf, to some microseconds");
            (what, offloaded(name, lacking))
        }
        Some(_) => {
            let what = format!("{name} keeps launch times by fq, to some ten microseconds");
            (what, etf_below(name, lacking))
        }
        None if has_etf => {
            let what = format!("{name} has an etf by another clock than TAI, or by deadlines");
            let why = "it drops what has no such time, and taut launches by none of them";
            let mend = etf_below(name, lacking).unwrap_or_else(|| {
                format!("sudo tc qdisc replace dev {name} root {}", fairest(lacking))
            });
            return Some(Finding::of(Verdict::Warns, CHECK, what, why).mended_by(mend));
        }
        None => {
            let what = format!(
                "{name} keeps no launch times: packets leave when a thread hands them over"
            );
            match lacking.has(Discipline::Fq) {
                false => (what, Some(format!("sudo tc qdisc replace dev {name} root fq"))),
                true => (format!("{what}, and this kernel has no fq"), etf_below(name, lacking)),
            }
        }
    };
    let found = Finding::fine(CHECK, what);
    Some(match better {
        Some(better) => found.bettered_by(better),
        None => found,
    })
}

/// ETF for what has the priority of class A, as taut's AVTP does, and a queue that is fair for all else.
fn etf_below(name: &str, lacking: &Lacking) -> Option<String> {
    if [Discipline::Prio, Discipline::Etf].into_iter().any(|one| lacking.has(one)) {
        return None;
    }
    Some(format!(
        "sudo tc qdisc replace dev {name} root handle 100: prio bands 3 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 \
         && sudo tc qdisc replace dev {name} parent 100:1 etf clockid CLOCK_TAI delta 300000 \
         && sudo tc qdisc replace dev {name} parent 100:2 {}",
        fairest(lacking)
    ))
}

/// The same by the card, for cards that can: whether one does nobody tells before it is tried.
fn offloaded(name: &str, lacking: &Lacking) -> Option<String> {
    if lacking.has(Discipline::Mqprio) {
        return None;
    }
    Some(format!(
        "sudo tc qdisc replace dev {name} root handle 100: mqprio num_tc 2 map 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1 \
         queues 1@0 1@1 hw 0 && sudo tc qdisc replace dev {name} parent 100:1 etf clockid CLOCK_TAI delta 300000 \
         offload  # perhaps: few cards can, and their clock must be kept in step (phc2sys)"
    ))
}

/// A card that gathers packets for more than this part of the latency costs more than it saves.
const GATHERED_PART: i64 = 20;

fn gathered(interface: &Interface, moderation: &Moderation, asked: &Requirements) -> Finding {
    const CHECK: &str = "interrupt-moderation";
    let (name, delay) = (&interface.name, moderation.delay);
    let what = match (delay, moderation.adaptive) {
        (Span::ZERO, false) => format!("{name} interrupts for packets at once"),
        (_, false) => format!("{name} gathers packets for up to {delay} before it interrupts"),
        (_, true) => format!("{name} gathers packets as the load is, for up to {delay} now"),
    };
    if delay <= asked.latency.divided(GATHERED_PART) {
        return Finding::fine(CHECK, what);
    }
    let verdict = if delay > asked.latency.half() { Verdict::Spoils } else { Verdict::Warns };
    let why = format!("each packet may wait so long, of the {} there are", asked.latency);
    let adaptive = if moderation.adaptive { " adaptive-rx off" } else { "" };
    let mend = format!("sudo ethtool -C {name}{adaptive} rx-usecs 0");
    Finding::of(verdict, CHECK, what, why).mended_by(mend)
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use crate::root::fake::Machine;
    use crate::tests::asked;
    use tautline_io::network::qdisc::EtfSettings;

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
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let eth0 = Interface { interrupts: vec![41], ..Interface::wired("eth0") };
        let wlan0 = Interface { is_wireless: true, ..Interface::wired("wlan0") };
        assert_eq!(crate::interface::in_use(&Machine::of(&files).root()), [eth0, wlan0.clone()]);
        assert_eq!(wireless(&wlan0, &asked(5)).unwrap().verdict, Verdict::Spoils);
        assert_eq!(wireless(&wlan0, &asked(40)).unwrap().verdict, Verdict::Fine);
    }

    fn queued(kind: &str, place: QdiscPlace) -> QueueDiscipline {
        QueueDiscipline { interface: 2, kind: kind.to_owned(), place, etf: None }
    }

    #[test]
    fn a_queue_is_judged_by_what_it_does_to_sound() {
        for (kind, verdict) in [
            ("fq", Verdict::Fine),
            ("noqueue", Verdict::Fine),
            ("fq_codel", Verdict::Fine),
            ("pfifo_fast", Verdict::Fine),
            ("pfifo", Verdict::Warns),
            ("tbf", Verdict::Warns),
            ("etf", Verdict::Warns),
            ("netem", Verdict::Spoils),
        ] {
            let queued = [queued(kind, QdiscPlace::Root)];
            let found = queue(&Interface::wired("eth0"), &queued, &Lacking::default());
            assert_eq!(found.verdict, verdict, "{kind}");
            assert_eq!(found.what, format!("eth0 has {kind}"));
        }
        let below = [queued("mq", QdiscPlace::Root), queued("pfifo", QdiscPlace::Below)];
        let found = queue(&Interface::wired("eth0"), &below, &Lacking::default());
        assert_eq!((&*found.what, found.verdict), ("eth0 has pfifo", Verdict::Warns));
        let other = QueueDiscipline { interface: 3, ..queued("fq", QdiscPlace::Root) };
        let elsewhere = [other, queued("fq", QdiscPlace::Ingress)];
        let unseen = queue(&Interface::wired("eth0"), &elsewhere, &Lacking::default());
        assert_eq!(unseen.verdict, Verdict::Unknown);
    }

    #[test]
    fn what_would_keep_launch_times_better_is_told_from_rung_to_rung() {
        let told = |queues: &[QueueDiscipline]| {
            let found = pacing(&Interface::wired("eth0"), queues, &Lacking::default()).unwrap();
            assert_eq!(found.verdict, Verdict::Fine);
            found.better().map(str::to_owned)
        };
        let root = |kind| queued(kind, QdiscPlace::Root);
        let fq = "sudo tc qdisc replace dev eth0 root fq";
        assert_eq!(told(&[root("fq_codel")]).as_deref(), Some(fq));
        let lines = told(&[root("fq")]).unwrap();
        assert!(lines.contains("parent 100:1 etf clockid CLOCK_TAI"), "{lines}");
        let (delta, by_tai, deadlines) = (Span::from_micros(300), true, false);
        let etf = EtfSettings { delta, by_tai, deadlines, offload: false };
        let below = |etf| {
            [root("prio"), QueueDiscipline { etf: Some(etf), ..queued("etf", QdiscPlace::Below) }]
        };
        assert!(told(&below(etf)).unwrap().contains("CLOCK_TAI delta 300000 offload"));
        assert_eq!(told(&below(EtfSettings { offload: true, ..etf })), None);
        for useless in
            [EtfSettings { by_tai: false, ..etf }, EtfSettings { deadlines: true, ..etf }]
        {
            let interface = Interface::wired("eth0");
            let found = pacing(&interface, &below(useless), &Lacking::default()).unwrap();
            assert_eq!(found.verdict, Verdict::Warns, "{}", found.what);
        }
        assert_eq!(pacing(&Interface::wired("eth0"), &[], &Lacking::default()), None);
    }

    #[test]
    fn no_queue_is_advised_that_the_kernel_lacks() {
        use Discipline::{Etf, Fq, FqCodel, Mqprio, Prio};
        let eth0 = Interface::wired("eth0");
        let root = |kind| [queued(kind, QdiscPlace::Root)];
        let lacking = Lacking::of;
        let mend = |lacks: &[Discipline]| {
            queue(&eth0, &root("pfifo"), &lacking(lacks)).mend().map(str::to_owned).unwrap()
        };
        assert!(mend(&[Fq]).ends_with("root fq_codel"));
        assert!(mend(&[Fq, FqCodel]).ends_with("root pfifo_fast"));
        let etf = queue(&eth0, &root("etf"), &lacking(&[Fq, Prio]));
        snapshot!(etf.mend().unwrap());
        let better = |kind, lacks: &[Discipline]| {
            let found = pacing(&eth0, &root(kind), &lacking(lacks)).unwrap();
            (found.better().map(str::to_owned), found.what)
        };
        let (line, what) = better("pfifo_fast", &[Fq]);
        let line = line.unwrap();
        assert!(line.contains("parent 100:1 etf") && line.ends_with("100:2 fq_codel"), "{line}");
        snapshot!(what);
        assert_eq!(better("pfifo_fast", &[Fq, Etf]).0, None);
        assert_eq!(better("fq", &[Etf, Mqprio]).0, None);
    }

    #[test]
    fn a_card_that_gathers_is_judged_by_the_latency() {
        let judged = |micros, adaptive, millis| {
            let delay = Span::from_micros(micros);
            let moderation = Moderation { delay, packets: 0, adaptive };
            gathered(&Interface::wired("eth0"), &moderation, &asked(millis))
        };
        assert_eq!(judged(3, false, 5).verdict, Verdict::Fine);
        assert_eq!(judged(250, false, 5).verdict, Verdict::Fine);
        let found = judged(1000, true, 5);
        assert_eq!(found.verdict, Verdict::Warns);
        snapshot!(found.mend().unwrap());
        assert_eq!(judged(3000, false, 5).verdict, Verdict::Spoils);
        assert_eq!(judged(3000, false, 100).verdict, Verdict::Fine);
    }
}
