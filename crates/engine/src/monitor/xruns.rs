//! Times of xruns, as recorded by the device's thread.

use tautline_proto::faults::{Fault, Faults};
use tautline_report::Xrun;

/// Maximum xruns kept: 100 s at ten per second. Later xruns are only counted.
const MAX: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct XrunTimes(pub(crate) Vec<Xrun>);

impl XrunTimes {
    pub(crate) fn take(&mut self, faults: &Faults) {
        let room = MAX - self.0.len();
        let starved = faults.iter().filter(|fault| fault.harm.xruns > 0);
        self.0.extend(starved.take(room).map(|Fault { from, to, harm }| Xrun {
            last_wakeup_ns: from.as_nanos(),
            at_ns: to.as_nanos(),
            count: harm.xruns,
        }));
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::faults::Harm;
    use tautline_proto::time::{LocalTime, Span};

    use super::*;

    fn at(millis: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_millis(millis)
    }

    fn faults(all: &[(i64, Harm)]) -> Faults {
        let mut faults = Faults::NONE;
        all.iter().for_each(|(to, harm)| faults.add(at(to - 5), at(*to), *harm));
        faults
    }

    #[test]
    fn each_xrun_has_its_times_and_non_xruns_are_omitted() {
        let xruns = |xruns| Harm { xruns, ..Harm::default() };
        let late = Harm { late: 3, ..Harm::default() };
        let mut times = XrunTimes::default();
        times.take(&faults(&[(10, late), (20, xruns(2))]));
        times.take(&Faults::NONE);
        times.take(&faults(&[(30, xruns(1))]));
        let reported: Vec<_> =
            times.0.iter().map(|x| (x.last_wakeup_ns, x.at_ns, x.count)).collect();
        assert_eq!(reported, [(15_000_000, 20_000_000, 2), (25_000_000, 30_000_000, 1)]);
    }

    #[test]
    fn a_card_that_starves_without_end_takes_no_more_memory() {
        let mut times = XrunTimes::default();
        for period in 0..2 * MAX as i64 {
            times.take(&faults(&[(10 * period, Harm { xruns: 1, ..Harm::default() })]));
        }
        let reported = times.0;
        assert_eq!(reported.len(), MAX);
        assert_eq!(reported[MAX - 1].at_ns, 10_000_000 * (MAX as i64 - 1), "the first are kept");
    }
}
