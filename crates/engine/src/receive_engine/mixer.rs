//! A device's receiving side: reads, places and mixes packets, once per period.

mod input;
mod marks;
mod shared;
mod succession;
#[cfg(test)]
mod tests;
mod zone;

use rtrb::Consumer;
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::now;
use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Flow, Process, Side};
use tautline_proto::faults::Harm;
use tautline_proto::jitter_buffer::PullTimes;
use tautline_proto::lead::Lead;
use tautline_proto::ledger::{Outcome, PacketTrace};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Channels;
use tautline_proto::zone::{GainCurve, Programs};

use crate::monitor::sound::{OutputTap, Voices};
use crate::receive_engine::repairers::Spares;
pub(crate) use input::{Fed, MixerCommand, MixerInput, RxStatus};
pub(crate) use marks::{AffectedFrames, LabelMark, LabelMarks};
pub(crate) use shared::{SharedLink, SharedNews};
pub(crate) use succession::{Replacement, Succession};
pub(crate) use zone::{AnnouncedSound, ZoneMix};

/// A period's packet traces, kept until the block is written: the `render` stage ends there.
pub(crate) struct Passages {
    kept: Vec<(usize, PacketTrace)>,
}

impl Passages {
    pub(crate) fn with_capacity(maximum: usize) -> Self {
        Self { kept: Vec::with_capacity(maximum) }
    }

    fn push(&mut self, index: usize, passage: PacketTrace) -> bool {
        let fits = self.kept.len() < self.kept.capacity();
        if fits {
            self.kept.push((index, passage));
        }
        fits
    }

    fn written(&mut self, at: LocalTime, inputs: &mut [MixerInput], succession: &mut Succession) {
        for (index, passage) in &mut self.kept {
            passage.written = at;
            let places = inputs.len();
            let input = match index.checked_sub(places) {
                None => Some(&mut inputs[*index]),
                Some(successor) => succession.successors()[successor]
                    .as_mut()
                    .map(|successor| &mut successor.input),
            };
            let Some(input) = input else { continue };
            // A full ring loses only statistics; it is emptied 50 times a second.
            let is_stored = input.passages.push(*passage).is_ok();
            input.trace_overflow += lost_traces(passage, is_stored);
        }
        self.kept.clear();
    }
}

/// Lost traces to count. Discarded packets have a counter of their own.
fn lost_traces(passage: &PacketTrace, is_stored: bool) -> u64 {
    u64::from(!is_stored && passage.outcome != Outcome::Discarded)
}

pub(crate) struct Mixer {
    pub(crate) inputs: Vec<MixerInput>,
    pub(crate) shared: Vec<SharedLink>,
    pub(crate) succession: Succession,
    pub(crate) spares: Spares,
    pub(crate) gains: Consumer<Gain>,
    pub(crate) programs: Programs,
    pub(crate) zone: Option<Box<ZoneMix>>,
    pub(crate) volume: Volume,
    pub(crate) gain: Gain,
    pub(crate) map: ChannelMap,
    pub(crate) channels: Channels,
    pub(crate) one: Box<[f32]>,
    pub(crate) sum: Box<[f32]>,
    pub(crate) passages: Passages,
    pub(crate) mouth: Option<OutputTap>,
    pub(crate) xruns: u64,
    pub(crate) lead: Lead,
    pub(crate) woke: LocalTime,
    pub(crate) reported: LocalTime,
}

const TELL_EVERY: Span = Span::from_millis(10);

/// Not inlined: that would slow [`Mixer::fill`] for single streams.
#[inline(never)]
fn add(sum: &mut [f32], one: &[f32]) {
    sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
}

/// Applies `curve` to frames of `input` that are presented from `first` on. Returns whether they are
/// audible.
fn apply_curve(
    curve: &GainCurve,
    input: &MixerInput,
    frames: &mut [f32],
    first: LocalTime,
) -> bool {
    let format = input.receiver.format();
    curve.apply(first, format.rate, format.channels.count(), frames);
    curve.settled_at(first) != Some(Gain::SILENCE)
}

/// Applies the gain of program `index`. Returns whether it is audible.
#[cold]
#[inline(never)]
fn select(
    programs: &Programs,
    index: usize,
    input: &MixerInput,
    frames: &mut [f32],
    first: LocalTime,
) -> bool {
    programs.curve(index).is_none_or(|curve| apply_curve(curve, input, frames, first))
}

impl Mixer {
    fn apply_commands(&mut self) {
        while let Ok(gain) = self.gains.pop() {
            self.gain = gain;
        }
        self.succession.settle(&mut self.inputs);
    }

    fn read(&mut self, woke: LocalTime) -> LocalTime {
        let mut latest = self.read_shared(woke);
        let (mouth, places) = (self.mouth.as_ref(), self.inputs.len());
        for (place, input) in self.inputs.iter_mut().enumerate() {
            let listens = mouth.is_some_and(|mouth| mouth.may_be_found(place, places));
            latest = input.read_lent(latest, listens, &mut self.spares);
        }
        if self.succession.has_successors() { self.read_successors(latest) } else { latest }
    }

    #[cold]
    #[inline(never)]
    fn read_successors(&mut self, woke: LocalTime) -> LocalTime {
        let (mouth, places) = (self.mouth.as_ref(), self.inputs.len());
        let successors = self.succession.successors().iter_mut().flatten();
        (places..).zip(successors).fold(woke, |latest, (place, successor)| {
            let listens = mouth.is_some_and(|mouth| mouth.may_be_found(place, places));
            successor.input.read_lent(latest, listens, &mut self.spares)
        })
    }

    /// Fills a block. The first stream renders into the sum, which is `out` unless channels are
    /// mapped.
    // The compiler inlines this, because it has one caller.
    fn fill(&mut self, out: &mut [f32], times: PullTimes) {
        let channels = self.channels.count();
        let mapped = !self.map.is_identity(channels);
        let samples = if mapped { out.len() / self.map.outputs() * channels } else { out.len() };
        let one = &mut self.one[..samples];
        let sum = if mapped { &mut self.sum[..samples] } else { &mut *out };
        let selects = self.inputs.len() > 1 && !self.programs.are_mixed();
        if self.inputs.is_empty() {
            sum.fill(0.0);
        }
        let (mut voices, listens) = (Voices::Nobody, self.mouth.is_some());
        if self.succession.has_successors() {
            self.succession.begin(times.meets, Frames::from_len(samples / channels));
        }
        for (index, input) in self.inputs.iter_mut().enumerate() {
            let block = if index == 0 { &mut *sum } else { &mut *one };
            if let Some(zone) = self.zone.as_deref() {
                zone.set_silent(input, times.meets);
            }
            input.pull(block, times, &mut self.passages, index);
            let crossing = self.succession.is_crossing(index);
            let gain = if crossing { Gain::SILENCE } else { input.target() };
            let zone = self.zone.as_deref();
            let mut played = zone.is_none_or(|zone| zone.shape(input, block, times.meets));
            if selects && input.announces.is_none() {
                played &= select(&self.programs, index, input, block, times.meets);
            }
            let audible = played && input.is_audible(gain);
            input.shape(block, gain);
            self.succession.fade_out(index, input, block, times.meets);
            if listens && audible {
                voices = voices.with(index, block);
            }
            if index > 0 && audible {
                add(sum, one);
            }
        }
        if self.succession.has_successors() {
            voices = self.add_successors(out, samples, times, voices);
        }
        if let Some(mouth) = &mut self.mouth {
            mouth.emit(times.meets, voices);
        }
        if !self.programs.are_mixed() {
            self.choose_program(times.meets, Frames::from_len(samples / channels));
        }
        let sum = if mapped { &mut self.sum[..samples] } else { &mut *out };
        self.volume.apply(self.gain, channels, sum);
        if mapped {
            self.map.apply(channels, &self.sum[..samples], out);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_successors(
        &mut self,
        out: &mut [f32],
        samples: usize,
        times: PullTimes,
        mut voices: Voices,
    ) -> Voices {
        let listens = self.mouth.is_some();
        let selects = self.inputs.len() > 1 && !self.programs.are_mixed();
        let mapped = !self.map.is_identity(self.channels.count());
        let one = &mut self.one[..samples];
        let sum = if mapped { &mut self.sum[..samples] } else { out };
        for (index, successor) in self.succession.successors().iter_mut().enumerate() {
            let Some(successor) = successor else { continue };
            let place = self.inputs.len() + index;
            successor.pull(one, times, &mut self.passages, place);
            if let Some(zone) = &self.zone {
                zone.shape(&successor.input, one, times.meets);
            }
            if selects && successor.input.announces.is_none() {
                select(&self.programs, index, &successor.input, one, times.meets);
            }
            successor.shape(one, times);
            if listens {
                voices = voices.with(place, one);
            }
            add(sum, one);
        }
        voices
    }

    /// Chooses programs for the time after a block of `frames` that is presented from `meets` on. Not
    /// inlined: that would slow [`Mixer::fill`] for mixed streams.
    #[cold]
    #[inline(never)]
    fn choose_program(&mut self, meets: LocalTime, frames: Frames) {
        let Some(first) = self.inputs.first() else { return };
        let until = meets + first.receiver.format().rate.span_of(frames);
        for (index, input) in self.inputs.iter().enumerate() {
            if input.sounds && !input.receiver.is_muted() && input.announces.is_none() {
                self.programs.handle_sound(index, meets, until);
            }
        }
        self.programs.choose(until);
    }

    fn play(&mut self, side: &mut Side<'_>, now: LocalTime, clock: Option<ClockId>) {
        let outputs = self.map.outputs();
        let (now, mut meets, mut skipped) = (self.read(now), side.meets, side.skipped);
        if let Some(zone) = &mut self.zone {
            zone.begin(&mut self.inputs, &mut self.succession, meets);
        }
        let longest = self.sum.len() / self.channels.count() * outputs;
        let mut samples = &mut *side.samples;
        while let Some((block, rest)) = samples.split_at_mut_checked(longest.min(samples.len()))
            && !block.is_empty()
        {
            self.fill(block, PullTimes { now, meets, skipped, clock });
            samples = rest;
            if samples.is_empty() {
                return;
            }
            let rate = self.inputs.first().map(|input| input.receiver.format().rate);
            meets +=
                rate.map_or(Span::ZERO, |rate| rate.span_of(Frames::from_len(longest / outputs)));
            skipped = Frames::ZERO;
        }
    }

    #[cold]
    fn mark_xrun(&mut self, cycle: &Cycle<'_>) {
        let Some(input) = self.inputs.first_mut() else { return };
        let (rate, skipped) = (input.receiver.format().rate, cycle.playback.skipped);
        if let Some(marks) = &mut input.marks {
            let meets = cycle.playback.meets - rate.span_of(skipped);
            let damaged = AffectedFrames { meets, frames: skipped };
            marks.notify(LabelMark::Xrun { damaged, since: self.woke });
        }
    }

    fn notify(&mut self, at: LocalTime) {
        self.reported = at;
        let successors =
            self.succession.successors().iter_mut().flatten().map(|successor| &mut successor.input);
        for input in self.inputs.iter_mut().chain(successors) {
            input.notify(at, self.xruns, self.lead.kept());
        }
    }
}

impl Process for Mixer {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.apply_commands();
        self.xruns += u64::from(cycle.xruns);
        if cycle.xruns > 0 {
            for input in &mut self.inputs {
                let harm = Harm { xruns: cycle.xruns, ..Harm::default() };
                input.faults.add(self.woke, cycle.now, harm);
            }
            self.mark_xrun(cycle);
        }
        self.woke = cycle.now;
        self.lead.wake(cycle.playback.meets - cycle.now);
        self.play(&mut cycle.playback, cycle.now, cycle.clock);
        let written = now();
        self.passages.written(written, &mut self.inputs, &mut self.succession);
        if written - self.reported >= TELL_EVERY {
            self.notify(written);
            self.settle_shared(written);
        }
        Flow::Continue
    }
}

impl Drop for Mixer {
    fn drop(&mut self) {
        self.notify(now());
    }
}
