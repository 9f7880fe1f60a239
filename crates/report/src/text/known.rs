//! Figures limited to their uncertainty.

use core::fmt;

use super::Nanos;

/// A duration with its uncertainty. If the duration is smaller, only the upper limit is known:
/// their sum.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    Length(i64),
    Limit(i64),
}

impl Known {
    pub(super) fn of(nanos: i64, unsure: Option<i64>) -> Self {
        match unsure {
            Some(unsure) if nanos.abs() <= unsure => Self::Limit(nanos + unsure),
            _ => Self::Length(nanos),
        }
    }

    /// Durations of one stage. If one duration is a limit, all are shown as limits, as they have
    /// the same uncertainty.
    pub(super) fn row<const COLUMNS: usize>(
        nanos: [Option<i64>; COLUMNS],
        unsure: Option<i64>,
    ) -> [Option<Self>; COLUMNS] {
        let known = nanos.map(|nanos| nanos.map(|nanos| Self::of(nanos, unsure)));
        let limited = known.iter().any(|known| matches!(known, Some(Self::Limit(_))));
        match unsure.filter(|_| limited) {
            Some(unsure) => nanos.map(|nanos| nanos.map(|nanos| Self::Limit(nanos + unsure))),
            None => known,
        }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Limit(nanos) => f.pad(&format!("≤{}", Nanos(nanos))),
            Self::Length(nanos) => Nanos(nanos).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_within_its_error_is_shown_as_a_limit() {
        let reported = |nanos, unsure| Known::of(nanos, unsure).to_string();
        assert_eq!(reported(-9_200, Some(26_000)), "≤16.80us");
        assert_eq!(reported(12_000, Some(26_000)), "≤38.00us");
        assert_eq!(reported(120_000, Some(26_000)), "120.0us");
        assert_eq!(reported(-120_000, Some(26_000)), "-120.0us");
        assert_eq!(reported(-9_200, None), "-9.200us");
    }

    #[test]
    fn a_row_has_limits_in_all_columns_or_in_none() {
        let reported = |row: [i64; 3], unsure| {
            let row = Known::row(row.map(Some), unsure);
            row.map(|known| known.map_or_else(String::new, |known| known.to_string()))
        };
        let relayed = [1_050_000, 1_257_000, 27_830_000];
        assert_eq!(reported(relayed, Some(1_112_000)), ["≤2.162ms", "≤2.369ms", "≤28.94ms"]);
        assert_eq!(reported(relayed, Some(900_000)), ["1.050ms", "1.257ms", "27.83ms"]);
        assert_eq!(reported(relayed, None), ["1.050ms", "1.257ms", "27.83ms"]);
    }
}
