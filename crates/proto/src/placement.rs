//! When each frame plays: presentation time = capture time + link offset, the same on every
//! receiver.
//!
//! Where the sender's clock is mapped the capture time is known. Where it is not, the fastest
//! arrivals stand in for it: a packet cannot leave before its last frame was captured, so the
//! earliest arrivals bound the capture time from above by the shortest path.

use crate::clock::{ClockMapping, ClockSource, Floor, MediaClock, ReadingOutcome, ToldRate};
use crate::time::{Frames, LocalTime, MediaPoint, MediaTime, Span, WallTime};
use crate::units::{FrameLength, Ppm, Rate};

/// What the presentation times rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The sender's clock, mapped by exchanges.
    Clock,
    /// The fastest arrivals seen.
    Arrival,
}

/// How the card here stands to the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cards {
    /// Each has a pace of its own, for all that is known.
    Apart,
    /// Both go by one clock: what is due is as many frames away for ever, by the newest packet.
    OneClock,
    /// The same, but no packet of late says by how many.
    Unseen,
}

/// Which frame is due at an instant, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// What is due at the very instant asked for, between two frames as a rule.
    pub point: MediaPoint,
    /// How far the answer may be from the truth, either way.
    pub uncertainty: Span,
    /// How far the answer may still move as the clocks become known better; `None` where it does not
    /// rest on them.
    pub precision: Option<Span>,
    /// What it rests on.
    pub basis: Basis,
    /// What it can be held against.
    pub cards: Cards,
}

impl Due {
    /// How far from what is due something else may be played and nobody can tell: what the clocks
    /// cannot tell apart, and the rounding to a whole frame.
    pub fn tolerance(&self, frame: FrameLength) -> Span {
        let slack = match self.basis {
            Basis::Clock => self.uncertainty,
            // Arrivals say little about time: do not chase their jitter.
            Basis::Arrival => self.uncertainty + Span::from_millis(1),
        };
        slack + frame.frames(1)
    }

    /// How far what is due may stray in the long run, if the cards at both ends share one clock: two
    /// frames, and a part of what the clocks cannot tell apart. Most of that is half of the round
    /// trip, which stays what it is; what strays is what queues add to it. In the simulator, once an
    /// estimate is twenty seconds old, that is 0.07 ms over 5 GHz Wi-Fi, where the clocks cannot tell
    /// 1 ms apart, and 2 ms by satellite.
    pub fn strays(&self, frame: FrameLength) -> Span {
        let noise = match self.basis {
            Basis::Clock => self.uncertainty.divided(8).min(Span::from_millis(4)),
            Basis::Arrival => self.uncertainty + Span::from_micros(250),
        };
        noise + frame.frames(2)
    }
}

/// When the frames of one run of sound were captured: its sender may begin another at any instant, not only whole
/// frames later.
#[derive(Debug, Clone)]
struct RunTimes {
    media_clock: MediaClock,
    arrivals: Floor,
    /// The newest frame of which the sender said when it was captured, as it said it.
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

/// A run that came while one before it is being heard.
#[derive(Debug, Clone)]
struct NextRun {
    run: RunTimes,
    begins: MediaTime,
    /// Of the run before it.
    end: MediaTime,
}

/// Decides when each frame of one stream plays.
#[derive(Debug, Clone)]
pub struct Placement {
    rate: Rate,
    link_offset: Span,
    clock: Option<ClockMapping>,
    run: RunTimes,
    /// Those that follow it, the next first and no gap between.
    next: [Option<NextRun>; Self::FOLLOWING],
    /// Whether the card here and the sender's go by one clock.
    one_clock: bool,
    /// Whether what it is told for captures is that, and not what stands in for them.
    captures_told: bool,
    /// Whether what is due may be quite another than when it was last asked.
    anew: bool,
}

impl Placement {
    /// Cards of one clock need not be looked at more often than so: a clock of theirs that runs 100 ppm
    /// off the host's is 0.1 ms away by then.
    const SEEN: Span = Span::from_secs(1);
    /// Runs that are kept while one before them is heard. A talker that is started anew takes longer than usual
    /// latencies; of more within one, the last are heard by one line.
    const FOLLOWING: usize = 3;

    /// Places frames of `rate`, `link_offset` after their capture.
    pub const fn new(rate: Rate, link_offset: Span) -> Self {
        Self::by(MediaClock::new(rate), rate, link_offset)
    }

    /// The same of a stream whose packets say when they are to be presented, by a clock that may be set.
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
            captures_told: true,
            anew: true,
        }
    }

    /// The latency from capture to presentation that is being kept.
    pub const fn link_offset(&self) -> Span {
        self.link_offset
    }

    /// Changes the latency; the playout follows at its next period.
    pub fn set_link_offset(&mut self, link_offset: Span) {
        self.link_offset = link_offset;
        self.anew = true;
    }

    /// Takes a newer mapping of the sender's clock.
    pub fn set_clock(&mut self, clock: ClockMapping) {
        self.clock = Some(clock);
        self.anew = true;
    }

    /// Takes how fast the sender's card runs against its clock, by the word of another stream.
    pub fn tell_rate(&mut self, told: ToldRate) {
        self.run.media_clock.tell_rate(told);
        for next in self.next.iter_mut().flatten() {
            next.run.media_clock.tell_rate(told);
        }
    }

    /// Says whether the card here and the sender's go by one clock.
    pub fn set_one_clock(&mut self, one_clock: bool) {
        self.anew |= self.one_clock != one_clock;
        self.one_clock = one_clock;
    }

    /// How far what is due may have moved since [`Self::settle`], beside what passing time moves it by;
    /// without end where it was found anew, or by other means, or another run is about to be heard.
    pub fn moved(&self) -> Span {
        if self.anew || self.has_next() { Span::MAX } else { self.run.media_clock.moved() }
    }

    /// What is due is known now.
    pub fn settle(&mut self) {
        self.anew = false;
        self.run.media_clock.settle();
    }

    /// Takes the sender's word for when `media` was captured.
    pub fn observe_capture(&mut self, media: MediaTime, wall: WallTime) -> ReadingOutcome {
        self.run_of_mut(media).observe_capture(media, wall)
    }

    /// Takes the arrival of a packet of `frames` whose first frame is `media`.
    #[inline]
    pub fn observe_arrival(&mut self, media: MediaTime, frames: Frames, arrival: LocalTime) {
        let sent = self.sent(media + frames);
        self.anew |= self.run_of_mut(media).arrivals.observe(sent, arrival);
    }

    /// How much later than the fastest before it a packet arrived whose first frame is `media`; `None` unless
    /// arrivals alone say when it was captured.
    pub fn behind(&self, media: MediaTime, frames: Frames, arrival: LocalTime) -> Option<Span> {
        let run = self.run_of(media);
        let mapped = self.clock.is_some() && run.media_clock.wall(media).is_some();
        if mapped { None } else { run.arrivals.behind(self.sent(media + frames), arrival) }
    }

    /// How much later than the fastest arrivals are, twice the mean.
    pub fn spread(&self) -> Span {
        self.run.arrivals.spread()
    }

    /// The same without a step that is not known yet.
    pub(crate) fn steady_spread(&self) -> Span {
        self.run.arrivals.steady_spread()
    }

    /// All packets from the one with the frame `media` on arrive later by `step`, as of `now`.
    pub(crate) fn step_arrivals(&mut self, media: MediaTime, step: Span, now: LocalTime) {
        self.anew = true;
        self.run_of_mut(media).arrivals.step(step, now);
    }

    /// The sender begins another run of sound with the frame `begins`. The one before is heard by its own times up
    /// to its `end`, and so are those before that, if `heard` says that it is being heard or will be.
    pub fn begin_run(&mut self, begins: MediaTime, end: MediaTime, heard: bool) {
        self.anew = true;
        let run = self.run.following();
        if !heard {
            self.next.fill(None);
            self.run = run;
        } else if let Some(free) = self.next.iter_mut().find(|next| next.is_none()) {
            *free = Some(NextRun { run, begins, end });
        } else if let Some(Some(last)) = self.next.last_mut() {
            // The last that waits is heard by the line of this one: less than a frame off, as times lay both.
            last.run = run;
        }
    }

    /// All before `place` has been heard. Tells whether the run that it was of ended with it, so that what is due goes
    /// by the next from now on.
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
        // Nearly always none follows.
        if !self.has_next() {
            return &mut self.run;
        }
        let mut begun = self.next.iter_mut().rev().flatten();
        begun.find(|next| media >= next.begins).map_or(&mut self.run, |next| &mut next.run)
    }

    /// Forgets all but the settings: another sender.
    pub fn forget_all(&mut self) {
        let mut media_clock = self.run.media_clock;
        media_clock.reset();
        let settings = Self::by(media_clock, self.rate, self.link_offset);
        *self = Self { captures_told: self.captures_told, ..settings };
    }

    /// When `media` was captured, on this host's clock; `None` where only arrivals are known.
    pub fn capture(&self, media: MediaTime) -> Option<LocalTime> {
        Some(self.clock?.local(self.run_of(media).media_clock.wall(media)?))
    }

    /// Says whether what it is told for captures is that, and not reckoned from presentations by a latency that is
    /// nobody's word.
    pub(crate) const fn set_captures_told(&mut self, captures_told: bool) {
        self.captures_told = captures_told;
    }

    /// Whether it is that.
    pub const fn captures_told(&self) -> bool {
        self.captures_told
    }

    /// How much faster than our clock the sender's card runs; `None` before anything says so.
    pub fn card_rate(&self) -> Option<Ppm> {
        let mapped =
            self.clock.and_then(|clock| clock.rate()).zip(self.run.media_clock.card_rate());
        match mapped {
            Some((clock, card)) => Some(Ppm::from_f64(clock.as_f64() + card.as_f64())),
            None => self.run.arrivals.mapping()?.rate(),
        }
    }

    /// What the sender's clock shows at an instant here; `None` where it is not known.
    pub fn wall(&self, local: LocalTime) -> Option<WallTime> {
        self.clock.map(|clock| clock.wall(local))
    }

    /// The sender's clock as an instant here.
    pub fn local(&self, wall: WallTime) -> Option<LocalTime> {
        self.clock.map(|clock| clock.local(wall))
    }

    /// When `media` should meet the DAC; `None` before the first packet.
    pub fn presentation(&self, media: MediaTime) -> Option<LocalTime> {
        let run = self.run_of(media);
        if let (Some(clock), Some(wall)) = (self.clock, run.media_clock.wall(media)) {
            return Some(clock.local(wall + self.link_offset));
        }
        Some(run.arrivals.mapping()?.local(self.sent(media) + self.link_offset))
    }

    /// What is due to meet the DAC at `meets`; `None` before the first packet.
    ///
    /// The link offset is counted by the sender's clock, which all receivers share.
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

    /// What is due at `meets` where both cards go by one clock, which needs one host: by the newest
    /// capture alone. What a card's instants err by, both ends see alike, so that it cancels over the
    /// short time between the two; a line through many captures would leave it in.
    fn due_by_one_clock(&self, meets: LocalTime) -> Option<Due> {
        let (frame, captured) = self.run.newest.filter(|_| self.one_clock)?;
        let clock = self.clock.filter(|clock| clock.source == ClockSource::Host)?;
        let since = clock.wall(meets) + -self.link_offset - captured;
        let cards = if since < Self::SEEN { Cards::OneClock } else { Cards::Unseen };
        let point = self.rate.point_after(frame, self.run.media_clock.nominal(since));
        let (uncertainty, precision) = (clock.uncertainty, Some(clock.precision));
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards })
    }

    /// What is due at `meets` by the sender's clock; `None` where that is not known, or not any more.
    fn due_by_clock(&self, meets: LocalTime) -> Option<Due> {
        let clock = self.clock?;
        let uncertainty = clock.uncertainty_at(meets)?;
        let precision = clock.precision_at(meets);
        let (frame, since) = self.run.media_clock.media(clock.wall(meets) + -self.link_offset)?;
        let point = self.rate.point_after(frame, since);
        Some(Due { point, uncertainty, precision, basis: Basis::Clock, cards: Cards::Apart })
    }

    /// The time of a frame by the nominal rate, as if it were a clock of the sender's.
    fn sent(&self, media: MediaTime) -> WallTime {
        WallTime::from_unix_nanos(self.rate.span_of(media - MediaTime::ZERO).as_nanos())
    }
}
