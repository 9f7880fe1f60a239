//! Parser for `nft list ruleset`, and evaluation of a packet's path.

/// A packet that is the first of its flow, from another host.
#[derive(Clone, Copy)]
pub(super) struct AwaitedPacket {
    pub(super) protocol: [&'static str; 2],
    pub(super) v6: bool,
    pub(super) port: u16,
}

pub(super) struct Chain<'a> {
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    /// Default, if the kernel sends incoming packets here.
    pub(super) policy: Option<Fates>,
    pub(super) rules: Vec<String>,
}

/// How far a condition matches the packet. A rule matches as its weakest condition does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fits {
    Never,
    /// Depends on unknown facts, such as an interface.
    Perhaps,
    OfSomeHosts,
    Always,
}

impl Fits {
    fn surely(holds: bool) -> Self {
        if holds { Self::Always } else { Self::Never }
    }

    fn negated(self) -> Self {
        match self {
            Self::Never => Self::Always,
            Self::Always => Self::Never,
            // Matches all hosts except some.
            Self::Perhaps | Self::OfSomeHosts => Self::Perhaps,
        }
    }
}

pub(super) type Fates = u8;
pub(super) const ACCEPTED: Fates = 1;
pub(super) const REFUSED: Fates = 2;
/// Returns to the calling chain.
const RETURNED: Fates = 4;
const GOES_ON: Fates = 8;

enum Then<'a> {
    Ends(Fates),
    Jump(&'a str),
    Goto(&'a str),
}

/// Replaces named port sets by their contents.
pub(super) fn chains(text: &str) -> Vec<Chain<'_>> {
    let mut chains: Vec<Chain<'_>> = Vec::new();
    // Table, name and elements. nft lists a table's sets first.
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
            // The set's final brace is alone on its line.
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

fn read(rule: &str, packet: AwaitedPacket) -> (Fits, Then<'_>) {
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

fn of_new(map: &str) -> Option<Then<'_>> {
    let mut pairs = elements(map).filter_map(|pair| pair.split_once(':'));
    match pairs.find(|(state, _)| state.trim() == "new") {
        Some((_, then)) => verdict(&words(then)),
        None => Some(Then::Ends(GOES_ON)),
    }
}

/// Returns the remaining words too.
fn condition<'a, 'w>(words: &'w [&'a str], packet: AwaitedPacket) -> (Fits, &'w [&'a str]) {
    let behind = |length| words.get(length..).unwrap_or_default();
    let named =
        |named: &str, own: &[&str]| Fits::surely(elements(named).any(|one| own.contains(&one)));
    match words {
        ["counter", "packets", _, "bytes", ..] => (Fits::Always, behind(5)),
        ["counter" | "log" | "meta", ..] => (Fits::Always, behind(1)),
        ["comment" | "prefix" | "level" | "flags" | "group" | "snaplen", _, ..] => {
            (Fits::Always, behind(2))
        }
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
        // Was sent to another address.
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

fn compared<'a, 'w>(words: &'w [&'a str], holds: impl Fn(&str) -> Fits) -> (Fits, &'w [&'a str]) {
    match words {
        ["!=", named, rest @ ..] => (holds(named).negated(), rest),
        ["vmap", ..] => (Fits::Always, words),
        [named, rest @ ..] => (holds(named), rest),
        [] => (Fits::Perhaps, words),
    }
}

fn elements(named: &str) -> impl Iterator<Item = &str> {
    named.trim_matches(['{', '}']).split(',').map(str::trim)
}

/// Parses `5004`, `5004-5010` or `{ 5004, 6000-6010 }`.
fn ports(text: &str) -> impl Iterator<Item = (u16, u16)> + '_ {
    let list = match text.strip_prefix('{') {
        Some(set) => set.split('}').next().unwrap_or(""),
        None => text.split_whitespace().next().unwrap_or(""),
    };
    list.split(',').filter_map(|part| {
        let part = part.trim();
        let (from, to) = part.split_once(['-', ':']).unwrap_or((part, part));
        // A timeout or a comment may follow.
        let to = to.split_whitespace().next()?;
        Some((from.split_whitespace().next()?.parse().ok()?, to.parse().ok()?))
    })
}

/// Maximum depth of jumps in the kernel (`NFT_JUMP_STACK_SIZE`).
const DEEPEST: u32 = 16;

pub(super) fn fates(chains: &[Chain<'_>], begin: &Chain<'_>, packet: AwaitedPacket) -> Fates {
    let known = vec![None; chains.len()];
    let fates = RuleWalk { chains, known, table: begin.table, packet }.through(begin, 0);
    if fates & RETURNED == 0 { fates } else { fates | begin.policy.unwrap_or(ACCEPTED) }
}

struct RuleWalk<'a> {
    chains: &'a [Chain<'a>],
    known: Vec<Option<Fates>>,
    table: &'a str,
    packet: AwaitedPacket,
}

impl<'a> RuleWalk<'a> {
    fn through(&mut self, chain: &'a Chain<'a>, depth: u32) -> Fates {
        let mut fates = 0;
        for rule in &chain.rules {
            let (fits, then) = read(rule, self.packet);
            if fits == Fits::Never {
                continue;
            }
            let mut ends = match then {
                Then::Ends(fates) => fates,
                Then::Goto(name) => self.called(name, depth),
                Then::Jump(name) => match self.called(name, depth) {
                    fates if fates & RETURNED == 0 => fates,
                    fates => fates & !RETURNED | GOES_ON,
                },
            };
            if fits == Fits::OfSomeHosts {
                // Blocked hosts are assumed not to be senders.
                ends &= !REFUSED;
            }
            fates |= ends & !GOES_ON;
            if fits == Fits::Always && ends & GOES_ON == 0 {
                return fates;
            }
        }
        fates | RETURNED
    }

    fn called(&mut self, name: &str, depth: u32) -> Fates {
        let unknown = ACCEPTED | REFUSED | RETURNED;
        let mut chains = self.chains.iter().enumerate();
        let of_table = chains.find(|(_, chain)| chain.table == self.table && chain.name == name);
        let Some((index, chain)) = of_table.filter(|_| depth < DEEPEST) else { return unknown };
        if let Some(fates) = self.known[index] {
            return fates;
        }
        self.known[index] = Some(unknown);
        let fates = self.through(chain, depth + 1);
        self.known[index] = Some(fates);
        fates
    }
}
