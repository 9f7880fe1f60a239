//! Replaces a stream: receives both until the new one has sound, then cross-fades. Streams are
//! moved by value, so that the device's thread frees nothing.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::Gain;
use tautline_proto::jitter_buffer::PullTimes;
use tautline_proto::placement::Basis;
use tautline_proto::time::{LocalTime, Span};

use super::{MixerInput, Passages};

pub(crate) struct PendingStream {
    pub(crate) input: MixerInput,
    sounds_since: LocalTime,
    crossing: bool,
}

pub(crate) struct Succession {
    heirs: Box<[Option<PendingStream>]>,
    /// While it is 0, no place is checked.
    waiting: usize,
    coming: Consumer<(usize, MixerInput)>,
    gone: Producer<MixerInput>,
}

const TIMEOUT: Span = Span::from_secs(1);

impl Succession {
    pub(crate) fn new(
        places: usize,
        coming: Consumer<(usize, MixerInput)>,
        gone: Producer<MixerInput>,
    ) -> Self {
        Self { heirs: (0..places).map(|_| None).collect(), waiting: 0, coming, gone }
    }

    pub(crate) const fn has_heirs(&self) -> bool {
        self.waiting > 0
    }

    #[inline]
    pub(crate) fn heirs(&mut self) -> &mut [Option<PendingStream>] {
        if self.waiting == 0 { &mut [] } else { &mut self.heirs }
    }

    pub(crate) fn is_crossing(&self, index: usize) -> bool {
        let heir = || self.heirs.get(index).and_then(Option::as_ref);
        self.waiting > 0 && heir().is_some_and(|heir| heir.crossing)
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
            let Ok((index, input)) = self.coming.pop() else { return };
            let heir = PendingStream { input, sounds_since: LocalTime::NEVER, crossing: false };
            let before = match self.heirs.get_mut(index) {
                Some(slot) => slot.replace(heir),
                None => Some(heir),
            };
            match before {
                Some(before) => drop(self.gone.push(before.input)),
                None => self.waiting += 1,
            }
        }
    }

    #[cold]
    fn hand_over(&mut self, inputs: &mut [MixerInput]) {
        for (slot, input) in self.heirs.iter_mut().zip(inputs.iter_mut()) {
            let over = input.volume.current() == Gain::SILENCE && !self.gone.is_full();
            if let Some(mut heir) = slot.take_if(|heir| heir.crossing && over) {
                self.waiting -= 1;
                input.tell_tap();
                heir.input.tell_tap();
                core::mem::swap(&mut heir.input.tap, &mut input.tap);
                heir.input.gate = input.gate;
                let _ = self.gone.push(core::mem::replace(input, heir.input));
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
        self.input.pull(out, times, passages, index);
        if self.input.alive && self.sounds_since.is_never() {
            self.sounds_since = times.now;
        }
    }

    pub(crate) fn shape(&mut self, block: &mut [f32], times: PullTimes, gate: Gain) {
        let input = &mut self.input;
        let basis = input.receiver.placement().due(times.meets).map(|due| due.basis);
        let waited = !self.sounds_since.is_never() && times.now - self.sounds_since > TIMEOUT;
        let gain = if self.crossing { input.target() } else { Gain::SILENCE };
        input.shape(block, gate, gain);
        self.crossing |= input.alive && (basis == Some(Basis::Clock) || waited);
    }
}
