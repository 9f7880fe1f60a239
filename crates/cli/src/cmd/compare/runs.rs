//! Where the frames of one sound lie in another that holds it in pieces: as sent, but for holes, and
//! moved once and again where a latency changed.

use core::ops::Range;

/// Frames that must agree for a place to be the right one.
const PROBE: usize = 256;
/// Places of the sound that are looked for, until one is found: each takes a pass through what was
/// heard.
const PROBES: usize = 64;
/// Frames that must agree where a hole ends and nothing moved: less than in a packet of a
/// millisecond.
const RUN: usize = 32;

/// Where the sound was moved against what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Splice {
    /// The first frame of the sound that is heard as it was sent afterwards.
    pub(crate) at: usize,
    /// By how many frames it is heard later than what was before; negative is earlier.
    pub(crate) moved: i64,
}

/// What was heard of a sound.
pub(crate) struct Heard {
    /// The frame of the recording at which the sound begins.
    pub(crate) begins: i64,
    /// Of each frame whether it was heard as it was sent.
    pub(crate) same: Vec<bool>,
    /// In the order of the sound.
    pub(crate) splices: Vec<Splice>,
}

/// Two sounds of as many channels, interleaved.
#[derive(Clone, Copy)]
pub(crate) struct Both<'a> {
    pub(crate) sound: &'a [f32],
    pub(crate) heard: &'a [f32],
    pub(crate) channels: usize,
}

impl Both<'_> {
    fn frames(&self) -> usize {
        self.sound.len() / self.channels
    }

    /// Whether so many frames of the sound, from one on, were heard `offset` frames further on.
    fn agree(&self, from: usize, count: usize, offset: i64) -> bool {
        let Ok(at) = usize::try_from(from as i64 + offset) else { return false };
        let of = |at: usize| at * self.channels..(at + count) * self.channels;
        self.sound.get(of(from)).is_some_and(|sound| self.heard.get(of(at)) == Some(sound))
    }

    /// Follows the sound through what was heard; a place is searched for up to `reach` frames either
    /// way. `None` if nothing of it is found.
    pub(crate) fn follow(&self, reach: usize) -> Option<Heard> {
        let begins = self.find()?;
        let mut heard = Heard { begins, same: vec![false; self.frames()], splices: Vec::new() };
        let (mut at, mut offset) = (0, begins);
        while at < self.frames() {
            if self.agree(at, 1, offset) {
                heard.same[at] = true;
                at += 1;
                continue;
            }
            let resumed = self.resumes(at, offset, reach);
            // A short hole is a hole: where less than a probe is missing nothing can lie in it.
            let moved = match resumed {
                Some(next) if next - at < PROBE => None,
                _ => self.moved(at, offset, (reach, resumed)),
            };
            let next = moved.map(|(next, _)| next).or(resumed).unwrap_or(at + reach.max(1));
            let next = next.min(self.frames());
            self.mark(&mut heard.same, at..next, offset);
            at = next;
            if let Some((at, other)) = moved {
                heard.splices.push(Splice { at, moved: other - offset });
                offset = other;
            }
        }
        Some(heard)
    }

    fn mark(&self, same: &mut [bool], frames: Range<usize>, offset: i64) {
        frames.for_each(|frame| same[frame] = self.agree(frame, 1, offset));
    }

    /// The first frame from `at` on with which a run begins that is where the sound before was.
    fn resumes(&self, at: usize, offset: i64, reach: usize) -> Option<usize> {
        let last = self.frames().min(at + reach);
        (at..last).find(|from| {
            let run = RUN.min(self.frames() - from);
            self.agree(*from, run, offset)
        })
    }

    /// The first frame from `at` on that is found at another place, and the offset there. It was
    /// heard after what came before, and before what is where it was again, if anything is: the
    /// same sound may be there more than once.
    fn moved(
        &self,
        at: usize,
        offset: i64,
        (reach, resumed): (usize, Option<usize>),
    ) -> Option<(usize, i64)> {
        let frames = self.frames();
        let length = PROBE.min(frames - at);
        let last = (frames - length).min(resumed.unwrap_or(at + reach));
        let hole = at as i64 + offset..resumed.map_or(i64::MAX, |next| next as i64 + offset);
        let found = (at..=last).step_by(PROBE / 2).find_map(|from| {
            let probe = &self.sound[from * self.channels..(from + length) * self.channels];
            let here = from as i64 + offset;
            let near = here - reach as i64..here + reach as i64 + 1;
            let near = near.start.max(hole.start)..near.end.min(hole.end);
            let place =
                self.places(probe, near).min_by_key(|place| (*place as i64 - here).abs())?;
            Some((from, place as i64 - from as i64))
        });
        let (mut from, other) = found?;
        while from > at && self.agree(from - 1, 1, other) {
            from -= 1;
        }
        Some((from, other))
    }

    /// Where a probe is heard among these frames, if it tells.
    fn places(&self, probe: &[f32], among: Range<i64>) -> impl Iterator<Item = usize> {
        let (channels, heard) = (self.channels, self.heard);
        let room = (heard.len() / channels + 1).saturating_sub(probe.len() / channels);
        let frame = |at: i64| usize::try_from(at.max(0)).unwrap_or(0).min(room);
        let end = if tells(probe, channels) { frame(among.end) } else { 0 };
        (frame(among.start)..end).filter(move |at| heard[at * channels..].starts_with(probe))
    }

    /// The frame at which the sound begins in what was heard: before it, if only a later part of it
    /// is there.
    fn find(&self) -> Option<i64> {
        let Self { sound, heard, channels } = *self;
        let frames = self.frames();
        let length = frames.min(PROBE);
        let step = (frames / PROBES).max(1);
        (0..=frames - length).step_by(step).find_map(|from| {
            let probe = &sound[from * channels..(from + length) * channels];
            let tells = from == 0 || tells(probe, channels);
            let mut places = 0..=(heard.len() / channels).checked_sub(length)?;
            let at = places.find(|at| tells && heard[at * channels..].starts_with(probe))?;
            Some(at as i64 - from as i64)
        })
    }
}

/// Frames that are all the same would be found anywhere.
fn tells(probe: &[f32], channels: usize) -> bool {
    probe.chunks(channels).any(|frame| frame != &probe[..channels])
}
