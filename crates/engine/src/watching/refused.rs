//! What the system does not let a run have: it goes on without.

use serde::Serialize;
use tautline_io::thread::memory::LockRefused;
use tautline_io::thread::stall::Trust;
use tautline_io::thread::{Granted, Scheduler};

/// What was asked of the system and refused, each in a sentence with its own mend; `None` where it was
/// granted, or not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The device's thread runs without real-time priority.
    pub priority: Option<String>,
    /// So do the threads of the stall witness.
    pub witness_priority: Option<String>,
    /// Memory is not locked.
    pub locked_memory: Option<String>,
    /// Whether the priority is one that a limit or a capability gives to an ordinary user. A deadline
    /// is not: its own sentence says what to do.
    #[serde(skip)]
    by_limit: bool,
}

impl Refused {
    pub(crate) fn note_priority(&mut self, granted: &Granted) {
        if !granted.is_granted() {
            self.priority = Some(format!("the device's thread runs as {granted}"));
            self.by_limit = !matches!(granted.asked, Scheduler::Deadline { .. });
        }
    }

    pub(crate) fn note_witness(&mut self, trust: &Trust) {
        self.witness_priority = trust.refused.map(|_| trust.to_string());
    }

    pub(crate) fn note_memory(&mut self, locked: Result<(), LockRefused>) {
        self.locked_memory = locked.err().map(|refused| refused.to_string());
    }

    /// Each sentence.
    pub fn each(&self) -> impl Iterator<Item = &str> {
        let all = [&self.priority, &self.witness_priority, &self.locked_memory];
        all.into_iter().filter_map(|sentence| sentence.as_deref())
    }

    /// All of it for people, in one line; `None` if nothing was refused.
    pub fn line(&self) -> Option<String> {
        const MEND: &str = "`taut doctor` says how to allow it";
        let priority = self.priority.as_ref().filter(|_| self.by_limit);
        let lacks = [
            priority.map(|_| "no real-time priority"),
            self.locked_memory.as_ref().map(|_| "no locked memory"),
        ];
        let lacks: Vec<&str> = lacks.into_iter().flatten().collect();
        let own = self.priority.clone().filter(|_| !self.by_limit);
        let lacking = (!lacks.is_empty())
            .then(|| format!("{}: sound may drop out under load; {MEND}", lacks.join(", ")));
        // The witness's is the same matter as the device's thread's.
        let witness = self.witness_priority.clone().filter(|_| self.priority.is_none());
        let all: Vec<String> = [own, lacking, witness].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;
    use tautline_proto::time::Span;

    fn refused(asked: Scheduler) -> Granted {
        // Operation not permitted.
        Granted { asked, errno: 1 }
    }

    #[test]
    fn all_that_an_ordinary_user_lacks_is_one_line() {
        let mut lacking = Refused::default();
        assert_eq!(lacking.line(), None);
        lacking.note_memory(Err(LockRefused { errno: 12 }));
        let memory = "no locked memory: sound may drop out under load; `taut doctor` says how to \
                      allow it";
        assert_eq!(lacking.line().as_deref(), Some(memory));
        lacking.note_witness(&Trust { refused: Some(refused(Scheduler::Fifo(99))) });
        lacking.note_priority(&refused(Scheduler::Fifo(70)));
        snapshot!(lacking.line().unwrap());
    }

    #[test]
    fn a_witness_alone_without_priority_says_so_itself() {
        let mut lacking = Refused::default();
        lacking.note_witness(&Trust { refused: Some(refused(Scheduler::Fifo(99))) });
        let line = lacking.line().unwrap();
        snapshot!(line);
    }

    #[test]
    fn a_deadline_that_is_refused_says_its_own_mend() {
        let span = Span::from_millis(1);
        let deadline = Scheduler::Deadline { runtime: span, deadline: span, period: span };
        let mut lacking = Refused::default();
        lacking.note_priority(&refused(deadline));
        let line = lacking.line().unwrap();
        assert!(line.contains("CAP_SYS_NICE on all cores") && !line.contains("doctor"), "{line}");
    }
}
