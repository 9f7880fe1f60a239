use core::ffi::{c_int, c_uint, c_ulong};
use core::ptr::null_mut;

use alsa_sys::*;

use crate::handle::{Handle, Requested};
use crate::{alone, free_udp_ports};

type Range = (u64, u64);

struct Offered {
    channels: Range,
    rate: Range,
    period: Range,
    buffer: Range,
}

fn offered(keys: &str, format: snd_pcm_format_t) -> Offered {
    let pcm = Handle::open(&format!("to \"127.0.0.1:9\" {keys}"), SND_PCM_STREAM_PLAYBACK).unwrap();
    // SAFETY: ALSA's own calls, with places for the answers.
    unsafe {
        let mut hardware = null_mut();
        snd_pcm_hw_params_malloc(&raw mut hardware);
        snd_pcm_hw_params_any(pcm.0, hardware);
        assert_eq!(snd_pcm_hw_params_set_format(pcm.0, hardware, format), 0);
        let count =
            |request: unsafe extern "C" fn(*const snd_pcm_hw_params_t, *mut c_uint) -> c_int| {
                let mut value = 0;
                request(hardware, &raw mut value);
                u64::from(value)
            };
        let frames =
            |request: unsafe extern "C" fn(*const snd_pcm_hw_params_t, *mut c_ulong) -> c_int| {
                let mut value = 0;
                request(hardware, &raw mut value);
                value
            };
        let channels =
            (count(snd_pcm_hw_params_get_channels_min), count(snd_pcm_hw_params_get_channels_max));
        let rated = |request: unsafe extern "C" fn(
            *const snd_pcm_hw_params_t,
            *mut c_uint,
            *mut c_int,
        ) -> c_int| {
            let mut value = 0;
            request(hardware, &raw mut value, null_mut());
            u64::from(value)
        };
        let rate = (rated(snd_pcm_hw_params_get_rate_min), rated(snd_pcm_hw_params_get_rate_max));
        let near = |request: unsafe extern "C" fn(
            *const snd_pcm_hw_params_t,
            *mut c_ulong,
            *mut c_int,
        ) -> c_int| {
            let mut value = 0;
            request(hardware, &raw mut value, null_mut());
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
fn pcm_offers_its_configuration_and_limited_buffers() {
    let known = offered("rate 48000 channels 2", SND_PCM_FORMAT_S32_LE);
    assert_eq!((known.channels, known.rate), ((2, 2), (48_000, 48_000)));
    assert_eq!((known.period, known.buffer), ((16, 8192), (32, 96_000)));
    let any = offered("", SND_PCM_FORMAT_S16_LE);
    assert_eq!((any.channels, any.rate), ((1, 64), (8_000, 192_000)));
    assert!(any.buffer.1 <= 13 * 48_000, "{}", any.buffer.1);
}

const FORMATS: [(snd_pcm_format_t, usize); 10] = [
    (SND_PCM_FORMAT_S16_LE, 2),
    (SND_PCM_FORMAT_S16_BE, 2),
    (SND_PCM_FORMAT_S24_3LE, 3),
    (SND_PCM_FORMAT_S24_3BE, 3),
    (SND_PCM_FORMAT_S24_LE, 4),
    (SND_PCM_FORMAT_S24_BE, 4),
    (SND_PCM_FORMAT_S32_LE, 4),
    (SND_PCM_FORMAT_S32_BE, 4),
    (SND_PCM_FORMAT_FLOAT_LE, 4),
    (SND_PCM_FORMAT_FLOAT_BE, 4),
];

#[test]
fn unconfigured_rate_or_channels_are_rejected() {
    let pcm = Handle::to_play(9, "rate 44100 channels 2");
    assert_eq!(pcm.set(Requested { channels: 2, ..Requested::default() }), Err(libc::EINVAL));
    let pcm = Handle::to_play(9, "rate 48000 channels 2");
    assert_eq!(pcm.set(Requested::default()), Err(libc::EINVAL));
}

#[test]
fn impossible_configuration_fails_with_the_right_error() {
    let play = |keys: &str| Handle::open(keys, SND_PCM_STREAM_PLAYBACK).err();
    assert_eq!(play(""), Some(libc::EINVAL));
    assert_eq!(play("to \"rtp://nobody.invalid:5004\""), Some(libc::ENXIO));
    assert_eq!(play("to \"rtp://127.0.0.1\""), Some(libc::EINVAL));
    assert_eq!(play("to { a b }"), Some(libc::EINVAL));
    let record = |keys: &str| Handle::open(keys, SND_PCM_STREAM_CAPTURE).err();
    assert_eq!(record("to \"127.0.0.1:9\""), Some(libc::EINVAL));
    assert_eq!(record("from \"203.0.113.1:5004\""), Some(libc::EADDRNOTAVAIL));
}

mod exclusive {
    use super::*;

    #[test]
    fn the_shortest_and_the_longest_buffer_offered_are_served() {
        let _turn = alone();
        for keys in ["rate 48000 channels 1", "rate 48000", ""] {
            for (format, bytes) in FORMATS {
                let Offered { period, buffer, .. } = offered(keys, format);
                for (period, buffer) in [(period.0, buffer.0), (period.1, buffer.1), (1000, 3000)] {
                    let pcm = Handle::to_play(9, keys);
                    pcm.set(Requested { period, buffer, format, ..Requested::default() }).unwrap();
                    let room = pcm.avail().unwrap();
                    assert!(room >= 32, "{keys} {format} {room}");
                    let silence = vec![0_u8; room as usize * bytes];
                    assert_eq!(pcm.write(&silence, room as usize), Ok(room));
                }
            }
        }
    }

    #[test]
    fn as_many_channels_are_offered_as_a_datagram_holds() {
        let _turn = alone();
        // 65507 bytes: 22 channels of 960 24-bit frames, 5 of 3840.
        for (keys, maximum) in [("ptime \"20ms\" rate 48000", 22), ("ptime \"20ms\"", 5), ("", 64)]
        {
            let any = offered(keys, SND_PCM_FORMAT_S16_LE);
            assert_eq!(any.channels, (1, maximum), "{keys}");
            let pcm = Handle::to_play(9, keys);
            pcm.set(Requested { channels: maximum as c_uint, ..Requested::default() }).unwrap();
        }
        let play = |keys: &str| Handle::open(keys, SND_PCM_STREAM_PLAYBACK).err();
        assert_eq!(
            play("to \"127.0.0.1:9\" ptime \"20ms\" rate 48000 channels 23"),
            Some(libc::EINVAL)
        );
        // They fit at the lower rates.
        let some = offered("ptime \"20ms\" channels 13", SND_PCM_FORMAT_S16_LE);
        assert_eq!(some.rate, (8_000, 48_000));
    }

    #[test]
    fn unreachable_latency_fails_when_the_pcm_opens() {
        let _turn = alone();
        let play = |keys: &str| Handle::open(keys, SND_PCM_STREAM_PLAYBACK).err();
        assert_eq!(play("to \"127.0.0.1:9\" latency \"500us\""), Some(libc::EINVAL));
        let port = free_udp_ports();
        let record = |latency: &str| {
            let keys = format!("from \"127.0.0.1:{port}\" rate 48000 channels 1 latency {latency}");
            Handle::open(&keys, SND_PCM_STREAM_CAPTURE)
        };
        assert_eq!(record("\"1ms\"").err(), Some(libc::EINVAL));
        // Impossible with the default period of 48 frames.
        record("\"1700us\"").unwrap().set(Requested::default()).unwrap();
        let keys = "latency \"1ms\" ptime \"1ms\" period 96";
        Handle::to_play(9, keys).set(Requested::default()).unwrap();
    }

    #[test]
    fn recorder_with_a_different_rate_is_rejected_at_once() {
        let _turn = alone();
        let port = free_udp_ports();
        let sender = Handle::to_play(port, "rate 44100");
        sender.set(Requested { rate: 44_100, ..Requested::default() }).unwrap();
        let record = |keys: &str| {
            let keys = format!("from \"127.0.0.1:{port}\" {keys}");
            Handle::open(&keys, SND_PCM_STREAM_CAPTURE).err()
        };
        assert_eq!(record("rate 48000 channels 1"), Some(libc::EINVAL));
        assert_eq!(record("rate 48000"), Some(libc::EINVAL));
        assert_eq!(record("channels 2"), Some(libc::EINVAL));
        assert_eq!(record("rate 44100 channels 1"), None);
        assert_eq!(record(""), None);
    }
}
