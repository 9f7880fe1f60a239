//! Grows the congestion window of a new TCP connection before it carries audio.
//!
//! TCP begins with ten segments of any length (RFC 6928). Packets of 2.5 ms need forty per round
//! trip of 100 ms, so the first would wait. Null packets (RFC 4571), which receivers skip, go
//! first: a window per round trip, which doubles the window (slow start, RFC 5681).

use crate::time::{LocalTime, Span};

/// Connection state from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowState {
    /// Maximum segments in flight.
    pub window: u32,
    /// Segments in flight.
    pub unacknowledged: u32,
    /// Zero if not measured.
    pub round_trip: Span,
    /// Retransmitted segments.
    pub sent_again: u32,
}

/// Next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowStep {
    /// Send this many null segments, and no audio yet.
    Fill(u32),
    /// Send audio.
    Ready,
}

/// Decides when a new connection can carry audio without delay.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowGrowth {
    began: Option<LocalTime>,
}

impl WindowGrowth {
    /// Maximum round trips: from 10 segments to 320.
    const MAX_ROUNDS: i64 = 6;
    const MAX: Span = Span::from_millis(1_500);
    /// Time to measure the packet rate, unless the round trip is shorter.
    const PACED: Span = Span::from_millis(20);
    /// Additional segments: reports, and two packets that one segment acknowledges.
    const BESIDE: i64 = 4;

    /// Next action; call every few packets. `packets` counts from the first call.
    pub fn look(&mut self, now: LocalTime, packets: u64, state: Option<WindowState>) -> WindowStep {
        let passed = now - *self.began.get_or_insert(now);
        state.map_or(WindowStep::Ready, |state| Self::step(passed, packets, state))
    }

    fn step(passed: Span, packets: u64, state: WindowState) -> WindowStep {
        let WindowState { window, unacknowledged, round_trip, sent_again } = state;
        let is_over = passed >= round_trip.times(Self::MAX_ROUNDS).min(Self::MAX);
        let is_wide = || i64::from(window) >= Self::wanted(passed, packets, round_trip);
        let is_paced = passed >= round_trip.min(Self::PACED);
        // After a loss, traffic no longer grows the window.
        if is_over || sent_again > 0 || (is_paced && is_wide()) {
            return WindowStep::Ready;
        }
        WindowStep::Fill(window.saturating_sub(unacknowledged))
    }

    /// Adds a quarter: acknowledgements arrive unevenly.
    fn wanted(passed: Span, packets: u64, round_trip: Span) -> i64 {
        let packets = i128::from(packets) * i128::from(round_trip.as_nanos());
        let packets = packets / i128::from(passed.as_nanos().max(1));
        let packets = i64::try_from(packets).unwrap_or(i64::MAX / 2);
        packets + packets / 4 + Self::BESIDE
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Slow start without losses.
    struct Connection {
        round_trip: Span,
        window: u32,
        acknowledged_at: VecDeque<LocalTime>,
        sent_again: u32,
    }

    impl Connection {
        fn of(round_trip: Span) -> Self {
            Self { round_trip, window: 10, acknowledged_at: VecDeque::new(), sent_again: 0 }
        }

        fn pass(&mut self, now: LocalTime) {
            while self.acknowledged_at.front().is_some_and(|at| *at <= now) {
                self.acknowledged_at.pop_front();
                self.window += 1;
            }
        }

        fn send(&mut self, now: LocalTime) -> bool {
            let room = self.acknowledged_at.len() < self.window as usize;
            if room {
                self.acknowledged_at.push_back(now + self.round_trip);
            }
            room
        }

        fn state(&self) -> WindowState {
            WindowState {
                window: self.window,
                unacknowledged: self.acknowledged_at.len() as u32,
                round_trip: self.round_trip,
                sent_again: self.sent_again,
            }
        }
    }

    const EVERY: Span = Span::from_micros(2_500);

    /// Maximum wait, time of the first packet, and null segments.
    fn sound_by(mut connection: Connection, mut growth: Option<WindowGrowth>) -> (Span, Span, u32) {
        let (mut waits, mut first, mut nulls) = (Span::ZERO, None, 0);
        let mut waiting = VecDeque::new();
        for beat in 0..1_200 {
            let now = LocalTime::ZERO + EVERY.times(beat);
            connection.pass(now);
            let (packets, state) = (beat as u64 + 1, Some(connection.state()));
            let step = growth.as_mut().map(|growth| growth.look(now, packets, state));
            if let Some(WindowStep::Fill(count)) = step {
                nulls += count;
                assert!((0..count).all(|_| connection.send(now)), "beyond the window");
                continue;
            }
            waiting.push_back(now);
            while let Some(since) = waiting.front().copied() {
                if !connection.send(now) {
                    break;
                }
                waiting.pop_front();
                first.get_or_insert(now - LocalTime::ZERO);
                waits = waits.max(now - since);
            }
        }
        (waits, first.unwrap(), nulls)
    }

    #[test]
    fn audio_never_waits_after_the_window_has_grown() {
        for (millis, max_rounds) in [(2, 0), (20, 1), (50, 2), (100, 3), (250, 4)] {
            let round_trip = Span::from_millis(millis);
            let (waits, first, nulls) =
                sound_by(Connection::of(round_trip), Some(WindowGrowth::default()));
            assert_eq!(waits, Span::ZERO, "{round_trip}");
            assert!(first <= round_trip.times(max_rounds) + EVERY, "{first} of {round_trip}");
            let maximum = 400 * (millis as u32) * (max_rounds as u32 + 2) / 1000 + 20;
            assert!(nulls <= maximum, "{nulls} of {round_trip}");
        }
        let (waits, ..) = sound_by(Connection::of(Span::from_millis(100)), None);
        assert!(
            waits >= Span::from_millis(50),
            "waited only {waits} without growth, so the test proves nothing"
        );
    }

    #[test]
    fn lossy_or_stuck_connection_still_carries_audio() {
        let look = |growth: &mut WindowGrowth, millis: i64, state| {
            let (now, packets) = (LocalTime::ZERO + Span::from_millis(millis), millis as u64 / 2);
            growth.look(now, packets, state)
        };
        let still = Connection::of(Span::from_millis(100)).state();
        let lossy = WindowState { sent_again: 1, ..still };
        assert_eq!(look(&mut WindowGrowth::default(), 0, Some(lossy)), WindowStep::Ready);
        let mut growth = WindowGrowth::default();
        for (millis, step) in [
            (0, WindowStep::Fill(10)),
            (599, WindowStep::Fill(10)),
            (600, WindowStep::Ready),
            (601, WindowStep::Ready),
        ] {
            assert_eq!(look(&mut growth, millis, Some(still)), step, "after {millis} ms");
        }
        // Longer than via satellite.
        let far = Some(Connection::of(Span::from_secs(5)).state());
        let mut growth = WindowGrowth::default();
        assert_eq!(look(&mut growth, 0, far), WindowStep::Fill(10));
        assert_eq!(look(&mut growth, 1_500, far), WindowStep::Ready);
        assert_eq!(look(&mut WindowGrowth::default(), 0, None), WindowStep::Ready);
    }
}
