//! Tells a program that was stopped from a host that stood still: the witness stops with it.
//!
//! Whoever lets a stopped program go on sends it SIGCONT (signal(7)), and hears so. The kernel's
//! the count of processor time would not do: on a virtual machine that stood still the time of an idle
//! core goes on. A program that a debugger or a control group holds is not told of it, and takes that
//! for the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use signal_hook::SigId;
use signal_hook::consts::SIGCONT;
use signal_hook::low_level;
use tautline_proto::time::{LocalTime, Span};

use super::Stall;
use crate::clock::now;

/// Not told to go on yet.
const NEVER: i64 = i64::MIN;

/// When this program was last told to go on.
pub struct WentOn {
    at: Arc<AtomicI64>,
    handler: Option<SigId>,
}

impl WentOn {
    /// The cores' threads run again before the signal is heard, by so much at most: everything that
    /// the program runs wants a core then.
    const AFTER: Span = Span::from_millis(50);

    /// Hears it from now on. Where the system refuses, nothing is ever heard.
    pub fn listen() -> Self {
        let at = Arc::new(AtomicI64::new(NEVER));
        let heard = Arc::clone(&at);
        let hear = move || heard.store(now().as_nanos(), Ordering::Release);
        // SAFETY: reading the clock (signal-safety(7)) and storing a number are safe in a handler.
        let handler = unsafe { low_level::register(SIGCONT, hear) }.ok();
        Self { at, handler }
    }

    pub(super) fn deaf() -> Self {
        Self { at: Arc::new(AtomicI64::new(NEVER)), handler: None }
    }

    /// Whether the program itself was stopped then.
    pub fn ended(&self, stall: &Stall) -> bool {
        match self.at.load(Ordering::Acquire) {
            NEVER => false,
            nanos => {
                let at = LocalTime::from_nanos(nanos);
                stall.from < at && at <= stall.to + Self::AFTER
            }
        }
    }
}

impl Drop for WentOn {
    fn drop(&mut self) {
        if let Some(handler) = self.handler.take() {
            low_level::unregister(handler);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> LocalTime {
        LocalTime::from_nanos(millis * 1_000_000)
    }

    fn told(millis: i64) -> WentOn {
        let went_on = WentOn::deaf();
        went_on.at.store(at(millis).as_nanos(), Ordering::Release);
        went_on
    }

    #[test]
    fn a_stall_that_ends_with_going_on_is_the_programs_own() {
        let stall = Stall { from: at(1000), to: at(6000) };
        assert!(told(5990).ended(&stall) && told(6040).ended(&stall));
        assert!(!told(999).ended(&stall), "the host stood still after it");
        assert!(!told(6051).ended(&stall), "the host stood still before it");
        assert!(!WentOn::deaf().ended(&stall));
    }

    #[test]
    fn going_on_is_heard() {
        let went_on = WentOn::listen();
        let before = now();
        low_level::raise(SIGCONT).unwrap();
        assert!(went_on.ended(&Stall { from: before, to: now() }));
    }
}
