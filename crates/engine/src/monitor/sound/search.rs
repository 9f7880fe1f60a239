//! Finds a window of sound among packets' frames, if unique.

use tautline_dsp::align::{Backoff, NEAR, outwards};
use tautline_proto::time::{Frames, MediaTime};

use super::Why;
use super::between::{Between, WindowOrigin};
use super::recent::RecentFrames;
use super::window::SoundWindow;

const MAX_TRIES: u32 = 64;
/// Failures before expensive searches back off. The search between frames allows more, because
/// holes must not end it.
const WIDE_TIMEOUT: u32 = 1;
const BETWEEN_TIMEOUT: u32 = 8;
pub(super) struct Search {
    reach: i64,
    last: i64,
    wide: Backoff,
    fine: Backoff,
    /// For resampled sound; created on demand, as its kernel takes milliseconds.
    between: Option<Between>,
    drift: f64,
    resampled: bool,
    #[cfg(test)]
    pub(super) tried: Tried,
}

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
            wide: Backoff::after(WIDE_TIMEOUT),
            fine: Backoff::after(BETWEEN_TIMEOUT),
            between: None,
            drift: 0.0,
            resampled: false,
            #[cfg(test)]
            tried: Tried::default(),
        }
    }

    /// Finds `samples` among the recent frames, first near `guess` (from the ledger). Unless
    /// `anywhere`, runs only cheap searches, as windows overlap.
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
        // Tries the kind of the last match first. The resampling kernel costs more than a search
        // everywhere.
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
        let mut near = outwards(NEAR).map(|away| guess + Frames::new(self.last + away));
        near.find(|place| window.matches(*place))
    }

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
        let twice = likely.any(|place| window.matches(place))
            || window.repeats_where_frames_miss(best, self.reach);
        if twice { Err(Why::Repeats) } else { Ok(best.into()) }
    }

    fn take_resampled(
        &mut self,
        origin: WindowOrigin,
        window: &SoundWindow<'_>,
        guess: MediaTime,
    ) -> Result<WindowOrigin, Why> {
        let best = origin.point.nearest();
        if window.repeats_where_frames_miss(best, self.reach) {
            return Err(Why::Repeats);
        }
        let gain = window.similarity(best).gain() as f32;
        let (mut tried, mut tries) = ([best, best], 0);
        for away in outwards(self.reach) {
            let place = best + Frames::new(away);
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
            if again || tries > MAX_TRIES {
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
        // The first window of new sound matches nowhere, so it does not compute the kernel.
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
