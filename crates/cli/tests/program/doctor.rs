//! `taut doctor` and `taut devices`, without privileges, and on networks with faults; the reported
//! fixes work.

use std::process::Command;

use serde_json::Value;

use crate::common::network::{Cable, Namespace};
use crate::common::program::{Call, Ended, ordinary, taut, words};
use crate::common::{Folder, Lack, shared, skipped, until};

pub(crate) struct Findings(Value);

impl Findings {
    #[track_caller]
    pub(crate) fn of(call: &Call) -> Self {
        let Ended { status, out, messages } = call.run();
        let value: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"));
        let spoils = value["counts"]["failure"].as_u64().unwrap();
        assert_eq!(status, Some(i32::from(spoils > 0)), "{value:#}");
        assert_eq!(messages.len(), usize::from(spoils > 0), "{messages:#?}");
        Self(value)
    }

    fn all(&self) -> &[Value] {
        self.0["findings"].as_array().unwrap()
    }

    #[track_caller]
    pub(crate) fn of_check(&self, check: &str) -> &Value {
        let found = self.all().iter().find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check} in {:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn verdict(&self, check: &str) -> &str {
        self.of_check(check)["verdict"].as_str().unwrap()
    }

    pub(crate) fn count(&self, check: &str) -> usize {
        self.all().iter().filter(|finding| finding["check"] == check).count()
    }

    #[track_caller]
    fn hint(&self, check: &str) -> &str {
        self.of_check(check)["fix"].as_str().unwrap()
    }
}

fn doctor(options: &str) -> Call {
    taut(words(&format!("doctor --report json {options}")))
}

fn unprivileged(options: &str) -> Option<Call> {
    ordinary(&format!("doctor --report json {options}"))
}

#[test]
fn each_finding_is_a_line_and_the_last_line_counts_them() {
    shared(|| {
        // Findings depend on the machine and the moment, but all runs have these.
        let always = ["real-time", "locked-memory", "firewall", "plugins"];
        let text = taut(words("doctor")).run().out;
        let lines: Vec<_> = text.lines().collect();
        let (last, lines) = lines.split_last().unwrap();
        let marks = ["ok", "warning", "FAILURE", "?"];
        let mut counts = [0; 4];
        let mut checks = Vec::new();
        for line in lines {
            let (mark, reported) = line.split_at(8);
            let kind = marks.iter().position(|known| *known == mark.trim());
            counts[kind.unwrap_or_else(|| panic!("{line}"))] += 1;
            checks.push(reported.split_once(": ").unwrap_or_else(|| panic!("{line}")).0);
        }
        let [ok, warn, spoil, unknown] = counts;
        let counted =
            format!("at 5ms: {ok} ok, {warn} warnings, {spoil} failures, {unknown} unknown");
        assert_eq!(*last, counted, "{text}");
        let findings = Findings::of(&doctor(""));
        for verdict in ["ok", "warning", "failure", "unknown"] {
            let found =
                findings.all().iter().filter(|finding| finding["verdict"] == verdict).count();
            assert_eq!(findings.0["counts"][verdict], found, "{:#}", findings.0);
        }
        for check in always {
            assert!(checks.contains(&check), "{check}: {text}");
            findings.of_check(check);
        }
    });
}

#[test]
fn user_without_rights_gets_failures_with_fixes() {
    shared(|| {
        let Some(tight) = unprivileged("") else { return };
        let findings = Findings::of(&tight);
        assert_eq!(findings.verdict("real-time"), "failure");
        assert!(findings.hint("real-time").contains("/etc/security/limits.d/"));
        assert_eq!(findings.verdict("locked-memory"), "warning");
        assert_eq!(findings.verdict("firewall"), "unknown");
        assert_eq!(findings.of_check("firewall")["details"], "sudo nft list ruleset");
        let Some(patient) = unprivileged("--latency 100ms") else { return };
        assert_eq!(Findings::of(&patient).verdict("real-time"), "warning");
    });
}

/// `false`, with a message, if this machine cannot.
fn made(place: &Namespace, command: &str) -> bool {
    let mut ip = Command::new("ip");
    let done = ip.args(["netns", "exec", &place.name, "sh", "-c", command]).output();
    let why = match done {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(why) => why.to_string(),
    };
    skipped(Lack::reported_by(&why), &format!("`{command}`: {why}"));
    false
}

#[track_caller]
fn is_found_and_mended(wrong: &str, check: &str, verdict: &str, options: &str) {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let place = &cable.left;
        if !made(place, &wrong.replace("IFACE", &place.interface)) {
            return;
        }
        let look = || Findings::of(&doctor(options).within(place));
        let found = look();
        assert_eq!(found.verdict(check), verdict, "{:#}", found.of_check(check));
        if made(place, found.hint(check)) {
            let found = look();
            assert_eq!(found.verdict(check), "ok", "{:#}", found.of_check(check));
        }
    });
}

#[test]
fn network_faults_are_found_and_fixed() {
    let firewall = "nft add table inet mine && nft 'add chain inet mine input { type filter hook input \
                    priority 0; policy drop; }'";
    for (wrong, check, verdict, options) in [
        ("tc qdisc add dev IFACE root pfifo", "qdisc", "warning", ""),
        ("true", "mtu", "warning", "--channels 16"),
        ("true", "multicast-route", "warning", ""),
        ("echo 2 > /proc/sys/net/ipv4/conf/IFACE/force_igmp_version", "igmp", "warning", ""),
        (firewall, "firewall", "warning", ""),
    ] {
        is_found_and_mended(wrong, check, verdict, options);
    }
}

#[test]
fn reverse_path_filter_on_a_second_network_is_found_and_fixed() {
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let Some([second, _]) = cable.lay_another() else { return };
        let strict = format!("echo 1 > /proc/sys/net/ipv4/conf/{}/rp_filter", second.interface);
        assert!(made(&second, &strict));
        let found = Findings::of(&doctor("").within(&second));
        assert_eq!(found.verdict("reverse-path"), "warning");
        let what = found.of_check("reverse-path")["message"].as_str().unwrap();
        assert!(what.starts_with(&format!("{} drops ", second.interface)), "{what}");
        assert!(made(&second, found.hint("reverse-path")));
        assert_eq!(Findings::of(&doctor("").within(&second)).verdict("reverse-path"), "ok");
    });
}

#[test]
fn doctor_without_a_network_says_how_to_check() {
    shared(|| {
        let Some(cable) = Cable::lay() else {
            return;
        };
        let down = format!("ip link set {} down", cable.left.interface);
        assert!(made(&cable.left, &down));
        let found = Findings::of(&doctor("").within(&cable.left));
        assert_eq!(found.verdict("network"), "warning");
        assert_eq!(found.of_check("network")["details"], "ip -brief link");
    });
}

#[test]
fn rights_under_sudo_are_not_the_users() {
    shared(|| {
        let verdicts = |user: &str| {
            let found = Findings::of(&doctor("").with("SUDO_USER", user));
            ["real-time", "locked-memory"].map(|check| found.verdict(check).to_owned())
        };
        assert_eq!(verdicts("alice"), ["unknown"; 2]);
        assert_eq!(verdicts("root"), verdicts(""));
    });
}

#[test]
fn doctor_uses_the_latency_of_tautline_toml() {
    shared(|| {
        let folder = Folder::new();
        let look = |text: &str| {
            std::fs::write(folder.file("tautline.toml"), text).unwrap();
            Findings::of(&doctor("").with("TAUT_HOME", folder.path())).0["latency_ns"].clone()
        };
        assert_eq!(look("latency = \"20ms\""), 20_000_000);
        assert_eq!(look("latency = \"auto\"\n[doctor]\nchannels = 8"), 5_000_000);
    });
}

#[cfg(feature = "pipewire")]
#[test]
fn too_long_quantum_is_found_with_a_fix() {
    shared(|| {
        use crate::common::desktop::Desktop;

        let Some(desktop) = Desktop::start() else { return };
        let look = |latency: &str| {
            let line = format!("doctor --report json --latency {latency}");
            Findings::of(&desktop.taut(&line))
        };
        // 4096 frames at 48 kHz are 85.3 ms; two ends take two of them.
        assert_eq!(look("200ms").verdict("pipewire"), "ok");
        assert_eq!(look("120ms").verdict("pipewire"), "warning");
        let found = look("5ms");
        assert_eq!(found.verdict("pipewire"), "failure");
        let (program, line) = found.hint("pipewire").split_once(' ').unwrap();
        desktop.call(program, line).run().well();
        assert_eq!(look("5ms").verdict("pipewire"), "ok");
        let listed = desktop.taut("devices").run().well().out;
        assert!(listed.starts_with("PipeWire\n  pipewire:NAME\n"), "{listed}");
    });
}

#[test]
fn every_device_is_listed_with_a_name_that_is_taken() {
    let text = taut(["devices"]).run().well();
    assert_eq!(text.messages.len(), 0, "{:#?}", text.messages);
    assert!(text.out.contains("\n  virtual: "), "{}", text.out);
    let listed = taut(words("devices --report json")).run().well().out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<_> = listed["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| {
            assert!(!device["directions"].as_array().unwrap().is_empty(), "{device:#}");
            device["name"].as_str().unwrap()
        })
        .collect();
    assert!(names.contains(&"null:") && names.contains(&"virtual:"), "{names:?}");
    for name in names {
        assert!(text.out.contains(name), "{name}");
    }
    assert_eq!(taut(words("devices --report none")).run().well().out, "");
}

#[test]
fn node_of_a_building_is_checked() {
    const BUILDING: &str = "epoch = 1\nannouncements = \"239.255.77.1:5010\"\n\
        [node.gym]\nhost = \"10.77.0.1\"\n[node.gym.card.main]\ndevice = \"virtual:\"\n\
        [zone.gym]\nnumber = 1\nnode = \"gym\"\ncard = \"main\"\nchannels = [1, 2]\n";
    shared(|| {
        let Some(cable) = Cable::lay() else { return };
        let folder = Folder::new();
        std::fs::write(folder.file("building.toml"), BUILDING).unwrap();
        let at = |place: &Namespace, line: &str| {
            let call = taut(words(line)).in_folder(folder.path()).within(place);
            call.with("TAUT_HOME", folder.file("home"))
        };
        let verdicts = |place| {
            let found =
                Findings::of(&at(place, "doctor --report json --latency 1s --observe 100ms"));
            ["node", "groups", "control-port"].map(|check| {
                let found = found.all().iter().find(|finding| finding["check"] == check);
                found.map(|found| found["verdict"].as_str().unwrap().to_owned())
            })
        };
        let expect = |verdicts: [&str; 3]| verdicts.map(|it| Some(it.to_owned()));
        let [left, right] = [&cable.left, &cable.right];
        assert_eq!(verdicts(left), expect(["ok", "warning", "warning"]));
        let elsewhere = verdicts(right);
        assert_eq!(elsewhere[..2], [Some("warning".to_owned()), None]);
        let node = at(left, "node").listened_to().start().wait_for("node ");
        until("the group is not joined", || verdicts(left) == expect(["ok"; 3]));
        node.signal("-INT");
        node.end().well();
        let filter = "nft add table inet mine && nft 'add chain inet mine input { type filter hook input \
                      priority 0; policy drop; }' && nft add rule inet mine input udp dport 5004-5005 accept";
        if made(left, filter) {
            let found =
                Findings::of(&at(left, "doctor --report json --latency 1s --observe 100ms"));
            let dropped =
                found.all().iter().filter(|it| it["check"] == "firewall" && it["verdict"] != "ok");
            let dropped: Vec<_> = dropped.map(|it| it["fix"].as_str().unwrap()).collect();
            for port in ["tcp dport 17250 ", "udp dport '{ 5010, 5011 }' "] {
                assert!(dropped.iter().any(|fix| fix.contains(port)), "{port}: {dropped:#?}");
            }
        }
    });
}
