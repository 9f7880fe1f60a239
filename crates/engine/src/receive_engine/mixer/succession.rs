//! Replaces a stream: receives both streams until the new stream has sound, then cross-fades.
//! Streams are moved by value, so that the device's thread frees nothing.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_proto::jitter_buffer::PullTimes;
use tautline_proto::placement::Basis;
use tautline_proto::time::{Frames, LocalTime, Span};

use super::{MixerInput, Passages};
use crate::control::VOLUME_RAMP;

/// A stream that replaces the stream at `place`.
pub(crate) struct Replacement {
    pub(crate) place: usize,
    /// Presentation time of the change; `None` as soon as it has sound.
    pub(crate) joins: Option<LocalTime>,
    pub(crate) input: MixerInput,
}

pub(crate) struct PendingStream {
    pub(crate) input: MixerInput,
    joins: Option<LocalTime>,
    sounds_since: LocalTime,
    /// Whether the sender's clock places the sound.
    ready: bool,
    /// Untimed change: the old stream fades.
    crossing: bool,
    /// Timed change: presentation time of the first frame of the cross-fade.
    begins: Option<LocalTime>,
    over: bool,
}

pub(crate) struct Succession {
    successors: Box<[Option<PendingStream>]>,
    /// Number of pending streams. Number of pending streams. While it is 0, no place is checked.
    waiting: usize,
    coming: Consumer<Replacement>,
    gone: Producer<MixerInput>,
}

const TIMEOUT: Span = Span::from_secs(1);
/// Length of a timed cross-fade.
const CROSS_FADE: Span = Span::from_millis(30);

/// Quarter of a sine over the cross-fade: exactly 0 until its begin, exactly 1 from its end on.
/// Squares of both directions add up to 1, so two different programs keep their power.
fn quarter_sine(since: Span) -> f32 {
    let share = since.as_nanos() as f32 / CROSS_FADE.as_nanos() as f32;
    (share.clamp(0.0, 1.0) * core::f32::consts::FRAC_PI_2).sin()
}

/// Applies `gain` of the time since `begins` to frames that are presented from `first` on.
fn fade(
    input: &MixerInput,
    block: &mut [f32],
    (first, begins): (LocalTime, LocalTime),
    gain: impl Fn(Span) -> f32,
) {
    let format = input.receiver.format();
    for (frame, number) in block.chunks_mut(format.channels.count()).zip(0..) {
        let at = first + format.rate.span_of(Frames::new(number));
        let gain = gain(at - begins);
        frame.iter_mut().for_each(|sample| *sample *= gain);
    }
}

impl Succession {
    pub(crate) fn new(
        places: usize,
        coming: Consumer<Replacement>,
        gone: Producer<MixerInput>,
    ) -> Self {
        Self { successors: (0..places).map(|_| None).collect(), waiting: 0, coming, gone }
    }

    pub(crate) const fn has_successors(&self) -> bool {
        self.waiting > 0
    }

    #[inline]
    pub(crate) fn successors(&mut self) -> &mut [Option<PendingStream>] {
        if self.waiting == 0 { &mut [] } else { &mut self.successors }
    }

    pub(crate) fn is_crossing(&self, index: usize) -> bool {
        let successor = || self.successors.get(index).and_then(Option::as_ref);
        self.waiting > 0 && successor().is_some_and(|successor| successor.crossing)
    }

    /// Starts the timed changes of a block of `frames` that is presented from `meets` on.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin(&mut self, meets: LocalTime, frames: Frames) {
        for successor in self.successors.iter_mut().flatten() {
            let ends = meets + successor.input.receiver.format().rate.span_of(frames);
            let due = successor.joins.filter(|at| successor.ready && *at < ends);
            successor.begins = successor.begins.or(due.map(|at| at.max(meets)));
            successor.over = successor.begins.is_some_and(|begins| meets >= begins + CROSS_FADE);
        }
    }

    /// Fades the stream at `index` out during a timed change.
    #[inline]
    pub(crate) fn fade_out(
        &self,
        index: usize,
        old: &MixerInput,
        block: &mut [f32],
        meets: LocalTime,
    ) {
        if self.waiting > 0
            && let Some(Some(successor)) = self.successors.get(index)
            && let Some(begins) = successor.begins
        {
            fade(old, block, (meets, begins), |since| quarter_sine(CROSS_FADE - since));
        }
    }

    #[inline]
    pub(crate) fn settle(&mut self, inputs: &mut [MixerInput]) {
        if self.waiting > 0 {
            self.hand_over(inputs);
        }
        if !self.coming.is_empty() {
            self.take_in();
        }
    }

    /// Not inlined: every period would touch 15 kB of stack.
    #[cold]
    #[inline(never)]
    fn take_in(&mut self) {
        while !self.coming.is_empty() && !self.gone.is_full() {
            let Ok(Replacement { place, joins, mut input }) = self.coming.pop() else { return };
            if joins.is_some() {
                // The cross-fade alone raises it.
                input.volume = Volume::over(input.gain, VOLUME_RAMP);
            }
            let successor = PendingStream {
                input,
                joins,
                sounds_since: LocalTime::NEVER,
                ready: false,
                crossing: false,
                begins: None,
                over: false,
            };
            let before = match self.successors.get_mut(place) {
                Some(slot) => slot.replace(successor),
                None => Some(successor),
            };
            match before {
                Some(before) => drop(self.gone.push(before.input)),
                None => self.waiting += 1,
            }
        }
    }

    #[cold]
    fn hand_over(&mut self, inputs: &mut [MixerInput]) {
        for (slot, input) in self.successors.iter_mut().zip(inputs.iter_mut()) {
            let silent = input.volume.current() == Gain::SILENCE;
            let is_over =
                |successor: &mut PendingStream| successor.over || successor.crossing && silent;
            let room = !self.gone.is_full();
            if let Some(mut successor) = slot.take_if(|successor| room && is_over(successor)) {
                self.waiting -= 1;
                input.update_tap();
                successor.input.update_tap();
                core::mem::swap(&mut successor.input.tap, &mut input.tap);
                let _ = self.gone.push(core::mem::replace(input, successor.input));
            }
        }
    }
}

impl PendingStream {
    pub(crate) fn pull(
        &mut self,
        out: &mut [f32],
        times: PullTimes,
        passages: &mut Passages,
        index: usize,
    ) {
        self.input.receiver.set_silent(self.joins.is_some() && self.begins.is_none());
        self.input.pull(out, times, passages, index);
        if self.input.alive && self.sounds_since.is_never() {
            self.sounds_since = times.now;
        }
    }

    pub(crate) fn shape(&mut self, block: &mut [f32], times: PullTimes) {
        let input = &mut self.input;
        let basis = input.receiver.placement().due(times.meets).map(|due| due.basis);
        let waited = !self.sounds_since.is_never() && times.now - self.sounds_since > TIMEOUT;
        self.ready = input.alive && (basis == Some(Basis::Clock) || waited);
        if self.joins.is_none() {
            let gain = if self.crossing { input.target() } else { Gain::SILENCE };
            input.shape(block, gain);
            self.crossing |= self.ready;
            return;
        }
        let gain = input.target();
        input.shape(block, gain);
        match self.begins {
            Some(begins) => fade(input, block, (times.meets, begins), quarter_sine),
            None => block.fill(0.0),
        }
    }
}
