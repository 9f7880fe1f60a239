//! Follows the media clock of a CRF talker (IEEE 1722-2016 §10): its rate against TAI. Any two
//! packets give the rate. While the talker is silent or uncertain, the rate is held with growing
//! uncertainty.

mod news;

use crate::clock::{Line, MediaClock, ReadingOutcome, ReportedRate};
use crate::counters::counters;
use crate::packet::StreamId;
use crate::time::{LocalTime, Span, WallTime};
use crate::units::{Ppm, Rate};
use crate::wire::avtp::Encapsulation;
use crate::wire::avtp::crf::{CrfHead, CrfInvalid, CrfPacket};

pub use news::{CrfLack, CrfNews, CrfNote};

/// Follower of one talker.
#[derive(Debug, Clone)]
pub struct CrfFollower {
    encapsulation: Encapsulation,
    /// `None`: the first.
    only: Option<StreamId>,
    rate: Rate,
    received: Option<CrfReading>,
    held: Option<(ReportedRate, LocalTime)>,
    counters: CrfCounters,
    invalid: [u64; CrfInvalid::COUNT],
}

counters! {
    /// Counters of received packets.
    CrfCounters:
    /// Received packets.
    received: "packets_received";
    /// Lost packets.
    lost: "lost";
    /// Packets after a higher number; ignored.
    reordered: "reordered", "reordered", "reordered";
    /// Duplicates.
    duplicate: "duplicate", "duplicates", "duplicate";
    /// Packets with uncertain times (`tu`).
    uncertain_clock: "uncertain_clock", "from an uncertain clock", "from an uncertain clock";
    /// Packets off the line; a second one restarts it.
    on_probation: "on_probation", "on probation", "on probation";
    /// Jumps of the times.
    jumps: "jumps", "jumps", "jump";
    /// Restarts of the media clock (`mr`).
    media_clock_restarts: "media_clock_restarts", "restarts", "restart";
}

/// State of an announced clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfState {
    /// Nothing usable yet.
    NotReceived,
    /// Received.
    Received,
    /// No longer received; rate held.
    Held {
        /// Start of the interruption.
        since: LocalTime,
        /// Whether uncertain packets arrive.
        comes: bool,
    },
}

/// Status of an announced clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrfStanding {
    /// Stream, once received.
    pub stream: Option<StreamId>,
    /// Rate against TAI.
    pub reported: Option<ReportedRate>,
    /// State.
    pub state: CrfState,
    /// Counters.
    pub counters: CrfCounters,
    /// Invalid packets by [`CrfInvalid::index`].
    pub invalid: [u64; CrfInvalid::COUNT],
}

#[derive(Debug, Clone, Copy)]
struct CrfReading {
    head: CrfHead,
    first: WallTime,
    times: i64,
    /// Arrival of the newest packet, and of the last one on the line.
    arrived: LocalTime,
    reported: LocalTime,
    /// Nominal nanoseconds to TAI, and intervals so far.
    line: Line,
    intervals: i64,
    /// Last error, and mean half square of error differences.
    jitter: (f64, f64),
    doubt: Option<f64>,
}

impl CrfFollower {
    /// Timeout, or three packets if longer.
    const SILENT: Span = Span::from_millis(500);
    /// Maximum standard deviation of a usable rate.
    const KNOWN: Ppm = Ppm::from_millionths(1_000_000);

    /// Follows `only` or the first stream.
    pub fn new(encapsulation: Encapsulation, only: Option<StreamId>, rate: Rate) -> Self {
        let (counters, invalid) = (CrfCounters::default(), [0; CrfInvalid::COUNT]);
        Self { encapsulation, only, rate, received: None, held: None, counters, invalid }
    }

    /// Handles a datagram.
    pub fn handle(&mut self, datagram: &[u8], arrival: LocalTime) {
        match self.take(datagram, arrival) {
            Ok(()) => self.counters.received += 1,
            Err(reason) => self.invalid[reason.index()] += 1,
        }
    }

    fn take(&mut self, datagram: &[u8], arrival: LocalTime) -> Result<(), CrfInvalid> {
        let packet = CrfPacket::read(self.encapsulation, datagram)?;
        let head = packet.head;
        // Another talker may replace a silent one.
        let received = self.received.filter(|received| {
            received.head.stream == head.stream || !received.is_silent(arrival - received.arrived)
        });
        let followed = self.only.or(received.map(|received| received.head.stream));
        if followed.is_some_and(|stream| stream != head.stream) {
            return Err(CrfInvalid::OtherStream);
        }
        let (hertz, own) = (head.nominal.hertz(), self.rate.hertz());
        if hertz % own != 0 && own % hertz != 0 {
            return Err(CrfInvalid::Frequency);
        }
        match received.filter(|received| received.is_alike(&head)) {
            Some(received) => self.go_on(received, &packet, arrival),
            None if head.uncertain => {
                self.counters.uncertain_clock += 1;
                let known =
                    self.received.as_mut().filter(|received| received.head.stream == head.stream);
                known.into_iter().for_each(|received| received.arrived = arrival);
            }
            None => self.received = Some(CrfReading::begin(&packet, arrival)),
        }
        Ok(())
    }

    fn go_on(&mut self, mut received: CrfReading, packet: &CrfPacket<'_>, arrival: LocalTime) {
        let Self { counters, .. } = self;
        let head = packet.head;
        let Some(first) = packet.times().next() else { return };
        let ahead = head.number.wrapping_sub(received.head.number).cast_signed();
        let since = first - received.first;
        if ahead == 0 && since == Span::ZERO {
            counters.duplicate += 1;
            return;
        }
        // Reordered by less than half the number's range. More is a restart.
        if ahead < 0 && (-received.period().times(128)..Span::ZERO).contains(&since) {
            (counters.reordered, counters.lost) =
                (counters.reordered + 1, counters.lost.saturating_sub(1));
            return;
        }
        // In an outage, the local clock advances equally.
        let maximum = (arrival - received.arrived).times(2) + Span::from_secs(1);
        counters.lost += received.lost(ahead, since.min(maximum));
        (received.head.number, received.first, received.arrived) = (head.number, first, arrival);
        let restarts =
            core::mem::replace(&mut received.head.restarts, head.restarts) != head.restarts;
        received.times = packet.times().len() as i64;
        if head.uncertain {
            counters.uncertain_clock += 1;
        } else if restarts || received.is_silent(arrival - received.reported) {
            counters.media_clock_restarts += u64::from(restarts);
            // The held rate bridges the time until the new line is as certain.
            received = CrfReading::begin(packet, arrival);
        } else {
            match received.read(packet) {
                ReadingOutcome::Agreed => {
                    received.reported = arrival;
                    self.keep(&received, arrival);
                }
                ReadingOutcome::Doubted => counters.on_probation += 1,
                ReadingOutcome::Jumped => {
                    counters.jumps += 1;
                    received = CrfReading::begin(packet, arrival);
                }
            }
        }
        self.received = Some(received);
    }

    fn keep(&mut self, received: &CrfReading, now: LocalTime) {
        let slope = received.line.rate();
        let reported = ReportedRate {
            // The more TAI per interval, the slower the clock.
            rate: Ppm::from_f64(-slope / (1.0 + slope) * 1e6),
            deviation: Ppm::from_f64(received.line.rate_deviation() * 1e6),
        };
        let held = self.reported(now).map_or(Self::KNOWN, |held| held.deviation);
        if reported.deviation <= held {
            self.held = Some((reported, now));
        }
    }

    /// Rate with its present deviation; `None` if unknown.
    pub fn reported(&self, now: LocalTime) -> Option<ReportedRate> {
        let (reported, at) = self.held?;
        let seconds = (now - at).max(Span::ZERO).as_nanos() as f64 / 1e9;
        let wandered = MediaClock::BELIEF.wander * seconds.sqrt();
        let deviation = Ppm::from_f64(reported.deviation.as_f64().hypot(wandered * 1e6));
        Some(ReportedRate { deviation, ..reported })
    }

    /// Current status.
    pub fn standing(&self, now: LocalTime) -> CrfStanding {
        let state = match self.received {
            None => CrfState::NotReceived,
            Some(received) if received.is_silent(now - received.reported) => {
                let comes = !received.is_silent(now - received.arrived);
                CrfState::Held { since: received.reported, comes }
            }
            Some(_) => CrfState::Received,
        };
        CrfStanding {
            stream: self.received.map(|received| received.head.stream).or(self.only),
            reported: self.reported(now),
            state,
            counters: self.counters,
            invalid: self.invalid,
        }
    }
}

impl CrfReading {
    /// Initial standard deviation of times in nanoseconds: PTP clocks (IEEE 802.1AS). Minimum: an 8
    /// MHz counter.
    const JITTER: f64 = 1000.0;
    const MIN_JITTER: f64 = 125.0;
    /// Standard deviations of a step.
    const NOISE: f64 = 8.0;
    /// Nanoseconds that decide whether the rate changed.
    const JUDGED: f64 = 0.25e9;

    fn begin(packet: &CrfPacket<'_>, arrival: LocalTime) -> Self {
        let first = packet.times().next().unwrap_or_default();
        Self {
            head: packet.head,
            first,
            times: packet.times().len() as i64,
            arrived: arrival,
            reported: arrival,
            line: Line::through(0, first.as_unix_nanos(), Self::JITTER, MediaClock::BELIEF),
            intervals: 0,
            jitter: (0.0, Self::JITTER * Self::JITTER),
            doubt: None,
        }
    }

    fn is_alike(&self, head: &CrfHead) -> bool {
        let shape = |head: &CrfHead| (head.stream, head.nominal, head.interval);
        shape(&self.head) == shape(head)
    }

    fn period(&self) -> Span {
        self.head.nominal_span(self.times)
    }

    fn is_silent(&self, since: Span) -> bool {
        since > CrfFollower::SILENT.max(self.period().times(3))
    }

    /// Times count the wraps of the number; if they disagree, they jumped.
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
        let passed = self.line.error(self.line.at(), first);
        let passed = (passed / (interval * (1.0 + self.line.rate()))).round() as i64;
        let newest = self.intervals.saturating_add(passed);
        let at = |intervals: i64| self.head.nominal_span(intervals).as_nanos();
        let mut line = self.line;
        line.advance(at(newest));
        let error = line.error(at(newest), first);
        let deviation = line.deviation().hypot(self.jitter.1.sqrt());
        let maximum = (Self::NOISE * deviation).min(interval / 4.0);
        if error.abs() > maximum {
            let before = self.doubt.replace(error);
            let confirmed = before.is_some_and(|before| (error - before).abs() <= maximum);
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
        self.jitter.1 = self.jitter.1.max(Self::MIN_JITTER * Self::MIN_JITTER);
        line.correct_by_mean(mean, 1.0, self.jitter.1, weight, Self::JUDGED.max(since));
        (self.line, self.intervals) = (line, newest);
        ReadingOutcome::Agreed
    }
}
