//! A fixed schedule, so that figures include stalls.

use tautline_proto::time::{LocalTime, Span};

#[derive(Debug, Clone, Copy)]
pub struct OpenSchedule {
    due: LocalTime,
    period: Span,
    ends: LocalTime,
}

impl OpenSchedule {
    /// Ends before `ends`; the period is at least 1 ns.
    pub fn new(begins: LocalTime, period: Span, ends: LocalTime) -> Self {
        Self { due: begins, period: period.max(Span::from_nanos(1)), ends }
    }

    pub fn count(&self) -> usize {
        let length = (self.ends - self.due).as_nanos().max(0) as u64;
        length.div_ceil(self.period.as_nanos() as u64) as usize
    }

    pub fn next(&self) -> Option<LocalTime> {
        (self.due < self.ends).then_some(self.due)
    }

    pub fn pass(&mut self, now: LocalTime, mut come: impl FnMut(LocalTime)) {
        while self.due <= now && self.due < self.ends {
            come(self.due);
            self.due += self.period;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn packets_due_in_a_stall_are_reported_once_each() {
        let mut schedule = OpenSchedule::new(at(0), Span::from_millis(1), at(10_000));
        assert_eq!(schedule.count(), 10);
        let mut reported = Vec::new();
        for woke in [at(10), at(1_020), at(5_500), at(6_000), at(20_000)] {
            schedule.pass(woke, |due| reported.push((due, woke - due)));
        }
        let late: Vec<i64> = reported.iter().map(|(_, late)| late.as_nanos() / 1000).collect();
        assert_eq!(late, [10, 20, 3500, 2500, 1500, 500, 0, 13_000, 12_000, 11_000]);
        assert_eq!((reported.len(), schedule.next()), (10, None));
    }

    #[test]
    fn a_schedule_without_length_has_nothing_due() {
        let mut schedule = OpenSchedule::new(at(5), Span::ZERO, at(5));
        assert_eq!((schedule.count(), schedule.next()), (0, None));
        schedule.pass(at(9), |_| panic!("nothing is due"));
    }
}
