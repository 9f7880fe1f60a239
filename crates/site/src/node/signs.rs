//! Signs of life of a node in a file. At its next start, the node finds the time that it did not
//! run.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tautline_api::v1::FaultKind;
use tautline_io::clock::disciplined::KernelClock;
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use super::{BuildingNode, NANOS};
use crate::{disk, unix_nanos};

/// The newest sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sign {
    /// Unix seconds.
    at_s: i64,
    /// Whether the node ended after this sign, because a user or the service manager stopped it.
    ended: bool,
}

/// Time that the node did not run, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outage {
    from_s: i64,
    to_s: i64,
}

/// Value to store, and the outage before the start, which is returned once.
type News = (Sign, Option<Outage>);

/// Signs of this run.
#[derive(Debug)]
pub(super) struct SignsOfLife {
    /// Last sign of the previous run, until it is compared with the start.
    before: Option<Sign>,
    started: LocalTime,
    /// Time of the next sign.
    next: LocalTime,
}

impl SignsOfLife {
    /// Interval of signs. Each sign is a write to a disk, which may be an SD card.
    const EVERY: Span = Span::from_secs(60);
    /// Maximum time from a requested end to the next start in a restart, which causes no fault.
    const RESTART_S: i64 = 60;
    /// Maximum wait for a synchronized clock. A machine without a battery starts with an old time.
    const CLOCK: Span = Span::from_secs(60);

    fn new(before: Option<Sign>, started: LocalTime) -> Self {
        Self { before, started, next: started }
    }

    /// Reads the last sign. If the sign is unreadable, the first outage is not found; a message
    /// gives the reason.
    pub(super) fn read(saved: &Path) -> (Self, Option<String>) {
        let path = path(saved);
        let read = disk::read_json(&path);
        let why = read.as_ref().err().map(|error| {
            format!("reading {}: {error}; when the node ran before is unknown", path.display())
        });
        (Self::new(read.unwrap_or_default(), now()), why)
    }

    /// Returns the news at this time of both clocks. `is_synchronized`: whether the Unix clock is
    /// synchronized.
    fn poll(&mut self, now: LocalTime, unix_s: i64, is_synchronized: bool) -> Option<News> {
        let waits = self.before.is_some() && !is_synchronized && now < self.started + Self::CLOCK;
        if waits || now < self.next {
            return None;
        }
        self.next = now + Self::EVERY;
        Some((Sign { at_s: unix_s, ended: false }, self.outage(now, unix_s)))
    }

    /// The last sign of a requested end.
    fn end(&mut self, now: LocalTime, unix_s: i64) -> News {
        (Sign { at_s: unix_s, ended: true }, self.outage(now, unix_s))
    }

    fn outage(&mut self, now: LocalTime, unix_s: i64) -> Option<Outage> {
        let Sign { at_s: from_s, ended } = self.before.take()?;
        // Measured by the monotonic clock, as the Unix clock may have been set since the start.
        let to_s = unix_s - (now - self.started).as_nanos() / NANOS;
        let is_restart = ended && to_s - from_s <= Self::RESTART_S;
        (!is_restart).then_some(Outage { from_s, to_s: to_s.max(from_s) })
    }
}

impl BuildingNode {
    /// Stores a sign of life, if it is time for one.
    pub(super) fn show_life(&self) {
        let is_synchronized = KernelClock::read().is_some_and(|it| it.synchronised);
        let news = self.signs(|signs| signs.poll(now(), unix_nanos() / NANOS, is_synchronized));
        news.into_iter().for_each(|news| self.store(news));
    }

    /// Stores that the node ends as requested.
    pub(super) fn show_end(&self) {
        self.store(self.signs(|signs| signs.end(now(), unix_nanos() / NANOS)));
    }

    fn signs<T>(&self, see: impl FnOnce(&mut SignsOfLife) -> T) -> T {
        see(&mut self.signs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Enters the outage as a fault, then stores the sign.
    fn store(&self, (sign, outage): News) {
        if let Some(outage) = outage {
            let reason = self.reason(outage);
            let times = [outage.from_s, outage.to_s];
            let mut standing = self.standing();
            standing.faults.happened(FaultKind::Outage, "", reason, times);
            self.write_faults(&mut standing);
        }
        let path = path(&self.config.saved);
        let written = disk::write_json(&path, &sign);
        self.note_written(&mut self.standing(), &path, written);
    }

    /// With local times of the building, or UTC.
    fn reason(&self, Outage { from_s, to_s }: Outage) -> String {
        let (site, _) = self.building();
        let zone = site.timezone.clone().unwrap_or(TimeZone::UTC);
        let local = |unix_s, format: &str| {
            let at = Timestamp::from_second(unix_s).unwrap_or_default();
            at.to_zoned_datetime(zone.clone()).strftime(format).to_string()
        };
        let from = local(from_s, "%Y-%m-%d %H:%M:%S");
        format!("did not run from {from} to {}", local(to_s, "%Y-%m-%d %H:%M:%S %Z"))
    }
}

fn path(saved: &Path) -> PathBuf {
    saved.with_extension("alive.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unix seconds of the last sign.
    const LAST: i64 = 1_800_000_000;

    fn started() -> LocalTime {
        LocalTime::ZERO + Span::from_secs(500)
    }

    fn after(seconds: i64) -> LocalTime {
        started() + Span::from_secs(seconds)
    }

    /// The outage of a start, `gap` seconds after the last sign.
    fn outage(ended: bool, gap: i64) -> Option<Outage> {
        let mut signs = SignsOfLife::new(Some(Sign { at_s: LAST, ended }), started());
        signs.poll(after(1), LAST + gap + 1, true).unwrap().1
    }

    #[test]
    fn outage_is_the_time_from_the_last_sign_to_the_start() {
        let of = |to_s| Some(Outage { from_s: LAST, to_s });
        assert_eq!(outage(false, 7817), of(LAST + 7817));
        assert_eq!(outage(true, 7817), of(LAST + 7817));
        assert_eq!(outage(false, 5), of(LAST + 5), "no stop was requested");
        assert_eq!(outage(true, 61), of(LAST + 61));
        assert_eq!(outage(true, 60), None, "a restart");
        assert_eq!(outage(false, -5), of(LAST), "the clock was set back");
    }

    #[test]
    fn signs_come_once_a_minute() {
        let mut signs = SignsOfLife::new(None, started());
        let mut is_due = |seconds| signs.poll(after(seconds), LAST, false).is_some();
        assert_eq!(
            [0, 1, 59, 60, 61, 119, 120].map(&mut is_due),
            [true, false, false, true, false, false, true]
        );
    }

    #[test]
    fn wrong_clock_delays_the_outage_until_it_is_set() {
        let before = Some(Sign { at_s: LAST, ended: false });
        let mut signs = SignsOfLife::new(before, started());
        assert_eq!(signs.poll(after(1), LAST - 900, false), None);
        let sign = Sign { at_s: LAST + 7200, ended: false };
        let outage = Outage { from_s: LAST, to_s: LAST + 7190 };
        assert_eq!(signs.poll(after(10), LAST + 7200, true), Some((sign, Some(outage))));
        assert_eq!(signs.end(after(20), LAST + 7210).1, None, "once");
        let mut signs = SignsOfLife::new(before, started());
        assert_eq!(signs.poll(after(59), LAST + 59, false), None);
        assert!(signs.poll(after(60), LAST + 60, false).unwrap().1.is_some(), "never set");
        let mut signs = SignsOfLife::new(before, started());
        assert!(signs.end(after(1), LAST + 900).1.is_some(), "a short run");
    }
}
