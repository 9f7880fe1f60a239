//! A stream's newest packets and counters, and the last minute's worst packet; for the ordinary
//! thread.

use std::collections::VecDeque;

use tautline_proto::time::{LocalTime, Span};

const SECOND: Span = Span::from_secs(1);
/// Maximum played packets. A median needs no more.
const MAX: usize = 2000;
/// Maximum packets including future packets: a second of the shortest packets. Above this number,
/// one packet in two is kept, then one in four.
const MAX_AT_ALL: usize = 5 * MAX;

pub(crate) struct LastSecond<T> {
    since: LocalTime,
    kept: VecDeque<(LocalTime, T)>,
    one_in: u64,
    reported: u64,
}

impl<T> LastSecond<T> {
    pub(crate) const fn since(since: LocalTime) -> Self {
        Self { since, kept: VecDeque::new(), one_in: 1, reported: 0 }
    }

    pub(crate) fn take(&mut self, now: LocalTime, at: LocalTime, item: T) {
        self.forget(now);
        self.reported += 1;
        if !self.reported.is_multiple_of(self.one_in) {
            return;
        }
        self.kept.push_back((at, item));
        let arrived = |kept: &VecDeque<_>, which| kept.get(which).is_some_and(|(at, _)| *at <= now);
        while arrived(&self.kept, 0) && arrived(&self.kept, MAX) {
            self.kept.pop_front();
        }
        if self.kept.len() == MAX_AT_ALL {
            self.one_in *= 2;
            self.reported = 0;
            let mut stays = true;
            self.kept.retain(|_| {
                stays = !stays;
                stays
            });
        }
    }

    pub(crate) fn forget(&mut self, now: LocalTime) {
        while self.kept.front().is_some_and(|(at, _)| now - *at > SECOND) {
            self.kept.pop_front();
        }
    }

    pub(crate) fn each(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.kept.iter().map(|(_, item)| item)
    }

    pub(crate) fn until(&self, now: LocalTime) -> impl Iterator<Item = &T> {
        let within = move |at: LocalTime| at <= now && now - at <= SECOND;
        self.kept.iter().filter(move |(at, _)| within(*at)).map(|(_, item)| item)
    }

    pub(crate) fn over(&self, now: LocalTime) -> Span {
        (now - self.since).min(SECOND)
    }
}

const PART: Span = Span::from_secs(5);
const PARTS: i64 = 12;

/// Worst packet of the last 55 to 60 seconds.
pub(crate) struct WorstOfMinute<P> {
    parts: VecDeque<MinutePart<P>>,
}

struct MinutePart<P> {
    number: i64,
    worst: SparedPacket<P>,
    before: Option<SparedPacket<P>>,
}

#[derive(Clone, Copy)]
struct SparedPacket<P> {
    at: LocalTime,
    spare: Span,
    packet: P,
}

impl<P: Copy> MinutePart<P> {
    fn take(&mut self, now: LocalTime, packet: SparedPacket<P>) {
        if packet.spare < self.worst.spare {
            let replaced = core::mem::replace(&mut self.worst, packet);
            if replaced.at <= now || self.before.is_none() {
                self.before = Some(replaced);
            }
        } else if self.worst.at > now
            && packet.at <= now
            && self.before.is_none_or(|before| before.at > now || packet.spare < before.spare)
        {
            self.before = Some(packet);
        }
    }

    fn worst(&self, now: LocalTime) -> Option<&SparedPacket<P>> {
        [Some(&self.worst), self.before.as_ref()].into_iter().flatten().find(|one| one.at <= now)
    }
}

impl<P: Copy> WorstOfMinute<P> {
    pub(crate) const NONE: Self = Self { parts: VecDeque::new() };

    #[inline]
    pub(crate) fn take(&mut self, now: LocalTime, at: LocalTime, spare: Span, packet: &P) {
        let number = part(at);
        let packet = SparedPacket { at, spare, packet: *packet };
        match self.parts.back_mut() {
            Some(last) if last.number >= number => last.take(now, packet),
            _ => {
                self.parts.push_back(MinutePart { number, worst: packet, before: None });
                self.forget(now);
            }
        }
    }

    fn forget(&mut self, now: LocalTime) {
        while self.parts.front().is_some_and(|oldest| part(now) - oldest.number >= PARTS) {
            self.parts.pop_front();
        }
    }

    pub(crate) fn worst(&mut self, now: LocalTime) -> Option<P> {
        self.forget(now);
        let arrived = self.parts.iter().filter_map(|part| part.worst(now));
        arrived.min_by_key(|one| one.spare).map(|one| one.packet)
    }
}

fn part(at: LocalTime) -> i64 {
    (at - LocalTime::ZERO).as_nanos().div_euclid(PART.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn arrivals_older_than_1_s_are_forgotten() {
        let mut second = LastSecond::since(at(0));
        (0..=2000).for_each(|millis| second.take(at(millis), at(millis), millis));
        assert_eq!(second.each().next(), Some(&1000));
        assert_eq!(second.each().next_back(), Some(&2000));
        second.forget(at(2500));
        assert_eq!(second.each().next(), Some(&1500));
        assert_eq!(LastSecond::<()>::since(at(0)).over(at(300)), Span::from_millis(300));
        assert_eq!(second.over(at(2500)), SECOND);
    }

    #[test]
    fn last_second_keeps_no_more_packets_than_a_median_needs() {
        let mut second = LastSecond::since(at(0));
        (0..9000).for_each(|number| second.take(at(number / 10), at(number / 10), number));
        assert_eq!((second.each().count(), second.each().next()), (MAX, Some(&7000)));
    }

    #[test]
    fn last_second_counts_shortest_packets_known_in_advance() {
        for ahead in [0, 256, 900, 2500, 60_000] {
            let mut second = LastSecond::since(at(0));
            for number in 0..8 * (ahead + 4000) {
                let now = at(number / 8);
                second.take(now, now + Span::from_millis(ahead), number / 8 + ahead);
                let kept = second.kept.len();
                assert!(kept < MAX_AT_ALL, "{kept} are kept, {ahead} ms ahead");
            }
            let now = ahead + 3999;
            let come: Vec<_> = second.until(at(now)).copied().collect();
            let (minimum, apart) = match ahead {
                ..3000 => (1990, 1),
                _ => (124, 8),
            };
            assert!(come.len() >= minimum, "{} came, {ahead} ms ahead", come.len());
            assert!(come.windows(2).all(|two| two[1] - two[0] <= apart), "{ahead} ms ahead");
            assert!(now - come[come.len() - 1] <= apart, "{ahead} ms ahead");
        }
    }

    #[test]
    fn the_worst_of_a_minute_is_none_that_is_still_to_come() {
        let mut minute = WorstOfMinute::NONE;
        let ms = Span::from_millis;
        for second in 0..=20 {
            let spare = match second {
                8 => 0,
                3 => 1,
                _ => 5,
            };
            if second >= 2 {
                minute.take(at(1000 * (second - 2)), at(1000 * second), ms(spare), &second);
            }
            let reported = minute.worst(at(1000 * (second - 2)));
            match second {
                ..4 => assert_eq!(reported, None, "at {} s", second - 2),
                4 => assert_eq!(reported, Some(2), "at 2 s"),
                5..=9 => assert_eq!(reported, Some(3), "at {} s", second - 2),
                10.. => assert_eq!(reported, Some(8), "at {} s", second - 2),
            }
        }
        let mut minute = WorstOfMinute::NONE;
        minute.take(at(0), at(400), ms(-3), &1);
        minute.take(at(10), at(10), ms(-2), &2);
        assert_eq!((minute.worst(at(10)), minute.worst(at(400))), (Some(2), Some(1)));
    }

    #[test]
    fn the_worst_of_a_minute_is_kept_for_a_minute_and_no_longer() {
        let mut minute = WorstOfMinute::NONE;
        for second in 0..120 {
            let spare = match second {
                10 => 0,
                40 => 1,
                _ => 5,
            };
            let now = at(1000 * second);
            minute.take(now, now, Span::from_millis(spare), &second);
            let worst = minute.worst(at(1000 * second)).unwrap();
            match second {
                10..=64 => assert_eq!(worst, 10, "at {second} s"),
                71..=94 => assert_eq!(worst, 40, "at {second} s"),
                101.. => assert!(second - worst < 60 && worst > 40, "{worst} at {second} s"),
                _ => {}
            }
        }
        assert_eq!(minute.worst(at(300_000)), None);
    }
}
