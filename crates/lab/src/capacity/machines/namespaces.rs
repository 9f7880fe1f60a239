//! Machines in network namespaces: the master's and one per worker.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// 198.18.0.0/15 is for benchmarks (RFC 2544, appendix C.2.2). With a switch, all machines share
/// one network.
fn address(number: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, number as u8, host)
}

const MASTER: u8 = 255;

#[derive(Debug)]
pub(super) struct Namespaces {
    master: String,
    workers: Vec<String>,
    switch: Option<(String, u64)>,
    before: File,
}

const CURRENT: &str = "/proc/thread-self/ns/net";

impl Namespaces {
    /// Creates the namespaces. Moves this thread, its later sockets and children into the master's
    /// namespace. `rate` limits links to a switch.
    pub(super) fn make(rate: Option<u64>) -> Result<Self, String> {
        let before = File::open(CURRENT).map_err(|error| format!("reading {CURRENT}: {error}"))?;
        let master = format!("taut-capacity-{}", std::process::id());
        // Created first, so that drop cleans up after errors.
        let switch = rate.map(|rate| (format!("{master}-switch"), rate));
        let made = Self { master, workers: Vec::new(), switch, before };
        ip(&format!("netns add {}", made.master))?;
        let path = format!("/run/netns/{}", made.master);
        let entered = File::open(&path).map_err(|error| error.to_string()).and_then(|file| {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), network).map_err(|error| error.to_string())
        });
        entered.map_err(|why| format!("cannot enter {path}: {why}\nhint: {HINT}"))?;
        ip("link set lo up")?;
        if let Some((switch, rate)) = &made.switch {
            ip(&format!("netns add {switch}"))?;
            ip(&format!("-n {switch} link add name {SWITCH} type bridge forward_delay 0"))?;
            ip(&format!("-n {switch} link set dev {SWITCH} up"))?;
            plug(switch, "to-master", (None, address(MASTER.into(), 1)), *rate)?;
        }
        Ok(made)
    }

    pub(super) fn grow(&mut self, count: usize) -> Result<(), String> {
        while self.workers.len() < count {
            let number = self.workers.len();
            let (name, end) = (format!("{}-{number}", self.master), format!("to-{number}"));
            self.workers.push(name.clone());
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
            if let Some((switch, rate)) = &self.switch {
                plug(switch, &end, (Some(&name), address(number, 2)), *rate)?;
                continue;
            }
            ip(&format!("link add {end} type veth peer name eth0 netns {name}"))?;
            ip(&format!("address add {}/24 dev {end}", address(number, 1)))?;
            ip(&format!("-n {name} address add {}/24 dev eth0", address(number, 2)))?;
            for step in [format!("link set {end} up"), format!("-n {name} link set eth0 up")] {
                ip(&step)?;
            }
        }
        Ok(())
    }

    pub(super) fn address(number: usize) -> Ipv4Addr {
        address(number, 2)
    }

    pub(super) fn command(&self, number: usize, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.workers[number]]).arg(program);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = move_into_link_name_space(self.before.as_fd(), Some(LinkNameSpaceType::Network));
        let switch = self.switch.iter().map(|(name, _)| name);
        for name in self.workers.iter().chain(switch).chain([&self.master]) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

const HINT: &str = "run it as root with iproute2 installed, or use --local";

/// Bridge name. "all" has another meaning in sysctl(8).
const SWITCH: &str = "switch";

fn plug(
    switch: &str,
    port: &str,
    (network, address): (Option<&str>, Ipv4Addr),
    rate: u64,
) -> Result<(), String> {
    let within = network.map_or_else(String::new, |name| format!("-n {name} "));
    let netns = network.map_or_else(String::new, |name| format!(" netns {name}"));
    ip(&format!("-n {switch} link add name {port} type veth peer name eth0{netns}"))?;
    if network.is_none() {
        let own = std::process::id();
        ip(&format!("-n {switch} link set eth0 netns {own}"))?;
    }
    ip(&format!("-n {switch} link set dev {port} master {SWITCH}"))?;
    ip(&format!("{within}address add {address}/16 dev eth0"))?;
    for (within, end) in [(format!("-n {switch} "), port), (within, "eth0")] {
        ip(&format!("{within}link set dev {end} up"))?;
        // The bucket holds one longest frame (tc-tbf(8)).
        tc(&format!(
            "{within}qdisc add dev {end} root tbf rate {rate}bit burst 1600 latency 10ms"
        ))?;
    }
    Ok(())
}

fn ip(step: &str) -> Result<(), String> {
    done("ip", step)
}

fn tc(step: &str) -> Result<(), String> {
    done("tc", step)
}

fn done(program: &str, step: &str) -> Result<(), String> {
    let failed = |why: String| {
        format!(
            "cannot create a network with `{program} {step}`: {why}\n\
             hint: {HINT}"
        )
    };
    let done = Command::new(program).args(step.split(' ')).output();
    let done = done.map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    done.status.success().then_some(()).ok_or_else(|| failed(said.trim().to_owned()))
}
