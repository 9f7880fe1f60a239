//! Several senders on one link, each with its own jitter buffer. Finished inputs go through a queue
//! to an ordinary thread, so the device thread frees nothing.

use rtrb::{Consumer, Producer};
use tautline_io::link::Datagram;
use tautline_io::thread::memory::push_within;
use tautline_proto::demux::{Senders, Unplaced};
use tautline_proto::endpoint::Endpoint;
use tautline_proto::packet::StreamId;
use tautline_proto::time::LocalTime;

use super::{Fed, Mixer, MixerInput};
use crate::monitor::sound::OutputTap;
use crate::receive_engine::repairers::Spares;

#[derive(Debug, Clone, Copy)]
pub(crate) enum SharedNews {
    Arrived { number: usize, stream: StreamId, from: Endpoint },
    Unplaced(Unplaced),
}

pub(crate) struct SharedLink {
    host: usize,
    senders: Senders,
    inputs: Box<[usize]>,
    waiting: Consumer<MixerInput>,
    news: Producer<SharedNews>,
    gone: Producer<MixerInput>,
    reported: u64,
}

const NOBODY: usize = usize::MAX;

impl SharedLink {
    pub(crate) fn new(
        host: usize,
        maximum: usize,
        waiting: Consumer<MixerInput>,
        news: Producer<SharedNews>,
        gone: Producer<MixerInput>,
    ) -> Self {
        let inputs = vec![NOBODY; maximum].into_boxed_slice();
        let senders = Senders::new(maximum);
        Self { host, senders, inputs, waiting, news, gone, reported: 0 }
    }

    /// Returns the input of the sender, added if necessary; `None` if full.
    fn input_of(&mut self, datagram: &Datagram<'_>, inputs: &mut Vec<MixerInput>) -> Option<usize> {
        let receiver = &inputs[self.host].receiver;
        let (from, at) = (datagram.arrival.from, datagram.arrival.at);
        let known = receiver.stream_of(datagram.bytes);
        let known = known.and_then(|stream| self.senders.find(stream, from, at));
        if let Some(place) = known {
            return self.inputs.get(place).copied();
        }
        let Some(stream) = receiver.recognises(datagram.bytes) else { return Some(self.host) };
        let over = receiver.source().is_none_or(|source| source.is_silent(at));
        let host_is_free = over && !self.inputs.contains(&self.host);
        let laid_out = !self.waiting.is_empty() && inputs.len() < inputs.capacity();
        if !(host_is_free || laid_out) || self.news.is_full() {
            self.senders.turn_away(from);
            return None;
        }
        let place = self.senders.admit(stream, from, at)?;
        if host_is_free {
            self.inputs[place] = self.host;
        } else {
            self.inputs[place] = inputs.len();
            let input = self.waiting.pop().ok()?;
            push_within(inputs, input).ok()?;
        }
        let number = inputs[self.inputs[place]].number;
        let _ = self.news.push(SharedNews::Arrived { number, stream, from });
        Some(self.inputs[place])
    }

    fn over(&self, at: LocalTime, inputs: &[MixerInput]) -> Option<usize> {
        let is_over = |(place, input): (usize, &usize)| {
            let receiver = &inputs.get(*input)?.receiver;
            let goodbye = receiver.source().is_some_and(|source| source.said_goodbye());
            let latency = receiver.placement().link_offset();
            self.senders.is_over(place, at, goodbye, latency).then_some(place)
        };
        self.inputs.iter().enumerate().find_map(is_over)
    }

    fn notify(&mut self) {
        let unplaced = self.senders.unplaced();
        if unplaced.packets != self.reported
            && self.news.push(SharedNews::Unplaced(unplaced)).is_ok()
        {
            self.reported = unplaced.packets;
        }
    }
}

fn hand_on(
    datagram: &Datagram<'_>,
    shared: &mut SharedLink,
    inputs: &mut Vec<MixerInput>,
    spares: &mut Spares,
    mouth: Option<&OutputTap>,
) {
    let Some(place) = shared.input_of(datagram, inputs) else { return };
    let listens = mouth.is_some_and(|mouth| mouth.may_be_found(place, inputs.len()));
    let input = &mut inputs[place];
    let before = input.missed();
    spares.lend(&mut input.receiver);
    input.take(datagram, listens);
    spares.take_back(&mut input.receiver);
    input.miss(before, datagram.arrival.read);
}

impl Mixer {
    pub(super) fn read_shared(&mut self, woke: LocalTime) -> LocalTime {
        let Self { shared, inputs, spares, mouth, .. } = self;
        let mut latest = woke;
        for shared in shared {
            // This does not allocate: the type has no size.
            let mut link = core::mem::replace(&mut inputs[shared.host].link, Box::new(Fed));
            link.receive(&mut |datagram| {
                latest = latest.max(datagram.arrival.read);
                hand_on(&datagram, shared, inputs, spares, mouth.as_ref());
            });
            inputs[shared.host].link = link;
        }
        latest
    }

    pub(super) fn settle_shared(&mut self, at: LocalTime) {
        for link in 0..self.shared.len() {
            while let Some(place) = self.shared[link].over(at, &self.inputs) {
                let shared = &mut self.shared[link];
                let input = shared.inputs[place];
                if input != shared.host && shared.gone.is_full() {
                    break;
                }
                shared.senders.leave(place);
                shared.inputs[place] = NOBODY;
                if input != shared.host {
                    self.take_out(link, input);
                }
            }
            self.shared[link].notify();
        }
    }

    fn take_out(&mut self, link: usize, index: usize) {
        let last = self.inputs.len() - 1;
        let _ = self.shared[link].gone.push(self.inputs.swap_remove(index));
        let all = self.shared.iter_mut().flat_map(|shared| &mut shared.inputs);
        all.filter(|input| **input == last).for_each(|input| *input = index);
        self.programs.swap_remove(index, last);
    }
}
