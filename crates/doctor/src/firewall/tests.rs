use tautline_trial::snapshot;

use super::*;

fn nft(policy: &str, rules: &str) -> Rules {
    Rules::Nft(format!(
        "table inet filter {{\n\tchain input {{\n\t\ttype filter hook input priority filter; \
         policy {policy};\n\t\tct state established,related accept\n\t\t{rules}\n\t}}\n\n\tchain \
         output {{\n\t\ttype filter hook output priority filter; policy drop;\n\t}}\n}}\n"
    ))
}

fn verdict(rules: &Rules) -> crate::Verdict {
    judge(rules, USUAL).verdict
}

#[test]
fn dropping_chain_fails_unless_both_ports_are_accepted() {
    let found = judge(&nft("drop", "tcp dport 5004-5005 accept"), USUAL);
    assert_eq!(found.verdict, Failure);
    let fix = "sudo nft insert rule inet filter input udp dport '{ 5004, 5005 }' accept";
    assert_eq!(found.fix.as_deref(), Some(fix));
    for lets_in in [
        "udp dport 5004-5005 accept",
        "udp dport { 4000, 5000-5010 } counter packets 3 bytes 9 accept",
        "meta l4proto udp accept",
    ] {
        assert_eq!(verdict(&nft("drop", lets_in)), Passed, "{lets_in}");
    }
    assert_eq!(verdict(&nft("drop", "udp dport 5004 accept")), Failure, "RTCP");
    assert_eq!(verdict(&nft("accept", "")), Passed);
    let last = "counter packets 12 bytes 800 reject with icmpx admin-prohibited";
    assert_eq!(verdict(&nft("accept", last)), Failure);
    assert_eq!(verdict(&nft("accept", "ip saddr 10.0.0.9 drop")), Passed);
}

#[test]
fn ports_of_calls_are_reported_if_they_are_shut() {
    let reported = |rules: &Rules| -> Vec<(crate::Verdict, Option<String>)> {
        let found = check(rules);
        found.iter().map(|one| (one.verdict, one.fix.clone())).collect()
    };
    let fine = (Passed, None);
    let shut = |dport: &str| {
        let fix = format!("sudo nft insert rule inet filter input {dport} accept");
        (Warning, Some(fix))
    };
    let [call, sound, pairing] =
        ["tcp dport 17240", "udp dport 17240-17247", "tcp dport 17251"].map(shut);
    let streams = "udp dport 5004-5005 accept";
    assert_eq!(
        reported(&nft("drop", streams)),
        [fine.clone(), call.clone(), sound.clone(), pairing]
    );
    let tcp = format!("{streams}\n\t\ttcp dport {{ 17240, 17251 }} accept");
    assert_eq!(reported(&nft("drop", &tcp)), [fine.clone(), sound]);
    let both = format!("{tcp}\n\t\tudp dport 17240-17247 accept");
    assert_eq!(reported(&nft("drop", &both)), core::slice::from_ref(&fine));
    assert_eq!(reported(&nft("accept", "tcp dport 17240 reject")), [fine.clone(), call]);
    assert_eq!(reported(&Rules::NoFirewall), [fine]);
    assert_eq!(reported(&Rules::Hidden).len(), 1);
    let rules = Rules::Iptables(
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -m udp --dport 5004:17240 -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 17251 -j ACCEPT\nCOMMIT\n"
            .into(),
    );
    let fix = "sudo iptables -I INPUT -p tcp --dport 17240 -j ACCEPT".to_owned();
    assert_eq!(reported(&rules)[1..], [(Warning, Some(fix))]);
    snapshot!(&check(&nft("drop", streams))[1].message);
    snapshot!(check(&nft("drop", streams))[1].reason.as_ref().unwrap());
}

#[test]
fn rules_that_are_more_than_is_read_are_not_judged() {
    assert_eq!(verdict(&nft("drop", "udp dport @audio accept")), Unknown);
    assert_eq!(verdict(&nft("drop", "udp dport vmap { 5004 : accept }")), Unknown);
    assert_eq!(verdict(&Rules::Hidden), Unknown);
    assert_eq!(verdict(&Rules::NoProgram), Unknown);
    assert_eq!(verdict(&Rules::NoFirewall), Passed);
}

#[test]
fn a_named_set_of_ports_is_read_where_the_rule_names_it() {
    let set = |elements: &str| {
        let Rules::Nft(rules) = nft("drop", "udp dport @audio accept") else { unreachable!() };
        let set = format!("\tset audio {{\n\t\ttype inet_service\n{elements}\t}}\n");
        verdict(&Rules::Nft(rules.replacen("{\n", &format!("{{\n{set}"), 1)))
    };
    assert_eq!(set("\t\tflags interval\n\t\telements = { 22, 5000-5010 }\n"), Passed);
    let long =
        "\t\telements = { 22 timeout 1h expires 2s, 5004 comment \"a\",\n\t\t\t     5005 }\n";
    assert_eq!(set(long), Passed);
    assert_eq!(set("\t\telements = { 5004 }\n"), Failure, "RTCP");
    assert_eq!(set(""), Failure, "it is empty");
}

#[test]
fn rules_of_iptables_are_read_alike() {
    let rules = |policy: &str, rest: &str| {
        Rules::Iptables(format!(
            "*filter\n:INPUT {policy} [0:0]\n:FORWARD DROP [0:0]\n{rest}\nCOMMIT\n"
        ))
    };
    assert_eq!(verdict(&rules("ACCEPT", "")), Passed);
    assert_eq!(verdict(&rules("DROP", "-A INPUT -p tcp --dport 5004 -j ACCEPT")), Failure);
    assert_eq!(verdict(&rules("ACCEPT", "-A INPUT -j REJECT --reject-with x")), Failure);
    for lets_in in [
        "-A INPUT -p udp -m udp --dport 5004:5005 -j ACCEPT",
        "-A INPUT -p udp -m multiport --dports 5004,5005 -j ACCEPT",
        "-A INPUT -p udp -j ACCEPT",
    ] {
        assert_eq!(verdict(&rules("DROP", lets_in)), Passed, "{lets_in}");
    }
}

fn closed(rules: &str) -> crate::Verdict {
    verdict(&nft("drop", rules))
}

#[test]
fn rule_accepts_only_packets_that_reach_it() {
    let elsewhere = "udp dport 5004-5005 accept";
    let alongside = |more: &str| {
        let Rules::Nft(rules) = nft("drop", "tcp dport 22 accept") else { unreachable!() };
        verdict(&Rules::Nft(format!("{rules}{more}")))
    };
    assert_eq!(alongside(""), Failure);
    for (kind, table, hook) in [
        ("filter", "inet other", "output"),
        ("filter", "inet other", "input"),
        ("filter", "inet other", "forward"),
        ("nat", "ip other", "prerouting"),
    ] {
        let more = format!(
            "table {table} {{\n\tchain x {{\n\t\ttype {kind} hook {hook} priority 0; policy \
             accept;\n\t\t{elsewhere}\n\t}}\n\tchain y {{\n\t\t{elsewhere}\n\t}}\n}}\n"
        );
        assert_eq!(alongside(&more), Failure, "{more}");
    }
    assert_eq!(closed("drop\n\t\tudp dport 5004-5005 accept"), Failure);
    assert_eq!(closed("udp dport 5004-5005 accept\n\t\tdrop"), Passed);
}

#[test]
fn a_chain_that_is_jumped_to_counts_where_it_is_jumped_to() {
    let with = |jump: &str, chain: &str| {
        let Rules::Nft(rules) = nft("drop", jump) else { unreachable!() };
        let chain = format!("\tchain audio {{\n\t\t{chain}\n\t}}\n}}\n");
        verdict(&Rules::Nft(rules.trim_end().trim_end_matches('}').to_owned() + &chain))
    };
    let opens = "udp dport 5004-5005 accept";
    assert_eq!(with("jump audio", opens), Passed);
    assert_eq!(with("goto audio", opens), Passed);
    assert_eq!(with("tcp dport 22 jump audio", opens), Failure);
    assert_eq!(with("iifname \"eth0\" jump audio", opens), Unknown);
    assert_eq!(with("jump audio", "return\n\t\tudp dport 5004-5005 accept"), Failure);
    assert_eq!(with("jump audio\n\t\taccept", "fib daddr type local return\n\t\tdrop"), Passed);
    assert_eq!(with("jump audio\n\t\taccept", "drop"), Failure);
    assert_eq!(with("jump audio", "jump audio"), Unknown, "a circle");
}

#[test]
fn a_chain_is_walked_once_however_often_it_is_jumped_to() {
    // Too many paths to walk.
    let mut rules = String::from(
        "table inet filter {\n\tchain input {\n\t\ttype filter hook input \
                                  priority 0; policy drop;\n\t\tjump x0\n\t}\n",
    );
    for chain in 0..14 {
        let jump = format!("\t\tjump x{}\n", chain + 1).repeat(10);
        rules += &format!("\tchain x{chain} {{\n{jump}\t}}\n");
    }
    let ends =
        |with: &str| verdict(&Rules::Nft(format!("{rules}\tchain x14 {{\n\t\t{with}\n\t}}\n}}\n")));
    assert_eq!(ends("udp dport 5004-5005 accept"), Passed);
    assert_eq!(ends("udp dport 5005 accept"), Failure);
}

#[test]
fn conditional_firewall_rules_are_not_judged() {
    for rule in [
        "ip saddr 10.0.0.0/8 udp dport 5004-5005 accept",
        "iifname \"eth0\" accept",
        "udp dport 5004-5005 ip saddr != 10.0.0.1 accept",
        "ip daddr 224.0.0.0/4 accept",
        "udp dport 5004-5005 limit rate 10/second accept",
        "udp sport 5004 accept",
        "udp dport @friends accept",
        "meta mark 0x00000001 accept",
        "iifname vmap { \"eth0\" : jump audio }",
        "queue",
    ] {
        assert_eq!(closed(rule), Unknown, "{rule}");
    }
    for rule in [
        "iifname \"lo\" accept",
        "ip saddr 127.0.0.0/8 accept",
        "ct state vmap { invalid : drop, established : accept, related : accept }",
        "ct status dnat accept",
        "meta l4proto { icmp, ipv6-icmp } accept",
        "ip6 saddr fe80::/10 udp dport 5004-5005 accept",
        "udp sport 67 udp dport 68 accept",
        "log prefix \"accept \" counter packets 0 bytes 0",
        "udp dport != 5004-5005 accept",
    ] {
        assert_eq!(closed(rule), Failure, "{rule}");
    }
    for rule in [
        "iifname != \"lo\" udp dport 5004-5005 accept",
        "ct state { new, established } udp dport { 5004, 5005 } counter packets 1 bytes 2 accept comment \"drop\"",
        "meta l4proto { tcp, udp } th dport 5004-5005 log prefix \"[drop] \" accept",
        "ct state vmap { established : accept, new : accept }",
    ] {
        assert_eq!(closed(rule), Passed, "{rule}");
    }
}

#[test]
fn open_chain_with_rejected_ports_is_detected() {
    let open = |rules: &str| verdict(&nft("accept", rules));
    assert_eq!(open("udp dport 5000-6000 drop"), Failure);
    assert_eq!(open("udp dport 5005 reject"), Failure);
    assert_eq!(open("iifname \"wan0\" drop"), Unknown);
    assert_eq!(open("ip saddr != 10.0.0.0/8 drop"), Unknown);
    assert_eq!(open("ct state invalid drop"), Passed);
    assert_eq!(open("tcp dport 22 ip saddr @shut-out reject"), Passed);
    assert_eq!(open("ip saddr @shut-out drop"), Passed);
}

#[test]
fn a_chain_for_ipv6_alone_warns() {
    let rules = |family: &str| {
        Rules::Nft(format!(
            "table {family} filter {{\n\tchain INPUT {{\n\t\ttype filter hook input priority 0; \
             policy drop;\n\t}}\n}}\n"
        ))
    };
    assert_eq!(verdict(&rules("ip")), Failure);
    assert_eq!(verdict(&rules("ip6")), Warning);
    assert_eq!(verdict(&rules("bridge")), Passed);
    assert_eq!(closed("ip protocol udp accept"), Warning);
}

#[test]
fn rules_of_iptables_with_conditions_and_chains_are_read_alike() {
    let closed = |rules: &str| {
        verdict(&Rules::Iptables(format!(
            "*nat\n:INPUT ACCEPT [0:0]\n-A INPUT -p udp -j ACCEPT\nCOMMIT\n*filter\n:INPUT DROP \
             [0:0]\n:OUTPUT ACCEPT [0:0]\n:audio - [0:0]\n{rules}\nCOMMIT\n"
        )))
    };
    let opens = "-p udp -m udp --dport 5004:5005 -j ACCEPT";
    for (rules, expected) in [
        (format!("-A OUTPUT {opens}"), Failure),
        (format!("-A audio {opens}"), Failure),
        (format!("-A audio {opens}\n-A INPUT -j audio"), Passed),
        (format!("-A audio {opens}\n-A INPUT -p tcp -j audio"), Failure),
        (format!("-A INPUT -s 10.0.0.1/32 {opens}"), Unknown),
        (format!("-A INPUT -i eth0 {opens}"), Unknown),
        (format!("-A INPUT -i lo -j ACCEPT\n-A INPUT ! -i lo {opens}"), Passed),
        (format!("-A INPUT -m comment --comment \"for -j DROP\" {opens}"), Passed),
        ("-A INPUT -m set --match-set x src -j ACCEPT".to_owned(), Unknown),
        ("-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT".to_owned(), Failure),
        ("-A INPUT -j LOG --log-prefix \"ACCEPT \"".to_owned(), Failure),
        ("-A INPUT -j TARPIT".to_owned(), Unknown),
    ] {
        assert_eq!(closed(&rules), expected, "{rules}");
    }
}

const RULES: &str = "table inet filter {
\tset audio {
\t\ttype inet_service
\t\tflags interval
\t\telements = { 5004-5005, 6000,
\t\t\t     7000 }
\t}

\tset friends {
\t\ttype ipv4_addr
\t\telements = { 10.0.0.1 }
\t}

\tchain input {
\t\tudp dport @audio counter accept
\t\tudp dport @elsewhere accept
\t\tip saddr @friends accept
\t}
}
table ip other {
\tset elsewhere {
\t\ttype inet_service
\t}
}
";

#[test]
fn a_rule_sees_the_ports_of_its_own_tables_set() {
    let chains = nft::chains(RULES);
    let read = "udp dport { 5004-5005, 6000, 7000 } counter accept";
    let rules = [read, "udp dport @elsewhere accept", "ip saddr @friends accept"];
    assert_eq!(chains[0].rules, rules);
}
