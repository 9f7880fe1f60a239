//! Rules as `nft list ruleset` writes them.

use super::ports;
use super::walk::{AwaitedPacket, Chain, Fits, Policy, Rule, Then};

pub(super) fn chains(text: &str) -> Vec<Chain<'_>> {
    let mut chains: Vec<Chain<'_>> = Vec::new();
    let (mut table, mut within) = ("", false);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches('{').trim();
        } else if let Some(name) = line.strip_prefix("chain ") {
            let name = name.trim_end_matches('{').trim();
            chains.push(Chain { table, name, begins: None, rules: Vec::new() });
            within = true;
        } else if line == "}" {
            within = false;
        } else if let (true, Some(chain)) = (within, chains.last_mut()) {
            if line.starts_with("type ") {
                let drops = line.contains("policy drop");
                let policy = if drops { Policy::Drop } else { Policy::Accept };
                let takes = line.starts_with("type filter hook input");
                chain.begins = takes.then_some(policy);
            } else if !line.is_empty() && !line.starts_with('#') {
                chain.rules.push(line);
            }
        }
    }
    chains
}

/// What a rule does with a packet.
pub(super) fn read(rule: &str, packet: AwaitedPacket) -> Rule<'_> {
    let words = words(rule);
    let (mut words, mut fits) = (words.as_slice(), Fits::Always);
    while !words.is_empty() {
        let then = match words {
            ["ct", "state", "vmap", map, ..] if map.starts_with('{') => of_new(map),
            _ => verdict(words),
        };
        if let Some(then) = then {
            return Rule { fits, then };
        }
        let (holds, length) = condition(words, packet);
        fits = fits.min(holds);
        words = words.get(length..).unwrap_or_default();
    }
    Rule { fits, then: Then::GoOn }
}

/// What stands between blanks, in braces, or in quotes.
fn words(rule: &str) -> Vec<&str> {
    let mut rest = rule.trim();
    let mut words = Vec::new();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '{' => rest.find('}').map(|at| at + 1),
            '"' => rest[1..].find('"').map(|at| at + 2),
            _ => rest.find(char::is_whitespace),
        };
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

fn verdict<'a>(words: &[&'a str]) -> Option<Then<'a>> {
    Some(match words {
        ["accept", ..] => Then::Accept,
        ["drop" | "reject", ..] => Then::Refuse,
        ["return", ..] => Then::Return,
        ["continue", ..] => Then::GoOn,
        ["jump", chain, ..] => Then::Jump(chain),
        ["goto", chain, ..] => Then::Goto(chain),
        ["queue" | "vmap", ..] => Then::Anything,
        _ => return None,
    })
}

/// What a map of states does with the first packet of a flow.
fn of_new(map: &str) -> Option<Then<'_>> {
    let pairs = map.trim_matches(['{', '}']).split(',').filter_map(|pair| pair.split_once(':'));
    let mut new = pairs.filter(|(state, _)| state.trim() == "new");
    let then = new.next().map(|(_, then)| words(then));
    then.map_or(Some(Then::GoOn), |then| verdict(&then))
}

/// Whether the condition at the beginning of these words holds, and of how many words it is.
fn condition(words: &[&str], packet: AwaitedPacket) -> (Fits, usize) {
    match words {
        // No conditions.
        ["counter", "packets", _, "bytes", ..] => (Fits::Always, 5),
        ["counter" | "log" | "meta", ..] => (Fits::Always, 1),
        ["comment" | "prefix" | "level" | "flags" | "group" | "snaplen", _, ..] => {
            (Fits::Always, 2)
        }
        // Of another protocol.
        ["icmp" | "icmpv6" | "igmp" | "sctp" | "dccp" | "udplite" | "esp" | "ah", ..] => {
            (Fits::Never, 1)
        }
        [other @ ("tcp" | "udp"), ..] if *other != packet.protocol[0] => (Fits::Never, 1),
        ["l4proto", rest @ ..] | ["ip", "protocol", rest @ ..] | ["ip6", "nexthdr", rest @ ..] => {
            let other = words[0] == if packet.v6 { "ip" } else { "ip6" };
            let (holds, length) = compared(rest, |named| {
                Fits::surely(elements(named).any(|protocol| packet.protocol.contains(&protocol)))
            });
            (if other { Fits::Never } else { holds }, words.len() - rest.len() + length)
        }
        ["nfproto", rest @ ..] => {
            let own = if packet.v6 { "ipv6" } else { "ipv4" };
            let (holds, length) =
                compared(rest, |named| Fits::surely(elements(named).any(|p| p == own)));
            (holds, 1 + length)
        }
        ["ip", ..] if packet.v6 => (Fits::Never, 1),
        ["ip6", ..] if !packet.v6 => (Fits::Never, 1),
        ["udp" | "tcp" | "th", "dport", rest @ ..] => {
            let (holds, length) = compared(rest, |named| match named.as_bytes().first() {
                Some(b'{' | b'0'..=b'9') => {
                    Fits::surely(ports(named).any(|(from, to)| (from..=to).contains(&packet.port)))
                }
                _ => Fits::Perhaps,
            });
            (holds, 2 + length)
        }
        ["ct", "state", rest @ ..] => {
            let (holds, length) =
                compared(rest, |named| Fits::surely(elements(named).any(|state| state == "new")));
            (holds, 2 + length)
        }
        // Of what was sent to elsewhere.
        ["ct", "status", "dnat", ..] => (Fits::Never, 3),
        ["fib", "daddr", "type", "local", ..] => (Fits::Always, 4),
        ["iif" | "iifname", rest @ ..] => {
            let (holds, length) = compared(rest, |named| match named.trim_matches('"') {
                "lo" => Fits::Never,
                _ => Fits::Perhaps,
            });
            (holds, 1 + length)
        }
        ["ip" | "ip6", end @ ("saddr" | "daddr"), rest @ ..] => {
            let (holds, length) = compared(rest, |named| match *end {
                _ if named.starts_with("127.") || named == "::1" => Fits::Never,
                "saddr" => Fits::OfSomeHosts,
                _ => Fits::Perhaps,
            });
            (holds, 2 + length)
        }
        _ => (Fits::Perhaps, 1),
    }
}

/// What a comparison comes to, and of how many words it is.
fn compared(words: &[&str], holds: impl Fn(&str) -> Fits) -> (Fits, usize) {
    match words {
        ["!=", named, ..] => (holds(named).negated(), 2),
        // It is the map that does.
        ["vmap", ..] => (Fits::Always, 0),
        [named, ..] => (holds(named), 1),
        [] => (Fits::Perhaps, 0),
    }
}

/// `udp`, `tcp,udp` or `{ tcp, udp }`.
fn elements(named: &str) -> impl Iterator<Item = &str> {
    named.trim_matches(['{', '}']).split(',').map(str::trim)
}
