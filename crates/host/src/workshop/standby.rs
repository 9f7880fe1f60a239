//! A standby with a loaded plugin that can immediately replace a dead process.

use std::io;

use tautline_proto::time::{LocalTime, Span};

use super::{BEGINNING, MAX_IN_A_ROW, StopLooks, pause};
use crate::plan::ChildEvent;
use crate::process::{ChildMessage, ChildProcess};

/// Time that a stream runs before a standby loads the plugin.
const SETTLING: Span = Span::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Standby {
    waiting: Option<Waiting>,
    due: LocalTime,
    failed: u32,
}

#[derive(Debug)]
struct Waiting {
    child: ChildProcess,
    until: LocalTime,
    is_ready: bool,
    stops: StopLooks,
}

impl Waiting {
    fn is_usable(&mut self, now: LocalTime) -> bool {
        if self.child.has_ended() {
            return false;
        }
        if self.stops.look(&self.child, now) == Some(true) {
            return false;
        }
        if self.is_ready {
            return true;
        }
        match self.child.line(LocalTime::ZERO, None) {
            ChildMessage::Line(line) => {
                self.is_ready = matches!(serde_json::from_str(&line), Ok(ChildEvent::Ready { .. }));
                self.is_ready
            }
            ChildMessage::Late => now < self.until,
            ChildMessage::Nothing => false,
        }
    }
}

impl Standby {
    pub(super) fn wait_from(&mut self, now: LocalTime) {
        if !self.due.is_never() {
            self.due = self.due.max(now + SETTLING);
        }
    }

    pub(super) fn is_due(&mut self, now: LocalTime) -> bool {
        if self.waiting.as_mut().is_some_and(|waiting| !waiting.is_usable(now)) {
            self.waiting = None;
            self.fail(now);
        }
        self.waiting.is_none() && now >= self.due
    }

    pub(super) fn started(&mut self, child: io::Result<ChildProcess>, now: LocalTime) {
        match child {
            Ok(child) => {
                self.waiting = Some(Waiting {
                    child,
                    until: now + BEGINNING,
                    is_ready: false,
                    stops: StopLooks::from(now),
                });
            }
            Err(_) => self.fail(now),
        }
    }

    fn fail(&mut self, now: LocalTime) {
        self.failed += 1;
        self.due = match self.failed {
            MAX_IN_A_ROW.. => LocalTime::NEVER,
            failed => now + pause(failed + 1),
        };
    }

    pub(super) fn ready(&self) -> Option<u32> {
        self.waiting.as_ref().filter(|waiting| waiting.is_ready).map(|waiting| waiting.child.id())
    }

    /// Takes a running loaded process; kills any other: loading again is faster than waiting.
    pub(super) fn take(&mut self, now: LocalTime) -> Option<ChildProcess> {
        let mut waiting = self.waiting.take()?;
        if !waiting.is_usable(now) || !waiting.is_ready || waiting.child.is_stopped() {
            return None;
        }
        self.failed = 0;
        Some(waiting.child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{ChildProgram, Starting};
    use crate::workshop::{LOOK, MAX_STOPPED};
    use tautline_io::clock::now;

    const LOADED: &str = r#"{"ready":{"scheduled":"other","cost":null}}"#;

    fn returning(lines: &[&str]) -> Standby {
        let program = ChildProgram::at("/bin/cat");
        let mut child = ChildProcess::start(&program, &Starting::default()).unwrap();
        lines.iter().for_each(|line| child.notify(line).unwrap());
        let mut standby = Standby::default();
        standby.started(Ok(child), now());
        standby
    }

    fn loaded() -> Standby {
        let mut standby = returning(&[LOADED]);
        let (until, begun) = (now() + Span::from_secs(10), now());
        while standby.ready().is_none() {
            assert!(now() < until, "it is not ready");
            assert!(!standby.is_due(begun));
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        standby
    }

    fn signal(standby: &Standby, name: &str) {
        let process = standby.waiting.as_ref().unwrap().child.id().to_string();
        let sent = std::process::Command::new("kill").args([name, &process]).status();
        assert!(sent.unwrap().success());
    }

    #[test]
    fn standby_that_still_loads_does_not_take_over() {
        let mut standby = returning(&[]);
        assert!(standby.take(now()).is_none());
        assert!(standby.waiting.is_none(), "it is ended");
        assert!(loaded().take(now()).is_some());
    }

    #[test]
    fn standby_that_does_not_finish_loading_is_ended() {
        let mut standby = returning(&[]);
        let begun = now();
        assert!(!standby.is_due(begun) && standby.failed == 0);
        let late = begun + BEGINNING + Span::from_secs(1);
        assert!(!standby.is_due(late), "the next one is started after a pause");
        assert_eq!((standby.failed, standby.due), (1, late + pause(2)));
        assert!(standby.waiting.is_none() && standby.is_due(late + pause(2)));
        let mut standby = loaded();
        assert!(!standby.is_due(late + BEGINNING) && standby.ready().is_some());
    }

    #[test]
    fn standby_that_sends_another_line_is_ended() {
        let mut standby = returning(&["nonsense"]);
        let until = now() + Span::from_secs(10);
        while standby.failed == 0 {
            assert!(now() < until, "it goes on");
            standby.is_due(now());
        }
        assert!(standby.waiting.is_none());
    }

    #[test]
    fn standby_that_stays_stopped_is_ended_and_never_takes_over() {
        let stop = |standby: &Standby| {
            signal(standby, "-STOP");
            let until = now() + Span::from_secs(10);
            while !standby.waiting.as_ref().unwrap().child.is_stopped() {
                assert!(now() < until, "it is not stopped");
            }
        };
        let mut standby = loaded();
        stop(&standby);
        assert!(standby.take(now()).is_none());
        let mut standby = loaded();
        stop(&standby);
        let mut look = now() + LOOK;
        for number in 1..MAX_STOPPED {
            standby.is_due(look);
            assert!(standby.waiting.is_some(), "look {number}");
            look += LOOK;
        }
        standby.is_due(look);
        assert!(standby.waiting.is_none() && standby.failed == 1);
    }
}
