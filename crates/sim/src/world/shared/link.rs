//! Receiving end of a shared link. Follows the engine's mixer (`receiving/mixer/shared.rs`),
//! without its thread queues.

use tautline_proto::counters::Counters;
use tautline_proto::demux::{Senders, Unplaced};
use tautline_proto::endpoint::{Arrival, Author};
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, ReceiveCommand};
use tautline_proto::time::LocalTime;
use tautline_proto::wire::rtp::RtpUnpack;

use crate::scenario::Scenario;

pub(super) struct Input {
    pub(super) receiver: JitterBuffer,
    /// The sender whose packet came first. Only the simulator knows it.
    pub(super) handles: Option<usize>,
    pub(super) since: Counters,
}

impl Input {
    fn new(config: &JitterBufferConfig) -> Self {
        let receiver = JitterBuffer::new(config.clone());
        Self { receiver, handles: None, since: Counters::default() }
    }
}

/// The first receiver belongs to the planned stream.
pub(super) struct SimSharedLink {
    senders: Senders,
    places: Box<[Option<usize>]>,
    pub(super) inputs: Vec<Option<Input>>,
    config: JitterBufferConfig,
}

const HOST: usize = 0;

impl SimSharedLink {
    pub(super) fn new(maximum: usize, scenario: &Scenario) -> Self {
        let config = JitterBufferConfig::new(RtpUnpack::usual(), scenario.format, scenario.latency);
        let host = Input::new(&config);
        let places = vec![None; maximum].into();
        Self { senders: Senders::new(maximum), places, inputs: vec![Some(host)], config }
    }

    pub(super) fn unplaced(&self) -> Unplaced {
        self.senders.unplaced()
    }

    pub(super) fn count(&self) -> usize {
        self.senders.count()
    }

    /// Input of the datagram's sender, which may need a place first.
    fn input_of(&mut self, datagram: &[u8], arrived: &Arrival) -> Option<usize> {
        let host = &self.inputs[HOST].as_ref()?.receiver;
        let known = host.stream_of(datagram);
        if let Some(place) = known.and_then(|s| self.senders.find(s, arrived.from, arrived.at)) {
            return self.places[place];
        }
        let Some(stream) = host.recognises(datagram) else { return Some(HOST) };
        let over = host.source().is_none_or(|source| source.is_silent(arrived.at));
        let host_is_free = over && !self.places.contains(&Some(HOST));
        let place = self.senders.admit(stream, arrived.from, arrived.at)?;
        let input = if host_is_free { HOST } else { self.lay_out() };
        self.places[place] = Some(input);
        Some(input)
    }

    fn lay_out(&mut self) -> usize {
        let input = Some(Input::new(&self.config));
        if let Some(free) = self.inputs.iter().position(Option::is_none) {
            self.inputs[free] = input;
            return free;
        }
        self.inputs.push(input);
        self.inputs.len() - 1
    }

    /// Passes a datagram to the input that the policy selects. Returns whether that is the sender's
    /// own. `None` without a place.
    pub(super) fn hand_on(
        &mut self,
        sender: usize,
        datagram: &[u8],
        arrived: &Arrival,
    ) -> Option<bool> {
        let input = self.input_of(datagram, arrived)?;
        let input = self.inputs[input].as_mut()?;
        let own = *input.handles.get_or_insert(sender) == sender;
        input.receiver.handle_with(datagram, arrived, &mut |_| {});
        Some(own)
    }

    pub(super) fn say_goodbye(&mut self, author: Author) {
        for input in self.inputs.iter_mut().flatten() {
            input.receiver.apply(ReceiveCommand::Left(author));
        }
    }

    /// Frees the places of finished senders. Passes each sender with its earlier and current
    /// counters to `notify`.
    pub(super) fn settle(
        &mut self,
        at: LocalTime,
        mut notify: impl FnMut(usize, &Counters, &Counters),
    ) {
        for place in 0..self.places.len() {
            let Some(index) = self.places[place] else { continue };
            let Some(input) = &mut self.inputs[index] else { continue };
            let goodbye = input.receiver.source().is_some_and(|source| source.said_goodbye());
            let latency = input.receiver.placement().link_offset();
            if !self.senders.is_over(place, at, goodbye, latency) {
                continue;
            }
            self.senders.leave(place);
            self.places[place] = None;
            if let Some(sender) = input.handles.take() {
                notify(sender, &input.since, input.receiver.counters());
            }
            input.since = *input.receiver.counters();
            if index != HOST {
                self.inputs[index] = None;
            }
        }
    }
}
