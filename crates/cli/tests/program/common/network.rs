//! Two network namespaces with a cable between them.

mod bottleneck;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::program::TIMEOUT;
use super::{Lack, skipped};

pub(crate) use bottleneck::ThinLink;

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) interface: String,
    pub(crate) address: &'static str,
}

impl Namespace {
    #[track_caller]
    pub(crate) fn arrived(&self) -> u64 {
        let show = ["-n", &self.name, "-s", "-j", "link", "show", "dev", &self.interface];
        let messages = Command::new("ip").args(show).output().unwrap().stdout;
        let messages: serde_json::Value = serde_json::from_slice(&messages).unwrap();
        messages[0]["stats64"]["rx"]["packets"].as_u64().unwrap_or_else(|| panic!("{messages}"))
    }

    /// Waits for a carrier and for departing packets: the kernel drops earlier ones.
    #[track_caller]
    fn comes_up(&self) {
        let until = Instant::now() + TIMEOUT;
        let show = ["-n", &self.name, "-br", "link", "show", "dev", &self.interface];
        loop {
            let messages = Command::new("ip").args(show).output().unwrap().stdout;
            let messages = String::from_utf8_lossy(&messages).into_owned();
            if messages.split_whitespace().nth(1) == Some("UP") {
                return;
            }
            assert!(Instant::now() < until, "the cable never comes up: {messages}");
        }
    }

    #[track_caller]
    pub(crate) fn breaks(&self) {
        let done = ip(&format!("-n {} link set {} down", self.name, self.interface));
        assert_eq!(done, Ok(()));
    }

    /// Drops datagrams for `port` at random. `false`, with a message, if impossible.
    pub(crate) fn loses(&self, percent: u32, port: u16) -> bool {
        self.rules(&format!(
            "table inet taut {{\n chain input {{\n type filter hook input priority 0\n \
                 udp dport {port} numgen random mod 100 < {percent} counter drop\n }}\n}}\n"
        ))
    }

    pub(crate) fn rules(&self, rules: &str) -> bool {
        let enter = ["netns", "exec", &self.name, "nft", rules];
        let done = Command::new("ip").args(enter).output();
        let why = match done {
            Ok(done) if done.status.success() => return true,
            Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        skipped(Lack::reported_by(&why), &format!("`nft`: {why}"));
        false
    }

    #[track_caller]
    pub(crate) fn lost(&self) -> u64 {
        let list = ["netns", "exec", &self.name, "nft", "list", "table", "inet", "taut"];
        let messages = Command::new("ip").args(list).output().unwrap();
        let messages = String::from_utf8_lossy(&messages.stdout).into_owned();
        let mut words = messages.split_whitespace().skip_while(|word| *word != "packets").skip(1);
        words.next().and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{messages}"))
    }
}

/// Removed when dropped.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
}

impl Cable {
    /// `None`, with a message, without namespaces.
    pub(crate) fn lay() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}n{number}", std::process::id());
        let end = |side, address| Namespace {
            name: format!("taut{id}{side}"),
            interface: format!("t{id}{side}"),
            address,
        };
        let cable = Self { left: end('a', "10.77.0.1"), right: end('b', "10.77.0.2") };
        let (a, b) = (&cable.left, &cable.right);
        let mut steps = vec![
            format!("netns add {}", a.name),
            format!("netns add {}", b.name),
            format!(
                "link add {} netns {} type veth peer name {} netns {}",
                a.interface, a.name, b.interface, b.name
            ),
        ];
        for Namespace { name, interface, address } in [a, b] {
            steps.push(format!("-n {name} address add {address}/24 dev {interface}"));
            // Without this limit, the kernel carries a burst (UDP_SEGMENT) as one packet, which a
            // rule drops and counts as one.
            steps.push(format!("-n {name} link set {interface} gso_max_segs 1"));
            steps.push(format!("-n {name} link set lo up"));
            steps.push(format!("-n {name} link set {interface} up"));
        }
        can(&steps)?;
        [a, b].into_iter().for_each(Namespace::comes_up);
        Some(cable)
    }
}

impl Cable {
    /// Between the same namespaces, with its own network. `None`, with a message, if impossible.
    pub(crate) fn lay_another(&self) -> Option<[Namespace; 2]> {
        let end = |side: &Namespace, address| Namespace {
            name: side.name.clone(),
            interface: format!("{}x", side.interface),
            address,
        };
        let ends = [end(&self.left, "10.77.1.1"), end(&self.right, "10.77.1.2")];
        let [a, b] = &ends;
        let mut steps = vec![format!(
            "link add {} netns {} type veth peer name {} netns {}",
            a.interface, a.name, b.interface, b.name
        )];
        for Namespace { name, interface, address } in &ends {
            steps.push(format!("-n {name} address add {address}/24 dev {interface}"));
            steps.push(format!("-n {name} link set {interface} up"));
        }
        can(&steps)?;
        ends.iter().for_each(Namespace::comes_up);
        Some(ends)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        remove([&self.left, &self.right]);
    }
}

#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) inside: Namespace,
    pub(crate) router: Namespace,
    pub(crate) outside: Namespace,
}

impl Behind {
    /// `None`, with a message, without namespaces.
    pub(crate) fn a_nat() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}m{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let end = |side, address| Namespace {
            name: format!("taut{id}{side}"),
            interface: format!("t{id}{side}"),
            address,
        };
        let all = Self {
            inside: end('i', "192.168.77.2"),
            router: end('r', "10.77.9.1"),
            outside: end('o', "10.77.9.2"),
        };
        let Self { inside: Namespace { name: i, interface: i0, .. }, router, outside } = &all;
        let (r, r0, o, o0) = (&router.name, &router.interface, &outside.name, &outside.interface);
        let r1 = format!("{r0}1");
        let mut steps: Vec<_> = [i, r, o].iter().map(|name| format!("netns add {name}")).collect();
        for (interface, name, other, its) in [(i0, i, &r1, r), (r0, r, o0, o)] {
            steps.push(format!(
                "link add {interface} netns {name} type veth peer name {other} netns {its}"
            ));
        }
        for (name, interface, address) in [
            (i, i0, "192.168.77.2"),
            (r, &r1, "192.168.77.1"),
            (r, r0, router.address),
            (o, o0, outside.address),
        ] {
            steps.push(format!("-n {name} address add {address}/24 dev {interface}"));
            steps.push(format!("-n {name} link set {interface} gso_max_segs 1"));
            steps.push(format!("-n {name} link set {interface} up"));
        }
        steps.push(format!("-n {i} route add default via 192.168.77.1"));
        steps.push(format!("netns exec {r} sysctl -qw net.ipv4.ip_forward=1"));
        can(&steps)?;
        let masquerade = format!(
            "table ip nat {{\n chain out {{\n type nat hook postrouting priority 100\n \
             oifname {r0} masquerade random\n }}\n}}\n"
        );
        if !all.router.rules(&masquerade) {
            return None;
        }
        [&all.inside, &all.router, &all.outside].into_iter().for_each(Namespace::comes_up);
        Some(all)
    }

    #[track_caller]
    pub(crate) fn drops(&self, what: &str) {
        let rules = format!(
            "table inet cut {{\n chain forward {{\n type filter hook forward priority 0\n {what} drop\n }}\n}}\n"
        );
        assert!(self.router.rules(&rules), "{rules}");
    }

    #[track_caller]
    pub(crate) fn carries_all(&self) {
        assert!(self.router.rules("delete table inet cut"));
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        remove([&self.inside, &self.router, &self.outside]);
    }
}

fn can(steps: &[String]) -> Option<()> {
    for step in steps {
        if let Err(why) = ip(step) {
            skipped(Lack::reported_by(&why), &format!("`ip {step}`: {why}"));
            return None;
        }
    }
    Some(())
}

fn remove<const ENDS: usize>(networks: [&Namespace; ENDS]) {
    for side in networks {
        let _ = ip(&format!("netns delete {}", side.name));
    }
}

fn ip(step: &str) -> Result<(), String> {
    let done = Command::new("ip").args(step.split(' ')).output().map_err(|e| e.to_string())?;
    let messages = || String::from_utf8_lossy(&done.stderr).trim().to_owned();
    done.status.success().then_some(()).ok_or_else(messages)
}
