//! Changes while a run goes on: asked for on one thread, made and answered on the run's own.

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

/// Changes made in one beat: the device's thread takes them once per period, which may be five beats long.
const AT_ONCE: usize = 8;

/// Frames over which a gain is led to another: 10 ms at 48 kHz bend a tone less than its own curve does.
pub(crate) const VOLUME_RAMP: usize = 480;

/// The gain of one stream or of all, and whether that is withheld.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fader {
    /// The gain.
    pub gain: Gain,
    /// Whether it is withheld.
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

/// What is answered: what it came to, or why it cannot be.
pub type Answer = Result<Changed, CannotChange>;

/// What a change came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// A sender's latency.
    Latency(LatencyRule),
    /// The latencies that streams then have.
    Latencies(Vec<Span>),
    /// Sound in one packet.
    Ptime(Span),
    /// Coding of samples.
    Format(Coding),
    /// A gain, and whether that is withheld.
    Volume(Fader),
    /// Whether a call is without sound, as it was asked for.
    Held(bool),
    /// What packets carry, and the time in which they may be repaired.
    Redundancy(Redundancy, Span),
    /// Where packets go from now on, as it was given.
    To(String),
    /// Another stream, heard when its sound is there.
    From(String),
    /// How a sender stands.
    Sending(SendStanding),
    /// How a receiver stands.
    Receiving(ReceiveStanding),
    /// What a call came to, in the words that ask for it.
    Said(String),
}

/// How a sender stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SendStanding {
    /// What is promised.
    pub latency: Span,
    /// Whether that is what the receiver asks for that needs the most.
    pub auto: bool,
    /// Sound in one packet.
    pub ptime: Span,
    /// Coding of samples.
    pub format: Coding,
    /// What packets carry of earlier ones,
    pub redundancy: Redundancy,
    /// and the time in which they may be repaired.
    pub repair_budget: Span,
    /// Gain before packing.
    pub volume: Fader,
    /// Where packets go, as it was given.
    pub address: String,
    /// How many receivers report, and how many stopped.
    pub receivers: ReceiverCounts,
}

/// How a receiver stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveStanding {
    /// Gain of the mix.
    pub volume: Fader,
    /// Each stream.
    pub streams: Vec<StreamStanding>,
}

/// How a received stream stands.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamStanding {
    /// The latency that is kept.
    pub latency: Span,
    /// Whether it follows the packets.
    pub auto: bool,
    /// The longest latency that there is room for.
    pub longest: Span,
    /// Gain in the mix.
    pub volume: Fader,
    /// From where, as it was given.
    pub address: String,
    /// From where another is waited for that is to take its place.
    pub waits_for: Option<String>,
}

/// Why a change cannot be made.
#[derive(Debug)]
pub enum CannotChange {
    /// The run is over.
    Over,
    /// The device's thread has not taken what was said before.
    Busy,
    /// A sender's policy refuses it.
    Sending(SendRefused),
    /// A received stream's policy refuses its latency.
    Latency {
        /// From where, as it was given.
        address: String,
        /// Why.
        refused: LatencyRefused,
    },
    /// There is no such stream.
    NoStream {
        /// Which was asked for, counted from 0.
        asked: usize,
        /// How many there are.
        streams: usize,
    },
    /// There are several, and it was not said which is meant.
    WhichStream,
    /// Another stream cannot be opened.
    Open(RunError),
    /// Several senders are heard at the stream's link: it is no stream to be replaced.
    Shared,
    /// The clock that is followed comes to the stream's socket.
    CarriesClock,
    /// A call refuses it: a sentence with the mend.
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

/// A change that waits to be made.
struct Request<C> {
    change: C,
    answer: mpsc::Sender<Answer>,
}

/// The asking end.
#[derive(Debug, Clone)]
pub struct Asker<C>(mpsc::Sender<Request<C>>);

/// The run's end.
#[derive(Debug)]
pub struct Requests<C>(mpsc::Receiver<Request<C>>);

/// The two ends by which to ask for changes of kind `C`.
pub fn requests<C>() -> (Asker<C>, Requests<C>) {
    let (asker, requests) = mpsc::channel();
    (Asker(asker), Requests(requests))
}

impl<C> Asker<C> {
    /// Asks for a change and waits for the answer: a beat of the run at most, 20 ms.
    pub fn ask(&self, change: C) -> Answer {
        let (answer, answered) = mpsc::channel();
        self.0.send(Request { change, answer }).map_err(|_| CannotChange::Over)?;
        answered.recv().map_err(|_| CannotChange::Over)?
    }
}

impl<C> Requests<C> {
    /// Makes the changes that were asked for, and does not wait. More than a handful wait for the next beat.
    pub fn serve(&self, mut make: impl FnMut(C) -> Answer) {
        for request in self.0.try_iter().take(AT_ONCE) {
            // Nobody need wait for the answer.
            let _ = request.answer.send(make(request.change));
        }
    }
}

/// What may be changed while sending.
#[derive(Debug, Clone)]
pub enum SendChange {
    /// Who says what latency is promised.
    Latency(LatencyRule),
    /// Sound in one packet.
    Ptime(Span),
    /// Coding of samples.
    Format(Coding),
    /// Among what the stream follows what its path carries; `None` has it stay as it is.
    Adapt(Option<CodingLimits>),
    /// Gain before packing.
    Volume(Gain),
    /// Whether silence is sent.
    Mute(bool),
    /// What packets carry of earlier ones.
    Redundancy(Redundancy),
    /// Where packets and reports go from now on.
    To(Box<Destined>),
    /// Nothing: how it stands.
    Status,
}

/// What may be changed while receiving. Streams are counted from 0 in the plan's order; `None` is all.
pub enum RecvChange {
    /// Who says what the latency is.
    Latency(Option<usize>, LatencyRule),
    /// Gain of one stream in the mix, or of the mix.
    Volume(Option<usize>, Gain),
    /// Whether one stream, or the mix, is silenced.
    Mute(Option<usize>, bool),
    /// Another stream in the place of one; `None` is the only one.
    From(Option<usize>, Box<StreamPlan>),
    /// Nothing: how it stands.
    Status,
}

/// Another set of destinations.
#[derive(Debug, Clone)]
pub struct Destined {
    /// As they were given.
    pub address: String,
    /// Where packets go.
    pub destinations: Destinations,
    /// Where reports go: the RTCP address of each.
    pub reports_to: Vec<Endpoint>,
}
