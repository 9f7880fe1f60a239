//! What would spoil sound on this machine: each check reads what the system says and judges it by
//! the latency that is asked for.
//!
//! Each module has one subject, and each check in it two parts: reading, from files below a
//! [`Root`] or by way of `tautline_io`, and judging, which is a function of what was read alone.
#![forbid(unsafe_code)]

mod ask;
mod clocks;
mod disciplines;
pub mod firewall;
mod interface;
mod interrupt;
mod interrupt_cores;
mod interrupts;
mod kernel;
mod multicast;
mod network;
mod packets;
mod plugins;
mod privileges;
mod processor;
mod root;
mod show;
mod sound;
mod stalls;

use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;

use firewall::Awaited;
use root::Root;
pub use show::{FindingCounts, json, lines, page};

/// What a finding comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should be.
    Fine,
    /// It could not be seen.
    Unknown,
    /// It costs safety: sound is whole while nothing else goes wrong.
    Warns,
    /// At this latency sound will be missed.
    Spoils,
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub what: String,
    /// Why it matters here; empty where all is fine.
    pub why: String,
    /// A command for a shell.
    pub command: Option<Remedy>,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Ends what was found.
    Mend(String),
    /// Shows more of it, where no command ends it.
    Look(String),
    /// Betters what is fine.
    Better(String),
}

impl Finding {
    fn fine(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fine, what: what.into(), why: String::new(), command: None }
    }

    /// Something that is not fine.
    fn of(
        verdict: Verdict,
        check: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { check, verdict, what: what.into(), why: why.into(), command: None }
    }

    fn mended_by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(Remedy::Mend(command.into()));
        self
    }

    fn seen_by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(Remedy::Look(command.into()));
        self
    }

    /// Though it is fine.
    fn bettered_by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(Remedy::Better(command.into()));
        self
    }

    /// The command by which what is fine gets better.
    pub fn better(&self) -> Option<&str> {
        match &self.command {
            Some(Remedy::Better(command)) => Some(command),
            _ => None,
        }
    }

    /// The command that mends it.
    pub fn mend(&self) -> Option<&str> {
        match &self.command {
            Some(Remedy::Mend(command)) => Some(command),
            _ => None,
        }
    }

    /// The command that shows more of it.
    pub fn look(&self) -> Option<&str> {
        match &self.command {
            Some(Remedy::Look(command)) => Some(command),
            _ => None,
        }
    }
}

/// What everything is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Requirements {
    pub latency: Span,
    pub format: StreamFormat,
}

/// Every check, in the order in which a reader mends: what matters most comes first. Takes a second,
/// in which it watches for stalls.
pub fn examine(asked: &Requirements) -> Vec<Finding> {
    let root = Root::system();
    let interfaces = interface::in_use(&root);
    let processes = interrupts::processes(&root);
    let mut found = vec![packets::floor(asked)];
    found.extend(privileges::check(&root, asked));
    found.push(kernel::check(&root, asked));
    found.push(stalls::check(&root, asked));
    found.extend(processor::check(&root, asked));
    found.extend(clocks::check(&root));
    found.extend(interrupts::check(&root, &interfaces, &processes));
    found.extend(sound::check(&root, asked, &processes));
    found.extend(network::check(&root, &interfaces, asked));
    found.extend(multicast::check(&root, &interfaces));
    found.extend(firewall::check(&root));
    found.push(plugins::check(&root));
    if privileges::is_root(&root) {
        found.iter_mut().for_each(as_root);
    }
    found
}

/// What of this machine's firewall may keep out what a receiver waits for, in a sentence with the mend.
pub fn firewall_keeps_out(awaited: &[Awaited]) -> Option<String> {
    let root = Root::system();
    let blame = firewall::blame(&root, awaited)?;
    Some(if privileges::is_root(&root) { blame.replace("sudo ", "") } else { blame })
}

/// Who is root needs no `sudo`, and may have none.
fn as_root(finding: &mut Finding) {
    let Some(remedy) = &mut finding.command else { return };
    let (Remedy::Mend(command) | Remedy::Look(command) | Remedy::Better(command)) = remedy;
    *command = command.replace("sudo ", "");
}

#[cfg(test)]
mod tests;
