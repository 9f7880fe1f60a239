//! The types and constants of `ladspa.h` 1.1, in the order and by the meaning of that header.
//!
//! For both sides: those who run plugins and those who are one.

use core::ffi::{c_char, c_int, c_ulong, c_void};

use serde::{Deserialize, Serialize};

/// `LADSPA_Data`: a sample, or the value of a control port.
pub type Data = f32;
/// `LADSPA_Handle`: what a plugin calls one of its instances.
pub type Handle = *mut c_void;

/// The function by which a library tells its plugins, from 0 until it answers null.
pub const ENTRY: &str = "ladspa_descriptor";
/// The type of [`ENTRY`].
pub type DescriptorFunction = unsafe extern "C" fn(index: c_ulong) -> *const Descriptor;
/// Unique ids lie below this.
pub const UNIQUE_IDS: u32 = 0x0100_0000;

/// A plugin that must keep step with the outside world, so that nothing may hold it up
/// (`LADSPA_PROPERTY_REALTIME`).
pub const REALTIME: c_int = 0x1;
/// It fails where an input and an output have the same buffer.
pub const INPLACE_BROKEN: c_int = 0x2;
/// It takes no memory, waits for nothing, and takes about A + B·frames, whatever the sound.
pub const HARD_RT_CAPABLE: c_int = 0x4;

/// Bit of a port: the host writes it.
pub const INPUT: c_int = 0x1;
/// Bit of a port: the plugin writes it.
pub const OUTPUT: c_int = 0x2;
/// Bit of a port: one value for each run.
pub const CONTROL: c_int = 0x4;
/// Bit of a port: one sample for each frame.
pub const AUDIO: c_int = 0x8;

/// The lower bound means something.
pub const BOUNDED_BELOW: c_int = 0x1;
/// The upper bound means something.
pub const BOUNDED_ABOVE: c_int = 0x2;
/// On above 0, off otherwise.
pub const TOGGLED: c_int = 0x4;
/// Bounds, and defaults that come of them, are multiples of the rate.
pub const SAMPLE_RATE: c_int = 0x8;
/// Steps are alike on a logarithmic scale.
pub const LOGARITHMIC: c_int = 0x10;
pub const INTEGER: c_int = 0x20;
/// The bits that say which default a port has.
pub const DEFAULT_MASK: c_int = 0x3C0;
pub const DEFAULT_MINIMUM: c_int = 0x40;
/// A quarter of the way from the lower bound to the upper.
pub const DEFAULT_LOW: c_int = 0x80;
pub const DEFAULT_MIDDLE: c_int = 0xC0;
/// Three quarters of the way.
pub const DEFAULT_HIGH: c_int = 0x100;
pub const DEFAULT_MAXIMUM: c_int = 0x140;
pub const DEFAULT_0: c_int = 0x200;
pub const DEFAULT_1: c_int = 0x240;
pub const DEFAULT_100: c_int = 0x280;
/// 440, the frequency of concert A.
pub const DEFAULT_440: c_int = 0x2C0;

/// The name of the control output by which a plugin says how many frames later than its input its
/// output is. The header knows nothing of it; hosts and plugins have agreed.
pub const LATENCY: &str = "latency";

/// `LADSPA_PortRangeHint`: what values a port is meant to have.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RangeHint {
    pub hints: c_int,
    /// Of use with [`BOUNDED_BELOW`] alone.
    pub lower: Data,
    /// Of use with [`BOUNDED_ABOVE`] alone.
    pub upper: Data,
}

/// `LADSPA_Descriptor`: what a library says of one plugin.
///
/// Functions that the header asks for may be missing all the same: a library is no more right than
/// its author.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    pub unique_id: c_ulong,
    /// What names the plugin within its file; without white space.
    pub label: *const c_char,
    pub properties: c_int,
    pub name: *const c_char,
    pub maker: *const c_char,
    /// `None` where there is none.
    pub copyright: *const c_char,
    /// How many ports there are, of all kinds.
    pub port_count: c_ulong,
    /// One of [`INPUT`], [`OUTPUT`] and one of [`CONTROL`], [`AUDIO`] for each port.
    pub port_descriptors: *const c_int,
    /// A name for each port.
    pub port_names: *const *const c_char,
    /// A hint for each port.
    pub port_range_hints: *const RangeHint,
    pub implementation_data: *mut c_void,
    /// Makes an instance for a rate, or answers null.
    pub instantiate: Option<unsafe extern "C" fn(*const Descriptor, c_ulong) -> Handle>,
    /// Says where the values of a port are.
    pub connect_port: Option<unsafe extern "C" fn(Handle, c_ulong, *mut Data)>,
    /// Forgets what was heard before; may be missing.
    pub activate: Option<unsafe extern "C" fn(Handle)>,
    /// Works on so many frames.
    pub run: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    /// The same, adding to the outputs; may be missing.
    pub run_adding: Option<unsafe extern "C" fn(Handle, c_ulong)>,
    pub set_run_adding_gain: Option<unsafe extern "C" fn(Handle, Data)>,
    /// The end of what `activate` began; may be missing.
    pub deactivate: Option<unsafe extern "C" fn(Handle)>,
    /// The end of an instance.
    pub cleanup: Option<unsafe extern "C" fn(Handle)>,
}

// SAFETY: what the pointers lead to is never written once a library has told of it; the functions
// say themselves what threads they may be called on.
unsafe impl Send for Descriptor {}
// SAFETY: as above.
unsafe impl Sync for Descriptor {}

// What the header's compiler makes of the same on 64-bit hosts.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Descriptor>() == 152 && size_of::<RangeHint>() == 12);
    assert!(offset_of!(Descriptor, properties) == 16 && offset_of!(Descriptor, port_count) == 48);
    assert!(offset_of!(Descriptor, instantiate) == 88 && offset_of!(Descriptor, cleanup) == 144);
};

impl RangeHint {
    /// The bounds at this rate, where there are any.
    pub fn bounds(&self, rate: u32) -> (Option<Data>, Option<Data>) {
        let factor = if self.hints & SAMPLE_RATE != 0 { rate as Data } else { 1.0 };
        let bound = |bit, value: Data| (self.hints & bit != 0).then_some(value * factor);
        (bound(BOUNDED_BELOW, self.lower), bound(BOUNDED_ABOVE, self.upper))
    }

    /// The value that the port is to have until somebody chooses another, if the hints tell one: the
    /// bounds that it is made of may be missing.
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

    /// The default, or where there is none what lies nearest to 0 within the bounds.
    pub fn first_value(&self, rate: u32) -> Data {
        let (lower, upper) = self.bounds(rate);
        self.default(rate).unwrap_or_else(|| {
            let value = lower.map_or(0.0, |lower| lower.max(0.0));
            upper.map_or(value, |upper| upper.min(value))
        })
    }

    /// So much of the way from one bound to the other. Without a logarithm there is no logarithmic
    /// way: it is the straight one then.
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
        // Not what is a figure of its own.
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
