use tautline_doctor::Verdict;
use tautline_doctor::firewall::{Rules, USUAL, judge};

/// With an accept rule first in every nft or iptables chain, the firewall is open.
pub fn firewall(bytes: &[u8]) {
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    is_open(text, Rules::Nft);
    assert!(is_open(&opened_nft(text), Rules::Nft));
    is_open(text, Rules::Iptables);
    // iptables lists each chain once.
    if text.lines().filter(|line| line.starts_with(":INPUT")).count() <= 1 {
        assert!(is_open(&opened_iptables(text), Rules::Iptables));
    }
}

fn is_open(text: &str, rules: fn(String) -> Rules) -> bool {
    judge(&rules(text.to_owned()), USUAL).verdict == Verdict::Passed
}

fn opened_nft(text: &str) -> String {
    let mut opened = String::new();
    for line in text.lines() {
        opened.extend([line, "\n"]);
        if line.trim().starts_with("chain ") {
            opened += "udp dport 5004-5005 accept\n";
        }
    }
    opened
}

fn opened_iptables(text: &str) -> String {
    let mut opened = String::new();
    for line in text.lines() {
        opened.extend([line, "\n"]);
        if line.starts_with(":INPUT") {
            opened += "-A INPUT -p udp -m udp --dport 5004:5005 -j ACCEPT\n";
        }
    }
    opened
}
