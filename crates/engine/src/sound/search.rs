//! Finds a window of sound in what packets brought: the only place that it can come from, or none.

use tautline_proto::time::{Frames, MediaTime};

use super::between::{Between, Likeness, Origin, WINDOW};
use super::brought::Brought;

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
/// After windows that were found nowhere, the wide search rests for so many at most: other sound is
/// mixed in, and looking for it again and again costs time.
const MOST_REST: u32 = 16;

/// Where the sound was found last, against where the books put it.
pub(super) struct Search {
    /// How far from there it is looked for, in frames.
    reach: i64,
    last: i64,
    /// Windows for which the wide search rests, and for how many it will after the next failure.
    rests: u32,
    patience: u32,
    /// Looks for sound that was resampled, once there is any: its kernel takes milliseconds to be
    /// laid out, which a receiver that starts does not wait for.
    between: Option<Between>,
    /// What drift the last such sound had.
    drift: f64,
    /// Wide searches so far.
    #[cfg(test)]
    pub(super) wide: u64,
}

impl Search {
    pub(super) fn new(reach: Frames) -> Self {
        Self {
            reach: reach.count(),
            last: 0,
            rests: 0,
            patience: 1,
            between: None,
            drift: 0.0,
            #[cfg(test)]
            wide: 0,
        }
    }

    /// Where `samples`, a whole window, come from; the books say from `guess`. `None` where it is
    /// silent, found nowhere, or found twice, as a tone is.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &Brought,
        guess: MediaTime,
    ) -> Option<Origin> {
        let window = Window::new(samples, brought)?;
        let near = outwards(NEAR).map(|away| guess + Frames::new(self.last + away));
        let Some(first) = near.into_iter().find(|place| window.matches(*place)) else {
            let from = guess + Frames::new(self.last);
            let between = self.between.get_or_insert_with(Between::new);
            let found = between.place(samples, brought, (from, self.drift));
            self.drift = found.map_or(0.0, |origin| origin.drift);
            return match found {
                Some(origin) => self.take_resampled(origin, &window, guess),
                None => {
                    let first = self.look_everywhere(&window, guess)?;
                    self.take(&window, first, guess).map(Origin::from)
                }
            };
        };
        self.take(&window, first, guess).map(Origin::from)
    }

    /// Takes a window that matches at `first`, unless it matches elsewhere, too.
    fn take(
        &mut self,
        window: &Window<'_>,
        first: MediaTime,
        guess: MediaTime,
    ) -> Option<MediaTime> {
        let best = window.settle(first);
        (self.rests, self.patience) = (0, 1);
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
        origin: Origin,
        window: &Window<'_>,
        guess: MediaTime,
    ) -> Option<Origin> {
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
            let other = between.place(window.samples, window.brought, (place, origin.drift));
            let again =
                other.is_some_and(|other| (other.point - origin.point).as_f64().abs() > 1.0);
            if again || tries > MOST_TRIES {
                return None;
            }
        }
        (self.rests, self.patience) = (0, 1);
        self.last = (best - guess).count().clamp(-self.reach, self.reach);
        Some(origin)
    }

    fn look_everywhere(&mut self, window: &Window<'_>, guess: MediaTime) -> Option<MediaTime> {
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        #[cfg(test)]
        {
            self.wide += 1;
        }
        let all = outwards(self.reach).map(|away| guess + Frames::new(away));
        let found = all.into_iter().find(|place| window.matches(*place));
        if found.is_none() {
            self.rests = self.patience;
            self.patience = (2 * self.patience).min(MOST_REST);
        }
        found
    }
}

/// 0, 1, −1, 2, −2 … as far as `reach`.
fn outwards(reach: i64) -> impl Iterator<Item = i64> {
    (0..=reach).flat_map(|away| [away, -away])
}

/// A window of sound that is not silent.
struct Window<'a> {
    samples: &'a [f32],
    brought: &'a Brought,
    /// The index of the loudest sample.
    loudest: usize,
}

impl<'a> Window<'a> {
    fn new(samples: &'a [f32], brought: &'a Brought) -> Option<Self> {
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
