//! A media clock that a talker of CRF tells of (IEEE 1722-2016 §10): how fast it runs against TAI.
//!
//! The times say when every so many-th sample was, so that two packets suffice for the rate, whenever they come and
//! whatever is lost between: how many intervals lie between two times is told by the times themselves, as no clock of
//! samples strays by half of one. When the talker is silent, or says that its times are not to be relied upon, the rate
//! is held, and is less sure with each second.

mod news;

use crate::clock::{Line, MediaClock, ReadingOutcome, ToldRate};
use crate::counters::counters;
use crate::packet::StreamId;
use crate::time::{LocalTime, Span, WallTime};
use crate::units::{Ppm, Rate};
use crate::wire::avtp::Encapsulation;
use crate::wire::avtp::crf::{CrfHead, CrfInvalid, CrfPacket};

pub use news::{CrfLack, CrfNews, CrfNote};

/// Follows one talker.
#[derive(Debug, Clone)]
pub struct CrfFollower {
    encapsulation: Encapsulation,
    /// The one stream that is followed, where that is settled; else the first that comes.
    only: Option<StreamId>,
    /// Of the streams that are to be played by it.
    rate: Rate,
    heard: Option<HeardCrf>,
    /// The last rate that was known well, and when.
    held: Option<(ToldRate, LocalTime)>,
    counters: CrfCounters,
    invalid: [u64; CrfInvalid::COUNT],
}

counters! {
    /// What came. All are totals.
    CrfCounters:
    /// Packets of the talker.
    received: "packets_received";
    /// Those of its that never came.
    lost: "lost";
    /// Those that came after one with a higher number: they tell nothing new.
    reordered: "reordered", "reordered", "reordered";
    /// Those that came again.
    duplicates: "duplicates", "duplicates", "duplicate";
    /// Those that say that their times are not to be relied upon (`tu`).
    uncertain: "uncertain", "said to be uncertain", "said to be uncertain";
    /// Those that did not fit what was told before; the next like it begins the line anew.
    doubted: "doubted", "doubted", "doubted";
    /// How often the times jumped.
    jumps: "jumps", "jumps", "jump";
    /// How often the media clock began anew (`mr`).
    restarts: "restarts", "restarts", "restart";
}

/// Whether a clock that is told of is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfState {
    /// Nothing has come yet that tells of it.
    Unheard,
    /// It is.
    Heard,
    /// It was, and nothing has come that tells of it: its rate is held.
    Held {
        /// Since then.
        since: LocalTime,
        /// Whether its talker's packets come, and are not to be relied upon; else none do.
        comes: bool,
    },
}

/// How a clock that is told of stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrfStanding {
    /// The talker's stream, once one was heard.
    pub stream: Option<StreamId>,
    /// How fast the media clock runs against TAI, and how sure that is by now.
    pub told: Option<ToldRate>,
    /// Whether it is heard.
    pub state: CrfState,
    /// What came.
    pub counters: CrfCounters,
    /// Of what told nothing, how much for which reason, by [`CrfInvalid::index`].
    pub invalid: [u64; CrfInvalid::COUNT],
}

#[derive(Debug, Clone, Copy)]
struct HeardCrf {
    head: CrfHead,
    /// Its first time, and how many times it had.
    first: WallTime,
    times: i64,
    /// When it came, and when the last came that the line was corrected by.
    arrived: LocalTime,
    told: LocalTime,
    /// Intervals since it began, nominally in nanoseconds, against TAI; and how many to the newest first time.
    line: Line,
    intervals: i64,
    /// The last error, and the mean of half the squares of what errors differ by from the one before.
    jitter: (f64, f64),
    /// How far away the last was that did not fit.
    doubt: Option<f64>,
}

impl CrfFollower {
    /// Silent are talkers from here on, or when three packets did not come that are longer.
    const SILENT: Span = Span::from_millis(500);
    /// Relied on is a rate that is known to this standard deviation.
    const KNOWN: Ppm = Ppm::from_millionths(1_000_000);

    /// Follows `only`, or the first that comes, for streams of this rate.
    pub fn new(encapsulation: Encapsulation, only: Option<StreamId>, rate: Rate) -> Self {
        let (counters, invalid) = (CrfCounters::default(), [0; CrfInvalid::COUNT]);
        Self { encapsulation, only, rate, heard: None, held: None, counters, invalid }
    }

    /// Takes what came.
    pub fn handle(&mut self, datagram: &[u8], arrival: LocalTime) {
        match self.take(datagram, arrival) {
            Ok(()) => self.counters.received += 1,
            Err(reason) => self.invalid[reason.index()] += 1,
        }
    }

    fn take(&mut self, datagram: &[u8], arrival: LocalTime) -> Result<(), CrfInvalid> {
        let packet = CrfPacket::read(self.encapsulation, datagram)?;
        let head = packet.head;
        // A talker that is gone makes room for another, unless one was asked for.
        let heard = self.heard.filter(|heard| {
            heard.head.stream == head.stream || !heard.is_silent(arrival - heard.arrived)
        });
        let followed = self.only.or(heard.map(|heard| heard.head.stream));
        if followed.is_some_and(|stream| stream != head.stream) {
            return Err(CrfInvalid::OtherStream);
        }
        let (hertz, own) = (head.nominal.hertz(), self.rate.hertz());
        if hertz % own != 0 && own % hertz != 0 {
            return Err(CrfInvalid::Frequency);
        }
        match heard.filter(|heard| heard.is_alike(&head)) {
            Some(heard) => self.go_on(heard, &packet, arrival),
            None if head.uncertain => {
                self.counters.uncertain += 1;
                let known = self.heard.as_mut().filter(|heard| heard.head.stream == head.stream);
                known.into_iter().for_each(|heard| heard.arrived = arrival);
            }
            None => self.heard = Some(HeardCrf::begin(&packet, arrival)),
        }
        Ok(())
    }

    fn go_on(&mut self, mut heard: HeardCrf, packet: &CrfPacket<'_>, arrival: LocalTime) {
        let Self { counters, .. } = self;
        let head = packet.head;
        let Some(first) = packet.times().next() else { return };
        let ahead = head.number.wrapping_sub(heard.head.number).cast_signed();
        let since = first - heard.first;
        if ahead == 0 && since == Span::ZERO {
            counters.duplicates += 1;
            return;
        }
        // By less than half of what its number counts: beyond that it is a talker that began anew.
        if ahead < 0 && (-heard.period().times(128)..Span::ZERO).contains(&since) {
            (counters.reordered, counters.lost) =
                (counters.reordered + 1, counters.lost.saturating_sub(1));
            return;
        }
        // So long an outage it would have been here, too; what is longer is another time.
        let most = (arrival - heard.arrived).times(2) + Span::from_secs(1);
        counters.lost += heard.lost(ahead, since.min(most));
        (heard.head.number, heard.first, heard.arrived) = (head.number, first, arrival);
        let restarts = core::mem::replace(&mut heard.head.restarts, head.restarts) != head.restarts;
        heard.times = packet.times().len() as i64;
        if head.uncertain {
            counters.uncertain += 1;
        } else if restarts || heard.is_silent(arrival - heard.told) {
            counters.restarts += u64::from(restarts);
            // What was known of it bridges the time until the line is as sure.
            heard = HeardCrf::begin(packet, arrival);
        } else {
            match heard.read(packet) {
                ReadingOutcome::Agreed => {
                    heard.told = arrival;
                    self.keep(&heard, arrival);
                }
                ReadingOutcome::Doubted => counters.doubted += 1,
                ReadingOutcome::Jumped => {
                    counters.jumps += 1;
                    heard = HeardCrf::begin(packet, arrival);
                }
            }
        }
        self.heard = Some(heard);
    }

    /// Keeps what the line says, where that is surer than what is held.
    fn keep(&mut self, heard: &HeardCrf, now: LocalTime) {
        let slope = heard.line.rate();
        let told = ToldRate {
            // The more of TAI an interval takes, the slower the clock.
            rate: Ppm::from_f64(-slope / (1.0 + slope) * 1e6),
            deviation: Ppm::from_f64(heard.line.rate_deviation() * 1e6),
        };
        let held = self.told(now).map_or(Self::KNOWN, |held| held.deviation);
        if told.deviation <= held {
            self.held = Some((told, now));
        }
    }

    /// How fast the clock runs, and how sure that still is; `None` before that was known.
    pub fn told(&self, now: LocalTime) -> Option<ToldRate> {
        let (told, at) = self.held?;
        let seconds = (now - at).max(Span::ZERO).as_nanos() as f64 / 1e9;
        let wandered = MediaClock::BELIEF.wander * seconds.sqrt();
        let deviation = Ppm::from_f64(told.deviation.as_f64().hypot(wandered * 1e6));
        Some(ToldRate { deviation, ..told })
    }

    /// How it stands.
    pub fn standing(&self, now: LocalTime) -> CrfStanding {
        let state = match self.heard {
            None => CrfState::Unheard,
            Some(heard) if heard.is_silent(now - heard.told) => {
                let comes = !heard.is_silent(now - heard.arrived);
                CrfState::Held { since: heard.told, comes }
            }
            Some(_) => CrfState::Heard,
        };
        CrfStanding {
            stream: self.heard.map(|heard| heard.head.stream).or(self.only),
            told: self.told(now),
            state,
            counters: self.counters,
            invalid: self.invalid,
        }
    }
}

impl HeardCrf {
    /// Standard deviation of times of which nothing is known yet, in nanoseconds: what clocks of PTP are apart by (IEEE
    /// 802.1AS), so that a step of 8 us is none. And the least: that of a counter of 8 MHz.
    const JITTER: f64 = 1000.0;
    const LEAST_JITTER: f64 = 125.0;
    /// So many standard deviations are no step.
    const NOISE: f64 = 8.0;
    /// Readings are judged over so many nanoseconds whether the rate has become another.
    const JUDGED: f64 = 0.25e9;

    fn begin(packet: &CrfPacket<'_>, arrival: LocalTime) -> Self {
        let first = packet.times().next().unwrap_or_default();
        Self {
            head: packet.head,
            first,
            times: packet.times().len() as i64,
            arrived: arrival,
            told: arrival,
            line: Line::through(0, first.as_unix_nanos(), Self::JITTER, MediaClock::BELIEF),
            intervals: 0,
            jitter: (0.0, Self::JITTER * Self::JITTER),
            doubt: None,
        }
    }

    /// Whether a packet goes on with the same clock.
    fn is_alike(&self, head: &CrfHead) -> bool {
        let shape = |head: &CrfHead| (head.stream, head.nominal, head.interval);
        shape(&self.head) == shape(head)
    }

    /// From one packet to the next, nominally.
    fn period(&self) -> Span {
        self.head.nominal_span(self.times)
    }

    fn is_silent(&self, since: Span) -> bool {
        since > CrfFollower::SILENT.max(self.period().times(3))
    }

    /// Packets that did not come before one that is so much ahead of the newest, by its number and by its times. The
    /// times tell how often the number came round meanwhile; where both do not agree, times jumped.
    fn lost(&self, ahead: i8, since: Span) -> u64 {
        let by_number = ahead.cast_unsigned();
        let period = self.period().as_nanos().max(1);
        let by_times = (since.as_nanos().max(0).saturating_add(period / 2)) / period;
        let packets = if by_times as u8 == by_number { by_times } else { by_number.into() };
        packets.saturating_sub(1).max(0).unsigned_abs()
    }

    fn read(&mut self, packet: &CrfPacket<'_>) -> ReadingOutcome {
        let interval = self.head.nominal_span(1).as_nanos().max(1) as f64;
        let first = self.first.as_unix_nanos();
        // Whole intervals from where the line holds, by the line.
        let passed = self.line.error(self.line.at(), first);
        let passed = (passed / (interval * (1.0 + self.line.rate()))).round() as i64;
        let newest = self.intervals.saturating_add(passed);
        let at = |intervals: i64| self.head.nominal_span(intervals).as_nanos();
        let mut line = self.line;
        line.advance(at(newest));
        let error = line.error(at(newest), first);
        let deviation = line.deviation().hypot(self.jitter.1.sqrt());
        let most = (Self::NOISE * deviation).min(interval / 4.0);
        if error.abs() > most {
            let before = self.doubt.replace(error);
            let confirmed = before.is_some_and(|before| (error - before).abs() <= most);
            return if confirmed { ReadingOutcome::Jumped } else { ReadingOutcome::Doubted };
        }
        self.doubt = None;
        let times = packet.times().zip(newest..);
        let errors = times.map(|(time, number)| line.error(at(number), time.as_unix_nanos()));
        let mean = errors.sum::<f64>() / self.times as f64;
        let since = at(newest).saturating_sub(at(self.intervals)).max(0) as f64;
        let weight = (since / Self::JUDGED).clamp(1.0 / 256.0, 0.25);
        let differs = error - core::mem::replace(&mut self.jitter.0, error);
        self.jitter.1 += (differs * differs / 2.0 - self.jitter.1) * weight;
        self.jitter.1 = self.jitter.1.max(Self::LEAST_JITTER * Self::LEAST_JITTER);
        line.correct_by_mean(mean, 1.0, self.jitter.1, weight, Self::JUDGED.max(since));
        (self.line, self.intervals) = (line, newest);
        ReadingOutcome::Agreed
    }
}
