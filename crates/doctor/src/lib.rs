//! Checks for problems with sound at a given latency, with fixes.
#![forbid(unsafe_code)]

mod building;
mod clocks;
pub mod firewall;
mod interrupts;
mod kernel;
mod machine;
mod multicast;
mod network;
mod observation;
mod packets;
mod privileges;
mod processor;
mod sound;

use serde::Serialize;
use tautline_audio::jack::server as jack_server;
use tautline_host::confinement::Confinement;
use tautline_io::clock::disciplined::{KernelClock, disciplined_clock, hardware_clocks};
use tautline_io::network::ethtool::moderation;
use tautline_io::network::qdisc::queue_disciplines;
use tautline_io::thread::limits::{ResourceLimits, timer_resolution};
use tautline_io::thread::memory::lock;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;

pub use building::NodeRequirements;
use machine::Machine;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    #[serde(rename = "ok")]
    Passed,
    Unknown,
    /// Reduces the safety margin.
    Warning,
    /// At this latency sound will be lost.
    Failure,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Set by [`examine`].
    pub check: &'static str,
    pub verdict: Verdict,
    pub message: String,
    /// `None` only for `Passed`.
    pub reason: Option<String>,
    /// Fixes it, shows details, or improves a good state.
    pub fix: Option<String>,
    pub details: Option<String>,
    pub improvement: Option<String>,
}

impl Finding {
    fn passed(message: impl Into<String>) -> Self {
        let (check, message) = ("", message.into());
        Self {
            check,
            verdict: Verdict::Passed,
            message,
            reason: None,
            fix: None,
            details: None,
            improvement: None,
        }
    }

    fn new(verdict: Verdict, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict, reason: Some(why.into()), ..Self::passed(what) }
    }

    fn fix(self, command: impl Into<String>) -> Self {
        Self { fix: Some(command.into()), ..self }
    }

    fn details(self, command: impl Into<String>) -> Self {
        Self { details: Some(command.into()), ..self }
    }

    /// Removes `sudo` for root.
    fn without_sudo(mut self) -> Self {
        for command in
            [&mut self.fix, &mut self.details, &mut self.improvement].into_iter().flatten()
        {
            *command = command.replace("sudo ", "");
        }
        self
    }

    fn command(&self) -> Option<(&'static str, &str)> {
        let commands =
            [("fix", &self.fix), ("details", &self.details), ("better", &self.improvement)];
        commands.into_iter().find_map(|(name, command)| Some((name, command.as_deref()?)))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Requirements {
    pub latency: Span,
    pub format: StreamFormat,
}

/// Scripts rely on its JSON names.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    latency_ns: i64,
    pub findings: Vec<Finding>,
    counts: Counts,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    ok: usize,
    unknown: usize,
    warning: usize,
    failure: usize,
}

impl Report {
    pub fn new(findings: Vec<Finding>, latency: Span) -> Self {
        let mut counts = Counts::default();
        for finding in &findings {
            *match finding.verdict {
                Verdict::Passed => &mut counts.ok,
                Verdict::Unknown => &mut counts.unknown,
                Verdict::Warning => &mut counts.warning,
                Verdict::Failure => &mut counts.failure,
            } += 1;
        }
        Self { schema: 2, latency_ns: latency.as_nanos(), findings, counts }
    }

    pub fn failures(&self) -> usize {
        self.counts.failure
    }

    /// State, reason and command per finding. `wrap` breaks a text into lines; commands stay
    /// unbroken, for copying.
    pub fn text(&self, wrap: Option<fn(&str, &str) -> String>) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Finding { check, verdict, message, reason, .. } = finding;
            // Capitals draw attention.
            let mark = match verdict {
                Verdict::Passed => "ok      ",
                Verdict::Unknown => "?       ",
                Verdict::Warning => "warning ",
                Verdict::Failure => "FAILURE ",
            };
            let reason = reason.as_ref().map_or(String::new(), |reason| format!("; {reason}"));
            let reported = format!("{check}: {message}{reason}");
            let command = finding.command().map(|(name, command)| format!("{name}: {command}"));
            match (wrap, command) {
                (None, None) => text += &format!("{mark}{reported}\n"),
                (None, Some(command)) => text += &format!("{mark}{reported}; {command}\n"),
                (Some(wrap), None) => text += &wrap(mark, &reported),
                (Some(wrap), Some(command)) => {
                    text += &format!("{}        {command}\n", wrap(mark, &reported));
                }
            }
        }
        let Counts { ok, unknown, warning, failure } = self.counts;
        let latency = Span::from_nanos(self.latency_ns);
        text + &format!(
            "at {latency}: {ok} ok, {warning} warnings, {failure} failures, {unknown} unknown\n"
        )
    }
}

/// Most important first. Takes a second. With `node`, also checks for a node of a building, and
/// observes its network.
pub fn examine(requested: &Requirements, node: Option<&NodeRequirements>) -> Report {
    let machine = &Machine::system();
    let Requirements { latency, ref format } = *requested;
    let is_root = machine.is_root();
    let sudo_user = std::env::var("SUDO_USER").ok();
    let sudo_user = sudo_user.filter(|user| is_root && !matches!(&**user, "" | "root"));
    let (granted, limits) = (privileges::granted(), ResourceLimits::read());
    let kernel_clock = KernelClock::read();
    let interfaces = network::interfaces(machine);
    let names: Vec<_> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let queues = queue_disciplines().unwrap_or_default();
    let lacking = network::lacking(machine);
    let processes = interrupts::processes(machine);
    let interrupts = interrupts::of_sound_and_network(machine, &interfaces);

    let mut findings = Vec::new();
    let mut add = |check, found: Vec<Finding>| {
        let named = found.into_iter().map(|found| Finding { check, ..found });
        findings.extend(named.map(|found| if is_root { found.without_sudo() } else { found }));
    };
    let of_user = |found| match &sudo_user {
        Some(user) => privileges::of_user(user),
        None => found,
    };
    let jack = jack_server();
    add("minimum", one(packets::minimum(requested, jack.as_ref())));
    let priority = privileges::priority(&limits, granted, is_root, latency);
    add("real-time", vec![of_user(priority)]);
    add("locked-memory", vec![of_user(privileges::memory(&limits, lock().is_ok(), is_root))]);
    add("real-time-share", one(privileges::share(machine)));
    add("preemption", vec![kernel::preemption(machine, latency)]);
    add("stalls", vec![processor::stalls(&processor::watch(), machine.is_virtual(), latency)]);
    add("cpu-frequency", vec![processor::frequency(machine)]);
    add("idle-states", vec![processor::idle(machine, latency)]);
    add("clocksource", one(clocks::clocksource(machine)));
    add("timers", vec![clocks::timers(timer_resolution())]);
    add("timer-slack", one(clocks::thread_slack().map(clocks::slack)));
    add("clock-sync", vec![clocks::kept(kernel_clock, disciplined_clock(), &hardware_clocks())]);
    add("tai", one(kernel_clock.map(clocks::tai)));
    add("ptp4l", one(clocks::ask_ptp4l().map(clocks::ptp)));
    add("irqbalance", vec![interrupts::balance(machine, &processes)]);
    add("interrupts", interrupts::lines(&interrupts));
    add("interrupt-cores", interrupts::cores(machine, &interrupts));
    add("interrupt-threads", one(interrupts::threads(&interrupts, &processes)));
    add("pipewire", one(sound::server(&processes, latency)));
    add("jack", one(jack.map(|server| sound::jack(&server, &limits, granted, requested))));
    add("sound-access", one(sound::access(&sound::device_files(machine)).map(of_user)));
    add("usb-autosuspend", one(sound::suspended(machine)));
    if interfaces.is_empty() {
        add("network", vec![network::none()]);
    } else {
        for interface in &interfaces {
            let moderation = moderation(&interface.name).ok();
            add("wifi", one(network::wireless(interface, latency)));
            add("qdisc", vec![network::queue(interface, &queues, &lacking)]);
            add("pacing", one(network::pacing(interface, &queues, &lacking)));
            let moderated = moderation.map(|it| network::moderated(interface, &it, latency));
            add("interrupt-moderation", one(moderated));
            add("mtu", vec![packets::longest(interface, format)]);
        }
        add("socket-buffers", vec![packets::buffers(machine, format)]);
        add("multicast-route", vec![multicast::route(machine, &names)]);
        add("igmp", names.iter().filter_map(|name| multicast::igmp(machine, name)).collect());
        add("reverse-path", one(multicast::reverse_path(machine, &names)));
        add("igmp-querier", multicast::snooping(machine));
    }
    let rules = firewall::read(machine);
    add("firewall", firewall::check(&rules));
    if let Some(node) = node {
        add("firewall", firewall::check_node(&rules, &node.groups));
        add("node", vec![building::node(node)]);
        add("groups", one(building::groups(machine, node)));
        add("control-port", vec![building::control(machine)]);
        for (check, found) in building::observed(node) {
            add(check, vec![found]);
        }
    }
    add("plugins", vec![kernel::confinement(machine, &Confinement::of_this_kernel())]);
    Report::new(findings, latency)
}

fn one(found: Option<Finding>) -> Vec<Finding> {
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tautline_dsp::format::SampleFormat;
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};
    use tautline_trial::snapshot;

    use super::*;

    pub(crate) fn requested(millis: i64) -> Requirements {
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        Requirements { latency: Span::from_millis(millis), format }
    }

    #[test]
    fn findings_of_this_machine_are_complete() {
        let found = examine(&requested(5), None).findings;
        assert!(found.len() >= 10, "{found:#?}");
        for finding in &found {
            let Finding { check, verdict, message, reason, improvement, .. } = finding;
            assert!(!message.is_empty() && !message.ends_with('.'), "{check}: {message}");
            assert_eq!(*verdict == Verdict::Passed, reason.is_none(), "{check}: {reason:?}");
            let is_fine = *verdict == Verdict::Passed;
            assert!(finding.command().is_none() || improvement.is_some() == is_fine, "{check}");
            for text in [message].into_iter().chain(reason) {
                assert!(!text.contains('\n') && !text.contains("  "), "{check}: {text:?}");
            }
        }
    }

    #[test]
    fn every_command_can_be_pasted() {
        for finding in examine(&requested(1), None).findings {
            let Some((_, command)) = finding.command() else { continue };
            let read = Command::new("sh").args(["-n", "-c", command]).output().unwrap();
            let said = String::from_utf8_lossy(&read.stderr);
            assert!(read.status.success(), "{}: {command}: {said}", finding.check);
        }
    }

    #[test]
    fn root_is_spared_the_sudo() {
        let finding =
            Finding::new(Verdict::Warning, "y", "z").fix("sudo a && sudo b").without_sudo();
        assert_eq!(finding.fix.as_deref(), Some("a && b"));
    }

    fn report() -> Report {
        let why = "a core that slowed down while idle takes longer for the next period";
        let frequency = Finding::new(Verdict::Warning, "2 of 2 cores have powersave", why)
            .fix("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/x");
        let firewall = Finding::new(Verdict::Unknown, "only root sees it", "it may drop")
            .details("sudo nft list ruleset");
        let findings = vec![
            Finding { check: "timers", ..Finding::passed("timers have a resolution of 1ns") },
            Finding { check: "cpu-frequency", ..frequency },
            Finding { check: "firewall", ..firewall },
        ];
        Report::new(findings, Span::from_millis(5))
    }

    #[test]
    fn each_finding_is_one_line_that_ends_with_the_command() {
        let text = report().text(None);
        let lines: Vec<_> = text.lines().collect();
        snapshot!(lines[0]);
        snapshot!(lines[1]);
        snapshot!(lines[2]);
        assert_eq!(lines.len(), 4, "the last line counts them");
    }

    #[test]
    fn the_report_for_programs_has_verdicts_and_counts() {
        let value = serde_json::to_value(report()).unwrap();
        assert_eq!(value["latency_ns"], 5_000_000);
        assert_eq!(value["counts"]["warning"], 1);
        assert_eq!(value["findings"][0]["reason"], serde_json::Value::Null);
        assert_eq!(value["findings"][2]["verdict"], "unknown");
        let text = report().text(None);
        snapshot!("counts", format!("{}\n", text.lines().next_back().unwrap()));
    }
}
