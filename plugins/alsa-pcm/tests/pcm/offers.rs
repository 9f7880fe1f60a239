//! What an application is told that the PCM can do.

use core::ffi::{c_int, c_uint, c_ulong};
use core::ptr::null_mut;

use alsa_sys::*;

use crate::alone;
use crate::handle::{Asked, Handle};

/// The least and the most of something, in this configuration.
type Range = (u64, u64);

struct Offered {
    channels: Range,
    rate: Range,
    period: Range,
    buffer: Range,
}

/// What is offered to who plays in this format.
fn offered(keys: &str, format: snd_pcm_format_t) -> Offered {
    let pcm = Handle::open(&format!("to \"127.0.0.1:9\" {keys}"), SND_PCM_STREAM_PLAYBACK).unwrap();
    // SAFETY: ALSA's own way to ask, with places for the answers.
    unsafe {
        let mut hardware = null_mut();
        snd_pcm_hw_params_malloc(&raw mut hardware);
        snd_pcm_hw_params_any(pcm.0, hardware);
        assert_eq!(snd_pcm_hw_params_set_format(pcm.0, hardware, format), 0);
        let count =
            |ask: unsafe extern "C" fn(*const snd_pcm_hw_params_t, *mut c_uint) -> c_int| {
                let mut value = 0;
                ask(hardware, &raw mut value);
                u64::from(value)
            };
        let frames =
            |ask: unsafe extern "C" fn(*const snd_pcm_hw_params_t, *mut c_ulong) -> c_int| {
                let mut value = 0;
                ask(hardware, &raw mut value);
                value
            };
        let channels =
            (count(snd_pcm_hw_params_get_channels_min), count(snd_pcm_hw_params_get_channels_max));
        let rated = |ask: unsafe extern "C" fn(
            *const snd_pcm_hw_params_t,
            *mut c_uint,
            *mut c_int,
        ) -> c_int| {
            let mut value = 0;
            ask(hardware, &raw mut value, null_mut());
            u64::from(value)
        };
        let rate = (rated(snd_pcm_hw_params_get_rate_min), rated(snd_pcm_hw_params_get_rate_max));
        let near = |ask: unsafe extern "C" fn(
            *const snd_pcm_hw_params_t,
            *mut c_ulong,
            *mut c_int,
        ) -> c_int| {
            let mut value = 0;
            ask(hardware, &raw mut value, null_mut());
            value
        };
        let offered = Offered {
            channels,
            rate,
            period: (
                near(snd_pcm_hw_params_get_period_size_min),
                near(snd_pcm_hw_params_get_period_size_max),
            ),
            buffer: (
                frames(snd_pcm_hw_params_get_buffer_size_min),
                frames(snd_pcm_hw_params_get_buffer_size_max),
            ),
        };
        snd_pcm_hw_params_free(hardware);
        offered
    }
}

#[test]
fn a_pcm_offers_what_it_is_configured_for_and_buffers_of_seconds_at_most() {
    let known = offered("rate 48000 channels 2", SND_PCM_FORMAT_S32_LE);
    assert_eq!((known.channels, known.rate), ((2, 2), (48_000, 48_000)));
    assert_eq!((known.period, known.buffer), ((8, 8192), (16, 96_000)));
    let any = offered("", SND_PCM_FORMAT_S16_LE);
    assert_eq!((any.channels, any.rate), ((1, 64), (44_100, 192_000)));
    assert!(any.buffer.1 <= 13 * 48_000, "{}", any.buffer.1);
}

#[test]
fn the_shortest_and_the_longest_buffer_offered_are_served() {
    let _turn = alone();
    for (period, buffer) in [(16, 32), (8192, 90_112), (1000, 3000)] {
        let pcm = Handle::to_play(9, "rate 48000 channels 1");
        let asked = Asked { period, buffer, format: SND_PCM_FORMAT_S32_LE, ..Asked::default() };
        pcm.set(asked).unwrap();
        assert_eq!(pcm.avail(), Ok(buffer as i64));
        let silence = vec![0_i32; buffer as usize];
        assert_eq!(pcm.write(&silence, buffer as usize), Ok(buffer as i64));
    }
}

#[test]
fn another_rate_or_number_of_channels_than_configured_is_refused() {
    let pcm = Handle::to_play(9, "rate 44100 channels 2");
    assert_eq!(pcm.set(Asked { channels: 2, ..Asked::default() }), Err(libc::EINVAL));
    let pcm = Handle::to_play(9, "rate 48000 channels 2");
    assert_eq!(pcm.set(Asked::default()), Err(libc::EINVAL));
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_the_right_error() {
    let play = |keys: &str| Handle::open(keys, SND_PCM_STREAM_PLAYBACK).err();
    assert_eq!(play(""), Some(libc::EINVAL));
    assert_eq!(play("to \"rtp://nobody.invalid:5004\""), Some(libc::ENXIO));
    assert_eq!(play("to \"rtp://127.0.0.1\""), Some(libc::EINVAL));
    assert_eq!(play("to { a b }"), Some(libc::EINVAL));
    let record = |keys: &str| Handle::open(keys, SND_PCM_STREAM_CAPTURE).err();
    assert_eq!(record("to \"127.0.0.1:9\""), Some(libc::EINVAL));
    assert_eq!(record("from \"203.0.113.1:5004\""), Some(libc::EADDRNOTAVAIL));
}
