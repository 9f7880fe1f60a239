//! Notes about a followed clock.

use super::{CrfStanding, CrfState};
use crate::time::{LocalTime, Span};
use crate::wire::avtp::crf::CrfInvalid;

/// One note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfNote {
    /// Nothing usable yet.
    NotReceived(CrfLack),
    /// Received.
    Received,
    /// Rate held; `true` if uncertain packets arrive.
    Held(bool),
    /// Received again.
    Back,
}

/// Why nothing usable was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrfLack {
    /// No packets.
    Nothing,
    /// Uncertain times.
    Uncertain,
    /// Invalid packets, mostly for this reason.
    Invalid(CrfInvalid),
}

/// Emits each note once.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrfNews {
    /// Start.
    since: Option<LocalTime>,
    noted: Option<CrfState>,
}

impl CrfNews {
    /// Time to start a talker after its listener.
    const TIMEOUT: Span = Span::from_secs(3);

    /// Returns a note if a note is due.
    pub fn follow(&mut self, standing: &CrfStanding, now: LocalTime) -> Option<CrfNote> {
        let since = *self.since.get_or_insert(now);
        let note = match (self.noted, standing.state) {
            (None, CrfState::NotReceived) if now - since < Self::TIMEOUT => return None,
            (None, CrfState::NotReceived) => Some(CrfNote::NotReceived(standing.lack())),
            (None, CrfState::Received) => None,
            (Some(CrfState::NotReceived), CrfState::Received) => Some(CrfNote::Received),
            (Some(CrfState::Held { .. }), CrfState::Received) => Some(CrfNote::Back),
            (Some(CrfState::Held { .. }), CrfState::Held { .. }) => return None,
            (_, CrfState::Held { comes, .. }) => Some(CrfNote::Held(comes)),
            (Some(_), _) => return None,
        };
        self.noted = Some(standing.state);
        note
    }
}

impl CrfStanding {
    fn lack(&self) -> CrfLack {
        let reasons = CrfInvalid::ALL.into_iter().zip(self.invalid);
        let main_reason = reasons.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count);
        match main_reason {
            _ if self.counters.uncertain_clock > 0 => CrfLack::Uncertain,
            Some((reason, _)) => CrfLack::Invalid(reason),
            None => CrfLack::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crf_follower::CrfCounters;

    const SINCE: LocalTime = LocalTime::from_nanos(7_000_000_000);
    const SILENT: CrfState = CrfState::Held { since: SINCE, comes: false };

    fn standing(state: CrfState) -> CrfStanding {
        let (counters, invalid) = (CrfCounters::default(), [0; CrfInvalid::COUNT]);
        CrfStanding { stream: None, reported: None, state, counters, invalid }
    }

    fn noted(states: &[(i64, CrfState)]) -> Vec<(i64, CrfNote)> {
        let mut news = CrfNews::default();
        let mut note = |(millis, state)| {
            let now = SINCE + Span::from_millis(millis);
            Some((millis, news.follow(&standing(state), now)?))
        };
        states.iter().copied().filter_map(&mut note).collect()
    }

    #[test]
    fn each_silence_and_return_of_a_clock_is_noted_once() {
        use CrfState::{NotReceived, Received};
        let doubtful = CrfState::Held { since: SINCE, comes: true };
        let states = [
            (0, NotReceived),
            (20, Received),
            (5000, Received),
            (5500, SILENT),
            (5520, SILENT),
            (9000, doubtful),
            (9020, Received),
            (9040, Received),
            (9060, doubtful),
            (9080, Received),
        ];
        let held = CrfNote::Held;
        assert_eq!(
            noted(&states),
            [(5500, held(false)), (9020, CrfNote::Back), (9060, held(true)), (9080, CrfNote::Back)]
        );
    }

    #[test]
    fn unreceived_clock_is_noted_after_3_s_and_on_arrival() {
        use CrfState::{NotReceived, Received};
        let states = [
            (0, NotReceived),
            (2999, NotReceived),
            (3000, NotReceived),
            (3020, NotReceived),
            (60_000, Received),
        ];
        let not_received = CrfNote::NotReceived(CrfLack::Nothing);
        assert_eq!(noted(&states), [(3000, not_received), (60_000, CrfNote::Received)]);
        assert_eq!(noted(&[(0, NotReceived), (2980, Received), (3000, Received)]), []);
        let states = [(0, NotReceived), (3000, NotReceived), (9000, SILENT)];
        assert_eq!(noted(&states), [(3000, not_received), (9000, CrfNote::Held(false))]);
    }

    #[test]
    fn non_clock_packets_are_reported_by_their_main_type() {
        let mut arrived = standing(CrfState::NotReceived);
        assert_eq!(arrived.lack(), CrfLack::Nothing);
        arrived.invalid[CrfInvalid::Subtype.index()] = 3;
        arrived.invalid[CrfInvalid::OtherStream.index()] = 4;
        assert_eq!(arrived.lack(), CrfLack::Invalid(CrfInvalid::OtherStream));
        arrived.counters.uncertain_clock = 1;
        assert_eq!(arrived.lack(), CrfLack::Uncertain);
    }

    #[test]
    fn reasons_stand_at_the_place_of_their_counter() {
        for (place, reason) in CrfInvalid::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
    }
}
