//! Target share of late packets.

use core::fmt;
use core::str::FromStr;

/// Target share of late packets, in 10⁻⁹.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LossTarget(u32);

/// Invalid share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid share of packets '{0}': must be less than 50%, such as 0.01% or 0.0001")]
pub struct TargetError(String);

impl LossTarget {
    /// One packet in ten thousand: a concealed gap every ten seconds at 1000 packets per second.
    pub const DEFAULT: Self = Self(100_000);
    const ALL: u64 = 1_000_000_000;

    /// Creates a share of `parts` in 10⁹, at most half.
    pub fn from_parts(parts: u32) -> Self {
        Self(parts.min(Self::ALL as u32 / 2))
    }

    /// Share in 10⁻⁹.
    pub const fn parts(self) -> u32 {
        self.0
    }

    /// Late packets allowed among `count`. 0 below the inverse of the share: such a sample does not
    /// show rarer events.
    pub fn allowed(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.0) / u128::from(Self::ALL)) as u64
    }
}

impl Default for LossTarget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FromStr for LossTarget {
    type Err = TargetError;

    /// Accepts `0.01%`, `0.0001`, `0`. The resolution is 10⁻⁹.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let (figure, places) = match trimmed.strip_suffix('%') {
            Some(figure) => (figure, 7),
            None => (trimmed, 9),
        };
        parts(figure.trim_end(), places)
            .filter(|parts| *parts < Self::ALL / 2)
            .and_then(|parts| u32::try_from(parts).ok())
            .map(Self)
            .ok_or_else(|| TargetError(text.to_owned()))
    }
}

/// Parses a decimal number times 10^`places`, if an integer.
fn parts(figure: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = figure.split_once('.').unwrap_or((figure, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let any = figure.bytes().any(|byte| byte.is_ascii_digit());
    if !any || !digits(whole) || !digits(fraction) || fraction.len() > places {
        return None;
    }
    format!("0{whole}{fraction:0<places$}").parse().ok()
}

impl fmt::Display for LossTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000_000, self.0 % 10_000_000);
        let fraction = format!("{fraction:07}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{whole}{point}{fraction}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_typed_as_per_cent_or_plain() {
        for (text, parts) in [
            ("0.01%", 100_000),
            ("0.0001", 100_000),
            ("1%", 10_000_000),
            (".5 %", 5_000_000),
            ("0", 0),
            ("0.10%", 1_000_000),
            ("0.000000001", 1),
        ] {
            assert_eq!(text.parse(), Ok(LossTarget(parts)), "{text}");
        }
    }

    #[test]
    fn a_share_displays_as_it_is_typed() {
        for text in ["0.01%", "1%", "12.5%", "0%"] {
            assert_eq!(text.parse::<LossTarget>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_share_is_refused_with_a_hint() {
        for text in ["", "%", ".", "-1%", "50%", "0.5", "2", "1e-4", "0.0000000001", "ten"] {
            let error = text.parse::<LossTarget>().unwrap_err();
            assert!(error.to_string().contains("0.01%"), "{text}");
        }
    }

    #[test]
    fn few_packets_allow_none_to_be_late() {
        assert_eq!(LossTarget::DEFAULT.allowed(9_999), 0);
        assert_eq!(LossTarget::DEFAULT.allowed(10_000), 1);
        assert_eq!(LossTarget::DEFAULT.allowed(100_000), 10);
    }
}
