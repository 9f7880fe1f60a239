//! Follows a CRF talker, at its own or a stream's socket.
//!
//! The talker is read once per beat, as a rate is valid for seconds.

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_proto::clock::ReportedRate;
use tautline_proto::crf_follower::{CrfFollower, CrfNews};
use tautline_proto::time::LocalTime;
use tautline_proto::units::Rate;
use tautline_report::FollowedClockReport;
use tautline_report::snapshot::FollowedClockSnapshot;

use crate::monitor::note::Note;
use crate::plan::ClockPlan;

pub(crate) struct FollowedClock {
    address: String,
    link: Box<dyn Link>,
    follower: CrfFollower,
    news: CrfNews,
}

impl FollowedClock {
    pub(crate) fn new(plan: ClockPlan, rate: Rate) -> Self {
        let ClockPlan { address, link, encapsulation, stream } = plan;
        let follower = CrfFollower::new(encapsulation, stream, rate);
        Self { address, link, follower, news: CrfNews::default() }
    }

    pub(crate) fn handle(&mut self, note: impl FnOnce(&Note<'_>)) -> Option<ReportedRate> {
        let Self { address, link, follower, news } = self;
        link.receive(&mut |arrived| follower.handle(arrived.bytes, arrived.arrival.at));
        let now = now();
        let standing = follower.standing(now);
        if let Some(matter) = news.follow(&standing, now) {
            note(&Note::Clock { address, note: &matter });
        }
        standing.reported
    }

    pub(crate) fn snapshot(&self, now: LocalTime) -> FollowedClockSnapshot {
        FollowedClockSnapshot::of(&self.address, &self.follower.standing(now), now)
    }

    pub(crate) fn report(&self) -> FollowedClockReport {
        let counters = self.link.counters();
        let dropped = counters.kernel_drops + counters.ring_drops;
        FollowedClockReport::of(&self.address, &self.follower.standing(now()), dropped)
    }
}
