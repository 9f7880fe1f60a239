use tautline_proto::time::{LocalTime, Span};
use tautline_report::ledger::ReceivedPacket;

use super::{StreamOutcome, first_counters};
use crate::report::ReportRow;
use crate::statistics::Sorted;

/// Maximum uncertainty: half a round trip of 0.5 ms. Wired networks are below.
pub const MAX_UNSURE: Span = Span::from_micros(250);

impl StreamOutcome {
    fn is_one_clock(&self) -> bool {
        self.stream().and_then(|one| one.clock.as_ref()).is_some_and(|clock| clock.source == "host")
    }

    pub(super) fn uncertainty(&self) -> Option<Span> {
        self.stream()?.latency.uncertainty_ns.map(Span::from_nanos)
    }

    /// Includes the fix. `wire` is the median transit in ns.
    pub(crate) fn untimely(&self, wire: Option<i64>) -> Option<String> {
        if self.is_one_clock() {
            return None;
        }
        let ends = [&self.sent, &self.received].into_iter();
        match ends.map(|report| first_counters(report).clock_steps).sum::<u64>() {
            0 => {}
            steps => {
                return Some(format!(
                    "a clock was set during the run ({steps} steps)\nhint: prevent that on both hosts, \
                     and repeat the measurement"
                ));
            }
        }
        let uncertainty = self.uncertainty().unwrap_or(Span::ZERO);
        if let Some(early) = wire.map(|ns| -ns)
            && early > uncertainty.as_nanos()
        {
            return Some(format!(
                "packets arrived {} before they left, although the clocks are known to ± \
                 {uncertainty}\nhint: let nothing set the clocks of the hosts, and repeat the \
                 measurement",
                Span::from_nanos(early)
            ));
        }
        let maximum = self.max_uncertainty?;
        match self.uncertainty() {
            None => Some(format!(
                "the clock offset between the hosts is unknown, but {maximum} is the maximum \
                 uncertainty\nhint: let the stream's RTCP through (its port and the next, taut doctor)"
            )),
            Some(uncertainty) if uncertainty > maximum => Some(format!(
                "the clock uncertainty between the hosts is ± {uncertainty}, above the maximum of \
                 {maximum}\nhint: use a wired network, or a greater --max-uncertainty"
            )),
            Some(_) => None,
        }
    }

    /// None with a shared clock.
    pub(super) fn write_clocks(
        &self,
        row: &mut ReportRow,
        counted: &[(LocalTime, ReceivedPacket)],
    ) {
        let Some(stream) = self.stream().filter(|_| !self.is_one_clock()) else { return };
        let Some(clock) = &stream.clock else { return };
        row.add("clock_source", "clock source", &*clock.source);
        if let Some(maximum) = stream.latency.uncertainty_max_ns {
            row.add("uncertainty_max_ns", "clocks known to ±, at worst", maximum);
        }
        if let Some(round) = clock.round_trip_ns {
            row.add("round_trip_ns", "round trip, by one clock", round);
        }
        let begin = self.departures.first().map_or(0, |first| first.capture);
        let sent = self.departures.iter();
        let sent =
            sent.filter(|packet| packet.capture.saturating_sub(begin) >= self.settle.as_nanos());
        let sender = middle(sent.map(|packet| packet.handed.saturating_sub(packet.capture)));
        let received = counted.iter().filter(|(_, packet)| packet.measured.is_some());
        let receiver =
            middle(received.filter_map(|(_, packet)| Some(packet.receiver[3]? - packet.arrival)));
        for (key, words, length) in [
            ("sender_own_ns", "capture to network, by the sender's clock", sender),
            ("receiver_own_ns", "network to DAC, by the receiver's clock", receiver),
        ] {
            if let Some(length) = length {
                row.add(key, words, length);
            }
        }
    }
}

fn middle(nanos: impl Iterator<Item = i64>) -> Option<i64> {
    Sorted::of(nanos.map(Span::from_nanos)).summary().p50_ns
}
