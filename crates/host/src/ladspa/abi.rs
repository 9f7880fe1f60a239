//! `ladspa.h` 1.1, in its order.

use core::ffi::{c_char, c_int, c_ulong, c_void};

use serde::{Deserialize, Serialize};

pub type Data = f32;
pub type Handle = *mut c_void;

pub const ENTRY: &str = "ladspa_descriptor";
pub type DescriptorFunction = unsafe extern "C" fn(index: c_ulong) -> *const Descriptor;
pub const UNIQUE_IDS: u32 = 0x0100_0000;

/// Depends on real-time input or output.
pub const REALTIME: c_int = 0x1;
pub const INPLACE_BROKEN: c_int = 0x2;
/// No allocation or blocking; about A + B·frames, whatever the input.
pub const HARD_RT_CAPABLE: c_int = 0x4;

pub const INPUT: c_int = 0x1;
pub const OUTPUT: c_int = 0x2;
pub const CONTROL: c_int = 0x4;
pub const AUDIO: c_int = 0x8;

pub const BOUNDED_BELOW: c_int = 0x1;
pub const BOUNDED_ABOVE: c_int = 0x2;
pub const TOGGLED: c_int = 0x4;
pub const SAMPLE_RATE: c_int = 0x8;
pub const LOGARITHMIC: c_int = 0x10;
pub const INTEGER: c_int = 0x20;
pub const DEFAULT_MASK: c_int = 0x3C0;
pub const DEFAULT_MINIMUM: c_int = 0x40;
pub const DEFAULT_LOW: c_int = 0x80;
pub const DEFAULT_MIDDLE: c_int = 0xC0;
pub const DEFAULT_HIGH: c_int = 0x100;
pub const DEFAULT_MAXIMUM: c_int = 0x140;
pub const DEFAULT_0: c_int = 0x200;
pub const DEFAULT_1: c_int = 0x240;
pub const DEFAULT_100: c_int = 0x280;
pub const DEFAULT_440: c_int = 0x2C0;

/// Latency output in frames: a convention outside the header.
pub const LATENCY: &str = "latency";

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RangeHint {
    pub hints: c_int,
    pub lower: Data,
    pub upper: Data,
}

/// One plugin of a library. Even required functions may be missing.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    pub unique_id: c_ulong,
    pub label: *const c_char,
    pub properties: c_int,
    pub name: *const c_char,
    pub maker: *const c_char,
    pub copyright: *const c_char,
    pub port_count: c_ulong,
    pub port_descriptors: *const c_int,
    pub port_names: *const *const c_char,
    pub port_range_hints: *const RangeHint,
    pub implementation_data: *mut c_void,
    pub instantiate: Option<unsafe extern "C" fn(*const Descriptor, c_ulong) -> Handle>,
    pub connect_port: Option<unsafe extern "C" fn(Handle, c_ulong, *mut Data)>,
    /// Resets the state; may be missing.
    pub activate: Option<unsafe extern "C" fn(Handle)>,
    pub run: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    pub run_adding: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    pub set_run_adding_gain: Option<unsafe extern "C" fn(Handle, Data)>,
    pub deactivate: Option<unsafe extern "C" fn(Handle)>,
    pub cleanup: Option<unsafe extern "C" fn(Handle)>,
}

// SAFETY: a returned library's data is constant; the header defines on which threads functions may
// be called.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Descriptor>() == 152 && size_of::<RangeHint>() == 12);
    assert!(offset_of!(Descriptor, properties) == 16 && offset_of!(Descriptor, port_count) == 48);
    assert!(offset_of!(Descriptor, instantiate) == 88 && offset_of!(Descriptor, cleanup) == 144);
};

impl RangeHint {
    pub fn bounds(&self, rate: u32) -> (Option<Data>, Option<Data>) {
        let factor = if self.hints & SAMPLE_RATE != 0 { rate as Data } else { 1.0 };
        let bound = |bit, value: Data| (self.hints & bit != 0).then_some(value * factor);
        (bound(BOUNDED_BELOW, self.lower), bound(BOUNDED_ABOVE, self.upper))
    }

    pub fn default(&self, rate: u32) -> Option<Data> {
        let (lower, upper) = self.bounds(rate);
        let between = |share: Data| Some(self.between(lower?, upper?, share));
        let value = match self.hints & DEFAULT_MASK {
            DEFAULT_MINIMUM => lower,
            DEFAULT_LOW => between(0.25),
            DEFAULT_MIDDLE => between(0.5),
            DEFAULT_HIGH => between(0.75),
            DEFAULT_MAXIMUM => upper,
            DEFAULT_0 => Some(0.0),
            DEFAULT_1 => Some(1.0),
            DEFAULT_100 => Some(100.0),
            DEFAULT_440 => Some(440.0),
            _ => None,
        }?;
        Some(if self.hints & INTEGER != 0 { value.round() } else { value })
    }

    /// The default, or the value closest to 0 within the bounds.
    pub fn first_value(&self, rate: u32) -> Data {
        let (lower, upper) = self.bounds(rate);
        self.default(rate).unwrap_or_else(|| {
            let value = lower.map_or(0.0, |lower| lower.max(0.0));
            upper.map_or(value, |upper| upper.min(value))
        })
    }

    fn between(&self, lower: Data, upper: Data, share: Data) -> Data {
        if self.hints & LOGARITHMIC != 0 && lower > 0.0 && upper > 0.0 {
            return (lower.ln() * (1.0 - share) + upper.ln() * share).exp();
        }
        lower * (1.0 - share) + upper * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: c_int = BOUNDED_BELOW | BOUNDED_ABOVE;

    fn hint(hints: c_int, lower: Data, upper: Data) -> RangeHint {
        RangeHint { hints, lower, upper }
    }

    #[test]
    fn defaults_are_those_of_the_header() {
        for (hints, value) in [
            (DEFAULT_MINIMUM, Some(2.0)),
            (DEFAULT_LOW, Some(6.0)),
            (DEFAULT_MIDDLE, Some(10.0)),
            (DEFAULT_HIGH, Some(14.0)),
            (DEFAULT_MAXIMUM, Some(18.0)),
            (DEFAULT_0, Some(0.0)),
            (DEFAULT_1, Some(1.0)),
            (DEFAULT_100, Some(100.0)),
            (DEFAULT_440, Some(440.0)),
            (0, None),
            (0x300, None),
        ] {
            assert_eq!(hint(BOTH | hints, 2.0, 18.0).default(48_000), value, "{hints:#x}");
        }
    }

    #[test]
    fn a_default_between_bounds_is_logarithmic_where_the_port_is() {
        let of = |hints| hint(BOTH | LOGARITHMIC | hints, 1.0, 10_000.0).default(48_000).unwrap();
        for (hints, value) in [(DEFAULT_LOW, 10.0), (DEFAULT_MIDDLE, 100.0), (DEFAULT_HIGH, 1000.0)]
        {
            assert!((of(hints) / value - 1.0).abs() < 1e-5, "{} for {value}", of(hints));
        }
        let from_zero = hint(BOTH | LOGARITHMIC | DEFAULT_MIDDLE, 0.0, 8.0).default(48_000);
        assert_eq!(from_zero, Some(4.0), "no logarithm of 0");
    }

    #[test]
    fn bounds_and_defaults_that_go_by_the_rate_are_multiplied_by_it() {
        let half = hint(BOTH | SAMPLE_RATE | DEFAULT_MAXIMUM, 0.0, 0.5);
        assert_eq!(half.bounds(96_000), (Some(0.0), Some(48_000.0)));
        assert_eq!(half.default(44_100), Some(22_050.0));
        assert_eq!(hint(BOTH | SAMPLE_RATE | DEFAULT_440, 0.0, 0.5).default(48_000), Some(440.0));
    }

    #[test]
    fn whole_numbers_are_rounded_and_missing_bounds_make_no_default() {
        assert_eq!(hint(BOTH | INTEGER | DEFAULT_MAXIMUM, -0.1, 3.1).default(48_000), Some(3.0));
        assert_eq!(hint(BOUNDED_BELOW | DEFAULT_MAXIMUM, 1.0, 9.0).default(48_000), None);
        assert_eq!(hint(BOUNDED_BELOW | DEFAULT_MIDDLE, 1.0, 9.0).default(48_000), None);
    }

    #[test]
    fn the_first_value_is_the_default_or_lies_within_the_bounds() {
        assert_eq!(hint(BOTH | DEFAULT_HIGH, 0.0, 8.0).first_value(48_000), 6.0);
        assert_eq!(hint(BOTH, 2.0, 8.0).first_value(48_000), 2.0);
        assert_eq!(hint(BOTH, -8.0, -2.0).first_value(48_000), -2.0);
        assert_eq!(hint(BOTH, -8.0, 8.0).first_value(48_000), 0.0);
        assert_eq!(hint(0, 2.0, 8.0).first_value(48_000), 0.0);
    }
}
