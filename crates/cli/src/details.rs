//! Changes that `--verbose` reports during a run.

use tautline_engine::monitor::run::{KnownClock, Progress};
use tautline_proto::time::Span;
use tautline_report::text::causes;

/// Source of the clock of packets with presentation times.
const TAI: &str = "tai";

const MISSED_EVERY: Span = Span::from_secs(1);
/// Minimum reported change of an adaptive latency.
const MOVED: Span = Span::from_micros(100);

#[derive(Debug, Default)]
pub(crate) struct Details {
    begun: bool,
    known: Option<KnownClock>,
    link_offset: Span,
    xruns: u64,
    resyncs: u64,
    missed: u64,
    missed_reported: Span,
}

impl Details {
    pub(crate) fn news(&mut self, now: &Progress<'_>) -> Vec<String> {
        let mut news = Vec::new();
        if !core::mem::replace(&mut self.begun, true) {
            let refused = now.refused.iter().flat_map(|refused| refused.each());
            news.extend(refused.map(str::to_owned));
            if news.is_empty() {
                news.push("real-time priority and locked memory: granted".to_owned());
            }
        }
        self.clock(now, &mut news);
        if (now.link_offset - self.link_offset).abs() >= MOVED {
            news.push(format!("latency: {}", now.link_offset));
            self.link_offset = now.link_offset;
        }
        if now.resyncs > self.resyncs {
            news.push(format!("resync; {} so far", now.resyncs));
            self.resyncs = now.resyncs;
        }
        if now.xruns > self.xruns {
            news.push(format!("xrun of the device; {} so far", now.xruns));
            self.xruns = now.xruns;
        }
        if now.missed > self.missed && now.elapsed - self.missed_reported >= MISSED_EVERY {
            // A sender knows no causes.
            let causes = Some(causes(&now.gaps, false)).filter(|causes| !causes.is_empty());
            let causes = causes.map_or(String::new(), |causes| format!(": {causes}"));
            news.push(format!("{} of {} packets missed so far{causes}", now.missed, now.packets));
            (self.missed, self.missed_reported) = (now.missed, now.elapsed);
        }
        let at = now.elapsed.as_millis_f64() / 1e3;
        news.iter().map(|news| format!("{at:.3} s: {news}")).collect()
    }

    /// Reports when the peer's clock becomes known, its source, and when its uncertainty halves or
    /// doubles.
    fn clock(&mut self, now: &Progress<'_>, news: &mut Vec<String>) {
        let Some(known) = now.known else { return };
        let reported = self.known.filter(|reported| {
            let (was, is) = (reported.uncertainty, known.uncertainty);
            let alike = is == was || (is.times(2) > was && is < was.times(2));
            let alike = alike || known.source == TAI;
            reported.source == known.source && alike
        });
        if reported.is_some() {
            return;
        }
        let by = match known.source {
            "host" => "this host's, which both ends read".to_owned(),
            // The mapping only reads this machine's TAI, whose error the report has.
            TAI => "TAI, as each end knows it".to_owned(),
            "rtcp" => format!("known to ± {} from exchanged reports", known.uncertainty),
            kept => format!("known to ± {} from the system clocks ({kept})", known.uncertainty),
        };
        let trip = known.round_trip.map_or(String::new(), |trip| format!(", round trip {trip}"));
        news.push(format!("the other end's clock is {by}{trip}"));
        self.known = Some(known);
    }
}

#[cfg(test)]
mod tests {
    use tautline_report::GapReport;
    use tautline_trial::snapshot;

    use super::*;

    fn at(millis: i64) -> Progress<'static> {
        let link_offset = Span::from_millis(5);
        Progress {
            elapsed: Span::from_millis(millis),
            packets: 100,
            link_offset,
            ..Default::default()
        }
    }

    fn known(micros: i64) -> Option<KnownClock> {
        let (uncertainty, trip) = (Span::from_micros(micros), Span::from_micros(300));
        Some(KnownClock { source: "rtcp", uncertainty, round_trip: Some(trip) })
    }

    #[test]
    fn reported_details_are_not_repeated() {
        let mut details = Details::default();
        let begun = details.news(&at(20));
        snapshot!(begun.last().unwrap());
        assert!(details.news(&at(40)).is_empty());
        let resync = Progress { resyncs: 1, xruns: 2, ..at(60) };
        let reported = details.news(&resync);
        assert!(
            reported[0].contains("resync") && reported[1].contains("xrun of the device; 2"),
            "{reported:?}"
        );
        assert!(details.news(&resync).is_empty());
    }

    #[test]
    fn clock_is_reported_when_its_error_halves() {
        let mut details = Details::default();
        details.news(&at(0));
        let reported = |details: &mut Details, micros| {
            details.news(&Progress { known: known(micros), ..at(20) }).concat()
        };
        let first = "0.020 s: the other end's clock is known to ± 100us from exchanged reports, \
                     round trip 300us";
        assert_eq!(reported(&mut details, 100), first);
        assert_eq!(reported(&mut details, 60), "");
        assert!(reported(&mut details, 50).contains("± 50us"));
        assert!(reported(&mut details, 100).contains("± 100us"));
        let host = Some(KnownClock { source: "host", uncertainty: Span::ZERO, round_trip: None });
        let alongside = Progress { known: host, ..at(40) };
        assert!(details.news(&alongside).concat().contains("this host's"));
        assert!(details.news(&alongside).is_empty());
        let tai = |micros| {
            let uncertainty = Span::from_micros(micros);
            let known = Some(KnownClock { source: TAI, uncertainty, round_trip: None });
            Progress { known, ..at(60) }
        };
        let reported = details.news(&tai(2)).concat();
        assert!(reported.contains("TAI") && !reported.contains('±'), "{reported}");
        assert!(details.news(&tai(9)).is_empty());
    }

    #[test]
    fn missed_packets_are_reported_once_a_second() {
        let mut details = Details::default();
        details.news(&at(0));
        let gaps = GapReport { lost: 1, late_receiver: 2, ..GapReport::default() };
        let lost = |millis, missed| Progress { missed, gaps, ..at(millis) };
        let reported = details.news(&lost(1000, 3)).concat();
        // The report has the same words.
        assert!(reported.ends_with(": receiver late 2, lost 1"), "{reported}");
        snapshot!(reported);
        assert!(details.news(&lost(1500, 4)).is_empty());
        assert!(details.news(&lost(2000, 4)).concat().contains("4 of 100"));
    }
}
