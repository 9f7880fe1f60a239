//! Calls: two-way sound between machines ([docs/guide/calls.md](../../../docs/guide/calls.md)).
//!
//! ```text
//! Callers ── Caller: dials, keeps the control connection, reconnects ─┐
//!                                                                      ├─ Endpoint: send and receive engine
//! Server ─── seat: accepts a control connection, answers ──────────────┘   on two devices, by one transport
//! ```
//! `proto::call` decides for both drivers ([`CallerSession`](tautline_proto::call::caller_session::CallerSession),
//! [`Answering`](tautline_proto::call::answering::Answering)). The owner's thread calls `turn`
//! repeatedly; each turn reads the clock once. Only engines have their own threads.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod caller;
mod callers;
mod commands;
mod devices;
mod endpoint;
mod microphone;
mod received_format;
mod recordings;
mod server;
mod terms;
mod transport;

use std::path::PathBuf;
use std::sync::Arc;

use tautline_api::call::CallAddress;
use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_engine::control::{CannotChange, Changed};
use tautline_engine::error::RunError;
use tautline_engine::monitor::note::Words;
use tautline_engine::monitor::observers::Onlooker;
use tautline_engine::plan::probes::Probes;
use tautline_io::link::OpenError;
use tautline_io::thread::Scheduler;
use tautline_proto::call::message::CallReason;
use tautline_proto::call::path::SilentWay;
use tautline_proto::call::terms::{CallPath, CallTerms, StreamTerms};
use tautline_proto::coding_time::LongCoding;
use tautline_proto::device::{DeviceError, Direction};
use tautline_proto::latency::LatencyRule;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::{Coding, StreamFormat};
use tautline_proto::time::Span;
use tautline_report::Report;
use tautline_report::snapshot::StreamSnapshot;

pub use callers::Callers;
pub use commands::Command;
pub use devices::{DeviceChoice, DevicePair};
pub use recordings::is_mixed;
pub use server::{Server, ServerConfig};
pub use terms::bits_in_words;

#[cfg(test)]
extern crate self as tautline_call;
#[cfg(test)]
#[path = "../tests/ends/mod.rs"]
mod ends;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tautline_trial::CountingAllocator = tautline_trial::CountingAllocator;

const BEAT: Span = Span::from_millis(20);

/// Settings of either end.
#[derive(Clone)]
pub struct Config {
    /// Capture device.
    pub input: DeviceSpec,
    /// Playback device.
    pub output: DeviceSpec,
    /// Repeats the input file.
    pub looped: bool,
    /// The only offered codec; `None`: all.
    pub format: Option<Coding>,
    /// Minimum packet time.
    pub ptime: Span,
    /// Requested latency.
    pub latency: Option<LatencyRule>,
    /// Redundancy, both directions.
    pub redundancy: Option<Redundancy>,
    /// Scheduler of the device threads.
    pub scheduler: Scheduler,
    /// Folder for recordings, or a WAV file that mixes both directions.
    pub record: Option<PathBuf>,
    /// Maximum duration.
    pub duration: Option<Span>,
    /// Measured packets.
    pub probes: Probes,
    /// Runs the stall monitor.
    pub stall_monitor: bool,
    /// Echo cancellation: `Some(true)` fails if it is impossible, `Some(false)` reports that.
    pub cancel_echo: Option<bool>,
    /// Text of notes.
    pub note_words: Words,
    /// Text of changes.
    pub change_words: fn(&Changed) -> String,
    /// Text of refused changes.
    pub refusal_words: fn(&CannotChange) -> String,
    /// Receives events, on the thread that causes them.
    pub events: Events,
}

impl Config {
    /// Whether a file is played or recorded: a reopened file starts again.
    pub fn has_files(&self) -> bool {
        let file = |device: &DeviceSpec| {
            matches!(
                device,
                DeviceSpec::Software(SoftwareSpec::File(_) | SoftwareSpec::Standard(_))
            )
        };
        file(&self.input) || file(&self.output)
    }

    pub(crate) fn notify(&self, event: Event) {
        (self.events)(event);
    }
}

/// Settings of a caller.
pub struct CallerConfig {
    /// Common settings.
    pub end: Config,
    /// Hosts to call, each once.
    pub hosts: Vec<CallAddress>,
    /// Whether the hosts hear each other.
    pub bridged: bool,
    /// Whether the codec follows the network.
    pub auto_format: bool,
    /// Maximum bit rate of Opus.
    pub bitrate: Option<u32>,
    /// Allowed transports, preferred first.
    pub paths: &'static [CallPath],
    /// Starts muted.
    pub muted: bool,
    /// Starts on hold.
    pub held: bool,
}

/// Event callback.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Caller,
    Called,
}

impl Side {
    const fn role(self) -> &'static str {
        match self {
            Self::Caller => "call",
            Self::Called => "serve",
        }
    }

    const fn terms(self, terms: &CallTerms, direction: Direction) -> &StreamTerms {
        match (self, direction) {
            (Self::Caller, Direction::Capture) | (Self::Called, Direction::Playback) => {
                &terms.there
            }
            (Self::Caller, Direction::Playback) | (Self::Called, Direction::Capture) => &terms.back,
        }
    }
}

/// Events for the user.
#[derive(Debug)]
pub enum Event {
    /// Message or error.
    Note(String),
    /// A detail for engineers.
    Detail(String),
    /// Echo cancellation is active.
    EchoCancelled,
    /// Coding takes too much of a period.
    LongCoding(LongCoding, Direction, usize, StreamFormat),
    /// An event of the call with this peer.
    Call(String, CallEvent),
}

/// Events of a call.
#[derive(Debug)]
pub enum CallEvent {
    /// The call begins; with `None`, on hold.
    Begun(Option<CallTerms>),
    /// The call is on hold.
    Held,
    /// The call has sound again.
    Sounds(CallTerms),
    /// New transport, and the called end's UDP port if datagrams never passed it.
    MovedTo(CallPath, Option<u16>),
    /// A change failed.
    CannotChange(CannotChange),
    /// The control connection is lost; at the caller with the reason.
    Away(Option<String>),
    /// The control connection is restored.
    Resumed,
    /// The peer hung up.
    Over(CallReason),
    /// Caller: the call failed with this reason and is retried.
    Retrying(String),
    /// Caller: these terms were lost with two control connections.
    Dropped(CallTerms),
    /// Caller: the codec stops following the network.
    CodingKept,
    /// Caller: the peer rejected a change.
    Refused(Option<Changed>, CallReason),
    /// Caller: agreed latency exceeds the requested one.
    LatencyRaised {
        /// Requested latency.
        requested: Span,
        /// Agreed value.
        kept: Span,
    },
    /// Caller: agreed packet time exceeds the requested one.
    PtimeRaised {
        /// Requested packet time.
        requested: Span,
        /// Agreed value.
        agreed: Span,
    },
    /// Caller: the far end adapts the format that it sends.
    Adapted {
        /// Received format.
        format: String,
        /// Its packet time.
        ptime: Span,
        /// Adaptations so far.
        times: u32,
    },
    /// Caller: no datagrams pass this way. With the peer's UDP port if none ever did.
    NoDatagrams(SilentWay, Option<u16>),
    /// Caller: the host lost its trust, or the trust list is unreadable.
    Untrusted(Option<String>),
    /// Caller: an ended part of the sound failed.
    Failed(String),
    /// Server: nothing arrives from the caller, so nothing is sent to it.
    Silent,
    /// Server: the terms changed.
    Changed(CallTerms),
    /// Server: protocol error of the caller.
    Fault(String),
    /// Server: the caller was rejected.
    Rejected(CallReason),
    /// Server: closed a connection without a call.
    Stranger,
}

/// Call errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Contradictory options.
    #[error("{0}")]
    Usage(String),
    /// Device, address or peer unavailable.
    #[error("{0}")]
    Open(String),
    /// Failure during the call.
    #[error("{0}")]
    Running(String),
    /// Device error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Socket error.
    #[error(transparent)]
    Link(#[from] OpenError),
    /// Engine error.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Key or trust list error.
    #[error(transparent)]
    Trust(#[from] tautline_api::trust::TrustError),
}

pub(crate) fn running(sentence: impl Into<String>) -> Error {
    Error::Running(sentence.into())
}

/// Reports of ended sound, received first, and the first failure.
pub type Ended = (Vec<Report>, Result<(), Error>);

/// State of a call's sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// No call yet.
    #[default]
    None,
    /// Via this transport.
    By(CallPath),
    /// On hold.
    Held,
}

/// A call for display.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'a> {
    /// Name of the peer.
    pub peer: &'a str,
    /// State of its sound.
    pub standing: Standing,
    /// Newest snapshot of the sent stream.
    pub sent: Option<&'a StreamSnapshot>,
    /// Newest snapshot of the received stream.
    pub received: Option<&'a StreamSnapshot>,
}

#[derive(Default)]
pub(crate) struct Watched {
    onlookers: [Onlooker; 2],
    newest: [Option<StreamSnapshot>; 2],
}

impl Watched {
    pub(crate) fn look(&mut self) {
        for (onlooker, newest) in self.onlookers.iter().zip(&mut self.newest) {
            let stream = onlooker.newest().and_then(|snapshot| snapshot.streams.into_iter().next());
            *newest = stream.or(newest.take());
        }
    }

    pub(crate) fn newest(&self) -> [Option<&StreamSnapshot>; 2] {
        self.newest.each_ref().map(Option::as_ref)
    }

    pub(crate) fn view<'a>(&'a self, peer: &'a str, standing: Standing) -> CallView<'a> {
        let [sent, received] = self.newest();
        CallView { peer, standing, sent, received }
    }
}

/// Results of ended sound, kept while the call continues.
#[derive(Default)]
pub(crate) struct EndedSound {
    reports: std::collections::VecDeque<Report>,
    failed: Option<Error>,
}

impl EndedSound {
    const MAX_REPORTS: usize = 64;

    /// Returns a failure to report immediately.
    #[must_use]
    pub(crate) fn keep(&mut self, (reports, done): Ended) -> Option<String> {
        self.reports.extend(reports);
        let older = self.reports.len().saturating_sub(Self::MAX_REPORTS);
        self.reports.drain(..older);
        let failure = done.err()?;
        let reported = failure.to_string();
        self.failed.get_or_insert(failure);
        Some(reported)
    }

    pub(crate) fn finish(self) -> Ended {
        (self.reports.into(), self.failed.map_or(Ok(()), Err))
    }
}

pub(crate) struct NoteSender {
    events: Events,
    reported: Vec<String>,
}

impl NoteSender {
    /// Maximum notes kept. Peers can cause notes, so this limits memory.
    const MAX_NOTES: usize = 256;

    pub(crate) const fn new(events: Events) -> Self {
        Self { events, reported: Vec::new() }
    }

    pub(crate) fn notify<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        for note in notes {
            if self.reported.len() < Self::MAX_NOTES && !self.reported.contains(note) {
                (self.events)(Event::Note(note.clone()));
                self.reported.push(note.clone());
            }
        }
    }

    /// Sends all notes of devices, as each loss and each return counts. No peer causes these.
    pub(crate) fn notify_all<'a>(&self, notes: impl Iterator<Item = &'a String>) {
        notes.for_each(|note| (self.events)(Event::Note(note.clone())));
    }
}
