use tautline_proto::time::Span;

use crate::report::ReportRow;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JoinedClocks {
    pub(super) is_one: bool,
    /// Uncertainty (±) at the worst mark.
    pub(super) uncertainty: Span,
    pub(super) round_trip: Option<Span>,
    /// Steps of the player's clock, and of the recorder's.
    pub(super) steps: [u32; 2],
    pub(super) max_uncertainty: Span,
}

impl JoinedClocks {
    /// Makes the row invalid if the clocks make it useless.
    pub(super) fn notify(&self, row: &mut ReportRow) {
        let source = if self.is_one { "host" } else { "agents" };
        row.add("clock_source", "clock source", source);
        if self.is_one {
            return;
        }
        row.add("clock_uncertainty_ns", "clocks known to ±, at worst", self.uncertainty.as_nanos());
        let round_trip = self.round_trip.map(Span::as_nanos);
        row.add("round_trip_ns", "round trip, by one clock", round_trip);
        // A clock step also explains that no mark was found.
        if let Some(why) = self.untimely(row) {
            row.invalid = Some(why);
        }
    }

    fn untimely(&self, row: &ReportRow) -> Option<String> {
        for (steps, what) in self.steps.into_iter().zip(["played", "heard"]) {
            if steps > 0 {
                return Some(format!(
                    "the clock of the host where marks are {what} jumped during the run ({steps} \
                     times), as after a suspend\nhint: prevent sleep, and repeat the measurement"
                ));
            }
        }
        let uncertainty = row.uncertainty?;
        let middle = row.measured.as_ref()?.p50_ns.map(Span::from_nanos)?;
        if middle < -uncertainty {
            return Some(format!(
                "marks were recorded {} before they were played, although the clocks are known to \
                 ± {uncertainty}\nhint: repeat the measurement",
                -middle
            ));
        }
        (uncertainty > self.max_uncertainty).then(|| {
            format!(
                "the median has an uncertainty of {uncertainty} (clocks: ± {}), above the maximum \
                 of {}\nhint: use a wired network, or a greater --max-uncertainty",
                self.uncertainty, self.max_uncertainty
            )
        })
    }
}
