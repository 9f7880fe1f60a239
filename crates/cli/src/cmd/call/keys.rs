//! What is pressed on the terminal while a call sounds.

use std::cmp::Ordering;

use super::asks::CallAsk;
use crate::cmd::call_end::Pressed;

/// What the keys do, for those who see them.
pub(super) const KEYS: &str =
    "m: mute or unmute   SPACE: talk while muted   + -: latency   < >: packets   q: hang up";

/// What a key asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum PressedKey {
    /// The space bar: talk while muted.
    Talk,
    /// `m`: mute, or unmute.
    Mute,
    /// `+`, `-`: more latency, or less; `>`, `<`: longer packets, or shorter.
    Change(CallAsk),
}

impl PressedKey {
    pub(super) const fn of(byte: u8) -> Option<Pressed<Self>> {
        Some(Pressed::Key(match byte {
            b' ' => Self::Talk,
            b'm' | b'M' => Self::Mute,
            b'q' | b'Q' => return Some(Pressed::End),
            b'+' | b'=' => Self::Change(CallAsk::LatencyBy(1)),
            b'-' => Self::Change(CallAsk::LatencyBy(-1)),
            b'>' | b'.' => Self::Change(CallAsk::PtimeBy(Ordering::Greater)),
            b'<' | b',' => Self::Change(CallAsk::PtimeBy(Ordering::Less)),
            _ => return None,
        }))
    }
}
