//! Finds a window of sound in what packets brought: the only place that it can come from, or none.

use tautline_dsp::fit::Likeness;
use tautline_proto::time::{Frames, MediaTime};

use super::between::{Between, WINDOW, WindowOrigin};
use super::recent::RecentFrames;
use super::unfound::Why;

/// The part of a window's energy that may be left over: −60 dB, well above the rounding of a volume
/// and well below anything but the same sound.
const LEFT_OVER: f64 = 1e-6;
/// Below this mean square a window is silence and says nothing: −90 dBFS.
const SILENCE: f64 = 1e-9;
/// The part of the loudest sample by which any other may be off at a place worth a closer look.
const LIKELY: f32 = 0.01;
/// The same where sound may lie between frames: half a frame beside its place a tone of 8 kHz is off
/// by half.
const ALIKE: f32 = 0.5;
/// Sound that might come from more places than this says nothing.
const MOST_TRIES: u32 = 64;
/// The order in which a place is looked at: a stride prime to [`WINDOW`], so that the first samples
/// are far from each other and tell deep sound from its neighbours too.
const STRIDE: usize = 389;
/// How far from the last place a search begins, in frames: cards drift by less from one window to
/// the next, and a slip is one.
const NEAR: i64 = 8;
/// After so many windows in a row that were found nowhere, those searches rest that cost time; the
/// search between frames later, since a hole in every other window is no reason to give resampled
/// sound up.
const WIDE_PATIENCE: u32 = 1;
const BETWEEN_PATIENCE: u32 = 8;
/// The binary logarithm of the most windows that they rest for.
const MOST_REST: u32 = 4;

/// When a search that costs time is worth it: each failure doubles the rest that follows.
#[derive(Debug, Clone, Copy)]
struct Backoff {
    patience: u32,
    failures: u32,
    left: u32,
}

impl Backoff {
    const fn after(patience: u32) -> Self {
        Self { patience, failures: 0, left: 0 }
    }

    /// Whether to search this window.
    fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    fn fail(&mut self) {
        self.failures += 1;
        self.left = match self.failures.checked_sub(self.patience) {
            Some(more) => 1 << more.min(MOST_REST),
            None => 0,
        };
    }

    fn end(&mut self) {
        (self.failures, self.left) = (0, 0);
    }
}

/// Where the sound was found last, against where the ledger puts it.
pub(super) struct Search {
    /// How far from there it is looked for, in frames.
    reach: i64,
    last: i64,
    /// Of the search at every place, and of the search between frames.
    wide: Backoff,
    fine: Backoff,
    /// Looks for sound that was resampled, once there is any: its kernel takes milliseconds to be
    /// laid out, which a receiver that starts does not wait for.
    between: Option<Between>,
    /// What drift the last such sound had.
    drift: f64,
    #[cfg(test)]
    pub(super) tried: Tried,
}

/// Windows that were no silence, and how many of them were searched in the ways that cost time.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) windows: u64,
    pub(super) between: u64,
    pub(super) everywhere: u64,
}

impl Search {
    pub(super) fn new(reach: Frames) -> Self {
        Self {
            reach: reach.count(),
            last: 0,
            wide: Backoff::after(WIDE_PATIENCE),
            fine: Backoff::after(BETWEEN_PATIENCE),
            between: None,
            drift: 0.0,
            #[cfg(test)]
            tried: Tried::default(),
        }
    }

    /// Where `samples`, a whole window, come from; by the ledger from `guess`. Or why that
    /// cannot be said.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
    ) -> Result<WindowOrigin, Why> {
        let window = SoundWindow::new(samples, brought).ok_or(Why::Silent)?;
        #[cfg(test)]
        {
            self.tried.windows += 1;
        }
        let near = outwards(NEAR).map(|away| guess + Frames::new(self.last + away));
        let Some(first) = near.into_iter().find(|place| window.matches(*place)) else {
            return match self.look_between(samples, brought, guess) {
                Some(origin) => self.take_resampled(origin, &window, guess).ok_or(Why::Repeats),
                None => {
                    let first = self.look_everywhere(&window, guess).ok_or(Why::Unlike)?;
                    self.take(&window, first, guess).map(WindowOrigin::from).ok_or(Why::Repeats)
                }
            };
        };
        self.take(&window, first, guess).map(WindowOrigin::from).ok_or(Why::Repeats)
    }

    /// Takes a window that matches at `first`, unless it matches elsewhere, too.
    fn take(
        &mut self,
        window: &SoundWindow<'_>,
        first: MediaTime,
        guess: MediaTime,
    ) -> Option<MediaTime> {
        let best = window.settle(first);
        self.rest_no_more();
        self.last = (best - guess).count().clamp(-self.reach, self.reach);
        let others = window.neighbours(best, self.reach);
        let twice = outwards(self.reach)
            .map(|away| guess + Frames::new(away))
            .any(|place| !others.contains(&place) && window.matches(place));
        (!twice).then_some(best)
    }

    /// Takes a window that was found between frames, unless it is found elsewhere, too.
    fn take_resampled(
        &mut self,
        origin: WindowOrigin,
        window: &SoundWindow<'_>,
        guess: MediaTime,
    ) -> Option<WindowOrigin> {
        let best = origin.point.nearest();
        let gain = window.likeness(best).gain() as f32;
        let (mut tried, mut tries) = ([best, best], 0);
        for away in outwards(self.reach) {
            let place = best + Frames::new(away);
            // What is found near a place that was looked at is found from there.
            let side = &mut tried[usize::from(away < 0)];
            if (place - *side).count().abs() <= NEAR || !window.resembles(place, gain) {
                continue;
            }
            *side = place;
            tries += 1;
            let between = self.between.get_or_insert_with(Between::new);
            let other = between.place(window.samples, window.brought, place, origin.drift);
            let again =
                other.is_some_and(|other| (other.point - origin.point).as_f64().abs() > 1.0);
            if again || tries > MOST_TRIES {
                return None;
            }
        }
        self.rest_no_more();
        self.last = (best - guess).count().clamp(-self.reach, self.reach);
        Some(origin)
    }

    fn look_between(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
    ) -> Option<WindowOrigin> {
        if !self.fine.is_over() {
            return None;
        }
        #[cfg(test)]
        {
            self.tried.between += 1;
        }
        let from = guess + Frames::new(self.last);
        let between = self.between.get_or_insert_with(Between::new);
        let found = between.place(samples, brought, from, self.drift);
        self.drift = found.map_or(0.0, |origin| origin.drift);
        if found.is_none() {
            self.fine.fail();
        }
        found
    }

    fn look_everywhere(&mut self, window: &SoundWindow<'_>, guess: MediaTime) -> Option<MediaTime> {
        if !self.wide.is_over() {
            return None;
        }
        #[cfg(test)]
        {
            self.tried.everywhere += 1;
        }
        let all = outwards(self.reach).map(|away| guess + Frames::new(away));
        let found = all.into_iter().find(|place| window.matches(*place));
        if found.is_none() {
            self.wide.fail();
        }
        found
    }

    fn rest_no_more(&mut self) {
        self.wide.end();
        self.fine.end();
    }
}

/// 0, 1, −1, 2, −2 … as far as `reach`.
fn outwards(reach: i64) -> impl Iterator<Item = i64> {
    (0..=reach).flat_map(|away| [away, -away])
}

/// A window of sound that is not silent.
struct SoundWindow<'a> {
    samples: &'a [f32],
    brought: &'a RecentFrames,
    /// The index of the loudest sample.
    loudest: usize,
}

impl<'a> SoundWindow<'a> {
    fn new(samples: &'a [f32], brought: &'a RecentFrames) -> Option<Self> {
        let energy: f64 = samples.iter().map(|s| f64::from(*s).powi(2)).sum();
        let (loudest, _) =
            samples.iter().enumerate().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
        // So that NaN from a broken device is as silent.
        let heard = energy >= SILENCE * WINDOW as f64 && energy.is_finite();
        heard.then_some(Self { samples, brought, loudest })
    }

    fn matches(&self, place: MediaTime) -> bool {
        self.is_likely(place) && self.likeness(place).left_over() <= LEFT_OVER
    }

    /// How alike it is to what packets brought from `place` on.
    fn likeness(&self, place: MediaTime) -> Likeness {
        Likeness::of(self.samples.iter().copied().zip(self.brought.from(place)))
    }

    /// Whether it may come from less than a frame beside `place`: no sample is far off.
    fn resembles(&self, place: MediaTime, gain: f32) -> bool {
        let slack = self.samples[self.loudest].abs() * ALIKE;
        (0..WINDOW).all(|step| {
            let index = (self.loudest + step * STRIDE) % WINDOW;
            let brought = self.brought.at(place + Frames::from_len(index));
            (self.samples[index] - gain * brought).abs() <= slack
        })
    }

    /// Whether every sample is roughly what was brought at `place`, at the volume of the loudest.
    /// Elsewhere than at the right place one of the first is not.
    fn is_likely(&self, place: MediaTime) -> bool {
        let brought = |index: usize| self.brought.at(place + Frames::from_len(index));
        let loudest = self.samples[self.loudest];
        let gain = loudest / brought(self.loudest);
        let slack = loudest.abs() * LIKELY;
        gain > 0.0
            && gain.is_finite()
            && (1..WINDOW).all(|step| {
                let index = (self.loudest + step * STRIDE) % WINDOW;
                // False for the NaN of a hole.
                (self.samples[index] - gain * brought(index)).abs() <= slack
            })
    }

    /// The best place around one that matches: deep sound matches its neighbours too, only less
    /// well.
    fn settle(&self, mut best: MediaTime) -> MediaTime {
        let one = Frames::new(1);
        while let Some(better) = [best - one, best + one].into_iter().find(|neighbour| {
            self.likeness(*neighbour).left_over() < self.likeness(best).left_over()
        }) {
            best = better;
        }
        best
    }

    /// The places around `best` that match as its neighbours do, `reach` away at most.
    fn neighbours(&self, best: MediaTime, reach: i64) -> core::ops::RangeInclusive<MediaTime> {
        let run = |sign: i64| {
            let away = (1..=reach).map(|away| best + Frames::new(sign * away));
            Frames::from_len(away.take_while(|place| self.matches(*place)).count())
        };
        best - run(-1)..=best + run(1)
    }
}
