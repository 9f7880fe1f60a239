use std::net::SocketAddr;

use tautline_api::call::CALL_PORT;
use tautline_api::trust::pairing::PAIRING_PORT;
use tautline_api::v1::NODE_PORT;

use crate::Verdict::{Failure, Passed, Unknown, Warning};
use crate::machine::run;
use crate::{Finding, Machine};

mod iptables;
mod nft;

use nft::{ACCEPTED, AwaitedPacket, Chain, REFUSED, fates};

#[derive(Debug, Clone, Copy)]
pub struct Awaited {
    /// Name and number.
    pub protocol: [&'static str; 2],
    /// First and second port (RTP and RTCP of streams); equal if there is only one.
    pub ports: [u16; 2],
    /// IP version; `None` for both.
    pub v6: Option<bool>,
}

/// Ports in `taut`'s examples.
pub const USUAL: Awaited = Awaited { protocol: ["udp", "17"], ports: [5004, 5005], v6: None };
/// Last UDP port of calls, for the eighth caller.
const LAST_CALL_PORT: u16 = CALL_PORT + 7;
/// Ports of calls, of the first caller's sound, and of pairing.
const CALLED: [Awaited; 3] = [
    Awaited { protocol: ["tcp", "6"], ports: [CALL_PORT; 2], ..USUAL },
    Awaited { ports: [CALL_PORT; 2], ..USUAL },
    Awaited { protocol: ["tcp", "6"], ports: [PAIRING_PORT; 2], ..USUAL },
];

pub enum Rules {
    /// Output of `nft list ruleset`.
    Nft(String),
    Iptables(String),
    Hidden,
    /// No program to list rules, or it fails.
    NoProgram,
    NoFirewall,
}

/// Reports ports of calls only if they are blocked.
pub(crate) fn check(rules: &Rules) -> Vec<Finding> {
    let streams = core::iter::once(judge(rules, USUAL));
    let calls = CALLED.into_iter().map(|awaited| judge(rules, awaited));
    let shut = calls.filter(|call| !matches!(call.verdict, Passed | Unknown));
    // Which ports are needed depends on the use.
    let lower = |found: Finding| match found.verdict {
        Failure => Finding { verdict: Warning, ..found },
        _ => found,
    };
    streams.chain(shut).map(lower).collect()
}

/// Reports ports of a node only if they are blocked: TCP for its state, UDP of its groups.
pub(crate) fn check_node(rules: &Rules, groups: &[SocketAddr]) -> Vec<Finding> {
    let control = Awaited { protocol: ["tcp", "6"], ports: [NODE_PORT; 2], ..USUAL };
    let groups = groups.iter().map(|group| {
        let (port, v6) = (group.port(), Some(group.is_ipv6()));
        Awaited { ports: [port, port.saturating_add(1)], v6, ..USUAL }
    });
    let all = core::iter::once(control).chain(groups.filter(|it| it.ports != USUAL.ports));
    let judged = all.map(|awaited| judge(rules, awaited));
    judged.filter(|found| !matches!(found.verdict, Passed | Unknown)).collect()
}

/// Message with the fix, if the firewall may block the packets.
pub fn keeps_out(awaited: &[Awaited]) -> Option<String> {
    let machine = Machine::system();
    let rules = read(&machine);
    let judged = awaited.iter().map(|awaited| judge(&rules, *awaited));
    let found: Vec<_> =
        judged.map(|found| if machine.is_root() { found.without_sudo() } else { found }).collect();
    if let Some((what, fix)) =
        found.iter().find_map(|found| Some((&found.message, found.fix.as_ref()?)))
    {
        return Some(format!(
            "the local firewall drops it: {what}; accept it with {fix} (`taut doctor` checks more)"
        ));
    }
    match rules {
        Rules::Hidden => Some("a firewall may drop it: check with `sudo taut doctor`".into()),
        // There is no evidence of a firewall.
        Rules::NoProgram => None,
        _ => {
            let is_doubted = found.iter().any(|found| found.verdict == Unknown);
            is_doubted.then(|| "a firewall may drop it: check with `taut doctor`".into())
        }
    }
}

pub(crate) fn read(machine: &Machine) -> Rules {
    if !machine.is_root() {
        return Rules::Hidden;
    }
    // nft does not show legacy iptables rules; the kernel lists these here.
    let old = machine.read("proc/net/ip_tables_names").is_some_and(|names| !names.is_empty());
    let nft = run("nft", &["list", "ruleset"]);
    let iptables = || run("iptables-save", &[]).ok().map(Rules::Iptables);
    match nft {
        _ if old => iptables().unwrap_or(Rules::NoProgram),
        Ok(rules) => Rules::Nft(rules),
        // The kernel has no netfilter netlink.
        Err(said) if said.contains("Protocol not supported") => Rules::NoFirewall,
        Err(_) => iptables().unwrap_or(Rules::NoProgram),
    }
}

pub fn judge(rules: &Rules, awaited: Awaited) -> Finding {
    let Awaited { ports: [rtp, rtcp], protocol: [protocol, _], .. } = awaited;
    let unknown = |what: &str, look: &str| {
        let why = "if it drops UDP, nothing is received";
        Finding::new(Unknown, what, why).details(look)
    };
    let is_sound_of_calls = (protocol, rtp) == ("udp", CALL_PORT);
    match rules {
        Rules::NoFirewall => Finding::passed("this kernel has no firewall"),
        Rules::Hidden => unknown("only root can read the firewall", "sudo nft list ruleset"),
        Rules::NoProgram => {
            unknown("neither nft nor iptables-save works here", "sudo apt install nftables")
        }
        Rules::Nft(text) => {
            let fix = |chain: &str| {
                let ports = match rtcp.checked_sub(rtp) {
                    _ if is_sound_of_calls => format!("{rtp}-{LAST_CALL_PORT}"),
                    Some(0) => rtp.to_string(),
                    _ => format!("'{{ {rtp}, {rtcp} }}'"),
                };
                format!("sudo nft insert rule {chain} {protocol} dport {ports} accept")
            };
            judge_chains(&nft::chains(text), "sudo nft list ruleset", awaited, fix)
        }
        Rules::Iptables(text) => {
            let fix = |_: &str| {
                let ports = match rtcp.checked_sub(rtp) {
                    _ if is_sound_of_calls => format!("--dport {rtp}:{LAST_CALL_PORT}"),
                    Some(0) => format!("--dport {rtp}"),
                    Some(1) => format!("--dport {rtp}:{rtcp}"),
                    _ => format!("-m multiport --dports {rtp},{rtcp}"),
                };
                format!("sudo iptables -I INPUT -p {protocol} {ports} -j ACCEPT")
            };
            judge_chains(&iptables::chains(text), "sudo iptables-save", awaited, fix)
        }
    }
}

/// IPv4 first.
fn judge_chains(
    chains: &[Chain<'_>],
    look: &str,
    awaited: Awaited,
    fix: impl Fn(&str) -> String,
) -> Finding {
    let begins = || chains.iter().filter(|chain| chain.policy.is_some());
    let Awaited { protocol, ports, v6: family } = awaited;
    let named = named(awaited, [true; 2]);
    for v6 in [false, true].into_iter().filter(|v6| family.is_none_or(|family| family == *v6)) {
        let concerned = begins().filter(|chain| match chain.table.split(' ').next() {
            Some("inet") => true,
            Some("ip6") => v6,
            Some("ip" | "iptables") => !v6,
            _ => false,
        });
        let mut doubted = None;
        for chain in concerned {
            let name = format!("{} {}", chain.table, chain.name);
            let all = ports.map(|port| fates(chains, chain, AwaitedPacket { protocol, v6, port }));
            let refused = all.map(|fates| fates & (REFUSED | ACCEPTED) == REFUSED);
            if refused.contains(&true) {
                return refusal(&name, awaited, refused, v6).fix(fix(&name));
            }
            if all.iter().any(|fates| fates & REFUSED != 0) {
                doubted = Some(name);
            }
        }
        if let Some(name) = doubted {
            let what = format!(
                "whether {name} accepts {named} depends on conditions that are not evaluated \
                 here, such as the sender or the interface"
            );
            return Finding::new(Unknown, what, "dropped packets are not received").details(look);
        }
    }
    match begins().next() {
        None => Finding::passed("no firewall drops incoming packets"),
        Some(_) => Finding::passed(format!("the firewall accepts {named}")),
    }
}

fn named(awaited: Awaited, [first, second]: [bool; 2]) -> String {
    let [rtp, rtcp] = awaited.ports;
    let ports = match (first, second) {
        (true, true) if rtp != rtcp => format!("{rtp} and {rtcp}"),
        (true, _) => rtp.to_string(),
        (false, _) => rtcp.to_string(),
    };
    format!("{} {ports}", awaited.protocol[0].to_uppercase())
}

fn refusal(chain: &str, awaited: Awaited, refused: [bool; 2], v6: bool) -> Finding {
    let (verdict, of) = if v6 { (Warning, " of IPv6") } else { (Failure, "") };
    let why = match (awaited.ports[0], v6) {
        (PAIRING_PORT, _) => {
            "no machine can pair with a waiting `taut pair` here, nor show or change its zones"
        }
        (CALL_PORT, false) => "`taut serve` receives no calls there (--listen names another port)",
        (CALL_PORT, true) => "`taut serve` receives no calls over IPv6",
        (_, true) => "a stream over IPv6 is not received, or its sender gets no reports",
        (_, false) => {
            "a receiver gets no stream, and a sender no reports (with those ports, or your own)"
        }
    };
    Finding::new(verdict, format!("{chain} drops {}{of}", named(awaited, refused)), why)
}

#[cfg(test)]
mod tests;
