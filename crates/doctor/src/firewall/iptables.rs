use super::nft::{ACCEPTED, Chain, REFUSED};

/// Incoming packets go to `INPUT`.
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
            chain.into_iter().for_each(|chain| chain.rules.extend(translated(rule)));
        }
    }
    chains
}

/// Rule in nft syntax; `None` if it matches no awaited packet.
fn translated(rule: &str) -> Option<String> {
    let mut words = rule.split_whitespace();
    let (mut nft, mut not) = (String::new(), "");
    while let Some(word) = words.next() {
        let mut named = || words.next().unwrap_or_default();
        nft += &match word {
            "!" => {
                not = "!= ";
                continue;
            }
            "-j" => return Some(nft + &target(named())),
            "-g" => return Some(format!("{nft}goto {}", named())),
            "-m" => {
                named();
                String::new()
            }
            "--comment" => {
                // Quoted if it contains blanks.
                let first = named();
                if first.starts_with('"') && (first.len() == 1 || !first.ends_with('"')) {
                    words.by_ref().find(|word| word.ends_with('"'));
                }
                String::new()
            }
            "-p" => match named() {
                "all" => String::new(),
                protocol => format!("l4proto {not}{protocol} "),
            },
            "--dport" | "--dports" => format!("th dport {not}{} ", named()),
            "--state" | "--ctstate" => format!("ct state {not}{} ", named().to_lowercase()),
            "--dst-type" => match (named(), not) {
                ("LOCAL", "") => String::new(),
                ("LOCAL", _) => return None,
                _ => "unknown ".to_owned(),
            },
            "-i" => format!("iifname {not}{} ", named()),
            "-s" => format!("ip saddr {not}{} ", named()),
            "-d" => format!("ip daddr {not}{} ", named()),
            _ => "unknown ".to_owned(),
        };
        not = "";
    }
    Some(nft)
}

fn target(name: &str) -> String {
    match name {
        "ACCEPT" => "accept".to_owned(),
        "DROP" | "REJECT" => "drop".to_owned(),
        "RETURN" => "return".to_owned(),
        "NFQUEUE" | "QUEUE" => "queue".to_owned(),
        // These continue with the next rule.
        "LOG" | "NFLOG" | "ULOG" | "MARK" | "CONNMARK" | "SET" | "TRACE" | "RATEEST" => {
            "continue".to_owned()
        }
        // An unknown target counts as a missing chain.
        name => format!("jump {name}"),
    }
}
