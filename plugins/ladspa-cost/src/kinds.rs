use core::ffi::{CStr, c_int};

use tautline_host::ladspa::abi::{
    BOUNDED_ABOVE, BOUNDED_BELOW, DEFAULT_0, DEFAULT_100, DEFAULT_MAXIMUM, HARD_RT_CAPABLE,
    INTEGER, RangeHint, TOGGLED,
};

pub const IN: usize = 0;
/// A bit-exact copy of the input.
pub const OUT: usize = 1;
pub const MICROSECONDS: usize = 2;
/// Above 0, the plugin sleeps instead of working.
pub const VIRTUAL: usize = 3;
/// [`WasteKind::Fixed`]: additional time per frame, in ns.
pub const PER_FRAME: usize = 4;
/// [`WasteKind::Random`]: maximum additional time per run, in µs.
pub const SPREAD: usize = 4;
/// [`WasteKind::Burst`]: additional time of a burst run, in µs.
pub const BURST: usize = 4;
/// [`WasteKind::Burst`]: interval in runs.
pub const EVERY: usize = 5;
pub const KIBIBYTES: usize = 4;

/// Maximum memory of [`WasteKind::Cache`]: more than one core's share of the last-level cache.
pub const MAX_KIBIBYTES: usize = 16 << 10;
/// Maximum time: 1 s.
const MAX_MICROSECONDS: f32 = 1e6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WasteKind {
    Fixed,
    Random,
    Burst,
    /// Constant time, spent on memory beyond the core's caches.
    Cache,
}

#[derive(Debug)]
pub(crate) struct ControlPort {
    pub(crate) name: &'static CStr,
    pub(crate) range: RangeHint,
}

impl WasteKind {
    pub const ALL: [Self; 4] = [Self::Fixed, Self::Random, Self::Burst, Self::Cache];

    pub const fn label(self) -> &'static CStr {
        match self {
            Self::Fixed => c"waste_time",
            Self::Random => c"waste_random",
            Self::Burst => c"waste_burst",
            Self::Cache => c"waste_cache",
        }
    }

    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Fixed => c"Takes time",
            Self::Random => c"Takes time by chance",
            Self::Burst => c"Takes time in bursts",
            Self::Cache => c"Takes time and the cache",
        }
    }

    /// Numbers up to 1000 belong to no author.
    pub(crate) const fn unique_id(self) -> u32 {
        match self {
            Self::Fixed => 941,
            Self::Random => 942,
            Self::Burst => 943,
            Self::Cache => 944,
        }
    }

    /// Hard real-time: A + B·frames per run.
    pub(crate) const fn properties(self) -> c_int {
        match self {
            Self::Fixed | Self::Cache => HARD_RT_CAPABLE,
            Self::Random | Self::Burst => 0,
        }
    }

    /// Controls, from port 2 on.
    pub(crate) fn controls(self) -> Vec<ControlPort> {
        let mut all = vec![
            control(c"Microseconds", DEFAULT_100, 0.0, MAX_MICROSECONDS),
            ControlPort { name: c"Virtual", range: hint(TOGGLED | DEFAULT_0, 0.0, 0.0) },
        ];
        match self {
            Self::Fixed => all.push(control(c"Nanoseconds per frame", DEFAULT_0, 0.0, 1e6)),
            Self::Random => {
                all.push(control(c"Spread in microseconds", DEFAULT_100, 0.0, MAX_MICROSECONDS));
            }
            Self::Burst => {
                all.push(control(c"Burst in microseconds", DEFAULT_100, 0.0, MAX_MICROSECONDS));
                all.push(control(c"One run in", INTEGER | DEFAULT_100, 1.0, 1e6));
            }
            Self::Cache => {
                let maximum = MAX_KIBIBYTES as f32;
                all.push(control(c"KiB", INTEGER | DEFAULT_MAXIMUM, 1.0, maximum));
            }
        }
        all
    }
}

fn control(name: &'static CStr, hints: c_int, lower: f32, upper: f32) -> ControlPort {
    ControlPort { name, range: hint(BOUNDED_BELOW | BOUNDED_ABOVE | hints, lower, upper) }
}

const fn hint(hints: c_int, lower: f32, upper: f32) -> RangeHint {
    RangeHint { hints, lower, upper }
}
