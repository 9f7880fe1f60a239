//! Explains what is wrong with a recording, and how to fix it.

use super::changes::Difference;
use super::residue::ResidueKind;
use super::verdict::{Comparison, Delay, is_straight};

/// Maximum residual that is only rounding of sums.
pub(super) const NOTHING: f64 = 1e-12;

impl Comparison {
    pub fn why(&self, sent: &str, received: &str) -> String {
        let ends = (self.missed_first > 0, self.missed_last > 0);
        if !self.is_found() {
            return format!(
                "{received} contains nothing of {sent}\nhint: check that both are from one run; if most packets were missed, see the report \
                 of taut recv"
            );
        }
        if let Delay::Ambiguous { period, .. } = self.delay
            && self.is_open()
        {
            let millis = period * 1e3 / f64::from(self.rate.hertz());
            return format!(
                "periodic sound: delay ambiguous modulo {millis:.2} ms\n\
                 hint: {received} must contain the beginning or the end of {sent}"
            );
        }
        if self.is_mixed() {
            return format!(
                "{received} contains {sent}, but changed by a --volume, a --map or a mixer"
            );
        }
        if self.changes.iter().any(Difference::moves) {
            return format!(
                "{received} contains {sent} in moved pieces, as after a change of the latency\n\
                 hint: the report of taut recv lists the losses"
            );
        }
        match ends {
            _ if self.changes.iter().any(Difference::loses) || self.is_ambiguous() => {
                format!(
                    "{received} does not contain all of {sent}\nhint: the report of taut recv lists the losses"
                )
            }
            (false, false) => {
                format!("{received} contains {sent}, but {}", self.difference())
            }
            (first, last) => {
                let missed = match (first, last) {
                    (true, true) => "begins later and ends earlier than",
                    (true, false) => "begins later than",
                    (false, _) => "ends earlier than",
                };
                format!(
                    "{received} {missed} {sent}, but contains all in between\nhint: start taut recv first, stop it last"
                )
            }
        }
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.mix.is_some()
            || self.routings.iter().any(|(_, routing)| !is_straight(routing))
            || self.volumes.iter().any(Option::is_some)
    }

    pub(super) fn difference(&self) -> String {
        if let Some(residue) = self.residue.filter(|_| !self.changes.is_empty()) {
            let (differ, steps, bits) =
                (self.there - self.identical, residue.peak_steps, residue.bits);
            return format!("{differ} frames differ by up to {steps:.1} steps of {bits} bits");
        }
        if let Some(residue) = self.residue.filter(|residue| residue.kind == ResidueKind::Dither) {
            let bits = residue.bits;
            return format!("not bit-exact: {bits}-bit dither was added");
        }
        if self.bits.is_some() {
            return "not bit-exact: a codec or card has fewer bits".to_owned();
        }
        let rest = self.rest.unwrap_or(0.0);
        let gains = self.routings.iter().flat_map(|(_, routing)| &routing.gains);
        let furthest = gains.copied().max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
        match furthest {
            // The gain explains more of the difference than it leaves.
            Some(gain) if (gain - 1.0).powi(2) > rest.max(NOTHING) => format!(
                "{} times as loud: a --volume or a mixer changed it",
                (gain * 1e6).round() / 1e6
            ),
            _ => format!(
                "not bit-exact: the difference is {:.0} dB below it; an effect, dither or a lossy codec changed it",
                -10.0 * rest.max(NOTHING).log10()
            ),
        }
    }
}
