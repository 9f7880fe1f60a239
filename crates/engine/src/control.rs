//! Changes while a run goes on: asked for on one thread, made and answered on the run's own.

use std::sync::mpsc;

use tautline_dsp::format::SampleFormat;
use tautline_dsp::gain::Gain;
use tautline_io::link::destinations::Destinations;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::redundancy::Redundancy;
use tautline_proto::time::Span;

use crate::plan::StreamPlan;

/// Changes that are made in one beat: the device's thread takes them once per period, which may be as
/// long as five beats.
const AT_ONCE: usize = 8;

/// What is answered: what it came to, or why it cannot be, with the mend.
pub type Answer = Result<String, String>;

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

/// The two ends of a way to ask for changes of kind `C`.
pub fn requests<C>() -> (Asker<C>, Requests<C>) {
    let (asker, requests) = mpsc::channel();
    (Asker(asker), Requests(requests))
}

impl<C> Asker<C> {
    /// Asks for a change and waits for the answer: a beat of the run at most, 20 ms.
    pub fn ask(&self, change: C) -> Answer {
        let (answer, answered) = mpsc::channel();
        let over = || "the run is over; start taut again".to_owned();
        self.0.send(Request { change, answer }).map_err(|_| over())?;
        answered.recv().map_err(|_| over())?
    }
}

impl<C> Requests<C> {
    /// Makes the changes that were asked for. Does not wait, and leaves what is more than
    /// [`AT_ONCE`] to the next beat.
    pub(crate) fn serve(&self, mut make: impl FnMut(C) -> Answer) {
        for request in self.0.try_iter().take(AT_ONCE) {
            // Nobody need wait for the answer.
            let _ = request.answer.send(make(request.change));
        }
    }
}

/// What may be changed while sending.
#[derive(Debug, Clone)]
pub enum SendChange {
    /// The latency that is promised; `None` is what the receiver needs that needs the most.
    Latency(Option<Span>),
    /// Sound in one packet.
    Ptime(Span),
    /// Coding of samples.
    Format(SampleFormat),
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

/// What may be changed while receiving. Streams are counted from 0 in the order of the plan;
/// `None` is all of them.
pub enum RecvChange {
    /// The latency.
    Latency(Option<usize>, Wanted),
    /// Gain of one stream in the mix, or of the mix.
    Volume(Option<usize>, Gain),
    /// Whether one stream, or the mix, is silenced.
    Mute(Option<usize>, bool),
    /// Another stream in the place of one; `None` is the only one.
    From(Option<usize>, Box<StreamPlan>),
    /// Nothing: how it stands.
    Status,
}

/// Which latency is wanted of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Chosen(Span),
    /// What its sender promises.
    Promised,
    /// What the arrivals of its packets ask for.
    Auto,
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
