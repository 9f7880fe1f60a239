//! Changes to a running stream: one thread requests them, the run's own thread applies them and
//! answers.

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

use crate::error::RunError;
use crate::plan::StreamPlan;

/// Maximum changes per beat. The device's thread applies them once per period, and a period can
/// last five beats.
const AT_ONCE: usize = 8;

/// Frames over which a gain changes: 10 ms at 48 kHz. Such a ramp bends a tone less than the tone's
/// own curvature.
pub(crate) const VOLUME_RAMP: usize = 480;

/// Gain of one stream or of the mix, and whether it is muted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fader {
    /// Gain while not muted.
    pub gain: Gain,
    /// Whether it is muted.
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

/// Result of a change request.
pub type Answer = Result<Changed, CannotChange>;

/// Result of an applied change.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// Latency rule of a sender.
    Latency(LatencyRule),
    /// New latency of each received stream.
    Latencies(Vec<Span>),
    /// New packet duration.
    Ptime(Span),
    /// New sample coding.
    Format(Coding),
    /// New gain and mute state.
    Volume(Fader),
    /// Whether the call is now on hold.
    Held(bool),
    /// New redundancy, and the time within which packets can be repaired.
    Redundancy(Redundancy, Span),
    /// New destination address, as given.
    To(String),
    /// Address of a pending stream, which is played when its packets arrive.
    From(String),
    /// Status of a sender.
    Sending(SendStanding),
    /// Status of a receiver.
    Receiving(ReceiveStanding),
    /// Result of a call command, as a message.
    Said(String),
}

/// Status of a sender.
#[derive(Debug, Clone, PartialEq)]
pub struct SendStanding {
    /// Announced latency.
    pub latency: Span,
    /// Whether the latency follows the maximum latency that receivers request.
    pub auto: bool,
    /// Packet duration.
    pub ptime: Span,
    /// Sample coding.
    pub format: Coding,
    /// Redundancy that packets carry.
    pub redundancy: Redundancy,
    /// Time within which packets can be repaired.
    pub repair_budget: Span,
    /// Gain before packetizing.
    pub volume: Fader,
    /// Destination address, as given.
    pub address: String,
    /// Numbers of receivers that report and that were lost.
    pub receivers: ReceiverCounts,
}

/// Status of a receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveStanding {
    /// Gain of the mix.
    pub volume: Fader,
    /// Status of each stream.
    pub streams: Vec<StreamStanding>,
}

/// Status of a received stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamStanding {
    /// Current latency.
    pub latency: Span,
    /// Whether the latency adapts to packet arrivals.
    pub auto: bool,
    /// Maximum latency that fits the buffer.
    pub longest: Span,
    /// Gain in the mix.
    pub volume: Fader,
    /// Source address, as given.
    pub address: String,
    /// Source address of the pending stream that will replace this one.
    pub waits_for: Option<String>,
}

/// Reason why a change is rejected.
#[derive(Debug)]
pub enum CannotChange {
    /// The run has ended.
    Over,
    /// The device's thread has not taken the previous changes yet.
    Busy,
    /// The send policy rejects the change.
    Sending(SendRefused),
    /// The receive policy rejects the latency of a stream.
    Latency {
        /// Source address, as given.
        address: String,
        /// Reason.
        refused: LatencyRefused,
    },
    /// There is no stream with this index.
    NoStream {
        /// Requested index, counted from 0.
        asked: usize,
        /// Number of streams.
        streams: usize,
    },
    /// There are several streams and the request does not select one.
    WhichStream,
    /// The new stream cannot be opened.
    Open(RunError),
    /// Several senders share the stream's link, so it cannot be replaced.
    Shared,
    /// The stream's socket also receives the followed clock.
    CarriesClock,
    /// A call rejects the change; holds the message with its fix.
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

/// Requesting end of the change channel.
#[derive(Debug, Clone)]
pub struct ChangeSender<C>(mpsc::Sender<Request<C>>);

/// Run's end of the change channel.
#[derive(Debug)]
pub struct Requests<C>(mpsc::Receiver<Request<C>>);

/// Creates both ends of a channel for changes of type `C`.
pub fn requests<C>() -> (ChangeSender<C>, Requests<C>) {
    let (asker, requests) = mpsc::channel();
    (ChangeSender(asker), Requests(requests))
}

impl<C> ChangeSender<C> {
    /// Requests a change and waits for the answer, for at most one beat of the run (20 ms).
    pub fn ask(&self, change: C) -> Answer {
        let (answer, answered) = mpsc::channel();
        self.0.send(Request { change, answer }).map_err(|_| CannotChange::Over)?;
        answered.recv().map_err(|_| CannotChange::Over)?
    }
}

impl<C> Requests<C> {
    /// Applies pending changes without waiting, at most eight per call.
    pub fn serve(&self, mut make: impl FnMut(C) -> Answer) {
        for request in self.0.try_iter().take(AT_ONCE) {
            // The requester may have stopped waiting.
            let _ = request.answer.send(make(request.change));
        }
    }
}

/// Changes to a running sender.
#[derive(Debug, Clone)]
pub enum SendChange {
    /// Rule for the announced latency.
    Latency(LatencyRule),
    /// Packet duration.
    Ptime(Span),
    /// Sample coding.
    Format(Coding),
    /// Range of codings for adaptation to the network path; `None` keeps the current range.
    Adapt(Option<CodingLimits>),
    /// Gain before packetizing.
    Volume(Gain),
    /// Whether to send silence.
    Mute(bool),
    /// Redundancy that packets carry.
    Redundancy(Redundancy),
    /// New destinations for packets and reports.
    To(Box<Destined>),
    /// Changes nothing; returns the status.
    Status,
}

/// Changes to a running receiver. Streams are counted from 0 in the order of the plan; `None`
/// selects all.
pub enum RecvChange {
    /// Rule for the latency.
    Latency(Option<usize>, LatencyRule),
    /// Gain of one stream in the mix, or of the mix.
    Volume(Option<usize>, Gain),
    /// Whether one stream or the mix is muted.
    Mute(Option<usize>, bool),
    /// Replaces a stream by another; `None` selects the only one.
    From(Option<usize>, Box<StreamPlan>),
    /// Changes nothing; returns the status.
    Status,
}

/// New destinations of a sender.
#[derive(Debug, Clone)]
pub struct Destined {
    /// Address, as given.
    pub address: String,
    /// Packet destinations.
    pub destinations: Destinations,
    /// RTCP address of each destination.
    pub reports_to: Vec<Endpoint>,
}
