//! Presentation times: capture time plus link offset, the same on every receiver.
//!
//! The capture time comes from the sender's clock, otherwise from the fastest arrivals, which are
//! late by the shortest path delay.

use crate::clock::{ClockMapping, ClockSource, Floor, MediaClock, ReadingOutcome, ReportedRate};
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime, Span, WallTime};
use crate::units::{FrameLength, Ppm, Rate};

/// Basis of the presentation times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The sender's clock.
    Clock,
    /// The fastest arrivals.
    Arrival,
}

/// Relation of this card's clock to the sender's card's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cards {
    /// Assumed independent.
    Apart,
    /// Same clock: the distance in frames is constant.
    OneClock,
    /// Same clock, but no recent packet shows the distance.
    Unseen,
}

/// Position due at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Due position, usually between two frames.
    pub point: MediaPoint,
    /// Maximum error, either way.
    pub uncertainty: Span,
    /// Maximum change as clocks become better known. `None` if the position does not depend on
    /// clocks.
    pub precision: Option<Span>,
    /// Basis of the position.
    pub basis: Basis,
    /// Relation of the cards.
    pub cards: Cards,
}

impl Due {
    /// Undetectable deviation: clock uncertainty plus rounding to whole frames.
    pub fn tolerance(&self, frame: FrameLength) -> Span {
        let slack = match self.basis {
            Basis::Clock => self.uncertainty,
            // Do not follow the jitter of arrivals.
            Basis::Arrival => self.uncertainty + Span::from_millis(1),
        };
        slack + frame.frames(1)
    }

    /// Maximum long-term drift if both cards share a clock: two frames plus a part of the clock
    /// uncertainty. Simulated with estimates 20 s old: 0.07 ms over 5 GHz Wi-Fi, 2 ms via
    /// satellite.
    pub fn strays(&self, frame: FrameLength) -> Span {
        let noise = match self.basis {
            Basis::Clock => self.uncertainty.divided(8).min(Span::from_millis(4)),
            Basis::Arrival => self.uncertainty + Span::from_micros(250),
        };
        noise + frame.frames(2)
    }
}

#[derive(Debug, Clone)]
struct RunTimes {
    media_clock: MediaClock,
    arrivals: Floor,
    newest: Option<(MediaTime, WallTime)>,
}

impl RunTimes {
    const fn by(media_clock: MediaClock) -> Self {
        Self { media_clock, arrivals: Floor::new(), newest: None }
    }

    fn following(&self) -> Self {
        let mut media_clock = self.media_clock;
        media_clock.reset();
        Self::by(media_clock)
    }

    fn observe_capture(&mut self, media: MediaTime, wall: WallTime) -> ReadingOutcome {
        let reading = self.media_clock.observe(media, wall);
        let newer = match reading {
            ReadingOutcome::Agreed => self.newest.is_none_or(|(newest, _)| newest < media),
            ReadingOutcome::Doubted => false,
            ReadingOutcome::Jumped => true,
        };
        if newer {
            self.newest = Some((media, wall));
        }
        reading
    }
}

#[derive(Debug, Clone)]
struct NextRun {
    run: RunTimes,
    begins: MediaTime,
    end: MediaTime,
}

/// Determines when each frame of a stream plays.
#[derive(Debug, Clone)]
pub struct Placement {
    rate: Rate,
    link_offset: Span,
    clock: Option<ClockMapping>,
    run: RunTimes,
    next: [Option<NextRun>; Self::FOLLOWING],
    one_clock: bool,
    captures_reported: bool,
    anew: bool,
}

impl Placement {
    /// Interval of checks for a shared clock: 0.1 ms at 100 ppm.
    const SEEN: Span = Span::from_secs(1);
    const FOLLOWING: usize = 3;

    /// Frames play `link_offset` after capture.
    pub const fn new(rate: Rate, link_offset: Span) -> Self {
        Self::by(MediaClock::new(rate), rate, link_offset)
    }

    /// For packets with presentation times; their clock may step.
    pub(crate) const fn of_presentations(rate: Rate, link_offset: Span) -> Self {
        Self::by(MediaClock::of_steps(rate), rate, link_offset)
    }

    const fn by(media_clock: MediaClock, rate: Rate, link_offset: Span) -> Self {
        Self {
            rate,
            link_offset,
            clock: None,
            run: RunTimes::by(media_clock),
            next: [const { None }; Self::FOLLOWING],
            one_clock: false,
            captures_reported: true,
            anew: true,
        }
    }

    /// Latency from capture to presentation.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Sets the latency from the next period on.
    pub fn set_link_offset(&mut self, link_offset: Span) {
        self.link_offset = link_offset;
        self.anew = true;
    }

    /// Sets the mapping of the sender's clock.
    pub fn set_clock(&mut self, clock: ClockMapping) {
        self.clock = Some(clock);
        self.anew = true;
    }

    /// Sets the sender's card rate, as reported by another stream.
    pub fn handle_rate(&mut self, reported: ReportedRate) {
        self.run.media_clock.handle_rate(reported);
        for next in self.next.iter_mut().flatten() {
            next.run.media_clock.handle_rate(reported);
        }
    }

    /// Sets whether both cards share a clock.
    pub fn set_one_clock(&mut self, one_clock: bool) {
        self.anew |= self.one_clock != one_clock;
        self.one_clock = one_clock;
    }

    /// Maximum shift of the due position since [`Self::settle`], apart from elapsed time. Unlimited
    /// after a reset and while a run waits.
    pub fn moved(&self) -> Span {
        if self.anew || self.has_next() { Span::MAX } else { self.run.media_clock.moved() }
    }

    /// Marks the due position as known.
    pub fn settle(&mut self) {
        self.anew = false;
        self.run.media_clock.settle();
    }

    /// Adds a capture time.
    pub fn observe_capture(&mut self, media: MediaTime, wall: WallTime) -> ReadingOutcome {
        self.run_of_mut(media).observe_capture(media, wall)
    }

    /// Adds an arrival.
    #[inline]
    pub fn observe_arrival(&mut self, media: MediaTime, frames: Frames, arrival: LocalTime) {
        let sent = self.sent(media + frames);
        self.anew |= self.run_of_mut(media).arrivals.observe(sent, arrival);
    }

    /// Delay relative to the fastest packet. `None` unless arrivals are the only basis.
    pub fn behind(&self, media: MediaTime, frames: Frames, arrival: LocalTime) -> Option<Span> {
        let run = self.run_of(media);
        let mapped = self.clock.is_some() && run.media_clock.wall(media).is_some();
        if mapped { None } else { run.arrivals.behind(self.sent(media + frames), arrival) }
    }

    /// Twice the mean delay behind the fastest arrivals.
    pub fn spread(&self) -> Span {
        self.run.arrivals.spread()
    }

    /// Like [`Self::spread`], without an unconfirmed step.
    pub(crate) fn steady_spread(&self) -> Span {
        self.run.arrivals.steady_spread()
    }

    pub(crate) fn step_arrivals(&mut self, media: MediaTime, step: Span, now: LocalTime) {
        self.anew = true;
        self.run_of_mut(media).arrivals.step(step, now);
    }

    /// Begins another run at `begins`. If `received`, earlier runs keep their times up to `end`.
    pub fn begin_run(&mut self, begins: MediaTime, end: MediaTime, received: bool) {
        self.anew = true;
        let run = self.run.following();
        if !received {
            self.next.fill(None);
            self.run = run;
        } else if let Some(free) = self.next.iter_mut().find(|next| next.is_none()) {
            *free = Some(NextRun { run, begins, end });
        } else if let Some(Some(last)) = self.next.last_mut() {
            // Both are within one frame.
            last.run = run;
        }
    }

    /// Switches to the next run at the end of the current run. Returns whether it switched.
    pub fn take_next_run(&mut self, place: MediaTime) -> bool {
        let mut ended = false;
        while let Some(NextRun { run, .. }) = self.next[0].take_if(|next| place >= next.end) {
            self.run = run;
            self.next.rotate_left(1);
            ended = true;
        }
        self.anew |= ended;
        ended
    }

    const fn has_next(&self) -> bool {
        self.next[0].is_some()
    }

    fn run_of(&self, media: MediaTime) -> &RunTimes {
        if !self.has_next() {
            return &self.run;
        }
        let mut begun = self.next.iter().rev().flatten();
        begun.find(|next| media >= next.begins).map_or(&self.run, |next| &next.run)
    }

    fn run_of_mut(&mut self, media: MediaTime) -> &mut RunTimes {
        if !self.has_next() {
            return &mut self.run;
        }
        let mut begun = self.next.iter_mut().rev().flatten();
        begun.find(|next| media >= next.begins).map_or(&mut self.run, |next| &mut next.run)
    }

    /// Resets everything except the settings.
    pub fn forget_all(&mut self) {
        let mut media_clock = self.run.media_clock;
        media_clock.reset();
        let settings = Self::by(media_clock, self.rate, self.link_offset);
        *self = Self { captures_reported: self.captures_reported, ..settings };
    }

    /// Capture time of `media` on the local clock. `None` if only arrivals are known.
    pub fn capture(&self, media: MediaTime) -> Option<LocalTime> {
        Some(self.clock?.local(self.run_of(media).media_clock.wall(media)?))
    }

    /// Sets whether capture times are real, not derived with a default latency.
    pub(crate) const fn set_captures_reported(&mut self, captures_reported: bool) {
        self.captures_reported = captures_reported;
    }

    /// Whether capture times are real.
    pub const fn captures_reported(&self) -> bool {
        self.captures_reported
    }

    /// Rate of the sender's card against our clock, positive if faster. The deviation omits the
    /// error of the clock mapping ([`ClockMapping::rate_uncertainty`]).
    pub fn card_rate(&self) -> Option<ReportedRate> {
        let mapped =
            self.clock.and_then(|clock| clock.rate()).zip(self.run.media_clock.card_rate());
        match mapped {
            Some((clock, card)) => Some(ReportedRate {
                rate: Ppm::from_f64(clock.as_f64() + card.rate.as_f64()),
                ..card
            }),
            None => self.run.arrivals.rate(),
        }
    }

    /// Converts to the sender's clock.
    pub fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.clock.map(|clock| clock.wall(local))
    }

    /// Converts from the sender's clock.
    pub fn local(&self, wall: WallTime) -> Option<LocalTime> {
        self.clock.map(|clock| clock.local(wall))
    }

    /// Presentation time; `None` before the first packet.
    pub fn presentation(&self, media: MediaTime) -> Option<LocalTime> {
        let run = self.run_of(media);
        if let (Some(clock), Some(wall)) = (self.clock, run.media_clock.wall(media)) {
            return Some(clock.local(wall + self.link_offset));
        }
        Some(run.arrivals.mapping()?.local(self.sent(media) + self.link_offset))
    }

    /// Position due at the DAC at `meets`. `None` before the first packet.
    pub fn due(&self, meets: LocalTime) -> Option<Due> {
        if let Some(due) = self.due_by_one_clock(meets) {
            return Some(due);
        }
        if let Some(due) = self.due_by_clock(meets) {
            return Some(due);
        }
        let captured = self.run.arrivals.mapping()?.wall(meets) + -self.link_offset;
        let point = self.rate.point_after(MediaTime::ZERO, captured - WallTime::from_unix_nanos(0));
        let (uncertainty, precision) = (self.run.arrivals.spread(), None);
        Some(Due { point, uncertainty, precision, basis: Basis::Arrival, cards: Cards::Apart })
    }

    /// Due position with a shared clock. Uses only the newest capture: timestamp errors are equal
    /// at both ends and cancel over a short time.
    fn due_by_one_clock(&self, meets: LocalTime) -> Option<Due> {
        let (frame, captured) = self.run.newest.filter(|_| self.one_clock)?;
        let clock = self.clock.filter(|clock| clock.source == ClockSource::Host)?;
        let since = clock.wall(meets) + -self.link_offset - captured;
        let cards = if since < Self::SEEN { Cards::OneClock } else { Cards::Unseen };
        let point = self.rate.point_after(frame, self.run.media_clock.nominal(since));
        let (uncertainty, precision) = (clock.uncertainty, Some(clock.precision));
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards })
    }

    fn due_by_clock(&self, meets: LocalTime) -> Option<Due> {
        let clock = self.clock?;
        let uncertainty = clock.uncertainty_at(meets)?;
        let precision = clock.precision_at(meets);
        let (frame, since) = self.run.media_clock.media(clock.wall(meets) + -self.link_offset)?;
        let point = self.rate.point_after(frame, since);
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards: Cards::Apart })
    }

    fn sent(&self, media: MediaTime) -> WallTime {
        WallTime::from_unix_nanos(self.rate.span_of(media - MediaTime::ZERO).as_nanos())
    }
}
