//! A stream's state for observers: all packets of the last second while there are observers,
//! otherwise little.

use tautline_dsp::level::Level;
use tautline_proto::counters::Counters;
use tautline_proto::time::{LocalTime, Span};
use tautline_report::WorstPacket;
use tautline_report::snapshot::{self, Meter, SecondCounts, StreamSnapshot};

use crate::monitor::levels::LevelReader;
use crate::monitor::newest::{LastSecond, WorstOfMinute};

pub(crate) struct Observed<P> {
    levels: LevelReader,
    minute: WorstOfMinute<P>,
    looked_at: Option<Second<P>>,
}

struct Second<P> {
    packets: LastSecond<P>,
    counters: LastSecond<Counters>,
    levels: Vec<Level>,
}

impl<P: Copy> Observed<P> {
    pub(crate) const fn new(levels: LevelReader) -> Self {
        Self { levels, minute: WorstOfMinute::NONE, looked_at: None }
    }

    /// Adds a packet that became known at `now` with margin `spare`. The packet was played, sent or
    /// late at `at`.
    pub(crate) fn take(&mut self, now: LocalTime, at: LocalTime, spare: Span, packet: &P) {
        self.minute.take(now, at, spare, packet);
        if let Some(second) = &mut self.looked_at {
            second.packets.take(now, at, *packet);
        }
    }

    pub(crate) fn look(&mut self, now: LocalTime, here: bool, request: impl FnOnce() -> bool) {
        if here != self.looked_at.is_some() && request() {
            self.looked_at = here.then(|| Second {
                packets: LastSecond::since(now),
                counters: LastSecond::since(now),
                levels: Vec::new(),
            });
            self.levels.read(&mut Vec::new());
        }
    }

    pub(crate) fn follow(&mut self, now: LocalTime, counters: impl FnOnce() -> Counters) {
        let Some(second) = &mut self.looked_at else { return };
        second.counters.take(now, now, counters());
        self.levels.read(&mut second.levels);
    }

    pub(crate) fn packets(&self, now: LocalTime) -> impl Iterator<Item = &P> {
        self.looked_at.iter().flat_map(move |second| second.packets.until(now))
    }

    pub(crate) fn notify(
        &mut self,
        now: LocalTime,
        way: impl Fn(&P) -> WorstPacket,
        into: &mut StreamSnapshot,
    ) {
        into.worst = self.minute.worst(now).map(|packet| way(&packet).into());
        let Some(second) = &mut self.looked_at else { return };
        into.stages = snapshot::medians(second.packets.until(now).map(way));
        let over = second.counters.over(now);
        if let (Some(first), Some(last)) =
            (second.counters.each().next(), second.counters.each().next_back())
        {
            into.counters = snapshot::counters(last.each());
            into.second = counted(first, last, over);
        }
        let received = second.levels.iter().any(|level| level.frames > 0);
        into.meters = received.then(|| second.levels.iter().map(Meter::of).collect());
        second.levels.fill(Level::default());
    }
}

fn counted(first: &Counters, last: &Counters, over: Span) -> SecondCounts {
    let lost = last.lost.saturating_sub(first.lost);
    let received = last.received.saturating_sub(first.received);
    let due = received + lost;
    SecondCounts {
        interval_ns: over.as_nanos(),
        packets: received + last.sent.saturating_sub(first.sent),
        lost,
        late: last.late.saturating_sub(first.late),
        xruns: last.xruns.saturating_sub(first.xruns),
        loss_share: (due > 0).then(|| lost as f64 / due as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::levels::{LevelTap, levels};

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    fn way(ns: &i64) -> WorstPacket {
        WorstPacket { rtp_timestamp: 0, total_ns: None, stages: vec![("wire".into(), *ns)] }
    }

    fn reported(observed: &mut Observed<i64>, now: LocalTime) -> StreamSnapshot {
        let mut snapshot = StreamSnapshot::default();
        observed.notify(now, way, &mut snapshot);
        snapshot
    }

    #[test]
    fn unobserved_run_keeps_only_the_worst_packet() {
        let mut observed = Observed::new(levels(0).1);
        (0..100).for_each(|ms| observed.take(at(ms), at(ms), Span::from_millis(ms), &ms));
        observed.follow(at(100), || unreachable!("there is no observer"));
        let reported = reported(&mut observed, at(100));
        assert_eq!(reported.worst.unwrap().stages[0].ns, 0);
        assert_eq!(
            (reported.stages.len(), reported.meters, observed.packets(at(100)).count()),
            (0, None, 0)
        );
    }

    #[test]
    fn observer_gets_the_last_second_only() {
        let (mut tap, reader) = levels(1);
        let mut observed = Observed::new(reader);
        observed.look(at(0), true, || true);
        tap.set(true);
        for ms in (0..=3000).step_by(20) {
            observed.take(at(ms), at(ms), Span::ZERO, &ms);
            tap.handle(&[0.1, if ms == 3000 { 1.0 } else { 0.2 }]);
            tap.notify();
            let lost = u64::try_from(ms / 100).unwrap();
            let received = 9 * lost;
            observed.follow(at(ms), || Counters { received, lost, ..Counters::default() });
        }
        let first = reported(&mut observed, at(3000));
        assert_eq!(first.stages[0].ns, 2500);
        assert_eq!(first.meters.unwrap()[0].peak_db, Some(0.0));
        assert_eq!((first.second.lost, first.second.loss_share), (10, Some(0.1)));
        assert_eq!((first.second.interval_ns, first.second.packets), (1_000_000_000, 90));
        let second = reported(&mut observed, at(3000));
        assert_eq!(second.meters, None, "no levels were measured since");
        observed.look(at(3000), false, || true);
        assert!(reported(&mut observed, at(3000)).stages.is_empty());
    }

    #[test]
    fn packets_still_to_be_played_are_not_in_the_last_second() {
        let mut observed = Observed::new(levels(0).1);
        observed.look(at(0), true, || true);
        let reported = (0..=3000).step_by(20);
        reported.for_each(|ms| observed.take(at(ms), at(ms + 400), Span::ZERO, &ms));
        let received: Vec<_> = observed.packets(at(3000)).copied().collect();
        assert_eq!((received[0], received.len(), received[received.len() - 1]), (1600, 51, 2600));
        let received: Vec<_> = observed.packets(at(3400)).copied().collect();
        assert_eq!((received[0], received.len(), received[received.len() - 1]), (2000, 51, 3000));
        let left: Vec<_> = observed.packets(at(4200)).copied().collect();
        assert_eq!((left[0], left.len()), (2800, 11));
    }

    #[test]
    fn stale_meter_falls_to_silence_for_late_observers_too() {
        let (mut tap, reader) = levels(1);
        let mut observed = Observed::<i64>::new(reader);
        observed.look(at(0), true, || true);
        tap.set(true);
        let play = |tap: &mut LevelTap| {
            tap.handle(&[0.5]);
            tap.notify();
        };
        play(&mut tap);
        observed.follow(at(20), Counters::default);
        assert!(reported(&mut observed, at(20)).meters.is_some());
        observed.look(at(40), false, || true);
        play(&mut tap);
        tap.set(false);
        observed.look(at(9000), true, || true);
        tap.set(true);
        tap.notify();
        observed.follow(at(9020), Counters::default);
        assert_eq!(reported(&mut observed, at(9020)).meters, None);
    }

    #[test]
    fn failed_notification_of_a_device_is_repeated() {
        let mut observed = Observed::<i64>::new(levels(0).1);
        let mut requested = 0;
        for reported in [false, true, true] {
            observed.look(at(0), true, || {
                requested += 1;
                reported
            });
        }
        assert_eq!(requested, 2);
    }
}
