//! Whether a firewall keeps packets out.

use super::ask::run;
use super::privileges::is_root;
use super::root::Root;
use super::{Finding, Remedy, Verdict};

mod sets;

/// Where `taut`'s examples receive: RTP, and RTCP above.
const PORTS: [u16; 2] = [5004, 5005];
const CHECK: &str = "firewall";

/// What could be learned of the rules.
#[derive(Debug, PartialEq, Eq)]
enum Rules {
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
    judge(&read(root))
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

fn judge(rules: &Rules) -> Finding {
    let unknown = |what: &str, look: &str| {
        let why = "one that drops UDP lets nothing be heard";
        Finding::of(Verdict::Unknown, CHECK, what, why).seen_by(look)
    };
    let (closed, let_in, mend) = match rules {
        Rules::NoFirewall => return Finding::fine(CHECK, "this kernel has no firewall"),
        Rules::Hidden => return unknown("only root sees the firewall", "sudo nft list ruleset"),
        Rules::NoProgram => {
            return unknown(
                "neither nft nor iptables-save answers here",
                "sudo apt install nftables",
            );
        }
        Rules::Nft(text) => {
            let chain = nft_closed(text);
            let mend = chain.as_ref().map(|chain| {
                format!("sudo nft insert rule {chain} udp dport '{{ 5004, 5005 }}' accept")
            });
            (chain, nft_lets_in(&sets::resolved(text)), mend)
        }
        Rules::Iptables(text) => {
            let mend = "sudo iptables -I INPUT -p udp --dport 5004:5005 -j ACCEPT".to_owned();
            (iptables_closed(text), iptables_lets_in(text), Some(mend))
        }
    };
    match (closed, let_in) {
        (None, _) => Finding::fine(CHECK, "no firewall drops what comes in"),
        (Some(_), Some(true)) => Finding::fine(CHECK, "the firewall lets UDP 5004 and 5005 in"),
        (Some(chain), None) => unknown(
            &format!(
                "{chain} drops what no rule accepts, and its rules are more than is read here"
            ),
            "sudo nft list ruleset",
        ),
        (Some(chain), Some(false)) => {
            let what =
                format!("{chain} drops what no rule accepts, and none accepts UDP 5004 and 5005");
            let why =
                "a receiver hears nothing, and a sender no reports (those ports, or your own)";
            let finding = Finding::of(Verdict::Spoils, CHECK, what, why);
            Finding { command: mend.map(Remedy::Mend), ..finding }
        }
    }
}

/// The chain, as `inet filter input`, that takes packets for this machine and drops by itself what
/// no rule accepts: by its policy, or by a last rule without a condition.
fn nft_closed(text: &str) -> Option<String> {
    let (mut table, mut chain, mut is_input, mut last) = ("", "", false, "");
    let mut drops_by_policy = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches('{').trim();
        } else if let Some(name) = line.strip_prefix("chain ") {
            (chain, is_input, drops_by_policy, last) =
                (name.trim_end_matches('{').trim(), false, false, "");
        } else if line.contains("hook input") {
            is_input = line.contains("type filter");
            drops_by_policy = line.contains("policy drop");
        } else if line == "}" {
            if is_input && (drops_by_policy || is_bare_refusal(last)) {
                return Some(format!("{table} {chain}"));
            }
            is_input = false;
        } else if !line.is_empty() && !line.starts_with('#') {
            last = line;
        }
    }
    None
}

/// Whether a rule refuses whatever reaches it.
fn is_bare_refusal(rule: &str) -> bool {
    let mut words = rule.split_whitespace();
    let first = words.find(|word| {
        let counts = ["counter", "packets", "bytes", "log"].contains(word);
        !counts && word.parse::<u64>().is_err()
    });
    matches!(first, Some("drop" | "reject"))
}

/// Whether some rule accepts both UDP ports; `None` where maps and sets of more than ports, which
/// are not read here, may.
fn nft_lets_in(text: &str) -> Option<bool> {
    let rules = || text.lines().map(str::trim).filter(|line| line.contains("accept"));
    let accepts = |port: u16| {
        rules().any(|rule| match rule.split_once("dport ") {
            Some((before, after)) if before.contains("udp") || before.contains("th ") => {
                ports(after).any(|(from, to)| (from..=to).contains(&port))
            }
            _ => {
                rule.contains("meta l4proto udp accept") || rule.contains("ip protocol udp accept")
            }
        })
    };
    let unread = text.contains("vmap") || rules().any(|rule| rule.contains('@'));
    match PORTS.into_iter().all(accepts) {
        true => Some(true),
        false if unread => None,
        false => Some(false),
    }
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

fn iptables_closed(text: &str) -> Option<String> {
    let input = |line: &&str| line.starts_with("-A INPUT ");
    let last = text.lines().rfind(input).unwrap_or("");
    let bare = |verdict: &str| last.starts_with(&format!("-A INPUT -j {verdict}"));
    let closed = text.lines().any(|line| line.starts_with(":INPUT DROP"));
    (closed || bare("DROP") || bare("REJECT")).then(|| "iptables INPUT".to_owned())
}

fn iptables_lets_in(text: &str) -> Option<bool> {
    let accepts = |port: u16| {
        text.lines().any(|rule| {
            let udp = rule.contains("-p udp") && rule.contains("-j ACCEPT");
            let dports = ["--dport ", "--dports "].iter().find_map(|word| rule.split_once(word));
            let hit =
                dports.map(|(_, after)| ports(after).any(|(from, to)| (from..=to).contains(&port)));
            udp && hit.unwrap_or(!rule.contains("port"))
        })
    };
    let unread = text.contains("--match-set");
    match PORTS.into_iter().all(accepts) {
        true => Some(true),
        false if unread => None,
        false => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nft(policy: &str, rules: &str) -> Rules {
        Rules::Nft(format!(
            "table inet filter {{\n\tchain input {{\n\t\ttype filter hook input priority filter; \
             policy {policy};\n\t\tct state established,related accept\n\t\t{rules}\n\t}}\n\n\tchain \
             output {{\n\t\ttype filter hook output priority filter; policy drop;\n\t}}\n}}\n"
        ))
    }

    fn verdict(rules: &Rules) -> Verdict {
        judge(rules).verdict
    }

    #[test]
    fn a_chain_that_drops_input_spoils_unless_a_rule_lets_both_ports_in() {
        let found = judge(&nft("drop", "tcp dport 5004-5005 accept"));
        assert_eq!(found.verdict, Verdict::Spoils);
        let mend = "sudo nft insert rule inet filter input udp dport '{ 5004, 5005 }' accept";
        assert_eq!(found.mend(), Some(mend));
        for lets_in in [
            "udp dport 5004-5005 accept",
            "udp dport { 4000, 5000-5010 } counter packets 3 bytes 9 accept",
            "meta l4proto udp accept",
        ] {
            assert_eq!(verdict(&nft("drop", lets_in)), Verdict::Fine, "{lets_in}");
        }
        assert_eq!(verdict(&nft("drop", "udp dport 5004 accept")), Verdict::Spoils, "RTCP");
        assert_eq!(verdict(&nft("accept", "")), Verdict::Fine);
        let last = "counter packets 12 bytes 800 reject with icmpx admin-prohibited";
        assert_eq!(verdict(&nft("accept", last)), Verdict::Spoils);
        assert_eq!(verdict(&nft("accept", "ip saddr 10.0.0.9 drop")), Verdict::Fine);
    }

    #[test]
    fn rules_that_are_more_than_is_read_are_not_judged() {
        assert_eq!(verdict(&nft("drop", "udp dport @audio accept")), Verdict::Unknown);
        assert_eq!(verdict(&nft("drop", "udp dport vmap { 5004 : accept }")), Verdict::Unknown);
        assert_eq!(verdict(&Rules::Hidden), Verdict::Unknown);
        assert_eq!(verdict(&Rules::NoProgram), Verdict::Unknown);
        assert_eq!(verdict(&Rules::NoFirewall), Verdict::Fine);
    }

    #[test]
    fn a_named_set_of_ports_is_read_where_the_rule_names_it() {
        let set = |elements: &str| {
            let Rules::Nft(rules) = nft("drop", "udp dport @audio accept") else { unreachable!() };
            let set = format!("\tset audio {{\n\t\ttype inet_service\n{elements}\t}}\n");
            verdict(&Rules::Nft(rules.replacen("{\n", &format!("{{\n{set}"), 1)))
        };
        assert_eq!(set("\t\tflags interval\n\t\telements = { 22, 5000-5010 }\n"), Verdict::Fine);
        let long =
            "\t\telements = { 22 timeout 1h expires 2s, 5004 comment \"a\",\n\t\t\t     5005 }\n";
        assert_eq!(set(long), Verdict::Fine);
        assert_eq!(set("\t\telements = { 5004 }\n"), Verdict::Spoils, "RTCP");
        assert_eq!(set(""), Verdict::Spoils, "it is empty");
    }

    #[test]
    fn rules_of_iptables_are_read_alike() {
        let rules = |policy: &str, rest: &str| {
            Rules::Iptables(format!(
                "*filter\n:INPUT {policy} [0:0]\n:FORWARD DROP [0:0]\n{rest}\nCOMMIT\n"
            ))
        };
        assert_eq!(verdict(&rules("ACCEPT", "")), Verdict::Fine);
        assert_eq!(
            verdict(&rules("DROP", "-A INPUT -p tcp --dport 5004 -j ACCEPT")),
            Verdict::Spoils
        );
        assert_eq!(
            verdict(&rules("ACCEPT", "-A INPUT -j REJECT --reject-with x")),
            Verdict::Spoils
        );
        for lets_in in [
            "-A INPUT -p udp -m udp --dport 5004:5005 -j ACCEPT",
            "-A INPUT -p udp -m multiport --dports 5004,5005 -j ACCEPT",
            "-A INPUT -p udp -j ACCEPT",
        ] {
            assert_eq!(verdict(&rules("DROP", lets_in)), Verdict::Fine, "{lets_in}");
        }
    }
}
