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

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Streams run one at a time: on two cores they would wait for each other.
pub(crate) use tautline_trial::{alone, timed};

/// An even UDP port that is free together with the one above, below those that Linux gives to
/// sockets that ask for any, and above those that the tests of `taut` and its experiments choose from.
pub(crate) fn free_udp_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = std::process::id() as u16 & 0x07fe;
    let free = |port| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    let mut ports =
        (0..2048).map(|_| 30_000 + ((start + NEXT.fetch_add(2, Ordering::Relaxed)) & 0x07ff));
    ports.find(|port| free(*port) && free(*port + 1)).unwrap()
}

/// Frames that are never silent, each unlike its neighbours.
pub(crate) fn sound(frames: usize, seed: i16) -> Vec<i16> {
    (0..frames).map(|at| (at as i16).wrapping_mul(7919).wrapping_add(seed) | 1).collect()
}

/// What of `sound` the far end hears.
pub(crate) fn heard_as(sound: &[i16]) -> Vec<f32> {
    sound.iter().map(|sample| f32::from(*sample) / 32_768.0).collect()
}
