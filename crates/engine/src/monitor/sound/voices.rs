//! Whose sound a mix is, told by the mixer: in the sum of several none can be found.

use std::collections::VecDeque;

use rtrb::{Consumer, Producer};
use tautline_io::thread::memory;
use tautline_proto::time::LocalTime;

/// Whose sound a mix is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Voices {
    #[default]
    Nobody,
    /// That of one stream alone.
    One(usize),
    /// The sum of several.
    Several,
}

/// No sample of silence is larger: −90 dB of full scale, as the search has it.
const SILENCE: f32 = 3e-5;

impl Voices {
    /// With that of the stream at `place`, which is these samples.
    pub(crate) fn with(self, place: usize, samples: &[f32]) -> Self {
        match self {
            Self::Several => self,
            _ if samples.iter().all(|sample| sample.abs() < SILENCE) => self,
            Self::Nobody => Self::One(place),
            Self::One(_) => Self::Several,
        }
    }
}

/// Says whose sound the mix is. Real-time.
pub(crate) struct OutputTap {
    ring: Producer<(LocalTime, Voices)>,
    said: Voices,
}

/// Changes that may wait for the ordinary thread: one in each of a quarter of a thousand blocks.
const WAITING: usize = 256;

pub(super) fn voices() -> (OutputTap, Chorus) {
    let (ring, changes) = memory::ring(WAITING);
    let mouth = OutputTap { ring, said: Voices::Nobody };
    (mouth, Chorus { changes, known: VecDeque::new() })
}

impl OutputTap {
    /// What meets the DAC from `at` on is the sound of these; silence is a pause of the last.
    pub(crate) fn say(&mut self, at: LocalTime, voices: Voices) {
        let news = voices != Voices::Nobody && voices != self.said;
        // With the ring full, in the next block.
        if news && self.ring.push((at, voices)).is_ok() {
            self.said = voices;
        }
    }

    /// Whether sound of the stream at `place`, of so many, may be found: it sounds alone now, or is the only one.
    pub(crate) fn may_be_found(&self, place: usize, of: usize) -> bool {
        of == 1 || self.said == Voices::One(place)
    }
}

pub(crate) struct Chorus {
    changes: Consumer<(LocalTime, Voices)>,
    /// Each from its instant on, oldest first.
    known: VecDeque<(LocalTime, Voices)>,
}

impl Chorus {
    pub(super) fn listen(&mut self) {
        while let Ok(change) = self.changes.pop() {
            self.known.push_back(change);
        }
    }

    /// Nobody will ask for what was before.
    pub(super) fn forget(&mut self, before: LocalTime) {
        while self.known.get(1).is_some_and(|(from, _)| *from <= before) {
            self.known.pop_front();
        }
    }

    /// Whether nobody but the stream at `place` sounded between two instants.
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
