//! When packets were late or lost or a device starved, each by its own instants: a host that stood
//! still answers for what its stall overlaps, and for nothing else.

use tautline_proto::time::{LocalTime, Span};

/// Something that went wrong, or several alike: from its cause to the sign of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) from: LocalTime,
    pub(crate) to: LocalTime,
    /// How often.
    pub(crate) count: u64,
}

/// Faults that are told apart between two looks at a stream. A freeze of 30 ms makes as many as last
/// [`ALIKE`] each; of a longer one nearly all are the host's.
const MOST: usize = 16;
/// Faults that begin and end together within this are one: a stall that is told is longer.
const ALIKE: Span = Span::from_millis(2);

/// Faults in the order in which they were seen. Never allocates: a device's thread notes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    kept: [Fault; MOST],
    len: usize,
}

impl Faults {
    pub(crate) const NONE: Self = Self {
        kept: [Fault { from: LocalTime::ZERO, to: LocalTime::ZERO, count: 0 }; MOST],
        len: 0,
    };

    /// Notes so many that came about between these two.
    pub(crate) fn add(&mut self, from: LocalTime, to: LocalTime, count: u64) {
        let full = self.len == MOST;
        if let Some(last) = self.kept[..self.len].last_mut() {
            let wider = Fault { from: last.from.min(from), to: last.to.max(to), count: last.count };
            let alike = from - wider.from < ALIKE
                && last.from - wider.from < ALIKE
                && wider.to - to < ALIKE
                && wider.to - last.to < ALIKE;
            if alike || full {
                *last = Fault { count: last.count + count, ..wider };
                return;
            }
        }
        self.kept[self.len] = Fault { from, to, count };
        self.len += 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.kept[..self.len].iter()
    }

    /// From the first cause to the last sign of all, if there are any.
    pub(crate) fn bounds(&self) -> Option<(LocalTime, LocalTime)> {
        let from = self.iter().map(|fault| fault.from).min()?;
        Some((from, self.iter().map(|fault| fault.to).max()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_micros(micros)
    }

    fn noted(faults: &[(i64, i64, u64)]) -> Faults {
        let mut all = Faults::NONE;
        faults.iter().for_each(|(from, to, count)| all.add(at(*from), at(*to), *count));
        all
    }

    fn told(faults: &Faults) -> Vec<(i64, i64, u64)> {
        let micros = |at: LocalTime| (at - LocalTime::ZERO).as_nanos() / 1_000;
        faults.iter().map(|fault| (micros(fault.from), micros(fault.to), fault.count)).collect()
    }

    #[test]
    fn faults_that_begin_and_end_together_are_one_and_others_are_told_apart() {
        let faults =
            noted(&[(0, 9_000, 1), (1_000, 9_500, 2), (1_999, 9_500, 1), (2_000, 9_500, 1)]);
        assert_eq!(told(&faults), [(0, 9_500, 4), (2_000, 9_500, 1)]);
        assert_eq!(faults.bounds(), Some((at(0), at(9_500))));
        let apart = [(0, 5_000, 1), (0, 7_000, 1), (0, 4_000, 1)];
        assert_eq!(told(&noted(&apart)), apart);
        assert_eq!(Faults::NONE.bounds(), None);
    }

    #[test]
    fn more_faults_than_there_is_room_for_widen_the_last_and_none_is_forgotten() {
        let many: Vec<_> = (0..20).map(|index| (10_000 * index, 10_000 * index + 1, 1)).collect();
        let told = told(&noted(&many));
        assert_eq!(told.len(), MOST);
        assert_eq!(told[MOST - 2], (140_000, 140_001, 1));
        assert_eq!(told[MOST - 1], (150_000, 190_001, 5));
    }
}
