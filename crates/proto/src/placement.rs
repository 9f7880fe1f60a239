//! When each frame plays: presentation time = capture time + link offset, the same on every
//! receiver.
//!
//! Where the sender's clock is mapped the capture time is known. Where it is not, the fastest
//! arrivals stand in for it: a packet cannot leave before its last frame was captured, so the
//! earliest arrivals bound the capture time from above by the shortest path.

use crate::clock::{ClockMapping, MediaClock, Reading, WallTime};
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime, Span};
use crate::units::Rate;

/// What the presentation times rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The sender's clock, mapped by exchanges.
    Clock,
    /// The fastest arrivals seen.
    Arrival,
}

/// Which frame is due at an instant, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// What is due at the very instant asked for, between two frames as a rule.
    pub point: MediaPoint,
    /// How far the answer may be from the truth, either way.
    pub uncertainty: Span,
    /// What it rests on.
    pub basis: Basis,
}

impl Due {
    /// How far from what is due something else may be played and nobody can tell: what the clocks
    /// cannot tell apart, and the rounding to a whole frame.
    pub fn tolerance(&self, rate: Rate) -> Span {
        let slack = match self.basis {
            Basis::Clock => self.uncertainty,
            // Arrivals say little about time: do not chase their jitter.
            Basis::Arrival => self.uncertainty + Span::from_millis(1),
        };
        slack + rate.span_of(Frames::new(1))
    }
}

/// Decides when each frame of one stream plays.
#[derive(Debug, Clone)]
pub struct Placement {
    rate: Rate,
    link_offset: Span,
    clock: Option<ClockMapping>,
    media_clock: MediaClock,
    arrivals: FastestArrival,
}

impl Placement {
    /// Places frames of `rate`, `link_offset` after their capture.
    pub const fn new(rate: Rate, link_offset: Span) -> Self {
        Self {
            rate,
            link_offset,
            clock: None,
            media_clock: MediaClock::new(rate),
            arrivals: FastestArrival::new(rate),
        }
    }

    /// The latency from capture to presentation that is being kept.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Changes the latency; the playout follows at its next period.
    pub fn set_link_offset(&mut self, link_offset: Span) {
        self.link_offset = link_offset;
    }

    /// Takes a newer mapping of the sender's clock.
    pub fn set_clock(&mut self, clock: ClockMapping) {
        self.clock = Some(clock);
    }

    /// Takes the sender's word for when `media` was captured.
    pub fn observe_capture(&mut self, media: MediaTime, wall: WallTime) -> Reading {
        self.media_clock.observe(media, wall)
    }

    /// Takes the arrival of a packet of `frames` whose first frame is `media`.
    pub fn observe_arrival(&mut self, media: MediaTime, frames: Frames, arrival: LocalTime) {
        self.arrivals.observe(media + frames, arrival);
    }

    /// Forgets what it knew of the stream, but not of the sender's clock: after a restart.
    pub fn forget_stream(&mut self) {
        self.media_clock.reset();
        self.arrivals = FastestArrival::new(self.rate);
    }

    /// Forgets all but the settings: another sender.
    pub fn forget_all(&mut self) {
        *self = Self::new(self.rate, self.link_offset);
    }

    /// When `media` was captured, on this host's clock; `None` where only arrivals are known.
    pub fn capture(&self, media: MediaTime) -> Option<LocalTime> {
        Some(self.clock?.local(self.media_clock.wall(media)?))
    }

    /// The sender's clock as an instant here.
    pub fn local(&self, wall: WallTime) -> Option<LocalTime> {
        self.clock.map(|clock| clock.local(wall))
    }

    /// When `media` should meet the DAC; `None` before the first packet.
    pub fn presentation(&self, media: MediaTime) -> Option<LocalTime> {
        let (reference, at) = match (self.clock, self.media_clock.reference()) {
            (Some(clock), Some((frame, wall))) => (frame, clock.local(wall)),
            _ => self.arrivals.reference()?,
        };
        Some(at + self.rate.span_of(media - reference) + self.link_offset)
    }

    /// The frame that is due to meet the DAC at `meets`; `None` before the first packet.
    pub fn due(&self, meets: LocalTime) -> Option<Due> {
        let (reference, at, uncertainty, basis) = match self.mapped_reference(meets) {
            Some((media, at, uncertainty)) => (media, at, uncertainty, Basis::Clock),
            None => {
                let (media, at) = self.arrivals.reference()?;
                (media, at, self.arrivals.spread(), Basis::Arrival)
            }
        };
        let since = meets - (at + self.link_offset);
        Some(Due { point: self.rate.point_after(reference, since), uncertainty, basis })
    }

    /// A frame, the instant of its capture, and how sure that is at `now`; `None` where the
    /// sender's clock is not known, or not any more.
    fn mapped_reference(&self, now: LocalTime) -> Option<(MediaTime, LocalTime, Span)> {
        let clock = self.clock?;
        let uncertainty = clock.uncertainty_at(now)?;
        let (media, wall) = self.media_clock.reference()?;
        Some((media, clock.local(wall), uncertainty))
    }
}

/// The earliest that packets arrive, over the last four to eight seconds.
#[derive(Debug, Clone)]
struct FastestArrival {
    rate: Rate,
    /// Least `arrival − media` of the current and the previous window, as the local time of media
    /// frame zero.
    windows: [Option<LocalTime>; 2],
    opened: LocalTime,
    /// Mean of how much later than the fastest packets come, smoothed.
    spread: Span,
    behind: u32,
}

impl FastestArrival {
    const WINDOW: Span = Span::from_secs(4);
    /// Every packet this much behind the fastest, [`Self::PATIENCE`] times in a row: the sender
    /// paused without moving its media time on, or the path changed.
    const BEHIND: Span = Span::from_millis(100);
    const PATIENCE: u32 = 8;

    const fn new(rate: Rate) -> Self {
        Self { rate, windows: [None; 2], opened: LocalTime::ZERO, spread: Span::ZERO, behind: 0 }
    }

    fn observe(&mut self, media_end: MediaTime, arrival: LocalTime) {
        let origin = arrival - self.rate.span_of(media_end - MediaTime::ZERO);
        let Some(fastest) = self.fastest() else {
            (self.windows, self.opened) = ([Some(origin), None], arrival);
            return;
        };
        let excess = (origin - fastest).max(Span::ZERO);
        self.behind = if excess > Self::BEHIND { self.behind + 1 } else { 0 };
        if self.behind >= Self::PATIENCE {
            *self = Self::new(self.rate);
            return self.observe(media_end, arrival);
        }
        self.spread = self.spread + (excess - self.spread).divided(64);
        if arrival - self.opened >= Self::WINDOW {
            (self.windows, self.opened) = ([Some(origin), self.windows[0]], arrival);
        }
        self.windows[0] = self.windows[0].map_or(Some(origin), |least| Some(least.min(origin)));
    }

    fn fastest(&self) -> Option<LocalTime> {
        match self.windows {
            [Some(current), Some(previous)] => Some(current.min(previous)),
            [either, None] | [None, either] => either,
        }
    }

    fn reference(&self) -> Option<(MediaTime, LocalTime)> {
        self.fastest().map(|origin| (MediaTime::ZERO, origin))
    }

    fn spread(&self) -> Span {
        self.spread.times(2)
    }
}
