//! Calls: sound both ways between machines ([docs/guide/calls.md](../../../docs/guide/calls.md)).
//!
//! ```text
//! Callers ── Caller: dials, keeps the control connection, reconnects ─┐
//!                                                                      ├─ Endpoint: send and receive engine
//! Server ─── seat: accepts a control connection, answers ──────────────┘   on two devices, by one transport
//! ```
//! `proto::call` decides for both drivers ([`CallerSession`](tautline_proto::call::caller_session::CallerSession),
//! [`Answering`](tautline_proto::call::answering::Answering)). A driver runs on one ordinary thread, that of its owner, which
//! calls `turn` again and again, and reads the clock once in each; only the engines have threads of their own. Several calls share two devices
//! (`devices`), of which each endpoint has a part. The user gets [`Event`]s and gives [`Command`]s: there is no
//! terminal and no command line here.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod caller;
mod callers;
mod commands;
mod devices;
mod endpoint;
mod microphone;
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

/// From one look at everything to the next.
const BEAT: Span = Span::from_millis(20);

/// How either end is set up.
#[derive(Clone)]
pub struct Config {
    /// Whose sound is sent.
    pub input: DeviceSpec,
    /// Where received sound goes.
    pub output: DeviceSpec,
    /// Whether the file of `input` is repeated.
    pub looped: bool,
    /// The only coding, or all that there are.
    pub format: Option<Coding>,
    /// The shortest packets.
    pub ptime: Span,
    /// The latency that is asked for.
    pub latency: Option<LatencyRule>,
    /// What packets are to carry of earlier ones, both ways, if this end says so.
    pub redundancy: Option<Redundancy>,
    /// Of the devices' threads.
    pub scheduler: Scheduler,
    /// The folder of recordings, or the WAV file that both directions are mixed into.
    pub record: Option<PathBuf>,
    /// Ends after this long.
    pub duration: Option<Span>,
    /// Which packets are measured.
    pub probes: Probes,
    /// Whether stalls of the machine are watched for.
    pub stall_monitor: bool,
    /// Whether the loudspeaker's sound is taken out of the microphone; `true` makes it an error if that cannot be.
    pub cancel_echo: Option<bool>,
    /// Text of notes.
    pub note_words: Words,
    /// Text of changes.
    pub change_words: fn(&Changed) -> String,
    /// Text of changes that cannot be made.
    pub refusal_words: fn(&CannotChange) -> String,
    /// Takes events, on the thread on which they happen.
    pub events: Events,
}

impl Config {
    /// Whether a file is played or recorded: one that is opened again begins from its start.
    pub fn has_files(&self) -> bool {
        let file = |device: &DeviceSpec| {
            matches!(
                device,
                DeviceSpec::Software(SoftwareSpec::File(_) | SoftwareSpec::Standard(_))
            )
        };
        file(&self.input) || file(&self.output)
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.events)(event);
    }
}

/// How the end that calls is set up.
pub struct CallerConfig {
    /// As either end.
    pub end: Config,
    /// Each is called once.
    pub hosts: Vec<CallAddress>,
    /// Whether the hosts hear each other.
    pub bridged: bool,
    /// Whether the coding follows the network.
    pub auto_format: bool,
    /// The maximum bit rate of Opus.
    pub bitrate: Option<u32>,
    /// Allowed transports, the better first.
    pub paths: &'static [CallPath],
    /// Whether silence is sent at first.
    pub muted: bool,
    /// Whether calls begin without sound.
    pub held: bool,
}

/// Takes events.
pub type Events = Arc<dyn Fn(Event) + Send + Sync>;

/// Which end this is.
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

    /// Of the stream that this side captures, or plays.
    const fn terms(self, terms: &CallTerms, direction: Direction) -> &StreamTerms {
        match (self, direction) {
            (Self::Caller, Direction::Capture) | (Self::Called, Direction::Playback) => {
                &terms.there
            }
            (Self::Caller, Direction::Playback) | (Self::Called, Direction::Capture) => &terms.back,
        }
    }
}

/// What the user is told.
#[derive(Debug)]
pub enum Event {
    /// A sentence of an engine, a device, a recording or an error.
    Note(String),
    /// A sentence for engineers.
    Detail(String),
    /// The loudspeaker's sound is taken out of the microphone.
    EchoCancelled,
    /// Coding takes too much of a device's period.
    LongCoding(LongCoding, Direction, usize, StreamFormat),
    /// Of the call with this peer: the host that is called, or the caller.
    Call(String, CallEvent),
}

/// What happens to a call.
#[derive(Debug)]
pub enum CallEvent {
    /// It begins with this sound, or without any.
    Begun(Option<CallTerms>),
    /// The sound is over, and the call is not.
    Held,
    /// The call has sound again.
    Sounds(CallTerms),
    /// The sound moved to another transport; the UDP port of the end that is called.
    MovedTo(CallPath, Option<u16>),
    /// A change failed.
    CannotChange(CannotChange),
    /// The control connection is lost: why, at the caller.
    Away(Option<String>),
    /// It is there again.
    Resumed,
    /// The other end hung up.
    Over(CallReason),
    /// Caller: no control connection, or no call: why. It is retried.
    Retrying(String),
    /// Caller: terms that fell with two control connections.
    Dropped(CallTerms),
    /// Caller: from now on the coding does not follow the network.
    CodingKept,
    /// Caller: the other end refused a change: which and why.
    Refused(Option<Changed>, CallReason),
    /// Caller: the agreed latency exceeds the requested one.
    LatencyRaised {
        /// The requested latency.
        asked: Span,
        /// The agreed one.
        kept: Span,
    },
    /// Caller: the agreed packets are longer than the requested ones.
    PtimeRaised {
        /// The requested packet time.
        asked: Span,
        /// The agreed one.
        agreed: Span,
    },
    /// Caller: no datagram passes to or from this UDP port of the other end.
    NoDatagrams(SilentWay, u16),
    /// Caller: the host is no longer trusted; why, if the list of trusted hosts is unreadable.
    Untrusted(Option<String>),
    /// Caller: sound that is over failed.
    Failed(String),
    /// Server: the terms of its sound changed.
    Changed(CallTerms),
    /// Server: the control connection ended by a fault of the caller.
    Fault(String),
    /// Server: the caller was refused.
    Rejected(CallReason),
    /// Server: a connection that belongs to no call was closed.
    Stranger,
}

/// Why a call cannot begin or go on. Each is a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options do not go together.
    #[error("{0}")]
    Usage(String),
    /// A device, an address or a peer is not available.
    #[error("{0}")]
    Open(String),
    /// It failed while running.
    #[error("{0}")]
    Running(String),
    /// A device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A socket.
    #[error(transparent)]
    Link(#[from] OpenError),
    /// An engine.
    #[error(transparent)]
    Run(#[from] RunError),
    /// This host's key or list.
    #[error(transparent)]
    Trust(#[from] tautline_api::trust::TrustError),
}

pub(crate) fn running(sentence: impl Into<String>) -> Error {
    Error::Running(sentence.into())
}

/// Reports of sound that is over, those of received sound before those of sent sound, and its first failure.
pub type Ended = (Vec<Report>, Result<(), Error>);

/// The sound of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// There is no call, or none yet.
    #[default]
    None,
    /// It goes by this.
    By(CallPath),
    /// The call has none.
    Held,
}

/// One call, as a user sees it.
#[derive(Debug, Clone, Copy)]
pub struct CallView<'a> {
    /// The other end.
    pub peer: &'a str,
    /// Its sound.
    pub standing: Standing,
    /// The stream that is sent, as measured last.
    pub sent: Option<&'a StreamSnapshot>,
    /// The stream that is received.
    pub heard: Option<&'a StreamSnapshot>,
}

/// Both streams of one endpoint, as measured last.
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

    /// What is sent, and what is received.
    pub(crate) fn newest(&self) -> [Option<&StreamSnapshot>; 2] {
        self.newest.each_ref().map(Option::as_ref)
    }

    pub(crate) fn view<'a>(&'a self, peer: &'a str, standing: Standing) -> CallView<'a> {
        let [sent, heard] = self.newest();
        CallView { peer, standing, sent, heard }
    }
}

/// Results of sound that is over while its call or server goes on: the newest reports, and the first failure.
#[derive(Default)]
pub(crate) struct EndedSound {
    reports: std::collections::VecDeque<Report>,
    failed: Option<Error>,
}

impl EndedSound {
    /// Two of each sound.
    const MAX_REPORTS: usize = 64;

    /// Keeps them; what failed of them, to be reported at once.
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

/// Reports each note once.
pub(crate) struct NoteSender {
    events: Events,
    reported: Vec<String>,
}

impl NoteSender {
    /// A peer cannot make it more.
    const MAX_NOTES: usize = 256;

    pub(crate) const fn new(events: Events) -> Self {
        Self { events, reported: Vec::new() }
    }

    pub(crate) fn tell<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        for note in notes {
            if self.reported.len() < Self::MAX_NOTES && !self.reported.contains(note) {
                (self.events)(Event::Note(note.clone()));
                self.reported.push(note.clone());
            }
        }
    }
}
