//! The PCM via ALSA's functions, and the sound at the far end.

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

/// On two cores streams would delay each other.
pub(crate) use tautline_trial::{alone, timed};

/// Outside the range of the `taut` tests and experiments.
pub(crate) fn free_udp_ports() -> u16 {
    tautline_trial::free_udp_ports(30_000..32_048)
}

pub(crate) fn sound(frames: usize, seed: i16) -> Vec<i16> {
    (0..frames).map(|at| (at as i16).wrapping_mul(7919).wrapping_add(seed) | 1).collect()
}

pub(crate) fn received_as(sound: &[i16]) -> Vec<f32> {
    sound.iter().map(|sample| f32::from(*sample) / 32_768.0).collect()
}
