//! Voices of the mix: the streams that sound, as reported by the mixer.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer};
use tautline_io::thread::memory;
use tautline_proto::time::LocalTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Voices {
    #[default]
    Nobody,
    One(usize),
    Several,
}

/// Maximum sample of silence: −90 dB of full scale, as in the search.
const SILENCE: f32 = 3e-5;

impl Voices {
    pub(crate) fn with(self, place: usize, samples: &[f32]) -> Self {
        match self {
            Self::Several => self,
            _ if samples.iter().all(|sample| sample.abs() < SILENCE) => self,
            Self::Nobody => Self::One(place),
            Self::One(_) => Self::Several,
        }
    }
}

pub(crate) struct OutputTap {
    ring: Producer<(LocalTime, Voices)>,
    said: Voices,
}

const WAITING: usize = 256;

pub(super) fn voices() -> (OutputTap, Chorus) {
    let (ring, changes) = memory::ring(WAITING);
    let mouth = OutputTap { ring, said: Voices::Nobody };
    (mouth, Chorus { changes, known: VecDeque::new() })
}

impl OutputTap {
    /// Reports the voices from DAC time `at` on. Silence counts as a pause.
    pub(crate) fn emit(&mut self, at: LocalTime, voices: Voices) {
        let news = voices != Voices::Nobody && voices != self.said;
        if news && self.ring.push((at, voices)).is_ok() {
            self.said = voices;
        }
    }

    /// Whether stream `place` of `of` streams plays alone now, or is the only stream.
    pub(crate) fn may_be_found(&self, place: usize, of: usize) -> bool {
        of == 1 || self.said == Voices::One(place)
    }
}

pub(crate) struct Chorus {
    changes: Consumer<(LocalTime, Voices)>,
    known: VecDeque<(LocalTime, Voices)>,
}

impl Chorus {
    pub(super) fn listen(&mut self) {
        while let Ok(change) = self.changes.pop() {
            self.known.push_back(change);
        }
    }

    pub(super) fn forget(&mut self, before: LocalTime) {
        while self.known.get(1).is_some_and(|(from, _)| *from <= before) {
            self.known.pop_front();
        }
    }

    pub(crate) fn only(&self, place: usize, from: LocalTime, to: LocalTime) -> bool {
        let begin = self.known.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let concerned = self.known.iter().skip(begin).take_while(|(at, _)| *at <= to);
        concerned.into_iter().all(|(_, voices)| match voices {
            Voices::Nobody => true,
            Voices::One(one) => *one == place,
            Voices::Several => false,
        })
    }
}
