//! A device that lends its process to the bench.

use std::sync::mpsc::{Receiver, Sender, channel};

use tautline_proto::clock::ClockId;
use tautline_proto::device::{Device, Ended, Process, Settings, Stop};

pub(crate) struct Lender {
    settings: Settings,
    lent: Sender<Box<dyn Process>>,
    returned: Receiver<Box<dyn Process>>,
}

pub(crate) struct Loan {
    pub(crate) process: Box<dyn Process>,
    back: Sender<Box<dyn Process>>,
}

/// Common clock of all devices, so that frames are copied, as in the bare loop.
pub(crate) fn clock() -> ClockId {
    ClockId::of(&[b"bench"])
}

/// Returns a device, and a function that waits for its process.
pub(crate) fn lender(settings: Settings) -> (Lender, impl FnOnce() -> Loan) {
    let (lent, borrowed) = channel();
    let (back, returned) = channel();
    let loan = move || Loan { process: borrowed.recv().unwrap(), back };
    (Lender { settings, lent, returned }, loan)
}

impl Loan {
    pub(crate) fn end(self) {
        self.back.send(self.process).unwrap_or_default();
    }
}

impl Device for Lender {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn clock(&self) -> Option<ClockId> {
        Some(clock())
    }

    fn run(&mut self, process: Box<dyn Process>, _: &Stop) -> (Box<dyn Process>, Ended) {
        self.lent.send(process).unwrap_or_else(|_| panic!("the bench is gone"));
        let process = self.returned.recv().unwrap();
        (process, Ended::Stopped)
    }
}
