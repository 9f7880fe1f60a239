//! Selection of played streams.

use tautline_proto::time::Span;

tautline_dsp::named_enum! {
    /// How streams share a device.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Select {
        /// All.
        #[default]
        Mix = "mix",
        /// The first active one, in the given order.
        Priority = "priority",
        /// The one active longest, until it stops.
        FirstAlive = "first-alive",
    }
    unknown: "invalid rule '{}': must be mix, priority or first-alive"
}

/// Silence after which a stream is inactive: ten usual packets, longer than typical host stalls.
pub(crate) const TIMEOUT: Span = Span::from_millis(100);

impl Select {
    pub(crate) fn handles(self, index: usize, chosen: Option<usize>) -> bool {
        self == Self::Mix || chosen == Some(index)
    }

    pub(crate) fn choose(
        self,
        mut alive: impl Iterator<Item = bool>,
        before: Option<usize>,
    ) -> Option<usize> {
        match (self, before) {
            (Self::Mix, _) => None,
            (Self::Priority, _) => alive.position(|alive| alive),
            (Self::FirstAlive, before) => {
                let mut alive =
                    alive.enumerate().filter_map(|(index, alive)| alive.then_some(index));
                let first = alive.next();
                if first == before {
                    first
                } else {
                    alive.find(|index| before == Some(*index)).or(first)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_returns_to_the_first_that_is_alive() {
        let choose = |alive: [bool; 3]| Select::Priority.choose(alive.into_iter(), Some(2));
        assert_eq!(choose([true, true, true]), Some(0));
        assert_eq!(choose([false, true, true]), Some(1));
        assert_eq!(choose([false, false, false]), None);
    }

    #[test]
    fn first_alive_stays_until_it_falls_silent() {
        let choose =
            |alive: [bool; 3], before| Select::FirstAlive.choose(alive.into_iter(), before);
        assert_eq!(choose([false, true, true], None), Some(1));
        assert_eq!(choose([true, true, true], Some(1)), Some(1));
        assert_eq!(choose([true, false, true], Some(1)), Some(0));
    }
}
