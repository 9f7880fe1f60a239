//! What sending and receiving have in common: the device's thread, the stall monitor, the clock of a run.

use std::thread::JoinHandle;

use tautline_io::clock::now;
use tautline_io::thread::memory;
use tautline_io::thread::stall::StallMonitor;
use tautline_io::thread::{self, Granted, Scheduler};
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::{Device, Ended, Process, Stop};
use tautline_proto::send_policy::ReceiverCounts;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::Refused;

use crate::error::RunError;
use crate::monitor::machine;
use crate::monitor::note::{Note, Words};

/// How a run is run, whichever way the sound goes.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Of the device's thread.
    pub scheduler: Scheduler,
    /// Ends after this long; `None` runs until asked to stop.
    pub duration: Option<Span>,
    /// Whether a stall monitor watches for stalls of the host.
    pub stall_monitor: bool,
    /// Whether all memory of the process is locked: not in somebody else's.
    pub lock_memory: bool,
    /// Puts what people are to know into words.
    pub words: Words,
}

/// Stack of the device's thread, in bytes: the engine itself takes a few kilobytes, and libopus its scratch, of which it
/// says that 120 000 bytes are enough (`GLOBAL_STACK_SIZE`, `celt/arch.h`). This is twice that.
const STACK: usize = 256 * 1024;
/// How often the ordinary thread empties the rings and shows progress.
pub(crate) const BEAT: Span = Span::from_millis(20);

/// Sentences of a run that are kept.
const MOST_NOTES: usize = 64;

/// A device running a process on its own thread.
pub struct Running {
    thread: JoinHandle<(Box<dyn Process>, Ended)>,
    /// The device's own: a run that ends of itself was not asked to stop.
    stop: Stop,
    /// How the thread runs.
    pub granted: Granted,
}

impl Running {
    /// Starts the thread, which runs until `stop` is asked for or the device or the process ends.
    pub fn start(
        mut device: Box<dyn Device>,
        process: Box<dyn Process>,
        scheduler: Scheduler,
        stop: &Stop,
    ) -> Result<Self, RunError> {
        let stop = stop.part();
        let asked = stop.clone();
        let (thread, granted) = thread::spawn("taut-device", scheduler, STACK, move || {
            let (mut process, ended) = device.run(process, &asked);
            if matches!(ended, Ended::Finished | Ended::Stopped) {
                process.finish();
            }
            // Closing a card waits for what it still has to do, which may need this very core: as
            // any program, and never before it. Whatever was granted can be given back.
            let _ = Scheduler::Other.apply();
            drop(device);
            (process, ended)
        })
        .map_err(|error| RunError::System("starting the device's thread", error))?;
        Ok(Self { thread, stop, granted })
    }

    /// Whether it ended of itself.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the device and gives the process back.
    pub fn end(self) -> Result<Box<dyn Process>, RunError> {
        self.stop.request();
        match self.thread.join() {
            Ok((process, Ended::Stopped | Ended::Finished)) => Ok(process),
            Ok((_, Ended::Gone(error))) => Err(error.into()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// What watches a run, and the sentences that its report begins with.
pub(crate) struct RunWatch {
    pub(crate) stall_monitor: StallMonitor,
    pub(crate) notes: Vec<String>,
    pub(crate) refused: Refused,
    pub(crate) began: LocalTime,
    ends: LocalTime,
    pub(crate) words: Words,
}

impl RunWatch {
    pub(crate) fn begin(options: &RunOptions) -> Self {
        let mut refused = Refused::default();
        if options.lock_memory {
            memory::release_start();
            machine::note_memory(&mut refused, memory::lock());
        }
        let stall_monitor =
            if options.stall_monitor { StallMonitor::start() } else { StallMonitor::idle() };
        machine::note_stall_monitor(&mut refused, &stall_monitor.trust());
        let (notes, began, ends) = (Vec::new(), LocalTime::ZERO, LocalTime::NEVER);
        let mut watch = Self { stall_monitor, notes, refused, began, ends, words: options.words };
        watch.start(options);
        watch
    }

    /// The run begins now: what went before was preparation.
    pub(crate) fn start(&mut self, options: &RunOptions) {
        self.began = now();
        self.ends = options.duration.map_or(LocalTime::NEVER, |duration| self.began + duration);
    }

    pub(crate) fn is_over(&self, stop: &Stop) -> bool {
        stop.is_requested() || now() >= self.ends
    }

    pub(crate) fn look(&mut self) {
        self.stall_monitor.poll();
        if let Some(stopped) = self.stall_monitor.take_stopped() {
            self.note(&Note::Stopped(stopped.length()));
        }
    }

    /// The next instant at which the ordinary thread has something to do anyway: just before one at which the kernel
    /// ticks ([`CardClock::start_at_tick`]), which then wakes it in the same go, as its timer has the usual slack of
    /// 50 µs. Anywhere else it would be one more interrupt among a sender's departures.
    ///
    /// [`CardClock::start_at_tick`]: tautline_proto::card_clock::CardClock::start_at_tick
    pub(crate) fn beat(&self) -> LocalTime {
        beat_after(now()).min(self.ends)
    }

    /// Notes a matter once, and no more of them than anybody reads: a peer may go on and on.
    pub(crate) fn note(&mut self, note: &Note<'_>) {
        let Some(sentence) = (self.words)(note) else { return };
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// Notes what the report ends with: whatever was noted before, it is what explains the figures.
    pub(crate) fn conclude(&mut self, note: &Note<'_>) {
        self.notes.extend((self.words)(note));
    }
}

/// Within the slack of an ordinary thread's timers, and after what departs before the tick.
const BEFORE_TICK: Span = Span::from_micros(10);

/// The beat that follows this instant, by half of one at the least.
fn beat_after(now: LocalTime) -> LocalTime {
    (now + BEAT.half() + BEFORE_TICK).next_of(BEAT) - BEFORE_TICK
}

/// How it stands with the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerState {
    /// It is too early to say.
    #[default]
    Unknown,
    /// It is there.
    Here,
    /// A receiver: no packet has come yet.
    Awaited,
    /// A receiver: nothing has come for so long, in whole seconds, of so many streams that sounded.
    Silent {
        /// The shortest of their silences.
        since: Span,
        /// How many are silent.
        silent: usize,
        /// Of how many that sounded.
        of: usize,
    },
    /// A sender: no receiver whose word counts answers.
    Nobody,
    /// A sender: receivers stopped reporting without a goodbye.
    Lost(ReceiverCounts),
}

/// How a run goes, for people while it runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress<'a> {
    /// Since the beginning.
    pub elapsed: Span,
    /// Packets sent, or received.
    pub packets: u64,
    /// Lost and late ones.
    pub missed: u64,
    /// Of those, late ones, at a receiver.
    pub late: u64,
    /// Times that a stream was placed anew, at a receiver.
    pub resyncs: u64,
    /// Xruns of the device.
    pub xruns: u64,
    /// Median latency so far, and how sure it is.
    pub latency: Option<(Span, Span)>,
    /// What the clocks are known by, if not by exchanges of reports: `system` or `ptp`.
    pub clock: Option<&'static str>,
    /// How well the other end's clock is known, if it is: of several the first.
    pub known: Option<KnownClock>,
    /// Whether that is from the sound itself.
    pub heard: bool,
    /// The latency that is kept at present, where it follows the packets.
    pub auto: Option<Span>,
    /// The latency that is promised or kept at present, by whatever rule; of several, the longest.
    pub link_offset: Span,
    /// The other end.
    pub peer: PeerState,
    /// At a receiver: every sender said goodbye.
    pub left: bool,
    /// The sentences that the report will begin with, those so far: each stays, more may follow.
    pub notes: &'a [String],
    /// What the system refused: all of it, from the first time on.
    pub refused: Option<&'a Refused>,
}

/// How well the other end's clock is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownClock {
    /// What that rests on: `rtcp`, `system`, `ptp` or `host`, as in the report.
    pub source: &'static str,
    /// How far what is known may be from the truth, either way.
    pub uncertainty: Span,
    /// The round trip of the exchange it rests on, if it rests on one.
    pub round_trip: Option<Span>,
}

impl KnownClock {
    pub(crate) fn of(mapping: &ClockMapping) -> Self {
        Self {
            source: mapping.source.name(),
            uncertainty: mapping.uncertainty,
            round_trip: mapping.known_round_trip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_are_just_before_ticks_and_a_half_to_one_and_a_half_apart() {
        let micros = |at: i64| LocalTime::ZERO + Span::from_micros(at);
        for (now, next) in [
            (0, 19_990),
            (9990, 19_990),
            (9991, 39_990),
            (19_990, 39_990),
            (20_100, 39_990),
            (29_990, 39_990),
            (29_991, 59_990),
        ] {
            assert_eq!(beat_after(micros(now)), micros(next), "{now}");
        }
    }
}
