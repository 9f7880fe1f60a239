use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::de::DeserializeOwned;
use tautline_io::clock::now;
use tautline_proto::time::LocalTime;

use super::confined::Group;
use super::usage::{ChildUsage, threads_time};
use super::words::{ChildEnded, ChildState, Start};
use super::{HostError, LabHost};
use crate::signals::interrupt;

pub(super) struct Children {
    folder: PathBuf,
    running: Vec<Child>,
    within: Vec<Option<usize>>,
    /// Dropped after their programs.
    groups: Vec<Group>,
}

const LOOK: Duration = Duration::from_millis(10);
/// Time to write a report after an interrupt.
const GRACE: Duration = Duration::from_secs(3);

const LONGEST: usize = 2000;

impl Children {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            running: Vec::new(),
            within: Vec::new(),
            groups: Vec::new(),
        }
    }

    pub(super) fn start(&mut self, start: &Start) -> Result<u32, String> {
        let child = self.running.len();
        let group = self.group(start)?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = self.folder.display().to_string();
        let words = start.words.iter().map(|word| word.replace("{dir}", &folder));
        let file = |what| {
            let path = self.folder.join(format!("{child}.{what}"));
            File::create(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
        // Children inherit the CPU affinity.
        let before = match start.cpus.is_empty() {
            true => None,
            false => Some(stay_on(&start.cpus)?),
        };
        let started = command.spawn().map_err(|error| format!("cannot start taut: {error}"));
        if let Some(before) = before {
            let _ = sched_setaffinity(None, &before);
        }
        let mut started = started?;
        if let Some(group) = group.and_then(|group| self.groups.get(group))
            && let Err(why) = group.take(started.id())
        {
            // An unlimited child would be measured wrongly.
            let _ = started.kill().and_then(|()| started.wait());
            return Err(why);
        }
        self.running.push(started);
        self.within.push(group);
        Ok(child as u32)
    }

    fn group(&mut self, start: &Start) -> Result<Option<usize>, String> {
        let Some(limits) = &start.limits else { return Ok(None) };
        if let Some(alongside) = limits.alongside {
            return Ok(self.within.get(alongside as usize).copied().flatten());
        }
        self.forget_the_empty();
        let name = format!("taut-lab-{}-{}", std::process::id(), self.groups.len());
        self.groups.push(Group::make(&name, limits)?);
        Ok(Some(self.groups.len() - 1))
    }

    fn forget_the_empty(&mut self) {
        for at in 0..self.groups.len() {
            let here = self.running.iter_mut().zip(&self.within);
            let mut here = here.filter(|(_, within)| **within == Some(at));
            if here.all(|(child, _)| matches!(child.try_wait(), Ok(Some(_)))) {
                self.groups[at] = Group::default();
            }
        }
    }

    fn child(&mut self, child: u32) -> Result<&mut Child, String> {
        self.running.get_mut(child as usize).ok_or_else(|| format!("no child {child}"))
    }

    pub(super) fn wait(&mut self, child: u32, max_ms: u64) -> Result<ChildState, String> {
        let deadline = Instant::now() + Duration::from_millis(max_ms);
        loop {
            let ended = self.child(child)?.try_wait().map_err(|error| error.to_string())?;
            if let Some(status) = ended {
                let said = fs::read(self.folder.join(format!("{child}.err")));
                let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
                let complaint =
                    last_message(&said).map(|text| text.chars().take(LONGEST).collect());
                let printed = String::new();
                let ended = ChildEnded { status: status.code(), printed, complaint };
                return Ok(ChildState::Ended(ended));
            }
            if Instant::now() >= deadline {
                return Ok(ChildState::Running);
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(super) fn usage(&mut self, child: u32) -> Result<ChildUsage, String> {
        let process = self.child(child)?.id();
        let group = self.within.get(child as usize).copied().flatten();
        let group = group.and_then(|group| self.groups.get(group)).map(Group::used);
        let cpu_ns = threads_time(process)?;
        let at_ns = (now() - LocalTime::ZERO).as_nanos();
        Ok(ChildUsage { at_ns, cpu_ns, group })
    }

    pub(super) fn interrupt(&mut self, child: u32) -> Result<(), String> {
        interrupt(self.child(child)?);
        Ok(())
    }
}

pub(crate) fn last_message(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let begins = lines.iter().rposition(|line| !line.starts_with("hint: "))?;
    Some(lines[begins..].join("\n"))
}

fn stay_on(cpus: &[usize]) -> Result<CpuSet, String> {
    let before = sched_getaffinity(None).map_err(|error| error.to_string())?;
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) {
            return Err(format!(
                "core {cpu} is not available here\nhint: `nproc` shows the number of cores"
            ));
        }
        set.set(cpu);
    }
    sched_setaffinity(None, &set)
        .map_err(|error| format!("cannot set the CPU affinity: {error}"))?;
    Ok(before)
}

impl Drop for Children {
    fn drop(&mut self) {
        self.running.iter_mut().for_each(interrupt);
        let deadline = Instant::now() + GRACE;
        for child in &mut self.running {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(LOOK);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const ENDING: Duration = Duration::from_secs(20);

impl LabHost {
    /// Waits for the child. Interrupts it after `maximum`, so that it does not disturb the next
    /// one.
    pub(crate) fn end_of(
        &mut self,
        child: u32,
        role: &str,
        maximum: Duration,
    ) -> Result<ChildEnded, HostError> {
        match self.wait(child, maximum)? {
            ChildState::Ended(ended) => Ok(ended),
            ChildState::Running => {
                self.interrupt(child)?;
                self.wait(child, ENDING)?;
                Err(self.refused(&format!("taut {role} did not end in time")))
            }
        }
    }

    pub(crate) fn said_by<T: DeserializeOwned>(
        &mut self,
        child: u32,
        role: &str,
        maximum: Duration,
    ) -> Result<T, HostError> {
        self.interrupt(child)?;
        let ended = match self.wait(child, maximum)? {
            ChildState::Ended(ended) => ended,
            ChildState::Running => {
                return Err(self.refused(&format!("taut {role} did not end when interrupted")));
            }
        };
        serde_json::from_str(&ended.printed).map_err(|error| match ended {
            ChildEnded { status: Some(0), complaint: None, .. } => {
                self.refused(&format!("taut {role}: cannot parse its output: {error}"))
            }
            ended => self.failed(role, ended),
        })
    }

    pub(crate) fn failed(&self, role: &str, ended: ChildEnded) -> HostError {
        let status =
            ended.status.map_or("a signal".to_owned(), |status| format!("status {status}"));
        let why = ended.complaint.unwrap_or(format!("it ended with {status}"));
        self.refused(&format!(
            "taut {role}: {}",
            why.trim_start_matches("taut: ").trim_start_matches("error: ")
        ))
    }
}
