//! Changes of a running stream: requested on one thread, applied on the run's own.

use std::sync::mpsc;

use tautline_dsp::gain::Gain;
use tautline_io::link::destinations::Destinations;
use tautline_proto::congestion::CodingLimits;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::latency::LatencyRule;
use tautline_proto::receive_policy::LatencyRefused;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::send_policy::{ReceiverCounts, SendRefused};
use tautline_proto::stream::Coding;
use tautline_proto::time::Span;
use tautline_proto::zone::AnnouncementId;

use crate::error::RunError;
use crate::plan::StreamPlan;

/// Maximum changes per beat. The device's thread applies them once per period, which can last five
/// beats.
const AT_ONCE: usize = 8;

/// Frames of a gain ramp: 10 ms at 48 kHz. It bends a tone less than the tone's own curvature.
pub(crate) const VOLUME_RAMP: usize = 480;

/// Gain and mute state of a stream or the mix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fader {
    /// Gain unless muted.
    pub gain: Gain,
    /// Mute state.
    pub muted: bool,
}

impl Fader {
    pub(crate) fn wanted(self) -> Gain {
        if self.muted { Gain::SILENCE } else { self.gain }
    }
}

impl core::fmt::Display for Fader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}{}", self.gain, if self.muted { " muted" } else { "" })
    }
}

/// Result of a change.
pub type Answer = Result<Changed, CannotChange>;

/// Applied change.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// Sender's latency rule.
    Latency(LatencyRule),
    /// Latency of each received stream.
    Latencies(Vec<Span>),
    /// Packet duration.
    Ptime(Span),
    /// Sample coding.
    Format(Coding),
    /// Gain and mute state.
    Volume(Fader),
    /// Whether the call is held.
    Held(bool),
    /// Redundancy and repair time.
    Redundancy(Redundancy, Span),
    /// Destination address, as given.
    To(String),
    /// Address of a pending stream, played once packets arrive.
    From(String),
    /// Announcement that ends in this zone.
    Ended(AnnouncementId),
    /// Sender's status.
    Sending(SendStanding),
    /// Receiver's status.
    Receiving(ReceiveStanding),
    /// Result of a call command.
    Said(String),
}

/// Sender's status.
#[derive(Debug, Clone, PartialEq)]
pub struct SendStanding {
    /// Announced latency.
    pub latency: Span,
    /// Whether the latency follows the receivers' maximum request.
    pub auto: bool,
    /// Packet duration.
    pub ptime: Span,
    /// Sample coding.
    pub format: Coding,
    /// Sent redundancy.
    pub redundancy: Redundancy,
    /// Repair time.
    pub repair_budget: Span,
    /// Gain before packetizing.
    pub volume: Fader,
    /// Destination, as given.
    pub address: String,
    /// Reporting and lost receivers.
    pub receivers: ReceiverCounts,
}

/// Receiver's status.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveStanding {
    /// Gain of the mix.
    pub volume: Fader,
    /// Streams.
    pub streams: Vec<StreamStanding>,
}

/// Received stream's status.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamStanding {
    /// Current latency.
    pub latency: Span,
    /// Whether the latency adapts to arrivals.
    pub auto: bool,
    /// Maximum latency for the buffer.
    pub longest: Span,
    /// Gain in the mix.
    pub volume: Fader,
    /// Source, as given.
    pub address: String,
    /// Source of the pending replacement.
    pub waits_for: Option<String>,
}

/// Reason for a rejected change.
#[derive(Debug)]
pub enum CannotChange {
    /// The run has ended.
    Over,
    /// The device's thread has not taken the previous changes.
    Busy,
    /// Rejected by the send policy.
    Sending(SendRefused),
    /// Rejected by a stream's receive policy.
    Latency {
        /// Source, as given.
        address: String,
        /// Reason.
        refused: LatencyRefused,
    },
    /// No stream with this index.
    NoStream {
        /// From 0.
        requested: usize,
        /// Number of streams.
        streams: usize,
    },
    /// Several streams, none selected.
    WhichStream,
    /// Cannot open the new stream.
    Open(RunError),
    /// Several senders share the link.
    Shared,
    /// The socket also receives the followed clock.
    CarriesClock,
    /// A call rejects the change; holds the message.
    Said(String),
}

impl From<SendRefused> for CannotChange {
    fn from(refused: SendRefused) -> Self {
        match refused {
            SendRefused::Busy => Self::Busy,
            refused => Self::Sending(refused),
        }
    }
}

struct Request<C> {
    change: C,
    answer: mpsc::Sender<Answer>,
}

/// Requesting end of the channel.
#[derive(Debug, Clone)]
pub struct ChangeSender<C>(mpsc::Sender<Request<C>>);

/// Run's end of the channel.
#[derive(Debug)]
pub struct Requests<C>(mpsc::Receiver<Request<C>>);

/// Creates a change channel.
pub fn requests<C>() -> (ChangeSender<C>, Requests<C>) {
    let (asker, requests) = mpsc::channel();
    (ChangeSender(asker), Requests(requests))
}

impl<C> ChangeSender<C> {
    /// Requests a change; blocks for at most one beat (20 ms).
    pub fn request(&self, change: C) -> Answer {
        let (answer, answered) = mpsc::channel();
        self.0.send(Request { change, answer }).map_err(|_| CannotChange::Over)?;
        answered.recv().map_err(|_| CannotChange::Over)?
    }
}

impl<C> Requests<C> {
    /// Applies up to eight pending changes without blocking.
    pub fn serve(&self, mut make: impl FnMut(C) -> Answer) {
        for request in self.0.try_iter().take(AT_ONCE) {
            let _ = request.answer.send(make(request.change));
        }
    }
}

/// Changes of a sender.
#[derive(Debug, Clone)]
pub enum SendChange {
    /// Latency rule.
    Latency(LatencyRule),
    /// Packet duration.
    Ptime(Span),
    /// Sample coding.
    Format(Coding),
    /// Codings for adaptation to the network path; `None` keeps the current codings.
    Adapt(Option<CodingLimits>),
    /// Gain before packetizing.
    Volume(Gain),
    /// Whether to mute.
    Mute(bool),
    /// Sent redundancy.
    Redundancy(Redundancy),
    /// New destinations.
    To(Box<Destined>),
    /// Only returns the status.
    Status,
}

/// Changes of a receiver. Streams count from 0; `None` selects all.
pub enum RecvChange {
    /// Latency rule.
    Latency(Option<usize>, LatencyRule),
    /// Gain of a stream, or of the mix.
    Volume(Option<usize>, Gain),
    /// Mute state of a stream, or of the mix.
    Mute(Option<usize>, bool),
    /// Replaces a stream; `None` selects the only stream.
    From(Option<usize>, Box<StreamPlan>),
    /// Ends an announcement in this zone.
    EndAnnouncement(AnnouncementId),
    /// Only returns the status.
    Status,
}

/// Destinations of a sender.
#[derive(Debug, Clone)]
pub struct Destined {
    /// As given.
    pub address: String,
    /// Packet destinations.
    pub destinations: Destinations,
    /// RTCP addresses, one per destination.
    pub reports_to: Vec<Endpoint>,
}
