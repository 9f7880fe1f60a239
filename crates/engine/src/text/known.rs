//! Figures with no more in them than is known.

use core::fmt;

use super::Nanos;

/// A length of time that may be off by so much, either way. One that is no longer than that is only
/// known not to be longer than both together.
pub(super) struct Known {
    pub(super) nanos: i64,
    pub(super) unsure: Option<i64>,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unsure {
            Some(unsure) if self.nanos.abs() <= unsure => {
                f.pad(&format!("≤{}", Nanos(self.nanos + unsure)))
            }
            _ => Nanos(self.nanos).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_its_own_error_is_told_as_its_limit() {
        let told = |nanos, unsure| Known { nanos, unsure }.to_string();
        assert_eq!(told(-9_200, Some(26_000)), "≤16.80us");
        assert_eq!(told(12_000, Some(26_000)), "≤38.00us");
        assert_eq!(told(120_000, Some(26_000)), "120.0us");
        // This cannot be, and is told.
        assert_eq!(told(-120_000, Some(26_000)), "-120.0us");
        assert_eq!(told(-9_200, None), "-9.200us");
    }
}
