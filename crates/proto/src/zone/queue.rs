//! An announcement that waits at its station until zones are free.

use super::ZoneEvent;
use super::claim::AnnouncementId;
use crate::time::{LocalTime, Span};

/// Next action of the station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStep {
    /// Send the recording from its beginning with a new claim; then call [`Queue::sent`].
    Send,
    /// Withdraw this claim: another announcement took precedence. The recording waits again.
    Withdraw(AnnouncementId),
    /// Not sent within the time limit.
    GiveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    Waiting,
    Sending(AnnouncementId),
    Lost(AnnouncementId),
    Done,
}

/// A recording to send once its zones are free.
///
/// The station runs an [`Arbiter`](super::Arbiter) of its own that all targets address. It receives
/// the claims of other stations, so it is busy when one of the zones is busy.
#[derive(Debug, Clone)]
pub struct Queue {
    state: QueueState,
    gives_up: LocalTime,
}

impl Queue {
    /// Waits for at most `limit`.
    pub fn new(limit: Span, now: LocalTime) -> Self {
        Self { state: QueueState::Waiting, gives_up: now + limit }
    }

    /// The recording is being sent as `id`.
    pub const fn sent(&mut self, id: AnnouncementId) {
        self.state = QueueState::Sending(id);
    }

    /// Handles a decision of the station's arbiter.
    pub fn handle_event(&mut self, event: &ZoneEvent) {
        let QueueState::Sending(own) = self.state else { return };
        match *event {
            ZoneEvent::Refused { id, .. } | ZoneEvent::Preempted { id, .. } if id == own => {
                self.state = QueueState::Lost(id);
            }
            ZoneEvent::Ended { id, .. } if id == own => self.state = QueueState::Done,
            _ => {}
        }
    }

    /// Time at which the queue gives up; [`LocalTime::NEVER`] while sending.
    pub const fn poll_timeout(&self) -> LocalTime {
        match self.state {
            QueueState::Waiting | QueueState::Lost(_) => self.gives_up,
            QueueState::Sending(_) | QueueState::Done => LocalTime::NEVER,
        }
    }

    /// Next action. Call at the timeout, after events, and when the arbiter becomes free.
    pub fn poll(&mut self, is_free: bool, now: LocalTime) -> Option<QueueStep> {
        match self.state {
            QueueState::Lost(id) => {
                self.state = QueueState::Waiting;
                Some(QueueStep::Withdraw(id))
            }
            QueueState::Waiting if now >= self.gives_up => {
                self.state = QueueState::Done;
                Some(QueueStep::GiveUp)
            }
            QueueState::Waiting if is_free => Some(QueueStep::Send),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::EndReason;

    fn at(seconds: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_secs(seconds)
    }

    const ONE: AnnouncementId = AnnouncementId(1);
    const TWO: AnnouncementId = AnnouncementId(2);

    #[test]
    fn recording_is_sent_when_zones_are_free() {
        let mut queue = Queue::new(Span::from_secs(60), at(0));
        assert_eq!((queue.poll(false, at(1)), queue.poll_timeout()), (None, at(60)));
        assert_eq!(queue.poll(true, at(2)), Some(QueueStep::Send));
        queue.sent(ONE);
        assert_eq!((queue.poll(true, at(90)), queue.poll_timeout()), (None, LocalTime::NEVER));
        queue.handle_event(&ZoneEvent::Ended { id: ONE, at: at(95), why: EndReason::Station });
        assert_eq!(queue.poll(true, at(96)), None);
    }

    #[test]
    fn preempted_recording_waits_again_from_its_beginning() {
        let mut queue = Queue::new(Span::from_secs(60), at(0));
        queue.sent(ONE);
        queue.handle_event(&ZoneEvent::Preempted { id: TWO, by: ONE, at: at(5) });
        queue.handle_event(&ZoneEvent::Ended { id: TWO, at: at(5), why: EndReason::Station });
        assert_eq!(queue.poll(false, at(5)), None, "another announcement");
        queue.handle_event(&ZoneEvent::Preempted { id: ONE, by: TWO, at: at(5) });
        assert_eq!(queue.poll_timeout(), at(60));
        assert_eq!(queue.poll(false, at(5)), Some(QueueStep::Withdraw(ONE)));
        assert_eq!(queue.poll(false, at(6)), None);
        assert_eq!(queue.poll(true, at(9)), Some(QueueStep::Send));
        queue.sent(TWO);
        queue.handle_event(&ZoneEvent::Refused { id: TWO, by: ONE });
        assert_eq!(queue.poll(true, at(10)), Some(QueueStep::Withdraw(TWO)));
        assert_eq!(queue.poll(true, at(60)), Some(QueueStep::GiveUp), "the limit is the first one");
    }

    #[test]
    fn queue_gives_up_at_its_limit_once() {
        let mut queue = Queue::new(Span::from_secs(60), at(0));
        assert_eq!(queue.poll(false, at(59)), None);
        assert_eq!(queue.poll(true, at(60)), Some(QueueStep::GiveUp));
        assert_eq!(queue.poll(true, at(61)), None);
    }
}
