//! The receiving side of a device: read, place, mix, volume. Called once per period.

#[cfg(test)]
mod tests;

use rtrb::{Consumer, Producer};
use tautline_dsp::format;
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::now;
use tautline_io::link::{Link, LinkCounters};
use tautline_io::realtime;
use tautline_proto::clock::{ClockMapping, WallTime};
use tautline_proto::device::{Cycle, Flow, Process, Side};
use tautline_proto::ledger::Passage;
use tautline_proto::placement::Basis;
use tautline_proto::receiver::{Counters, PullTimes, Received, Receiver};
use tautline_proto::session::Receiving;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Channels;

use crate::select::{PATIENCE, Select};
use crate::sound::PacketTap;

/// What the ordinary thread hands down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Command {
    /// A newer mapping of the sender's clock.
    Clock(u32, ClockMapping),
    /// The pair of a sender report.
    Captured(u32, u32, WallTime),
    /// Another latency.
    LinkOffset(Span),
    /// The sender left.
    Left(u32),
    /// The stream is of a kind that would be noise here, or is not any more.
    Mute(bool),
}

/// When something went wrong: from the earliest cause to the latest sign of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) from: LocalTime,
    pub(crate) to: LocalTime,
}

impl Faults {
    fn add(faults: &mut Option<Self>, from: LocalTime, to: LocalTime) {
        let all = faults.get_or_insert(Self { from, to });
        *all = Self { from: all.from.min(from), to: all.to.max(to) };
    }
}

/// How one stream stands, told to the ordinary thread now and then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RxStatus {
    pub(crate) at: LocalTime,
    pub(crate) counters: Counters,
    pub(crate) link: LinkCounters,
    pub(crate) receiving: Option<Receiving>,
    pub(crate) format: StreamFormat,
    pub(crate) basis: Option<Basis>,
    pub(crate) xruns: u64,
    pub(crate) said_goodbye: bool,
    /// When packets were late or lost or the device starved since the last status.
    pub(crate) faults: Option<Faults>,
    /// Passages that found the ring full: the books lack them.
    pub(crate) unbooked: u64,
}

/// One stream on its way to the device.
pub(crate) struct Incoming {
    pub(crate) receiver: Receiver,
    pub(crate) link: Box<dyn Link>,
    pub(crate) gain: Gain,
    pub(crate) volume: Volume,
    pub(crate) tap: Option<(PacketTap, Box<[f32]>)>,
    pub(crate) commands: Consumer<Command>,
    pub(crate) passages: Producer<Passage>,
    pub(crate) status: Producer<RxStatus>,
    /// Since when it brings nothing; `NEVER` before it brought anything.
    pub(crate) silent_since: LocalTime,
    pub(crate) alive: bool,
    pub(crate) muted: bool,
    pub(crate) faults: Option<Faults>,
    pub(crate) unbooked: u64,
}

impl Incoming {
    fn obey(&mut self) {
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Clock(ssrc, clock) => self.receiver.set_clock(ssrc, clock),
                Command::Captured(ssrc, timestamp, wall) => {
                    self.receiver.observe_report(ssrc, timestamp, wall);
                }
                Command::LinkOffset(link_offset) => self.receiver.set_link_offset(link_offset),
                Command::Left(ssrc) => self.receiver.say_goodbye(ssrc),
                Command::Mute(muted) => self.muted = muted,
            }
        }
    }

    /// Reads what has arrived; when that was, or `woke` if nothing had.
    fn read(&mut self, woke: LocalTime) -> LocalTime {
        let Self { receiver, link, tap, passages, faults, unbooked, .. } = self;
        let mut latest = woke;
        link.receive(&mut |arrival| {
            latest = latest.max(arrival.read);
            let received = receiver.handle(arrival.datagram, arrival.arrival, arrival.read);
            if let Received::Late(passage) = received {
                // Whatever held it up did so while it was on its way.
                let age = receiver.placement().link_offset();
                let captured = passage.origin.map_or(passage.arrival - age, |o| o.capture);
                Faults::add(faults, captured, passage.read);
                *unbooked += u64::from(passages.push(passage).is_err());
            }
            if let (Received::Placed(packet), Some((tap, room))) = (received, tap.as_mut()) {
                let channels = receiver.format().channels.count();
                let samples = (packet.payload.len() / packet.sample.bytes()).min(room.len());
                let bytes = samples * packet.sample.bytes();
                format::decode(packet.sample, &packet.payload[..bytes], &mut room[..samples]);
                tap.brought(packet.media, channels, &room[..samples]);
            }
        });
        latest
    }

    /// Takes the block's frames into `out`, and says by `alive` whether there were any.
    fn pull(&mut self, out: &mut [f32], times: PullTimes, passages: &mut Passages, index: usize) {
        let frames = self.receiver.format().channels.frames_in(out.len());
        let lost = self.receiver.counters().lost;
        let pulled = self.receiver.pull(out, times, |passage| passages.push(index, passage));
        if self.receiver.counters().lost > lost {
            let age = self.receiver.placement().link_offset();
            Faults::add(&mut self.faults, times.now - age, times.now);
        }
        if pulled.media.is_some() && pulled.missing < frames {
            self.silent_since = times.now;
        }
        self.alive = !self.silent_since.is_never() && times.now - self.silent_since < PATIENCE;
    }

    fn tell(&mut self, at: LocalTime, xruns: u64, basis: Option<Basis>) {
        let receiver = &self.receiver;
        let rate = receiver.format().rate;
        let receiving = receiver.source().map(|source| Receiving {
            ssrc: source.ssrc(),
            expected: source.expected(),
            received: source.received(),
            highest_sequence: source.highest() as u32,
            jitter: rate.frames_nearest(source.jitter()).count() as u32,
            effective: None,
            losses: receiver.losses(),
        });
        let status = RxStatus {
            at,
            counters: *receiver.counters(),
            link: self.link.counters(),
            receiving,
            format: *receiver.format(),
            basis,
            xruns,
            said_goodbye: receiver.source().is_some_and(|source| source.said_goodbye()),
            faults: self.faults,
            unbooked: self.unbooked,
        };
        // The newest status is in the next one too, so a full ring loses nothing: when something
        // went wrong is kept until it is told.
        if self.status.push(status).is_ok() {
            self.faults = None;
        }
    }

    /// The gain that the stream is to have now.
    fn target(&self, heard: bool) -> Gain {
        if heard && !self.muted { self.gain } else { Gain::SILENCE }
    }
}

/// Passages of one period, kept until it is written: only then is the `render` stage over.
pub(crate) struct Passages {
    kept: Vec<(usize, Passage)>,
}

impl Passages {
    pub(crate) fn with_capacity(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most) }
    }

    fn push(&mut self, index: usize, passage: Passage) {
        if self.kept.len() < self.kept.capacity() {
            self.kept.push((index, passage));
        }
    }

    fn written(&mut self, at: LocalTime, inputs: &mut [Incoming]) {
        for (index, passage) in &mut self.kept {
            passage.written = at;
            // A full ring costs the books a line; the ordinary thread empties it 50 times a second.
            let input = &mut inputs[*index];
            let full = input.passages.push(*passage).is_err();
            input.unbooked += u64::from(full);
        }
        self.kept.clear();
    }
}

/// All streams of one playback device.
pub(crate) struct Mixer {
    pub(crate) inputs: Vec<Incoming>,
    pub(crate) select: Select,
    pub(crate) chosen: Option<usize>,
    pub(crate) volume: Volume,
    pub(crate) gain: Gain,
    pub(crate) map: ChannelMap,
    /// Samples per frame of the streams.
    pub(crate) channels: Channels,
    /// Room for a block of one stream, and for the sum of all.
    pub(crate) one: Box<[f32]>,
    pub(crate) sum: Box<[f32]>,
    pub(crate) passages: Passages,
    pub(crate) xruns: u64,
    /// When the device woke last.
    pub(crate) woke: LocalTime,
    pub(crate) told: LocalTime,
}

/// The ordinary thread is told this often.
const TELL_EVERY: Span = Span::from_millis(10);

impl Mixer {
    /// Reads every stream; when the last was read, or `woke` if nothing had arrived.
    fn read(&mut self, woke: LocalTime) -> LocalTime {
        self.inputs.iter_mut().fold(woke, |latest, input| {
            input.obey();
            input.read(latest)
        })
    }

    /// Fills a block that is no longer than the room for it. The first stream goes straight to where
    /// the sum is wanted, which is the block itself unless channels are mapped.
    fn fill(&mut self, out: &mut [f32], times: PullTimes) {
        let channels = self.channels.count();
        let samples = out.len() / self.map.outputs() * channels;
        let mapped = !self.map.is_identity(channels);
        let one = &mut self.one[..samples];
        let sum = if mapped { &mut self.sum[..samples] } else { &mut *out };
        let alone = self.inputs.len() == 1;
        if self.inputs.is_empty() {
            sum.fill(0.0);
        }
        for (index, input) in self.inputs.iter_mut().enumerate() {
            let block = if index == 0 { &mut *sum } else { &mut *one };
            input.pull(block, times, &mut self.passages, index);
            let gain = input.target(alone || self.select.hears(index, self.chosen));
            let audible = gain != Gain::SILENCE || input.volume.current() != Gain::SILENCE;
            input.volume.apply(gain, channels, block);
            if index > 0 && audible {
                sum.iter_mut().zip(&*one).for_each(|(sum, one)| *sum += one);
            }
        }
        self.chosen = self.select.choose(self.inputs.iter().map(|i| i.alive), self.chosen);
        self.volume.apply(self.gain, channels, sum);
        if mapped {
            self.map.apply(channels, &self.sum[..samples], out);
        }
    }

    fn play(&mut self, side: &mut Side<'_>, now: LocalTime) {
        let outputs = self.map.outputs();
        let rate = self.inputs.first().map(|input| input.receiver.format().rate);
        let longest = self.sum.len() / self.channels.count() * outputs;
        let (now, mut meets, mut skipped) = (self.read(now), side.meets, side.skipped);
        for block in side.samples.chunks_mut(longest) {
            self.fill(block, PullTimes { now, meets, skipped });
            let frames = Frames::from_len(block.len() / outputs);
            meets += rate.map_or(Span::ZERO, |rate| rate.span_of(frames));
            skipped = Frames::ZERO;
        }
    }
}

impl Mixer {
    fn tell(&mut self, at: LocalTime) {
        self.told = at;
        for input in &mut self.inputs {
            let basis = input.receiver.placement().due(at).map(|due| due.basis);
            input.tell(at, self.xruns, basis);
        }
    }
}

impl Process for Mixer {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.xruns += u64::from(cycle.xruns);
        if cycle.xruns > 0 {
            for input in &mut self.inputs {
                Faults::add(&mut input.faults, self.woke, cycle.now);
            }
        }
        self.woke = cycle.now;
        self.play(&mut cycle.playback, cycle.now);
        let written = now();
        self.passages.written(written, &mut self.inputs);
        if written - self.told >= TELL_EVERY {
            self.tell(written);
        }
        Flow::Continue
    }
}

impl Drop for Mixer {
    /// The last word: what happened since the one before must not stay unknown.
    fn drop(&mut self) {
        self.tell(now());
    }
}
