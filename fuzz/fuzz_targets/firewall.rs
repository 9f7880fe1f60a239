//! Text as rules that nft or iptables lists: judged in bounded time, and open once the first rule of
//! every chain lets sound in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tautline_cli::fuzzing::{Firewall, firewall};

fuzz_target!(|text: &str| {
    firewall(text, true);
    assert_eq!(firewall(&opened_nft(text), true), Firewall::Open);
    firewall(text, false);
    // iptables says once what each chain is.
    if text.lines().filter(|line| line.starts_with(":INPUT")).count() <= 1 {
        assert_eq!(firewall(&opened_iptables(text), false), Firewall::Open);
    }
});

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
