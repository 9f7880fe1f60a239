//! The host in a JACK server's cycles: a `jackd` without a card replaces the timer. Its xruns are
//! reported next to our misses.

mod cycle;
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32};
use std::sync::mpsc::channel;

use tautline_io::thread::Scheduler;
use tautline_proto::device::{Device, Ended, Stop};
use tautline_proto::time::Frames;
use tautline_proto::units::Rate;

use self::cycle::JackCycle;
use self::server::{DummyOptions, DummyServer};
use super::grid::CapacityPoint;
use super::master::{MasterLog, MasterPace, PeriodCycle};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JackPace {
    pub(super) rate: Rate,
    pub(super) period: Frames,
}

pub(super) struct JackClient {
    pub(super) device: Box<dyn Device>,
    /// Reported by the server.
    pub(super) xruns: Arc<AtomicU32>,
    /// Driver's wake-up for this cycle, in ns of a [`LocalTime`](tautline_proto::time::LocalTime).
    pub(super) woke_ns: Arc<AtomicI64>,
}

pub(super) type OpenJackClient = Box<dyn Fn(&str, JackPace) -> Result<JackClient, String>>;

const JACK_2: &str = "jackdmp";

pub(super) struct JackMaster {
    open: OpenJackClient,
    version: String,
    running: Option<(JackPace, DummyServer)>,
}

impl JackMaster {
    pub(super) fn new(open: OpenJackClient) -> Result<Self, String> {
        Ok(Self { open, version: server::version()?, running: None })
    }

    /// An error if JACK cannot run a client with this scheduler.
    pub(super) fn check(scheduler: Scheduler) -> Result<(), String> {
        server::scheduling(scheduler).map(drop)
    }

    /// Like [`MasterPace::keep`], in a server's cycles.
    pub(super) fn keep<C: PeriodCycle + 'static>(
        &mut self,
        point: &CapacityPoint,
        pace: MasterPace,
        cycle: C,
        stop: &Stop,
    ) -> Result<(C, MasterLog), String> {
        let client = self.client(point, pace.scheduler)?;
        let (back, given) = channel();
        let process = JackCycle::new(pace, cycle, client, back);
        let (mut process, ended) = client.device.run(Box::new(process), stop);
        process.finish();
        if let Ended::Gone(error) = ended {
            self.running = None;
            return Err(error.to_string());
        }
        let job = given.recv().map_err(|_| "a JACK client did not return its state".to_owned())?;
        match job.runs_as {
            Some(runs_as) if runs_as != pace.scheduler => Err(format!(
                "JACK's thread runs as {runs_as} and not as {}\nhint: give the user an rtprio limit \
                 (/etc/security/limits.d), or choose --scheduler other",
                pace.scheduler
            )),
            _ => Ok((job.cycle, job.log)),
        }
    }

    fn client(
        &mut self,
        point: &CapacityPoint,
        scheduler: Scheduler,
    ) -> Result<&mut JackClient, String> {
        let requested = JackPace { rate: point.rate, period: Frames::new(i64::from(point.period)) };
        let running = self.running.take().filter(|(running, _)| *running == requested);
        let running = match running {
            Some(running) => running,
            None => {
                let synchronous = self.version.starts_with(JACK_2);
                let options = DummyOptions { pace: requested, scheduler, synchronous };
                (requested, DummyServer::start(options, &self.open)?)
            }
        };
        Ok(&mut self.running.insert(running).1.client)
    }

    pub(super) fn note(&self) -> String {
        format!(
            "the master is a client of {} without a card (-d dummy), which calls it once a cycle \
             and waits for it; xruns are those that this server reported: a late return, or a \
             late wake-up of its own. A missed answer is no xrun, and stalls are not deducted",
            self.version
        )
    }
}
