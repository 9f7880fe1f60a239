//! Rules as `iptables-save` writes them.

use super::ports;
use super::walk::{ACCEPTED, AwaitedPacket, Chain, Fits, GOES_ON, REFUSED, RETURNED, Then};

/// The chains of the table that filters. The kernel sends what comes in to `INPUT`.
pub(super) fn chains(text: &str) -> Vec<Chain<'_>> {
    let mut chains: Vec<Chain<'_>> = Vec::new();
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.trim();
        } else if table != "filter" {
            continue;
        } else if let Some(chain) = line.strip_prefix(':') {
            let (name, policy) = chain.split_once(' ').unwrap_or((chain, ""));
            let policy = if policy.starts_with("DROP") { REFUSED } else { ACCEPTED };
            let policy = (name == "INPUT").then_some(policy);
            chains.push(Chain { table: "iptables", name, policy, rules: Vec::new() });
        } else if let Some((name, rule)) =
            line.strip_prefix("-A ").and_then(|rule| rule.split_once(' '))
        {
            let chain = chains.iter_mut().find(|chain| chain.name == name);
            chain.into_iter().for_each(|chain| chain.rules.push(rule.to_owned()));
        }
    }
    chains
}

/// What a rule does with a packet.
pub(super) fn read(rule: &str, packet: AwaitedPacket) -> (Fits, Then<'_>) {
    let mut words = rule.split_whitespace();
    let mut fits = Fits::Always;
    let mut not = false;
    while let Some(word) = words.next() {
        let mut named = || words.next().unwrap_or_default();
        let holds = match word {
            "!" => {
                not = true;
                continue;
            }
            // What stands behind is the target's own.
            "-j" => return (fits, target(named())),
            "-g" => return (fits, Then::Goto(named())),
            "-m" => {
                named();
                Fits::Always
            }
            "--comment" => {
                // With blanks, it stands in quotes.
                let first = named();
                if first.starts_with('"') && (first.len() == 1 || !first.ends_with('"')) {
                    words.by_ref().find(|word| word.ends_with('"'));
                }
                Fits::Always
            }
            "-p" => {
                let protocol = named();
                Fits::surely(protocol == "all" || packet.protocol.contains(&protocol))
            }
            "--dport" | "--dports" => {
                Fits::surely(ports(named()).any(|(from, to)| (from..=to).contains(&packet.port)))
            }
            "--state" | "--ctstate" => Fits::surely(named().split(',').any(|state| state == "NEW")),
            "--dst-type" => match named() {
                "LOCAL" => Fits::Always,
                _ => Fits::Perhaps,
            },
            "-i" => match named() {
                "lo" => Fits::Never,
                _ => Fits::Perhaps,
            },
            "-s" | "-d" => match named() {
                address if address.starts_with("127.") => Fits::Never,
                _ if word == "-s" => Fits::OfSomeHosts,
                _ => Fits::Perhaps,
            },
            _ => Fits::Perhaps,
        };
        fits = fits.min(if std::mem::take(&mut not) { holds.negated() } else { holds });
    }
    (fits, Then::Ends(GOES_ON))
}

fn target(name: &str) -> Then<'_> {
    match name {
        "ACCEPT" => Then::Ends(ACCEPTED),
        "DROP" | "REJECT" => Then::Ends(REFUSED),
        "RETURN" => Then::Ends(RETURNED),
        "NFQUEUE" | "QUEUE" => Then::Ends(ACCEPTED | REFUSED | GOES_ON),
        // Behind these the next rule follows.
        "LOG" | "NFLOG" | "ULOG" | "MARK" | "CONNMARK" | "SET" | "TRACE" | "RATEEST" => {
            Then::Ends(GOES_ON)
        }
        // A chain, or what is not known here, as which it is taken when there is none.
        name => Then::Jump(name),
    }
}
