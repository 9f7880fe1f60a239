//! The receiving side of a device: read, place, mix, volume. Called once per period.

#[cfg(test)]
mod cost;
mod shared;
mod succession;
#[cfg(test)]
mod tests;

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::now;
use tautline_io::link::{Arrival, Link, LinkCounters};
use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Flow, Process, Side};
use tautline_proto::endpoint::Arrived;
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::ledger::Passage;
use tautline_proto::receiver::{
    Counters, Playable, PullTimes, ReceiveCommand, Receiver, StreamStatus,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Channels;

use crate::fader::VOLUME_RAMP;
use crate::plan::select::{PATIENCE, Select};
use crate::receiving::lead::Lead;
use crate::receiving::paths::Paths;
use crate::receiving::repairers::Spares;
use crate::watching::sound::{Mouth, PacketTap, Voices};
pub(crate) use shared::{Fed, SharedLink, SharedNews};
pub(crate) use succession::Succession;

/// What the ordinary thread hands down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MixerCommand {
    /// For the receiver.
    Receive(ReceiveCommand),
    /// Another gain of this stream.
    Gain(Gain),
}

/// How one stream stands, told to the ordinary thread now and then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RxStatus {
    pub(crate) stream: StreamStatus,
    pub(crate) link: LinkCounters,
    pub(crate) paths: Paths,
}

/// One stream on its way to the device.
pub(crate) struct MixerInput {
    pub(crate) receiver: Receiver,
    pub(crate) link: Box<dyn Link>,
    /// Whether its packets come by a link that other senders share.
    pub(crate) shares: bool,
    /// The how many-th stream it is, for the ordinary thread.
    pub(crate) number: usize,
    pub(crate) gain: Gain,
    pub(crate) volume: Volume,
    /// Whether it is selected.
    pub(crate) gate: Volume,
    pub(crate) tap: Option<PacketTap>,
    pub(crate) commands: Consumer<MixerCommand>,
    pub(crate) passages: Producer<Passage>,
    pub(crate) status: Producer<RxStatus>,
    /// Since when it brings nothing; `NEVER` before it brought anything.
    pub(crate) silent_since: LocalTime,
    /// When a frame was last heard in it that was no pause.
    pub(crate) loud: LocalTime,
    pub(crate) alive: bool,
    pub(crate) faults: Faults,
    pub(crate) unbooked: u64,
    pub(crate) paths: Paths,
}

/// The device's ends of what a stream and the ordinary thread hand each other.
pub(crate) struct InputRings {
    pub(crate) commands: Consumer<MixerCommand>,
    pub(crate) passages: Producer<Passage>,
    pub(crate) status: Producer<RxStatus>,
}

impl MixerInput {
    /// The `number`-th stream, that nothing came of yet, selected and not measured.
    pub(crate) fn new(
        number: usize,
        receiver: Receiver,
        link: Box<dyn Link>,
        gain: Gain,
        rings: InputRings,
    ) -> Self {
        let InputRings { commands, passages, status } = rings;
        Self {
            receiver,
            link,
            shares: false,
            number,
            gain,
            volume: Volume::over(gain, VOLUME_RAMP),
            gate: Volume::new(Gain::UNITY),
            tap: None,
            commands,
            passages,
            status,
            silent_since: LocalTime::NEVER,
            loud: LocalTime::ZERO,
            alive: false,
            faults: Faults::NONE,
            unbooked: 0,
            paths: Paths::default(),
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.commands.pop() {
            match command {
                MixerCommand::Receive(command) => self.receiver.obey(command),
                MixerCommand::Gain(gain) => self.gain = gain,
            }
        }
    }

    /// Obeys, and reads with a repairer of `spares` lent to it; when it was read, as [`Self::read`] says.
    #[inline(always)]
    fn read_lent(&mut self, woke: LocalTime, listens: bool, spares: &mut Spares) -> LocalTime {
        self.obey();
        spares.lend(&mut self.receiver);
        let latest = self.read(woke, listens);
        spares.take_back(&mut self.receiver);
        latest
    }

    /// Reads what has arrived, and tells the measurement of it if that `listens`; when it was read,
    /// or `woke` if nothing had arrived.
    fn read(&mut self, woke: LocalTime, listens: bool) -> LocalTime {
        // Those of a shared link are handed what comes.
        if self.shares {
            self.tell_tap();
            return woke;
        }
        let (mut latest, mut goes_on) = (woke, false);
        let before = self.missed();
        // Nothing is allocated for what has no size.
        let mut link = core::mem::replace(&mut self.link, Box::new(Fed));
        link.receive(&mut |arrival| {
            latest = latest.max(arrival.read);
            goes_on |= self.take(&arrival, listens);
        });
        self.link = link;
        if !goes_on {
            self.tell_tap();
        }
        self.miss(before, latest);
        latest
    }

    /// Takes one datagram; whether the measurement was given what may go on.
    fn take(&mut self, arrival: &Arrival<'_>, listens: bool) -> bool {
        let Self { receiver, tap, passages, faults, unbooked, paths, .. } = self;
        let channels = receiver.format().channels.count();
        let (mut tap, mut goes_on) = (tap.as_mut().filter(|_| listens), false);
        let mut bring = |packet: Playable<'_>| {
            if let Some(tap) = &mut tap {
                goes_on = true;
                tap.brought(&packet.frames, channels, |frames| packet.sound.samples(frames));
            }
        };
        let arrived = Arrived { from: arrival.source, at: arrival.arrival, read: arrival.read };
        let received = receiver.handle_telling(arrival.datagram, &arrived, &mut bring);
        paths.count(arrival.source.network(), &received);
        if let Some(passage) = received.late() {
            // Whatever held it up did so while it was on its way.
            let age = receiver.placement().link_offset();
            let captured = passage.origin.map_or(passage.arrival - age, |o| o.capture);
            faults.add(captured, passage.read, Harm { late: 1, ..Harm::default() });
            *unbooked += u64::from(passages.push(passage).is_err());
        }
        goes_on
    }

    /// Tells the measurement what packets brought so far.
    pub(crate) fn tell_tap(&mut self) {
        let Some(tap) = &mut self.tap else { return };
        let channels = self.receiver.format().channels.count();
        tap.tell(channels, |frames| self.receiver.sound().samples(frames));
    }

    /// Packets that were lost and unheard so far.
    const fn missed(&self) -> [u64; 2] {
        let counters = self.receiver.counters();
        [counters.lost, counters.unheard]
    }

    /// Notes what was missed since `before`, as of `now`.
    #[inline]
    fn miss(&mut self, before: [u64; 2], now: LocalTime) {
        if self.missed() != before {
            self.note_missed(before, now);
        }
    }

    #[cold]
    fn note_missed(&mut self, [lost, unheard]: [u64; 2], now: LocalTime) {
        let before = Counters { lost, unheard, ..Counters::default() };
        let missed = Harm::missed(&before, self.receiver.counters());
        if missed != Harm::default() {
            let age = self.receiver.placement().link_offset();
            self.faults.add(now - age, now, missed);
        }
    }

    /// Takes the block's frames into `out`, and says by `alive` whether there were any.
    fn pull(&mut self, out: &mut [f32], times: PullTimes, passages: &mut Passages, index: usize) {
        let frames = self.receiver.format().channels.frames_in(out.len());
        let before = self.missed();
        let pulled = self.receiver.pull(out, times, |passage| passages.push(index, passage));
        self.miss(before, times.now);
        if out.iter().any(|sample| sample.abs() > PAUSE) {
            self.loud = times.now;
        }
        if pulled.media.is_some() && pulled.missing < frames {
            self.silent_since = times.now;
        }
        self.alive = !self.silent_since.is_never() && times.now - self.silent_since < PATIENCE;
    }

    /// Whether its sound has been in a pause for a while.
    fn is_quiet(&self, at: LocalTime) -> bool {
        at - self.loud >= PAUSE_LENGTH
    }

    fn tell(&mut self, at: LocalTime, xruns: u64, lead: Option<Span>) {
        let link = self.link.counters();
        let mut stream = self.receiver.status(at);
        stream.counters.xruns = xruns;
        stream.counters.socket_drops = link.kernel_drops + link.ring_drops;
        stream.counters.unopened = link.unopened;
        stream.counters.unbooked = self.unbooked;
        stream.faults = self.faults;
        stream.quiet = self.is_quiet(at);
        stream.lead = lead;
        let status = RxStatus { stream, link, paths: self.paths };
        // The newest status is in the next one too, so a full ring loses nothing: when something
        // went wrong is kept until it is told.
        if self.status.push(status).is_ok() {
            self.faults = Faults::NONE;
        }
    }

    /// Begins in silence, to be led to `gain` when its turn comes.
    pub(crate) fn await_turn(&mut self, gain: Gain) {
        self.gain = gain;
        self.volume = Volume::over(Gain::SILENCE, VOLUME_RAMP);
    }

    /// The last word of a stream that the mix has given back.
    pub(crate) fn tell_last(&mut self, at: LocalTime, xruns: u64) {
        self.tell(at, xruns, None);
    }

    /// The gain that the stream is to have now.
    fn target(&self) -> Gain {
        if self.receiver.is_muted() { Gain::SILENCE } else { self.gain }
    }

    /// Whether anything is heard of a block with these gains.
    fn is_audible(&self, gate: Gain, gain: Gain) -> bool {
        let silent = |volume: &Volume, to| volume.current() == Gain::SILENCE && to == Gain::SILENCE;
        !silent(&self.gate, gate) && !silent(&self.volume, gain)
    }

    /// Gives a block of its sound these gains, or leads it there.
    fn shape(&mut self, block: &mut [f32], gate: Gain, gain: Gain) {
        let channels = self.receiver.format().channels.count();
        self.gate.apply(gate, channels, block);
        self.volume.apply(gain, channels, block);
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

    fn written(&mut self, at: LocalTime, inputs: &mut [MixerInput], succession: &mut Succession) {
        for (index, passage) in &mut self.kept {
            passage.written = at;
            // Heirs count on after those whose places they are to take.
            let places = inputs.len();
            let input = match index.checked_sub(places) {
                None => Some(&mut inputs[*index]),
                Some(heir) => succession.heirs()[heir].as_mut().map(|heir| &mut heir.input),
            };
            let Some(input) = input else { continue };
            // A full ring costs the statistics a line; the ordinary thread empties it 50 times a second.
            let full = input.passages.push(*passage).is_err();
            input.unbooked += u64::from(full);
        }
        self.kept.clear();
    }
}

/// All streams of one playback device.
pub(crate) struct Mixer {
    pub(crate) inputs: Vec<MixerInput>,
    /// Links at which several senders are heard.
    pub(crate) shared: Vec<SharedLink>,
    pub(crate) succession: Succession,
    pub(crate) spares: Spares,
    /// Other gains of all that is heard.
    pub(crate) gains: Consumer<Gain>,
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
    /// Says whose sound the sum is, where a card listens.
    pub(crate) mouth: Option<Mouth>,
    pub(crate) xruns: u64,
    pub(crate) lead: Lead,
    /// When the device woke last.
    pub(crate) woke: LocalTime,
    pub(crate) told: LocalTime,
}

/// No sample of a pause is larger: -60 dB of full scale.
const PAUSE: f32 = 0.001;
/// A pause is told once it has lasted so long: what lasts as long goes on for longer, mostly, and a
/// jump in it takes 30 ms to be made.
const PAUSE_LENGTH: Span = Span::from_millis(50);

/// The ordinary thread is told this often.
const TELL_EVERY: Span = Span::from_millis(10);

/// Mixes a block to the sum. Not laid into [`Mixer::fill`], whose blocks of one stream would prepare
/// for it.
#[inline(never)]
fn add(sum: &mut [f32], one: &[f32]) {
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
}

fn gate(hears: bool) -> Gain {
    if hears { Gain::UNITY } else { Gain::SILENCE }
}

impl Mixer {
    fn obey(&mut self) {
        while let Ok(gain) = self.gains.pop() {
            self.gain = gain;
        }
        self.succession.settle(&mut self.inputs);
    }

    /// Reads every stream; when the last was read, or `woke` if nothing had arrived.
    fn read(&mut self, woke: LocalTime) -> LocalTime {
        let mut latest = self.read_shared(woke);
        let (mouth, places) = (self.mouth.as_ref(), self.inputs.len());
        for (place, input) in self.inputs.iter_mut().enumerate() {
            let listens = mouth.is_some_and(|mouth| mouth.may_be_found(place, places));
            latest = input.read_lent(latest, listens, &mut self.spares);
        }
        if self.succession.has_heirs() { self.read_heirs(latest) } else { latest }
    }

    /// Reads those that are to take the place of others; when the last was read, or `woke`.
    #[cold]
    #[inline(never)]
    fn read_heirs(&mut self, woke: LocalTime) -> LocalTime {
        let (mouth, places) = (self.mouth.as_ref(), self.inputs.len());
        let heirs = self.succession.heirs().iter_mut().flatten();
        (places..).zip(heirs).fold(woke, |latest, (place, heir)| {
            let listens = mouth.is_some_and(|mouth| mouth.may_be_found(place, places));
            heir.input.read_lent(latest, listens, &mut self.spares)
        })
    }

    /// Fills a block that is no longer than the room for it. The first stream goes straight to where
    /// the sum is wanted, which is the block itself unless channels are mapped.
    fn fill(&mut self, out: &mut [f32], times: PullTimes) {
        let channels = self.channels.count();
        let mapped = !self.map.is_identity(channels);
        let samples = if mapped { out.len() / self.map.outputs() * channels } else { out.len() };
        let one = &mut self.one[..samples];
        let sum = if mapped { &mut self.sum[..samples] } else { &mut *out };
        let alone = self.inputs.len() == 1;
        if self.inputs.is_empty() {
            sum.fill(0.0);
        }
        let (mut voices, listens) = (Voices::Nobody, self.mouth.is_some());
        for (index, input) in self.inputs.iter_mut().enumerate() {
            let block = if index == 0 { &mut *sum } else { &mut *one };
            input.pull(block, times, &mut self.passages, index);
            let crossing = self.succession.is_crossing(index);
            let gain = if crossing { Gain::SILENCE } else { input.target() };
            let gate = gate(alone || self.select.hears(index, self.chosen));
            let audible = input.is_audible(gate, gain);
            input.shape(block, gate, gain);
            if listens && audible {
                voices = voices.with(index, block);
            }
            if index > 0 && audible {
                add(sum, one);
            }
        }
        if self.succession.has_heirs() {
            voices = self.add_heirs(out, samples, times, voices);
        }
        if let Some(mouth) = &mut self.mouth {
            mouth.say(times.meets, voices);
        }
        self.chosen = self.select.choose(self.inputs.iter().map(|i| i.alive), self.chosen);
        let sum = if mapped { &mut self.sum[..samples] } else { &mut *out };
        self.volume.apply(self.gain, channels, sum);
        if mapped {
            self.map.apply(channels, &self.sum[..samples], out);
        }
    }

    /// Adds what is to take the place of others to a sum of so many samples, and to the `voices` of it.
    #[cold]
    #[inline(never)]
    fn add_heirs(
        &mut self,
        out: &mut [f32],
        samples: usize,
        times: PullTimes,
        mut voices: Voices,
    ) -> Voices {
        let (listens, alone) = (self.mouth.is_some(), self.inputs.len() == 1);
        let mapped = !self.map.is_identity(self.channels.count());
        let one = &mut self.one[..samples];
        let sum = if mapped { &mut self.sum[..samples] } else { out };
        for (index, heir) in self.succession.heirs().iter_mut().enumerate() {
            let Some(heir) = heir else { continue };
            let gate = gate(alone || self.select.hears(index, self.chosen));
            let place = self.inputs.len() + index;
            heir.pull(one, times, &mut self.passages, place);
            heir.shape(one, times, gate);
            if listens {
                voices = voices.with(place, one);
            }
            add(sum, one);
        }
        voices
    }

    fn play(&mut self, side: &mut Side<'_>, now: LocalTime, clock: Option<ClockId>) {
        let outputs = self.map.outputs();
        let (now, mut meets, mut skipped) = (self.read(now), side.meets, side.skipped);
        let longest = self.sum.len() / self.channels.count() * outputs;
        if side.samples.len() <= longest && !side.samples.is_empty() {
            return self.fill(side.samples, PullTimes { now, meets, skipped, clock });
        }
        let rate = self.inputs.first().map(|input| input.receiver.format().rate);
        for block in side.samples.chunks_mut(longest) {
            self.fill(block, PullTimes { now, meets, skipped, clock });
            let frames = Frames::from_len(block.len() / outputs);
            meets += rate.map_or(Span::ZERO, |rate| rate.span_of(frames));
            skipped = Frames::ZERO;
        }
    }
}

impl Mixer {
    fn tell(&mut self, at: LocalTime) {
        self.told = at;
        let heirs = self.succession.heirs().iter_mut().flatten().map(|heir| &mut heir.input);
        for input in self.inputs.iter_mut().chain(heirs) {
            input.tell(at, self.xruns, self.lead.kept());
        }
    }
}

impl Process for Mixer {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.obey();
        self.xruns += u64::from(cycle.xruns);
        if cycle.xruns > 0 {
            for input in &mut self.inputs {
                let harm = Harm { starved: cycle.xruns, ..Harm::default() };
                input.faults.add(self.woke, cycle.now, harm);
            }
        }
        self.woke = cycle.now;
        self.lead.wake(cycle.playback.meets - cycle.now);
        self.play(&mut cycle.playback, cycle.now, cycle.clock);
        let written = now();
        self.passages.written(written, &mut self.inputs, &mut self.succession);
        if written - self.told >= TELL_EVERY {
            self.tell(written);
            self.settle_shared(written);
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
