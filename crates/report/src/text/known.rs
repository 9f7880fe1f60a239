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

    /// Rising durations. If one is a limit, later ones below it are shown as limits too. Otherwise
    /// the row seems to fall.
    pub(super) fn row<const COLUMNS: usize>(
        rising: [Option<i64>; COLUMNS],
        unsure: Option<i64>,
    ) -> [Option<Self>; COLUMNS] {
        let mut reached = None;
        rising.map(|nanos| {
            let nanos = nanos?;
            let known = match (Self::of(nanos, unsure), reached, unsure) {
                (Self::Length(nanos), Some(limit), Some(unsure)) if nanos < limit => {
                    Self::Limit(nanos + unsure)
                }
                (known, ..) => known,
            };
            if let Self::Limit(limit) = known {
                reached = Some(limit);
            }
            Some(known)
        })
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
    fn the_columns_of_a_row_never_fall() {
        let reported = |row: [i64; 3], unsure| {
            let row = Known::row(row.map(Some), unsure);
            row.map(|known| known.map_or_else(String::new, |known| known.to_string()))
        };
        let relayed = [1_050_000, 1_257_000, 27_830_000];
        assert_eq!(reported(relayed, Some(1_112_000)), ["≤2.162ms", "≤2.369ms", "27.83ms"]);
        let close = [1_050_000, 1_257_000, 2_200_000];
        assert_eq!(reported(close, Some(1_112_000)), ["≤2.162ms", "≤2.369ms", "≤3.312ms"]);
        assert_eq!(reported(relayed, Some(900_000)), ["1.050ms", "1.257ms", "27.83ms"]);
        assert_eq!(reported(relayed, None), ["1.050ms", "1.257ms", "27.83ms"]);
        let value = |nanos, unsure, known: Option<Known>| match known.unwrap() {
            Known::Limit(limit) => {
                assert_eq!(limit, nanos + unsure);
                limit
            }
            Known::Length(length) => {
                assert_eq!(length, nanos);
                length
            }
        };
        let steps = [-300, -100, -99, 0, 99, 100, 101, 150, 200, 201, 250, 300, 301, 500];
        for (first, second, third) in
            steps.iter().flat_map(|a| steps.iter().flat_map(move |b| steps.map(|c| (*a, *b, c))))
        {
            if first <= second && second <= third {
                let row = [first, second, third];
                let reported = Known::row(row.map(Some), Some(100));
                let reported = [0, 1, 2].map(|column| value(row[column], 100, reported[column]));
                assert!(reported.is_sorted(), "{row:?}: {reported:?}");
            }
        }
    }
}
