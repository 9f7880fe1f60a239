//! A stream's media time against the wall clock of its sender.

use super::line::{Belief, Line, Slope};
use crate::time::{MediaTime, Span, WallTime, minus};
use crate::units::{Ppm, Rate};

/// What a reading did to a [`MediaClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingOutcome {
    /// It agreed, and refined the line.
    Agreed,
    /// It disagreed once; the line stands until another confirms it.
    Doubted,
    /// It disagreed again in the same way: the line starts anew here.
    Jumped,
}

/// How fast a media clock runs against TAI, by the word of who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToldRate {
    /// How much faster than nominally.
    pub rate: Ppm,
    /// Standard deviation of that.
    pub deviation: Ppm,
}

impl ToldRate {
    /// How far it may be from the truth, either way: three standard deviations.
    pub fn uncertainty(&self) -> Ppm {
        Ppm::from_millionths(self.deviation.as_millionths().saturating_mul(3))
    }
}

/// The line between a stream's media time and its sender's wall clock, with the rate at which the
/// sender's card errs against that clock. Every reading refines both.
#[derive(Debug, Clone, Copy)]
pub struct MediaClock {
    rate: Rate,
    /// Media time at the nominal rate in nanoseconds, against wall clock.
    line: Option<Line>,
    /// The newest frame that the line was corrected by, where it is kept.
    newest: MediaTime,
    last: MediaTime,
    /// The last error, and the mean of half the squares of what errors differ by from the one
    /// before: the variance of readings, whatever the line.
    jitter: (f64, f64),
    /// Where the line began, as it counts.
    begun: i64,
    waiting: Readings,
    doubt: Option<Span>,
    /// How far what is read of the line has moved since that was last asked, in nanoseconds.
    moved: f64,
    /// A reading further off than this is of a new line, and the least that this may become.
    jump: [Span; 2],
    told: Option<ToldRate>,
}

/// Readings of a short time, of which the line takes the mean: to correct it by each takes ten times as
/// long, and says the same.
#[derive(Debug, Clone, Copy)]
struct Readings {
    count: f64,
    /// The sum of their errors, and of half the squares of what each differs by from the one before.
    errors: f64,
    differences: f64,
}

impl Readings {
    const NONE: Self = Self { count: 0.0, errors: 0.0, differences: 0.0 };
}

impl MediaClock {
    /// A reading further off than this is not noise but a new line: one video frame, far above the
    /// jitter of a capture stamp and far below what a pause or a restart does.
    const JUMP: Span = Span::from_millis(20);
    /// The least that is one where readings are instants at which sound is to be heard, of a clock that others
    /// set: a step that ears tell, and ten times what the clock of such a stream may stray (IEEE 802.1AS).
    const STEP: Span = Span::from_millis(2);
    /// So many standard deviations of readings are no step.
    const NOISE: f64 = 8.0;
    /// Two doubtful readings that agree within this confirm each other.
    const CONFIRM: Span = Span::from_millis(5);
    /// Least standard deviation of a reading, in nanoseconds: what a card's interrupt adds to its
    /// stamps. Readings a millisecond apart are then averaged over some seconds, so that a jitter of
    /// 50 µs comes through with less than one.
    const JITTER: f64 = 20_000.0;
    /// Cards are within 150 ppm of a host's clock, nearly always, and wander by 0.1 ppm in the root
    /// of a second.
    pub(crate) const BELIEF: Belief = Belief { rate: 150e-6, wander: 0.1e-6 };
    /// Readings are judged over this time whether the card's rate has become another.
    const JUDGED: f64 = 0.25e9;
    /// Readings of this long, in nanoseconds, are taken together, but of no more than a 64th of the time
    /// since the line began: what little is known then, each reading changes.
    const TOGETHER: i64 = 16_000_000;

    /// Knows nothing yet.
    pub const fn new(rate: Rate) -> Self {
        Self::of_jumps(rate, Self::JUMP)
    }

    /// Knows nothing yet of a stream whose readings are exact, and step where its sender's clock is set: as soon
    /// as they are seen to be so exact, less than the usual is a new line.
    pub const fn of_steps(rate: Rate) -> Self {
        Self::of_jumps(rate, Self::STEP)
    }

    const fn of_jumps(rate: Rate, least: Span) -> Self {
        Self {
            rate,
            line: None,
            newest: MediaTime::ZERO,
            last: MediaTime::ZERO,
            jitter: (0.0, 0.0),
            begun: 0,
            waiting: Readings::NONE,
            doubt: None,
            moved: 0.0,
            jump: [Self::JUMP, least],
            told: None,
        }
    }

    /// Takes one pair of a frame and the instant it was captured.
    pub fn observe(&mut self, media: MediaTime, wall: WallTime) -> ReadingOutcome {
        let at = self.rate.span_of(media - MediaTime::ZERO).as_nanos();
        let Some(line) = &mut self.line else {
            self.begin(media, wall);
            return ReadingOutcome::Agreed;
        };
        let error = line.error(at, wall.as_unix_nanos());
        let off = Span::from_nanos(error as i64);
        if off.abs() <= self.jump[0] {
            self.doubt = None;
            // One that comes after a later one tells nothing new.
            if media > self.last {
                self.last = media;
                let differs = error - core::mem::replace(&mut self.jitter.0, error);
                self.waiting.count += 1.0;
                self.waiting.errors += error;
                self.waiting.differences += differs * differs / 2.0;
                let since = minus(at, line.at());
                if since >= Self::TOGETHER.min(minus(at, self.begun) / 64) {
                    self.correct(media, at, since as f64);
                }
            }
            return ReadingOutcome::Agreed;
        }
        match self.doubt {
            Some(before) if (off - before).abs() <= Self::CONFIRM => {
                self.doubt = None;
                self.begin(media, wall);
                ReadingOutcome::Jumped
            }
            _ => {
                self.doubt = Some(off);
                ReadingOutcome::Doubted
            }
        }
    }

    #[cold]
    fn begin(&mut self, media: MediaTime, wall: WallTime) {
        let at = self.rate.span_of(media - MediaTime::ZERO).as_nanos();
        self.line = Some(Line::through(at, wall.as_unix_nanos(), Self::JITTER, Self::BELIEF));
        (self.newest, self.moved) = (media, f64::INFINITY);
        (self.last, self.begun, self.waiting) = (media, at, Readings::NONE);
        if let Some(told) = self.told {
            self.tell_rate(told);
        }
    }

    /// Takes the word of another stream for the rate of the sender's card against its clock, again and again while that
    /// tells it; readings then tell little but where the line lies.
    pub fn tell_rate(&mut self, told: ToldRate) {
        self.told = Some(told);
        let Some(line) = &mut self.line else { return };
        let ToldRate { rate, deviation } = told;
        // The faster the card, the less of the clock its frames take.
        let rate = Slope::new(rate.as_f64() / 1e6).inverse().as_f64();
        self.moved += line.know_rate(rate, deviation.as_f64() / 1e6);
    }

    /// Corrects the line by the readings that wait, the newest of which is of `media`, which is `at`
    /// nanoseconds, so long after the line was corrected last. Out of the way of the readings that wait:
    /// laid among them it took each 11 instructions of laying a stack.
    #[inline(never)]
    fn correct(&mut self, media: MediaTime, at: i64, since: f64) {
        let Some(line) = &mut self.line else { return };
        let Readings { count, errors, differences } =
            core::mem::replace(&mut self.waiting, Readings::NONE);
        line.advance(at);
        let weight = (since / Self::JUDGED).clamp(1.0 / 256.0, 0.25);
        let share = weight.max(count / (31.0 + count));
        self.jitter.1 += (differences / count - self.jitter.1) * share;
        let jump = Span::from_nanos((Self::NOISE * self.jitter.1.sqrt()) as i64);
        self.jump[0] = jump.clamp(self.jump[1], Self::JUMP);
        let noise = self.jitter.1.max(Self::JITTER * Self::JITTER);
        let judged = Self::JUDGED.max(since);
        self.moved += line.correct_by_mean(errors / count, count, noise, weight, judged);
        self.newest = media;
    }

    /// What the wall clock gains on the media clock: asked for less often than the line is read.
    fn gains(&self) -> Slope {
        self.line.as_ref().map_or(Slope::NONE, |line| Slope::new(line.rate()))
    }

    /// How far what the line says of the last second has moved since that was asked; without end
    /// where it began anew.
    pub fn moved(&self) -> Span {
        Span::from_nanos(self.moved as i64)
    }

    /// What it says from now on is known.
    pub fn settle(&mut self) {
        self.moved = 0.0;
    }

    /// When `media` was captured, by the sender's wall clock.
    pub fn wall(&self, media: MediaTime) -> Option<WallTime> {
        let (frame, wall) = self.reference()?;
        let since = self.rate.span_of(media - frame);
        Some(wall + since + Span::from_nanos(self.gains().over(since.as_nanos())))
    }

    /// A frame, and how long at the nominal rate after it the card captured what it captured at
    /// `wall`.
    pub fn media(&self, wall: WallTime) -> Option<(MediaTime, Span)> {
        let (frame, at) = self.reference()?;
        Some((frame, self.nominal(wall - at)))
    }

    /// How long what takes so long by the sender's wall clock is at the card's nominal rate.
    pub fn nominal(&self, span: Span) -> Span {
        span + Span::from_nanos(self.gains().inverse().over(span.as_nanos()))
    }

    /// The newest frame that the line was corrected by, and its instant by the line.
    pub fn reference(&self) -> Option<(MediaTime, WallTime)> {
        let line = self.line.as_ref()?;
        Some((self.newest, WallTime::from_unix_nanos(line.second())))
    }

    /// By how much the sender's card runs faster than its clock; `None` before the first reading.
    pub fn card_rate(&self) -> Option<Ppm> {
        self.line.map(|_| Ppm::from_f64(self.gains().inverse().as_f64() * 1e6))
    }

    /// Forgets the line.
    pub fn reset(&mut self) {
        *self = Self { told: self.told, ..Self::of_jumps(self.rate, self.jump[1]) };
    }
}
