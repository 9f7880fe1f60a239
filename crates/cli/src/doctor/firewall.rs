//! Whether a firewall keeps packets out.

use super::ask::run;
use super::privileges::is_root;
use super::root::Root;
use super::{Finding, Verdict};

mod iptables;
mod nft;
mod sets;
mod walk;

use walk::{AwaitedPacket, Chain, Read, fates};

/// What a receiver waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Awaited {
    /// The UDP ports of RTP and RTCP.
    pub(crate) ports: [u16; 2],
    /// By IPv6 or not; `None` for both, of which most use IPv4.
    pub(crate) v6: Option<bool>,
}

/// Where `taut`'s examples receive.
pub(crate) const USUAL: Awaited = Awaited { ports: [5004, 5005], v6: None };
const CHECK: &str = "firewall";

/// What could be learned of the rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// As `nft list ruleset` writes them.
    Nft(String),
    /// As `iptables-save` does.
    Iptables(String),
    /// Only root may see them.
    Hidden,
    /// There is no program to ask, or it fails.
    NoProgram,
    /// There are none, as this kernel has no firewall.
    NoFirewall,
}

pub(super) fn check(root: &Root) -> Finding {
    judge(&read(root), USUAL)
}

/// What may keep out what a receiver waits for, with the mend; `None` where nothing is known to.
pub(super) fn blame(root: &Root, awaited: &[Awaited]) -> Option<String> {
    let rules = read(root);
    let found: Vec<_> = awaited.iter().map(|awaited| judge(&rules, *awaited)).collect();
    let mended = found.iter().find_map(|found| Some((&found.what, found.mend()?)));
    if let Some((what, mend)) = mended {
        return Some(format!(
            "the firewall here keeps it out, as {what}; let it in by {mend} (`taut doctor` looks \
             for more)"
        ));
    }
    match rules {
        Rules::Hidden => Some("a firewall may drop it: `sudo taut doctor` looks".into()),
        // Nothing says that there is one.
        Rules::NoProgram => None,
        _ => {
            let doubted = found.iter().any(|found| found.verdict == Verdict::Unknown);
            doubted.then(|| "a firewall may drop it: `taut doctor` looks".into())
        }
    }
}

fn read(root: &Root) -> Rules {
    if !is_root(root) {
        return Rules::Hidden;
    }
    // nft shows what iptables makes too, unless that is the old one, which the kernel lists here.
    let old = root.read("proc/net/ip_tables_names").is_some_and(|names| !names.is_empty());
    let nft = run("nft", &["list", "ruleset"]);
    let iptables = || run("iptables-save", &[]).ok().map(Rules::Iptables);
    match nft {
        _ if old => iptables().unwrap_or(Rules::NoProgram),
        Ok(rules) => Rules::Nft(rules),
        Err(said) if said.contains(NO_NETFILTER) => Rules::NoFirewall,
        Err(_) => iptables().unwrap_or(Rules::NoProgram),
    }
}

/// What nft says where the kernel was built without, or did not load, the netlink of netfilter.
const NO_NETFILTER: &str = "Protocol not supported";

pub(crate) fn judge(rules: &Rules, awaited: Awaited) -> Finding {
    let [rtp, rtcp] = awaited.ports;
    let unknown = |what: &str, look: &str| {
        let why = "one that drops UDP lets nothing be heard";
        Finding::of(Verdict::Unknown, CHECK, what, why).seen_by(look)
    };
    match rules {
        Rules::NoFirewall => Finding::fine(CHECK, "this kernel has no firewall"),
        Rules::Hidden => unknown("only root sees the firewall", "sudo nft list ruleset"),
        Rules::NoProgram => {
            unknown("neither nft nor iptables-save answers here", "sudo apt install nftables")
        }
        Rules::Nft(text) => {
            let text = sets::resolved(text);
            let mend = |chain: &str| {
                format!("sudo nft insert rule {chain} udp dport '{{ {rtp}, {rtcp} }}' accept")
            };
            judge_chains(&nft::chains(&text), nft::read, "sudo nft list ruleset", awaited, mend)
        }
        Rules::Iptables(text) => {
            let mend = |_: &str| {
                let ports = match rtp.checked_add(1) == Some(rtcp) {
                    true => format!("--dport {rtp}:{rtcp}"),
                    false => format!("-m multiport --dports {rtp},{rtcp}"),
                };
                format!("sudo iptables -I INPUT -p udp {ports} -j ACCEPT")
            };
            let chains = iptables::chains(text);
            judge_chains(&chains, iptables::read, "sudo iptables-save", awaited, mend)
        }
    }
}

/// Every chain that the kernel sends a packet to may refuse it, of IPv4 first, which most use.
fn judge_chains(
    chains: &[Chain<'_>],
    read: Read,
    look: &str,
    awaited: Awaited,
    mend: impl Fn(&str) -> String,
) -> Finding {
    let begins = || chains.iter().filter(|chain| chain.begins.is_some());
    let Awaited { ports, v6: family } = awaited;
    let [rtp, rtcp] = ports;
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
            let all = ports.map(|port| fates(chains, chain, AwaitedPacket { v6, port }, read));
            let refused = all.map(|fates| fates.refused && !fates.accepted);
            if refused.contains(&true) {
                return refusal(&name, ports, refused, v6).mended_by(mend(&name));
            }
            if all.iter().any(|fates| fates.refused) {
                doubted = Some(name);
            }
        }
        if let Some(name) = doubted {
            let what = format!(
                "whether {name} lets UDP {rtp} and {rtcp} in depends on more than is read here, \
                 such as who sends, or the interface"
            );
            let why = "what it drops is not heard";
            return Finding::of(Verdict::Unknown, CHECK, what, why).seen_by(look);
        }
    }
    match begins().next() {
        None => Finding::fine(CHECK, "no firewall drops what comes in"),
        Some(_) => Finding::fine(CHECK, format!("the firewall lets UDP {rtp} and {rtcp} in")),
    }
}

/// `refused` goes with the ports.
fn refusal(chain: &str, [rtp, rtcp]: [u16; 2], refused: [bool; 2], v6: bool) -> Finding {
    let ports = match refused {
        [true, true] => format!("{rtp} and {rtcp}"),
        [true, false] => rtp.to_string(),
        _ => rtcp.to_string(),
    };
    let (verdict, of, why) = if v6 {
        (
            Verdict::Warns,
            " of IPv6",
            "a stream by IPv6 is not heard, or its sender hears no reports",
        )
    } else {
        let why = "a receiver hears nothing, and a sender no reports (those ports, or your own)";
        (Verdict::Spoils, "", why)
    };
    Finding::of(verdict, CHECK, format!("{chain} drops UDP {ports}{of}"), why)
}

/// `5004`, `5004-5010` or `{ 5004, 6000-6010 }`, at the beginning of what is left of a rule.
fn ports(text: &str) -> impl Iterator<Item = (u16, u16)> + '_ {
    let list = match text.strip_prefix('{') {
        Some(set) => set.split('}').next().unwrap_or(""),
        None => text.split_whitespace().next().unwrap_or(""),
    };
    list.split(',').filter_map(|part| {
        let part = part.trim();
        let (from, to) = part.split_once(['-', ':']).unwrap_or((part, part));
        // In a set each may have a time-out or a comment behind it.
        let to = to.split_whitespace().next()?;
        Some((from.split_whitespace().next()?.parse().ok()?, to.parse().ok()?))
    })
}

#[cfg(test)]
mod tests;
