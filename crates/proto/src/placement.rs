//! Presentation times of frames: capture time plus link offset, the same on every receiver.
//!
//! A mapping of the sender's clock provides the capture time. Without a mapping, the fastest
//! arrivals replace it. A packet cannot leave before its last frame was captured, so the earliest
//! arrivals are an upper bound of the capture time. They are late by the shortest path delay.

use crate::clock::{ClockMapping, ClockSource, Floor, MediaClock, ReadingOutcome, ReportedRate};
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime, Span, WallTime};
use crate::units::{FrameLength, Ppm, Rate};

/// Basis of the presentation times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The sender's clock, mapped by message exchanges.
    Clock,
    /// The fastest arrivals so far.
    Arrival,
}

/// Relation between the clocks of this card and the sender's card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cards {
    /// No known relation: the clocks are assumed independent.
    Apart,
    /// Same clock: the distance in frames is constant, and the newest packet shows it.
    OneClock,
    /// Same clock, but no recent packet shows the distance.
    Unseen,
}

/// Frame that is due at an instant, with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Position that is due at exactly that instant, usually between two frames.
    pub point: MediaPoint,
    /// Maximum error in either direction.
    pub uncertainty: Span,
    /// Maximum change as the clocks become better known. `None` if the position does not depend on
    /// clocks.
    pub precision: Option<Span>,
    /// Basis of the position.
    pub basis: Basis,
    /// Relation of the cards.
    pub cards: Cards,
}

impl Due {
    /// Deviation from the due position that is not detectable: the uncertainty of the clocks, plus
    /// rounding to whole frames.
    pub fn tolerance(&self, frame: FrameLength) -> Span {
        let slack = match self.basis {
            Basis::Clock => self.uncertainty,
            // Arrivals are imprecise. Do not follow their jitter.
            Basis::Arrival => self.uncertainty + Span::from_millis(1),
        };
        slack + frame.frames(1)
    }

    /// Maximum long-term drift of the due position if both cards share a clock: two frames, plus a
    /// fraction of the clock uncertainty. Half the round trip is most of the uncertainty and
    /// constant; only queueing varies. In the simulator, with estimates 20 s old, the drift is 0.07
    /// ms over 5 GHz Wi-Fi (clock uncertainty 1 ms), and 2 ms via satellite.
    pub fn strays(&self, frame: FrameLength) -> Span {
        let noise = match self.basis {
            Basis::Clock => self.uncertainty.divided(8).min(Span::from_millis(4)),
            Basis::Arrival => self.uncertainty + Span::from_micros(250),
        };
        noise + frame.frames(2)
    }
}

/// Capture times of one run of sound. The next run may begin at any time, not only a whole number
/// of frames later.
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
    /// Runs that follow, in order. The first elements are used.
    next: [Option<NextRun>; Self::FOLLOWING],
    one_clock: bool,
    captures_reported: bool,
    /// Whether the due position may have changed by any amount since the last query.
    anew: bool,
}

impl Placement {
    /// Interval between checks for a shared clock. A drift of 100 ppm relative to the host clock is
    /// 0.1 ms in that time.
    const SEEN: Span = Span::from_secs(1);
    /// Maximum number of runs that wait. A talker takes longer to restart than usual latencies. If
    /// there are more, the last ones share one clock line.
    const FOLLOWING: usize = 3;

    /// Creates a placement for frames at `rate`. They play `link_offset` after their capture.
    pub const fn new(rate: Rate, link_offset: Span) -> Self {
        Self::by(MediaClock::new(rate), rate, link_offset)
    }

    /// Creates a placement for packets that carry presentation times, from a clock that may be
    /// stepped.
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

    /// Current latency from capture to presentation.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Changes the latency. The playout follows in its next period.
    pub fn set_link_offset(&mut self, link_offset: Span) {
        self.link_offset = link_offset;
        self.anew = true;
    }

    /// Sets a newer mapping of the sender's clock.
    pub fn set_clock(&mut self, clock: ClockMapping) {
        self.clock = Some(clock);
        self.anew = true;
    }

    /// Sets the rate of the sender's card relative to its clock, as reported by another stream.
    pub fn tell_rate(&mut self, reported: ReportedRate) {
        self.run.media_clock.tell_rate(reported);
        for next in self.next.iter_mut().flatten() {
            next.run.media_clock.tell_rate(reported);
        }
    }

    /// Sets whether this card and the sender's share a clock.
    pub fn set_one_clock(&mut self, one_clock: bool) {
        self.anew |= self.one_clock != one_clock;
        self.one_clock = one_clock;
    }

    /// Maximum shift of the due position since [`Self::settle`], apart from elapsed time. Unlimited
    /// after a reset, after a change of the method, and while another run is waiting.
    pub fn moved(&self) -> Span {
        if self.anew || self.has_next() { Span::MAX } else { self.run.media_clock.moved() }
    }

    /// Marks the due position as known.
    pub fn settle(&mut self) {
        self.anew = false;
        self.run.media_clock.settle();
    }

    /// Adds the capture time of `media`, as reported by the sender.
    pub fn observe_capture(&mut self, media: MediaTime, wall: WallTime) -> ReadingOutcome {
        self.run_of_mut(media).observe_capture(media, wall)
    }

    /// Adds the arrival of a packet of `frames` whose first frame is `media`.
    #[inline]
    pub fn observe_arrival(&mut self, media: MediaTime, frames: Frames, arrival: LocalTime) {
        let sent = self.sent(media + frames);
        self.anew |= self.run_of_mut(media).arrivals.observe(sent, arrival);
    }

    /// Delay of a packet relative to the fastest packet before it. `None` unless arrivals are the
    /// only basis.
    pub fn behind(&self, media: MediaTime, frames: Frames, arrival: LocalTime) -> Option<Span> {
        let run = self.run_of(media);
        let mapped = self.clock.is_some() && run.media_clock.wall(media).is_some();
        if mapped { None } else { run.arrivals.behind(self.sent(media + frames), arrival) }
    }

    /// Twice the mean delay relative to the fastest arrivals.
    pub fn spread(&self) -> Span {
        self.run.arrivals.spread()
    }

    /// Twice the mean delay, without a step that is not confirmed.
    pub(crate) fn steady_spread(&self) -> Span {
        self.run.arrivals.steady_spread()
    }

    /// Delays the expected arrivals of packets from `media` on by `step`, as of `now`.
    pub(crate) fn step_arrivals(&mut self, media: MediaTime, step: Span, now: LocalTime) {
        self.anew = true;
        self.run_of_mut(media).arrivals.step(step, now);
    }

    /// Begins another run of sound at `begins`. If `heard`, the previous run plays now or will
    /// play: it keeps its times up to its `end`, and so do earlier runs.
    pub fn begin_run(&mut self, begins: MediaTime, end: MediaTime, heard: bool) {
        self.anew = true;
        let run = self.run.following();
        if !heard {
            self.next.fill(None);
            self.run = run;
        } else if let Some(free) = self.next.iter_mut().find(|next| next.is_none()) {
            *free = Some(NextRun { run, begins, end });
        } else if let Some(Some(last)) = self.next.last_mut() {
            // The last waiting run shares the clock line of this one. Both are within one frame.
            last.run = run;
        }
    }

    /// Switches to the next run if `place` has passed the end of the current one. Returns whether
    /// it switched.
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
        // Fast path: usually no run waits.
        if !self.has_next() {
            return &mut self.run;
        }
        let mut begun = self.next.iter_mut().rev().flatten();
        begun.find(|next| media >= next.begins).map_or(&mut self.run, |next| &mut next.run)
    }

    /// Resets everything except the settings, for another sender.
    pub fn forget_all(&mut self) {
        let mut media_clock = self.run.media_clock;
        media_clock.reset();
        let settings = Self::by(media_clock, self.rate, self.link_offset);
        *self = Self { captures_reported: self.captures_reported, ..settings };
    }

    /// Capture time of `media` on this host's clock. `None` if only arrivals are known.
    pub fn capture(&self, media: MediaTime) -> Option<LocalTime> {
        Some(self.clock?.local(self.run_of(media).media_clock.wall(media)?))
    }

    /// Sets whether capture times are real. Otherwise they are derived from presentation times with
    /// a default latency.
    pub(crate) const fn set_captures_reported(&mut self, captures_reported: bool) {
        self.captures_reported = captures_reported;
    }

    /// Whether capture times are real, not derived with a default latency.
    pub const fn captures_reported(&self) -> bool {
        self.captures_reported
    }

    /// Rate of the sender's card relative to our clock, positive if the card is faster. `None`
    /// while unknown.
    pub fn card_rate(&self) -> Option<Ppm> {
        let mapped =
            self.clock.and_then(|clock| clock.rate()).zip(self.run.media_clock.card_rate());
        match mapped {
            Some((clock, card)) => Some(Ppm::from_f64(clock.as_f64() + card.as_f64())),
            None => self.run.arrivals.mapping()?.rate(),
        }
    }

    /// Converts local time to the sender's clock; `None` if unknown.
    pub fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.clock.map(|clock| clock.wall(local))
    }

    /// Converts the sender's clock to local time; `None` if unknown.
    pub fn local(&self, wall: WallTime) -> Option<LocalTime> {
        self.clock.map(|clock| clock.local(wall))
    }

    /// Presentation time of `media`; `None` before the first packet.
    pub fn presentation(&self, media: MediaTime) -> Option<LocalTime> {
        let run = self.run_of(media);
        if let (Some(clock), Some(wall)) = (self.clock, run.media_clock.wall(media)) {
            return Some(clock.local(wall + self.link_offset));
        }
        Some(run.arrivals.mapping()?.local(self.sent(media) + self.link_offset))
    }

    /// Position that is due at the DAC at `meets`. `None` before the first packet.
    ///
    /// The link offset is measured on the sender's clock, which all receivers share.
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

    /// Position that is due at `meets` if both cards share a clock, which requires the same host.
    /// Uses only the newest capture: timestamp errors are equal at both ends and cancel over a
    /// short time. They would not cancel in a line through many captures.
    fn due_by_one_clock(&self, meets: LocalTime) -> Option<Due> {
        let (frame, captured) = self.run.newest.filter(|_| self.one_clock)?;
        let clock = self.clock.filter(|clock| clock.source == ClockSource::Host)?;
        let since = clock.wall(meets) + -self.link_offset - captured;
        let cards = if since < Self::SEEN { Cards::OneClock } else { Cards::Unseen };
        let point = self.rate.point_after(frame, self.run.media_clock.nominal(since));
        let (uncertainty, precision) = (clock.uncertainty, Some(clock.precision));
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards })
    }

    /// Position that is due at `meets` on the sender's clock. `None` if it is unknown or outdated.
    fn due_by_clock(&self, meets: LocalTime) -> Option<Due> {
        let clock = self.clock?;
        let uncertainty = clock.uncertainty_at(meets)?;
        let precision = clock.precision_at(meets);
        let (frame, since) = self.run.media_clock.media(clock.wall(meets) + -self.link_offset)?;
        let point = self.rate.point_after(frame, since);
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards: Cards::Apart })
    }

    /// Time of a frame at the nominal rate, as if a clock of the sender showed it.
    fn sent(&self, media: MediaTime) -> WallTime {
        WallTime::from_unix_nanos(self.rate.span_of(media - MediaTime::ZERO).as_nanos())
    }
}
