//! How many packets are measured.

use core::fmt;
use core::str::FromStr;

/// How many packets are measured: their stages, their latency from the sound, their lines in the ledger.
/// What decides about a stream (arrivals, and the latency that a receiver tells its sender) and what is
/// counted takes every packet all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probes {
    /// Each.
    #[default]
    All,
    /// One in 64.
    OneIn64,
    /// None: no sound is listened to either.
    Off,
}

impl Probes {
    /// All there are.
    pub const EACH: [Self; 3] = [Self::All, Self::OneIn64, Self::Off];

    /// The word in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::OneIn64 => "64",
            Self::Off => "off",
        }
    }

    /// Whether the packet is measured before which so many came.
    pub(crate) const fn take(self, before: u64) -> bool {
        match self {
            Self::All => true,
            Self::OneIn64 => before.is_multiple_of(64),
            Self::Off => false,
        }
    }
}

impl fmt::Display for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Probes {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let found = Self::EACH.into_iter().find(|probes| probes.name() == given);
        found.ok_or_else(|| format!("`{given}` is no number of packets; write all, 64 or off"))
    }
}
