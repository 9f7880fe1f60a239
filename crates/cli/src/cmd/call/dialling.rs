//! A line that is being made, on a thread of its own: where nobody answers that takes seconds, in which keys, lines and
//! the sound of the call go on.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallAddress, CallLine, DialError};
use tautline_api::trust::TrustStore;
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use super::Calling;
use crate::failure::Failure;

/// For connection and handshake.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// See the module. Dropped, it is not waited for: the line is closed as soon as it is made.
pub(super) struct Dialling {
    made: Receiver<Result<CallLine, DialError>>,
    thread: JoinHandle<()>,
}

impl Dialling {
    fn begin(whom: &CallAddress, trust: &Arc<TrustStore>) -> Result<Self, Failure> {
        let (tell, made) = sync_channel(1);
        let (whom, trust) = (whom.clone(), Arc::clone(trust));
        let dial = move || {
            // Nobody may want it any more.
            let _ = tell.send(CallLine::dial(&whom, &trust, DIAL_LIMIT));
        };
        let thread = std::thread::Builder::new().name("taut-dial".into()).spawn(dial);
        let thread = thread.map_err(|error| {
            Failure::running(format!(
                "starting a thread: {error}; end other programs, or raise ulimit -u"
            ))
        })?;
        Ok(Self { made, thread })
    }

    /// What came of it, or itself if that is not known by then.
    fn wait(self, until: LocalTime) -> Result<Result<CallLine, DialError>, Self> {
        let left = (until - now()).max(Span::ZERO).as_nanos().unsigned_abs();
        match self.made.recv_timeout(Duration::from_nanos(left)) {
            Ok(made) => Ok(made),
            Err(RecvTimeoutError::Timeout) => Err(self),
            Err(RecvTimeoutError::Disconnected) => match self.thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("it tells before it ends"),
            },
        }
    }
}

impl Calling<'_> {
    /// Begins to make a line.
    pub(super) fn dial(&mut self) -> Result<(), Failure> {
        match Dialling::begin(self.host, &self.trust) {
            Ok(dialling) => self.dialling = Some(dialling),
            // Its sound goes on.
            Err(failure) if self.caller.call().is_some() => {
                self.no_line(&failure.to_string());
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Waits for the line that is being made, no longer than until then; whether one is.
    pub(super) fn await_line(&mut self, until: LocalTime) -> bool {
        let Some(dialling) = self.dialling.take() else { return false };
        match dialling.wait(until) {
            Err(dialling) => self.dialling = Some(dialling),
            Ok(Ok(line)) => {
                self.caller.connected(line.version(), now());
                self.host_trust.met(line.key());
                self.line = Some(line);
            }
            Ok(Err(error)) => {
                self.no_line(&error.to_string());
                self.failed = Some(error);
            }
        }
        true
    }

    /// None was made: where there is a call, the next is.
    fn no_line(&mut self, why: &str) {
        if self.caller.call().is_some() {
            self.tell_once(&format!("{why}; it is tried again and again"));
        }
        self.caller.line_lost(now());
    }
}
