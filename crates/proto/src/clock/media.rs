//! Maps a stream's media time to its sender's wall clock.

use super::line::{Belief, Line, Slope};
use crate::time::{MediaTime, Span, WallTime, minus};
use crate::units::{Ppm, Rate};

/// Effect of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingOutcome {
    /// Refined the line.
    Agreed,
    /// Disagreed once: wait for confirmation.
    Doubted,
    /// Disagreed again: the line restarts.
    Jumped,
}

/// Rate of a media clock against another clock: TAI if TAI was announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedRate {
    /// Difference from the nominal rate.
    pub rate: Ppm,
    /// Standard deviation of the rate.
    pub deviation: Ppm,
}

impl ReportedRate {
    /// Three standard deviations, either way.
    pub fn uncertainty(&self) -> Ppm {
        Ppm::from_millionths(self.deviation.as_millionths().saturating_mul(3))
    }
}

/// Media time against the sender's wall clock, including the card's rate error.
#[derive(Debug, Clone, Copy)]
pub struct MediaClock {
    rate: Rate,
    /// Maps nominal nanoseconds to wall clock.
    line: Option<Line>,
    newest: MediaTime,
    last: MediaTime,
    /// Last error, and the variance of readings.
    jitter: (f64, f64),
    /// Start of the line, in nominal nanoseconds.
    begun: i64,
    waiting: Readings,
    doubt: Option<Span>,
    /// Movement since the last `Self::settle`.
    moved: f64,
    /// Deviation that starts a new line, and its minimum.
    jump: [Span; 2],
    reported: Option<ReportedRate>,
}

/// Averaged for one correction: correcting by each takes ten times as long.
#[derive(Debug, Clone, Copy)]
struct Readings {
    count: f64,
    /// Sums of errors and half squared successive differences.
    errors: f64,
    differences: f64,
}

impl Readings {
    const NONE: Self = Self { count: 0.0, errors: 0.0, differences: 0.0 };
}

impl MediaClock {
    /// Minimum deviation of a new line: one video frame, above jitter and below a pause.
    const JUMP: Span = Span::from_millis(20);
    /// Minimum step of a set clock: audible, and ten times its stray (IEEE 802.1AS).
    const STEP: Span = Span::from_millis(2);
    /// Standard deviations of readings without a step.
    const NOISE: f64 = 8.0;
    /// Maximum distance of doubtful readings that confirm each other.
    const CONFIRM: Span = Span::from_millis(5);
    /// Minimum deviation of a reading in nanoseconds: a card's interrupt timestamp.
    const JITTER: f64 = 20_000.0;
    /// Assumed rate error of most cards, and their wander: 0.1 ppm per √s.
    pub(crate) const BELIEF: Belief = Belief { rate: 150e-6, wander: 0.1e-6 };
    const JUDGED: f64 = 0.25e9;
    /// Maximum averaging time in nanoseconds. For a young line, a 64th of its age, so that each
    /// early reading corrects it.
    const TOGETHER: i64 = 16_000_000;

    /// Creates a clock without readings.
    pub const fn new(rate: Rate) -> Self {
        Self::of_jumps(rate, Self::JUMP)
    }

    /// Creates a clock for exact readings with steps. Smaller deviations then start a new line.
    pub const fn of_steps(rate: Rate) -> Self {
        Self::of_jumps(rate, Self::STEP)
    }

    const fn of_jumps(rate: Rate, minimum: Span) -> Self {
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
            jump: [Self::JUMP, minimum],
            reported: None,
        }
    }

    /// Adds a frame and its capture time.
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
        if let Some(reported) = self.reported {
            self.handle_rate(reported);
        }
    }

    /// Sets another stream's announced card rate; call repeatedly.
    pub fn handle_rate(&mut self, reported: ReportedRate) {
        self.reported = Some(reported);
        let Some(line) = &mut self.line else { return };
        let ReportedRate { rate, deviation } = reported;
        let rate = Slope::new(rate.as_f64() / 1e6).inverse().as_f64();
        self.moved += line.know_rate(rate, deviation.as_f64() / 1e6);
    }

    /// Corrects the line by the waiting readings, `since` nanoseconds after the last correction.
    /// Not inlined: saves 11 instructions per reading.
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

    /// Computed on demand: needed less often than updated.
    fn gains(&self) -> Slope {
        self.line.as_ref().map_or(Slope::NONE, |line| Slope::new(line.rate()))
    }

    /// Movement since `Self::settle`; infinite after a restart.
    pub fn moved(&self) -> Span {
        Span::from_nanos(self.moved as i64)
    }

    /// Resets `Self::moved`.
    pub fn settle(&mut self) {
        self.moved = 0.0;
    }

    /// Sender's wall clock at `media`.
    pub fn wall(&self, media: MediaTime) -> Option<WallTime> {
        let (frame, wall) = self.reference()?;
        let since = self.rate.span_of(media - frame);
        Some(wall + since + Span::from_nanos(self.gains().over(since.as_nanos())))
    }

    /// A frame, and the nominal time from it to `wall`.
    pub fn media(&self, wall: WallTime) -> Option<(MediaTime, Span)> {
        let (frame, at) = self.reference()?;
        Some((frame, self.nominal(wall - at)))
    }

    /// Converts the sender's wall-clock time to nominal rate.
    pub fn nominal(&self, span: Span) -> Span {
        span + Span::from_nanos(self.gains().inverse().over(span.as_nanos()))
    }

    /// Newest frame, and its time by the line.
    pub fn reference(&self) -> Option<(MediaTime, WallTime)> {
        let line = self.line.as_ref()?;
        Some((self.newest, WallTime::from_unix_nanos(line.second())))
    }

    /// Rate error of the sender's card against the sender's clock.
    pub fn card_rate(&self) -> Option<ReportedRate> {
        self.line.map(|line| ReportedRate {
            rate: Ppm::from_f64(self.gains().inverse().as_f64() * 1e6),
            deviation: Ppm::from_f64(line.rate_deviation() * 1e6),
        })
    }

    /// Discards the line.
    pub fn reset(&mut self) {
        *self = Self { reported: self.reported, ..Self::of_jumps(self.rate, self.jump[1]) };
    }
}
