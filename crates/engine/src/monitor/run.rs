//! Common parts of sending and receiving: device thread, stall monitor, and the run's clock.

use std::thread::JoinHandle;

use tautline_io::clock::now;
use tautline_io::thread::memory;
use tautline_io::thread::stall::StallMonitor;
use tautline_io::thread::{self, Granted, Scheduler};
use tautline_proto::clock::ClockMapping;
use tautline_proto::device::{Device, Ended, Process, Stop};
use tautline_proto::send_policy::ReceiverCounts;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::{GapReport, Refused};

use crate::error::RunError;
use crate::monitor::machine;
use crate::monitor::note::{Note, Words};

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Device thread's scheduler.
    pub scheduler: Scheduler,
    /// `None` until stopped.
    pub duration: Option<Span>,
    /// Whether the stall monitor runs.
    pub stall_monitor: bool,
    /// Locks the process's memory; `false` inside another program.
    pub lock_memory: bool,
    /// Text of notes.
    pub words: Words,
}

/// Device thread's stack in bytes: twice the 120 000 of libopus's scratch memory
/// (`GLOBAL_STACK_SIZE`, `celt/arch.h`).
const STACK: usize = 256 * 1024;
pub(crate) const BEAT: Span = Span::from_millis(20);

const MAX_NOTES: usize = 64;

/// A device thread with its process.
pub struct Running {
    thread: JoinHandle<(Box<dyn Process>, Ended)>,
    /// The device's own flag; the caller's stays unset when a run ends by itself.
    stop: Stop,
    /// Scheduler as granted by the kernel.
    pub granted: Granted,
}

impl Running {
    /// Starts the thread, which runs until `stop`, or the end of device or process.
    pub fn start(
        mut device: Box<dyn Device>,
        process: Box<dyn Process>,
        scheduler: Scheduler,
        stop: &Stop,
    ) -> Result<Self, RunError> {
        let stop = stop.part();
        let requested = stop.clone();
        let (thread, granted) = thread::spawn("taut-device", scheduler, STACK, move || {
            let (mut process, ended) = device.run(process, &requested);
            if matches!(ended, Ended::Finished | Ended::Stopped) {
                process.finish();
            }
            // Closing a card waits for work that may need this core, so the thread drops its
            // priority first.
            let _ = Scheduler::Other.apply();
            drop(device);
            (process, ended)
        })
        .map_err(|error| RunError::System("starting the device's thread", error))?;
        Ok(Self { thread, stop, granted })
    }

    /// Whether the thread ended by itself.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops the device; returns the process.
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

    /// Returns the next beat: just before a kernel tick ([`CardClock::start_at_tick`]), within the
    /// usual timer slack of 50 µs. Other times add an interrupt between departures.
    ///
    /// [`CardClock::start_at_tick`]: tautline_proto::card_clock::CardClock::start_at_tick
    pub(crate) fn beat(&self) -> LocalTime {
        beat_after(now()).min(self.ends)
    }

    /// Adds a note once. The number is limited, because peers can cause many.
    pub(crate) fn note(&mut self, note: &Note<'_>) {
        let Some(sentence) = (self.words)(note) else { return };
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    pub(crate) fn conclude(&mut self, note: &Note<'_>) {
        self.notes.extend((self.words)(note));
    }
}

/// Time from beat to tick. It is within a thread's timer slack and after the departures before the
/// tick.
const BEFORE_TICK: Span = Span::from_micros(10);

/// Next beat, at least half a beat away.
fn beat_after(now: LocalTime) -> LocalTime {
    (now + BEAT.half() + BEFORE_TICK).next_of(BEAT) - BEFORE_TICK
}

/// Peer's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerState {
    /// Not known yet.
    #[default]
    Unknown,
    /// Connected.
    Here,
    /// Receiver: no packet yet.
    Awaited,
    /// Receiver: streams stopped.
    Silent {
        /// Minimum duration of the silence, in whole seconds.
        since: Span,
        /// Stopped streams.
        silent: usize,
        /// Streams with sound so far.
        of: usize,
    },
    /// Sender: no trusted receiver reports.
    Nobody,
    /// Sender: reports stopped without a goodbye.
    Lost(ReceiverCounts),
}

/// Progress for display.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress<'a> {
    /// Since the start.
    pub elapsed: Span,
    /// Sent or received.
    pub packets: u64,
    /// Packets not sent, or not played in time.
    pub missed: u64,
    /// Receiver: causes of the missed packets, without needed latencies.
    pub gaps: GapReport,
    /// Receiver: packets repaired in time.
    pub repaired: u64,
    /// Receiver: resynchronisations.
    pub resyncs: u64,
    /// Device xruns.
    pub xruns: u64,
    /// Median latency so far, and its uncertainty.
    pub latency: Option<(Span, Span)>,
    /// Clock source if not exchanged reports: `system` or `ptp`.
    pub clock: Option<&'static str>,
    /// First stream's other clock, if known.
    pub known: Option<KnownClock>,
    /// Whether `latency` was measured in the sound.
    pub received: bool,
    /// Current adaptive latency.
    pub auto: Option<Span>,
    /// Streams' maximum latency, under any rule.
    pub link_offset: Span,
    /// Peer's state.
    pub peer: PeerState,
    /// Receiver: whether all senders said goodbye.
    pub left: bool,
    /// Notes, which begin the report.
    pub notes: &'a [String],
    /// Refusals of the system.
    pub refused: Option<&'a Refused>,
}

/// Quality of the peer's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownClock {
    /// `rtcp`, `system`, `ptp` or `host`.
    pub source: &'static str,
    /// Maximum error, ±.
    pub uncertainty: Span,
    /// Round trip of the exchange, if any.
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
    fn beats_precede_ticks_by_half_to_one_and_a_half_intervals() {
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
