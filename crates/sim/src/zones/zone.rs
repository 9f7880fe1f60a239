//! A simulated zone: its clock, its arbiter, and the gains that its device reads.

use tautline_proto::clock::{ClockEstimator, ClockMapping, Exchange};
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::wire::rtcp::{Compound, Item};
use tautline_proto::zone::{
    AnnouncementId, Arbiter, ClaimRefused, ReceivedClaim, ZoneEvent, ZoneSettings,
};

use super::ALL_ZONES;
use crate::clock::{SimClock, TrueTime};

/// The device takes frames this long before they are presented.
const LEAD: Span = Span::from_millis(5);
const TICK: Span = Span::from_millis(1);
/// Gain half way from unity to −20 dB. Ramps to silence cross it, too.
pub(super) const HALF_DUCKED: f32 = 0.55;
/// Compact NTP timestamps, as in RTCP.
const READING_ERROR: Span = Span::from_nanos(7_633);
const HASTY: u32 = 10;

/// Presentation of a station's stream at more than half its gain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) station: usize,
    pub(super) from: TrueTime,
    pub(super) to: TrueTime,
}

pub(super) struct SimZone {
    pub(super) clock: SimClock,
    numbers: Vec<u16>,
    pub(super) arbiter: Arbiter,
    estimators: Vec<(ClockEstimator, Option<ClockMapping>, u32)>,
    down_until: TrueTime,
    tick: LocalTime,
    on: Vec<Option<TrueTime>>,
    last_duck: f32,
    /// Revision of the curves, if the curves no longer change.
    settled: Option<u64>,
    pub(super) received: Vec<Heard>,
    /// Presentation times at which the program crosses [`HALF_DUCKED`], and whether down.
    pub(super) crossings: Vec<(TrueTime, bool)>,
    /// First frames, as played.
    pub(super) started: Vec<(AnnouncementId, TrueTime)>,
    pub(super) refused: u64,
}

impl SimZone {
    pub(super) fn new(number: usize, stations: usize, mut clock: SimClock) -> Self {
        let numbers = vec![number as u16 + 1, ALL_ZONES];
        let tick = clock.reading(TrueTime::ZERO).next_of(TICK);
        Self {
            arbiter: Arbiter::new(ZoneSettings {
                numbers: numbers.clone(),
                muted_by: Vec::new(),
                lead: LEAD,
            }),
            clock,
            numbers,
            estimators: vec![(ClockEstimator::new(), None, 0); stations],
            down_until: TrueTime::ZERO,
            tick,
            on: vec![None; stations],
            last_duck: 1.0,
            settled: None,
            received: Vec::new(),
            crossings: Vec::new(),
            started: Vec::new(),
            refused: 0,
        }
    }

    pub(super) fn restart(&mut self, now: TrueTime, down: Span) {
        self.advance(now);
        let settings =
            ZoneSettings { numbers: self.numbers.clone(), muted_by: Vec::new(), lead: LEAD };
        self.arbiter = Arbiter::new(settings);
        self.estimators.fill((ClockEstimator::new(), None, 0));
        self.down_until = now.after(down);
        let on = core::mem::take(&mut self.on);
        self.on = vec![None; on.len()];
        for (station, from) in on.into_iter().enumerate() {
            self.received.extend(from.map(|from| Heard { station, from, to: now.after(LEAD) }));
        }
        (self.last_duck, self.settled) = (1.0, None);
    }

    /// Lets the device read all gains until `now`.
    pub(super) fn advance(&mut self, now: TrueTime) {
        let local = self.clock.reading(now);
        while self.tick <= local {
            let timeout = self.arbiter.poll_timeout();
            if timeout <= self.tick {
                self.arbiter.poll(timeout);
                self.take_events(now, local);
                continue;
            }
            let tick = self.tick;
            self.tick += TICK;
            // Clocks differ by under a nanosecond in so short a time.
            let presented =
                TrueTime::from_nanos(now.as_nanos() - (local - tick).as_nanos() + LEAD.as_nanos());
            self.read(tick + LEAD, presented);
        }
        if self.arbiter.poll_timeout() <= local {
            self.arbiter.poll(local);
        }
        self.take_events(now, local);
    }

    fn take_events(&mut self, now: TrueTime, local: LocalTime) {
        while let Some(event) = self.arbiter.poll_event() {
            if let ZoneEvent::Started { id, at, .. } = event {
                let played = at.max(self.tick - TICK + LEAD);
                let from_now = (played - local).as_nanos();
                self.started.push((id, TrueTime::from_nanos(now.as_nanos() + from_now)));
            }
        }
    }

    fn read(&mut self, local: LocalTime, presented: TrueTime) {
        let revision = self.arbiter.revision();
        if self.settled == Some(revision) {
            return;
        }
        let curve = self.arbiter.duck();
        let mut settled = curve.settled_at(local).is_some();
        let duck = curve.gain_at(local).factor();
        if (duck < HALF_DUCKED) != (self.last_duck < HALF_DUCKED) {
            let back = f64::from((duck - HALF_DUCKED) / (duck - self.last_duck));
            let back = Span::from_nanos((back * TICK.as_nanos() as f64) as i64);
            self.crossings.push((presented.after(-back), duck < HALF_DUCKED));
        }
        self.last_duck = duck;
        for station in 0..self.on.len() {
            let curve = self.arbiter.announced(station as u32);
            settled &= curve.settled_at(local).is_some();
            let plays = curve.gain_at(local).factor() > 0.5;
            match (plays, self.on[station]) {
                (true, None) => self.on[station] = Some(presented),
                (false, Some(from)) => {
                    self.on[station] = None;
                    self.received.push(Heard { station, from, to: presented });
                }
                _ => {}
            }
        }
        self.settled = settled.then_some(revision);
    }

    fn is_down(&self, now: TrueTime) -> bool {
        now < self.down_until
    }

    pub(super) fn handle_datagram(&mut self, station: usize, bytes: &[u8], now: TrueTime) {
        self.advance(now);
        if self.is_down(now) {
            return;
        }
        let local = self.clock.reading(now);
        let clock = self.estimators[station].1;
        let Self { arbiter, refused, .. } = self;
        let read = Compound::parse(bytes).map(|compound| {
            compound.visit(|ssrc, item| {
                let Item::Claim(claim, targets) = item else { return };
                let received = ReceivedClaim { ssrc, claim, targets, clock };
                let result = arbiter.handle_claim(&received, local);
                *refused += u64::from(result == Err(ClaimRefused::Clock));
            });
        });
        assert_eq!(read, Ok(()), "claims are valid RTCP");
        self.take_events(now, local);
    }

    pub(super) fn handle_sound(&mut self, station: usize, until: WallTime, now: TrueTime) {
        self.advance(now);
        if !self.is_down(now) {
            let local = self.clock.reading(now);
            self.arbiter.handle_sound(station as u32, until, local);
            self.take_events(now, local);
        }
    }

    pub(super) fn handle_exchange(
        &mut self,
        station: usize,
        asked: TrueTime,
        wall: WallTime,
        answered: TrueTime,
    ) {
        if self.is_down(asked) {
            return;
        }
        let [requested, answered] = [asked, answered].map(|at| self.clock.reading(at));
        let (estimator, mapping, count) = &mut self.estimators[station];
        *count += 1;
        let rounded = wall.as_unix_nanos().div_euclid(15_259) * 15_259;
        let wall = WallTime::from_unix_nanos(rounded + 7_629);
        let exchange = Exchange {
            requested,
            peer_received: wall,
            peer_answered: wall,
            answered,
            reading_error: READING_ERROR,
        };
        *mapping = estimator.observe(exchange).or(*mapping);
    }

    pub(super) fn next_exchange(&self, station: usize) -> Span {
        let hasty = self.estimators[station].2 < HASTY;
        Span::from_millis(if hasty { 20 } else { 500 })
    }
}
