//! Sends the claim of one announcement.

use super::claim::Claim;
use crate::time::{LocalTime, Span, WallTime};

/// When a station sends its claim. Times of polls are on the station's own clock.
#[derive(Debug, Clone)]
pub struct ClaimSender {
    claim: Claim,
    due: LocalTime,
    /// Claims sent since the last change.
    sent: usize,
}

impl ClaimSender {
    /// Repetitions after the first claim and after an end: 5 and 20 ms later, then every 500 ms.
    /// Three claims in 20 ms survive losses, the interval serves zones that join late.
    const PAUSES: [Span; 3] = [Span::from_millis(5), Span::from_millis(15), Span::from_millis(500)];
    /// Claims of an end are repeated for 2 s, as long as zones remember. So a zone learns after an
    /// outage that a later announcement was free to play.
    const ENDS: usize = 7;

    /// Starts to claim at once.
    pub const fn new(claim: Claim, now: LocalTime) -> Self {
        Self { claim, due: now, sent: 0 }
    }

    /// The claim as it was last sent or changed.
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Claims the presentation time after the last frame. Only the first end counts.
    pub const fn end(&mut self, ends: WallTime, now: LocalTime) {
        if self.claim.ends.is_none() {
            self.claim.ends = Some(ends);
            (self.due, self.sent) = (now, 0);
        }
    }

    /// Withdraws the announcement before its first frame, or ends it at `now` (`wall`).
    pub fn withdraw(&mut self, now: LocalTime, wall: WallTime) {
        self.end(wall.max(self.claim.starts), now);
    }

    /// Time of the next claim; [`LocalTime::NEVER`] after the last.
    pub const fn poll_timeout(&self) -> LocalTime {
        self.due
    }

    /// The claim if it is due. It departs at `now`, which is `wall` on the station's wall clock.
    pub fn poll(&mut self, now: LocalTime, wall: WallTime) -> Option<Claim> {
        if now < self.due {
            return None;
        }
        let pause = Self::PAUSES[self.sent.min(Self::PAUSES.len() - 1)];
        self.sent += 1;
        let is_last = self.claim.ends.is_some() && self.sent == Self::ENDS;
        self.due = if is_last { LocalTime::NEVER } else { now + pause };
        self.claim.sent = wall;
        Some(self.claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::{AnnouncementId, Class, Duck, Priority};

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    fn wall(millis: i64) -> WallTime {
        WallTime::of_local(at(millis), Span::from_secs(1000))
    }

    fn sender() -> ClaimSender {
        let claim = Claim {
            id: AnnouncementId(1),
            priority: Priority(100),
            rank: 0,
            starts: wall(20),
            ends: None,
            sent: wall(0),
            longest: Span::from_secs(60),
            duck: Duck::of(Class::Announcement),
        };
        ClaimSender::new(claim, at(0))
    }

    fn sent(sender: &mut ClaimSender, until: i64) -> Vec<i64> {
        let sent = (0..until).filter(|now| {
            let claim = sender.poll(at(*now), wall(*now));
            claim.is_some_and(|claim| claim.sent == wall(*now))
        });
        sent.collect()
    }

    #[test]
    fn claim_is_sent_three_times_in_20_ms_then_every_500_ms() {
        assert_eq!(sent(&mut sender(), 1600), [0, 5, 20, 520, 1020, 1520]);
    }

    #[test]
    fn end_is_claimed_for_2_s() {
        let mut sender = sender();
        sent(&mut sender, 100);
        sender.end(wall(120), at(100));
        sender.end(wall(700), at(101));
        assert_eq!(sent(&mut sender, 9000), [100, 105, 120, 620, 1120, 1620, 2120]);
        assert_eq!(sender.claim().ends, Some(wall(120)));
        assert!(sender.poll_timeout().is_never());
    }

    #[test]
    fn withdrawn_claim_ends_no_earlier_than_its_start() {
        let mut early = sender();
        early.withdraw(at(5), wall(5));
        assert_eq!(early.claim().ends, Some(wall(20)));
        let mut late = sender();
        late.withdraw(at(50), wall(50));
        assert_eq!(late.claim().ends, Some(wall(50)));
    }
}
