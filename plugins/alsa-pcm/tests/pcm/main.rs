//! The PCM as an application uses it, by ALSA's functions, and what the far end hears of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod begins;
mod far;
mod forked;
mod handle;
mod life;
mod near;
mod notes;
mod object;
mod offers;
mod opens;
mod rewind;
mod served;
mod time;

/// Streams run one at a time: on two cores they would wait for each other.
pub(crate) use tautline_trial::{alone, timed};

/// An even UDP port that is free together with the one above, of none that the tests of `taut` and its experiments choose
/// from.
pub(crate) fn free_udp_ports() -> u16 {
    tautline_trial::free_udp_ports(30_000..32_048)
}

/// Frames that are never silent, each unlike its neighbours.
pub(crate) fn sound(frames: usize, seed: i16) -> Vec<i16> {
    (0..frames).map(|at| (at as i16).wrapping_mul(7919).wrapping_add(seed) | 1).collect()
}

/// What of `sound` the far end hears.
pub(crate) fn heard_as(sound: &[i16]) -> Vec<f32> {
    sound.iter().map(|sample| f32::from(*sample) / 32_768.0).collect()
}
