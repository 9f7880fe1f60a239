//! Common parts of sending and receiving: the device's thread, the stall monitor, and the clock of
//! a run.

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

/// Options of a run in either direction.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Scheduler of the device's thread.
    pub scheduler: Scheduler,
    /// Duration of the run; `None` until stopped.
    pub duration: Option<Span>,
    /// Whether a stall monitor watches the host.
    pub stall_monitor: bool,
    /// Whether to lock all memory of the process; `false` inside another program's process.
    pub lock_memory: bool,
    /// Converts notes into text.
    pub words: Words,
}

/// Stack size of the device's thread, in bytes: twice the 120 000 bytes that suffice for libopus's
/// scratch memory (`GLOBAL_STACK_SIZE`, `celt/arch.h`). The engine itself needs a few kilobytes.
const STACK: usize = 256 * 1024;
/// Interval at which the ordinary thread empties the rings and reports progress.
pub(crate) const BEAT: Span = Span::from_millis(20);

const MAX_NOTES: usize = 64;

/// A device whose own thread runs a process.
pub struct Running {
    thread: JoinHandle<(Box<dyn Process>, Ended)>,
    /// The device's own flag; a run that ends by itself does not set the caller's flag.
    stop: Stop,
    /// Scheduler of the thread, as the kernel granted it.
    pub granted: Granted,
}

impl Running {
    /// Starts the thread, which runs until `stop` is requested or the device or the process ends.
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
            // Closing a card waits for work that may need this core. So the thread first gives up
            // its priority, which is always permitted.
            let _ = Scheduler::Other.apply();
            drop(device);
            (process, ended)
        })
        .map_err(|error| RunError::System("starting the device's thread", error))?;
        Ok(Self { thread, stop, granted })
    }

    /// Returns whether the thread ended by itself.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the device and returns the process.
    pub fn end(self) -> Result<Box<dyn Process>, RunError> {
        self.stop.request();
        match self.thread.join() {
            Ok((process, Ended::Stopped | Ended::Finished)) => Ok(process),
            Ok((_, Ended::Gone(error))) => Err(error.into()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

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

    /// Returns the next beat of the ordinary thread: just before a kernel tick
    /// ([`CardClock::start_at_tick`]), so that the tick's interrupt wakes it, within the usual
    /// timer slack of 50 µs. At other times the beat would add an interrupt between a sender's
    /// departures.
    ///
    /// [`CardClock::start_at_tick`]: tautline_proto::card_clock::CardClock::start_at_tick
    pub(crate) fn beat(&self) -> LocalTime {
        beat_after(now()).min(self.ends)
    }

    /// Adds a note once, up to a maximum number, because a peer can cause any number of notes.
    pub(crate) fn note(&mut self, note: &Note<'_>) {
        let Some(sentence) = (self.words)(note) else { return };
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// Adds a final note, without a maximum, because it explains the figures.
    pub(crate) fn conclude(&mut self, note: &Note<'_>) {
        self.notes.extend((self.words)(note));
    }
}

/// Time from a beat to the tick: within the timer slack of an ordinary thread, and after the
/// departures before the tick.
const BEFORE_TICK: Span = Span::from_micros(10);

/// Returns the next beat, at least half a beat away.
fn beat_after(now: LocalTime) -> LocalTime {
    (now + BEAT.half() + BEFORE_TICK).next_of(BEAT) - BEFORE_TICK
}

/// State of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerState {
    /// Not known yet.
    #[default]
    Unknown,
    /// Connected.
    Here,
    /// For a receiver: no packet has arrived yet.
    Awaited,
    /// For a receiver: streams that had sound have stopped.
    Silent {
        /// Time since their last packets, at least, in whole seconds.
        since: Span,
        /// Number of stopped streams.
        silent: usize,
        /// Number of streams that had sound.
        of: usize,
    },
    /// For a sender: no trusted receiver reports.
    Nobody,
    /// For a sender: receivers stopped reporting without a goodbye.
    Lost(ReceiverCounts),
}

/// Progress of a run, for display.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress<'a> {
    /// Time since the start.
    pub elapsed: Span,
    /// Packets sent or received.
    pub packets: u64,
    /// Number of lost and late packets.
    pub missed: u64,
    /// Number of late packets among those, at a receiver.
    pub late: u64,
    /// Resynchronisations, at a receiver.
    pub resyncs: u64,
    /// Xruns of the device.
    pub xruns: u64,
    /// Median latency so far, and its uncertainty.
    pub latency: Option<(Span, Span)>,
    /// Source of the clock offset, unless it is from exchanged reports: `system` or `ptp`.
    pub clock: Option<&'static str>,
    /// Quality of the first stream's other clock, if known.
    pub known: Option<KnownClock>,
    /// Whether `latency` was measured in the sound.
    pub heard: bool,
    /// Current latency, if it adapts to the packets.
    pub auto: Option<Span>,
    /// Maximum current latency of the streams, under any rule.
    pub link_offset: Span,
    /// State of the other end.
    pub peer: PeerState,
    /// At a receiver: whether every sender has said goodbye.
    pub left: bool,
    /// Notes so far; the report begins with them.
    pub notes: &'a [String],
    /// Everything that the system refused so far.
    pub refused: Option<&'a Refused>,
}

/// Quality of the other end's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownClock {
    /// Source, as in the report: `rtcp`, `system`, `ptp` or `host`.
    pub source: &'static str,
    /// Maximum error in either direction.
    pub uncertainty: Span,
    /// Round trip of the exchange on which it is based, if any.
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
