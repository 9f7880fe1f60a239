//! The clock that is followed beside the streams: a talker of CRF at a socket of its own.
//!
//! The ordinary thread reads it, once a beat: what it says of the rate holds for seconds, whenever it is read.

use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_proto::clock::{CrfFollower, ToldRate};
use tautline_proto::units::Rate;

use crate::plan::ClockPlan;
use crate::watching::report::FollowedClockReport;

/// A clock, and by what it is heard.
pub(crate) struct FollowedClock {
    address: String,
    link: Box<dyn Link>,
    follower: CrfFollower,
}

impl FollowedClock {
    /// For streams of this rate.
    pub(crate) fn new(plan: ClockPlan, rate: Rate) -> Self {
        let ClockPlan { address, link, encapsulation, stream } = plan;
        Self { address, link, follower: CrfFollower::new(encapsulation, stream, rate) }
    }

    /// Hears what came: how fast it runs, as far as that is known.
    pub(crate) fn hear(&mut self) -> Option<ToldRate> {
        let Self { link, follower, .. } = self;
        link.receive(&mut |came| follower.handle(came.datagram, came.arrival));
        follower.told(now())
    }

    pub(crate) fn report(&self) -> FollowedClockReport {
        let dropped = self.link.counters().kernel_drops;
        FollowedClockReport::of(&self.address, &self.follower.standing(now()), dropped)
    }
}
