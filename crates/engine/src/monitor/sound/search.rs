//! Finds a window of sound in what packets brought: the only place that it can come from, or none.

use tautline_dsp::align::{Backoff, NEAR, outwards};
use tautline_proto::time::{Frames, MediaTime};

use super::Why;
use super::between::{Between, WindowOrigin};
use super::recent::RecentFrames;
use super::window::SoundWindow;

/// Sound that might come from more places than this says nothing.
const MOST_TRIES: u32 = 64;
/// After so many windows in a row that were found nowhere, those searches rest that cost time; the
/// search between frames later, since a hole in every other window is no reason to give resampled
/// sound up.
const WIDE_PATIENCE: u32 = 1;
const BETWEEN_PATIENCE: u32 = 8;
/// Where the sound was found last, against where the ledger puts it.
pub(super) struct Search {
    /// How far from there it is looked for, in frames.
    reach: i64,
    last: i64,
    /// Of the search at every place, and of the search between frames.
    wide: Backoff,
    fine: Backoff,
    /// Looks for resampled sound, once there is any: its kernel takes milliseconds to be laid out.
    between: Option<Between>,
    /// What drift the last such sound had.
    drift: f64,
    /// Whether what was found last is such, and no more than one window was not found since.
    resampled: bool,
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
            resampled: false,
            #[cfg(test)]
            tried: Tried::default(),
        }
    }

    /// Where `samples`, a whole window, come from; by the ledger from `guess`. Or why that cannot be said. If not
    /// `anywhere`, only that is looked at which costs little: the window is a part of another and of what lies beside it.
    pub(super) fn place(
        &mut self,
        samples: &[f32],
        brought: &RecentFrames,
        guess: MediaTime,
        anywhere: bool,
    ) -> Result<WindowOrigin, Why> {
        let window = SoundWindow::new(samples, brought).ok_or(Why::Silent)?;
        #[cfg(test)]
        {
            self.tried.windows += u64::from(anywhere);
        }
        if let Some(first) = self.look_near(&window, guess) {
            return self.take(&window, first, guess);
        }
        // What was found last is likelier; and the kernel for looking between takes longer than all places.
        if anywhere
            && !self.resampled
            && let Some(first) = self.look_everywhere(&window, guess)
        {
            return self.take(&window, first, guess);
        }
        let between = match anywhere {
            true => self.look_between(&window, guess),
            false if self.resampled => self.place_between(&window, guess),
            false => None,
        };
        if let Some(origin) = between {
            return self.take_resampled(origin, &window, guess);
        }
        if anywhere
            && self.resampled
            && let Some(first) = self.look_everywhere(&window, guess)
        {
            return self.take(&window, first, guess);
        }
        Err(Why::Unlike)
    }

    fn look_near(&self, window: &SoundWindow<'_>, guess: MediaTime) -> Option<MediaTime> {
        // Cards drift by less in a window, and a slip is one frame.
        let mut near = outwards(NEAR).map(|away| guess + Frames::new(self.last + away));
        near.find(|place| window.matches(*place))
    }

    /// Takes a window that matches at `first`, unless it matches elsewhere, too.
    fn take(
        &mut self,
        window: &SoundWindow<'_>,
        first: MediaTime,
        guess: MediaTime,
    ) -> Result<WindowOrigin, Why> {
        let best = window.settle(first);
        self.rest_no_more();
        self.resampled = false;
        self.last = (best - guess).count().clamp(-self.reach, self.reach);
        let others = window.neighbours(best, self.reach);
        let elsewhere = |place: &MediaTime| !others.contains(place);
        let mut likely = window.likely(guess, self.reach).filter(elsewhere);
        let twice = likely.any(|place| window.matches(place));
        if twice { Err(Why::Repeats) } else { Ok(best.into()) }
    }

    /// Takes a window that was found between frames, unless it is found elsewhere, too.
    fn take_resampled(
        &mut self,
        origin: WindowOrigin,
        window: &SoundWindow<'_>,
        guess: MediaTime,
    ) -> Result<WindowOrigin, Why> {
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
                return Err(Why::Repeats);
            }
        }
        self.rest_no_more();
        self.resampled = true;
        self.last = (best - guess).count().clamp(-self.reach, self.reach);
        Ok(origin)
    }

    fn look_between(&mut self, window: &SoundWindow<'_>, guess: MediaTime) -> Option<WindowOrigin> {
        if !self.fine.is_over() {
            return None;
        }
        // The window in which sound begins lies nowhere as a whole: for that one no kernel is laid out.
        if self.between.is_none() && !self.fine.has_failed() {
            self.fine.fail();
            return None;
        }
        #[cfg(test)]
        {
            self.tried.between += 1;
        }
        let found = self.place_between(window, guess);
        if found.is_none() {
            self.resampled &= !self.fine.has_failed();
            self.fine.fail();
        }
        found
    }

    fn place_between(
        &mut self,
        window: &SoundWindow<'_>,
        guess: MediaTime,
    ) -> Option<WindowOrigin> {
        let from = guess + Frames::new(self.last);
        let between = self.between.get_or_insert_with(Between::new);
        let found = between.place(window.samples, window.brought, from, self.drift);
        self.drift = found.map_or(0.0, |origin| origin.drift);
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
        let all = window.likely(guess, self.reach).filter(|place| window.matches(*place));
        // Of two as near, the later.
        let far = |place: &MediaTime| (*place - guess).count();
        let found = all.min_by_key(|place| (far(place).abs(), far(place) < 0));
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
