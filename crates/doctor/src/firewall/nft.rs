//! Rules as `nft list ruleset` writes them.

use super::ports;
use super::walk::{ACCEPTED, AwaitedPacket, Chain, Fits, GOES_ON, REFUSED, RETURNED, Then};

/// The chains, with what each set of ports holds in place of its name. Other sets stay names.
pub(super) fn chains(text: &str) -> Vec<Chain<'_>> {
    let mut chains: Vec<Chain<'_>> = Vec::new();
    // Table, name and elements as nft writes them: a table's sets come first, and only its rules see them.
    let mut sets: Vec<(&str, &str, String)> = Vec::new();
    let (mut table, mut within) = ("", false);
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let block = |kind| Some(line.strip_prefix(kind)?.trim_end_matches('{').trim());
        if let Some(name) = block("table ") {
            table = name;
        } else if let Some(name) = block("chain ") {
            chains.push(Chain { table, name, policy: None, rules: Vec::new() });
            within = true;
        } else if let (false, Some(name)) = (within, block("set ")) {
            // It ends with a brace in a line of its own; that of its elements has others beside it.
            let body: Vec<_> = lines.by_ref().take_while(|line| *line != "}").collect();
            if body.contains(&"type inet_service") {
                let body = body.join(" ");
                let all =
                    body.split_once("elements = {").and_then(|(_, rest)| rest.split_once('}'));
                sets.push((table, name, all.map_or("", |(all, _)| all.trim()).to_owned()));
            }
        } else if line == "}" {
            within = false;
        } else if let (true, Some(chain)) = (within, chains.last_mut()) {
            if line.starts_with("type ") {
                let policy = if line.contains("policy drop") { REFUSED } else { ACCEPTED };
                chain.policy = line.starts_with("type filter hook input").then_some(policy);
            } else if !line.is_empty() && !line.starts_with('#') {
                let named = line.split_once("dport @").and_then(|(before, after)| {
                    let (name, rest) = after.split_once(' ').unwrap_or((after, ""));
                    let (.., all) = sets.iter().find(|set| (set.0, set.1) == (table, name))?;
                    Some(format!("{before}dport {{ {all} }} {rest}"))
                });
                chain.rules.push(named.unwrap_or_else(|| line.to_owned()));
            }
        }
    }
    chains
}

/// What a rule does with a packet.
pub(super) fn read(rule: &str, packet: AwaitedPacket) -> (Fits, Then<'_>) {
    let words = words(rule);
    let (mut words, mut fits) = (words.as_slice(), Fits::Always);
    while !words.is_empty() {
        let then = match words {
            ["ct", "state", "vmap", map, ..] if map.starts_with('{') => of_new(map),
            _ => verdict(words),
        };
        if let Some(then) = then {
            return (fits, then);
        }
        let (holds, rest) = condition(words, packet);
        fits = fits.min(holds);
        words = rest;
    }
    (fits, Then::Ends(GOES_ON))
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
        ["accept", ..] => Then::Ends(ACCEPTED),
        ["drop" | "reject", ..] => Then::Ends(REFUSED),
        ["return", ..] => Then::Ends(RETURNED),
        ["continue", ..] => Then::Ends(GOES_ON),
        ["jump", chain, ..] => Then::Jump(chain),
        ["goto", chain, ..] => Then::Goto(chain),
        ["queue" | "vmap", ..] => Then::Ends(ACCEPTED | REFUSED | GOES_ON),
        _ => return None,
    })
}

/// What a map of states does with the first packet of a flow.
fn of_new(map: &str) -> Option<Then<'_>> {
    let mut pairs = elements(map).filter_map(|pair| pair.split_once(':'));
    match pairs.find(|(state, _)| state.trim() == "new") {
        Some((_, then)) => verdict(&words(then)),
        None => Some(Then::Ends(GOES_ON)),
    }
}

/// Whether the condition at the beginning of these words holds, and the words behind it. Where it never holds, the
/// others no longer count.
fn condition<'a, 'w>(words: &'w [&'a str], packet: AwaitedPacket) -> (Fits, &'w [&'a str]) {
    let behind = |length| words.get(length..).unwrap_or_default();
    let named =
        |named: &str, own: &[&str]| Fits::surely(elements(named).any(|one| own.contains(&one)));
    match words {
        // No conditions.
        ["counter", "packets", _, "bytes", ..] => (Fits::Always, behind(5)),
        ["counter" | "log" | "meta", ..] => (Fits::Always, behind(1)),
        ["comment" | "prefix" | "level" | "flags" | "group" | "snaplen", _, ..] => {
            (Fits::Always, behind(2))
        }
        // Of another protocol.
        ["icmp" | "icmpv6" | "igmp" | "sctp" | "dccp" | "udplite" | "esp" | "ah", ..] => {
            (Fits::Never, behind(1))
        }
        [other @ ("tcp" | "udp"), ..] if *other != packet.protocol[0] => (Fits::Never, behind(1)),
        ["ip", ..] if packet.v6 => (Fits::Never, behind(1)),
        ["ip6", ..] if !packet.v6 => (Fits::Never, behind(1)),
        ["l4proto", rest @ ..] | ["ip", "protocol", rest @ ..] | ["ip6", "nexthdr", rest @ ..] => {
            compared(rest, |protocols| named(protocols, &packet.protocol))
        }
        ["nfproto", rest @ ..] => {
            compared(rest, |families| named(families, &[if packet.v6 { "ipv6" } else { "ipv4" }]))
        }
        ["udp" | "tcp" | "th", "dport", rest @ ..] => {
            compared(rest, |named| match named.as_bytes().first() {
                Some(b'{' | b'0'..=b'9') => {
                    Fits::surely(ports(named).any(|(from, to)| (from..=to).contains(&packet.port)))
                }
                _ => Fits::Perhaps,
            })
        }
        ["ct", "state", rest @ ..] => compared(rest, |states| named(states, &["new"])),
        // Of what was sent to elsewhere.
        ["ct", "status", "dnat", ..] => (Fits::Never, behind(3)),
        ["fib", "daddr", "type", "local", ..] => (Fits::Always, behind(4)),
        ["iif" | "iifname", rest @ ..] => compared(rest, |named| match named.trim_matches('"') {
            "lo" => Fits::Never,
            _ => Fits::Perhaps,
        }),
        ["ip" | "ip6", end @ ("saddr" | "daddr"), rest @ ..] => {
            compared(rest, |named| match *end {
                _ if named.starts_with("127.") || named == "::1" => Fits::Never,
                "saddr" => Fits::OfSomeHosts,
                _ => Fits::Perhaps,
            })
        }
        _ => (Fits::Perhaps, behind(1)),
    }
}

/// What a comparison comes to, and the words behind it.
fn compared<'a, 'w>(words: &'w [&'a str], holds: impl Fn(&str) -> Fits) -> (Fits, &'w [&'a str]) {
    match words {
        ["!=", named, rest @ ..] => (holds(named).negated(), rest),
        // It is the map that does.
        ["vmap", ..] => (Fits::Always, words),
        [named, rest @ ..] => (holds(named), rest),
        [] => (Fits::Perhaps, words),
    }
}

/// `udp`, `tcp,udp` or `{ tcp, udp }`.
fn elements(named: &str) -> impl Iterator<Item = &str> {
    named.trim_matches(['{', '}']).split(',').map(str::trim)
}
