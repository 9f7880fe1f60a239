//! `delay` and `drain` refer to the far end's DAC.

use alsa_sys::{snd_pcm_drain, snd_pcm_prepare, snd_pcm_start};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;
use tautline_trial::{Window, each};

use crate::far::{Far, Frame};
use crate::handle::{Handle, Requested};
use crate::near;
use crate::{alone, free_udp_ports, received_as, sound, timed};

const GAP: usize = 4800;
const IMPULSES: usize = 12;

/// The far end reports its actual latency.
const REPORTED: usize = 30;

fn requested(pcm: &Handle) -> (LocalTime, Span) {
    loop {
        let before = now();
        let delay = pcm.delay().unwrap();
        if now() - before < Span::from_micros(50) {
            return (before, Rate::HZ_48000.span_of(Frames::new(delay)));
        }
    }
}

fn promised(pcm: &Handle) -> LocalTime {
    let (now, delay) = requested(pcm);
    now + delay
}

/// Actual minus reported. At first, the PCM does not know the far end's latency.
fn received_less_promised(latency: &str) -> Vec<Span> {
    let _turn = alone();
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, latency);
    pcm.set(Requested { buffer: 24_000, ..Requested::default() }).unwrap();
    let silence = vec![0_i16; GAP];
    pcm.play(&silence);
    pcm.request(snd_pcm_start).unwrap();
    (0..REPORTED).for_each(|_| pcm.play(&silence));
    let mut promises = Vec::new();
    for _ in 0..IMPULSES {
        promises.push(promised(&pcm));
        pcm.play(&[16_384]);
        pcm.play(&silence);
    }
    pcm.request(snd_pcm_drain).unwrap();
    drop(pcm);
    let (received, report) = far.end();
    assert_eq!(received.len(), IMPULSES, "{report:?}");
    received.iter().zip(&promises).map(|((meets, _), promise)| *meets - *promise).collect()
}

/// Time from the last frame at the far DAC to drain's return.
fn drained_after(far: Far, pcm: Handle) -> Span {
    let sent = sound(2400, 3);
    pcm.play(&sent);
    pcm.request(snd_pcm_drain).unwrap();
    let returned = now();
    drop(pcm);
    let (received, _) = far.end();
    let samples: Vec<f32> = received.iter().map(|(_, sample)| *sample).collect();
    assert_eq!(samples, received_as(&sent));
    returned - received.last().unwrap().0
}

/// The far end keeps a higher latency than announced.
fn drained_less_received() -> Span {
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, "latency \"200ms\"");
    pcm.set(Requested { buffer: 24_000, ..Requested::default() }).unwrap();
    let silence = vec![0_i16; GAP];
    pcm.play(&silence);
    pcm.request(snd_pcm_start).unwrap();
    (0..REPORTED).for_each(|_| pcm.play(&silence));
    drained_after(far, pcm)
}

/// The minimum in the buffer is two periods.
const PERIOD: usize = 480;
const LINK_OFFSET: Span = Span::from_millis(300);
const STEP: i16 = 100;
const UNCERTAINTY: Span = Span::from_micros(50);
const APART: usize = 10;
const KNOWN: usize = 50;

type Way = (Window, Span);

/// Delay from the write call to the far DAC, less the link offset.
fn added(period: usize) -> Vec<Way> {
    let far = Far::listen(LINK_OFFSET);
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    let (frames, buffer) = (period as u64, 2 * period as u64);
    pcm.set(Requested { period: frames, buffer, ..Requested::default() }).unwrap();
    let silence = vec![0; period];
    let (mut written, mut block) = (Vec::new(), 0);
    while written.len() < KNOWN {
        pcm.request(snd_pcm_prepare).unwrap();
        pcm.play(&silence);
        pcm.play(&silence);
        pcm.request(snd_pcm_start).unwrap();
        while written.len() < KNOWN && pcm.wait().is_ok() {
            block += 1;
            let mut frames = silence.clone();
            let before = now();
            if block % APART == 0 {
                written.push(before);
                frames[0] = STEP * written.len() as i16;
            }
            if pcm.write(&frames, period).is_err() {
                break;
            }
        }
    }
    // An xrun drops waiting frames.
    let _ = pcm.request(snd_pcm_drain);
    drop(pcm);
    beyond_the_link_offset(&far.end().0, &written)
}

fn beyond_the_link_offset(received: &[Frame], instants: &[LocalTime]) -> Vec<Way> {
    let which = |sample: f32| (sample * 32_768.0 / f32::from(STEP)).round() as usize - 1;
    let way = |(meets, sample): &Frame| {
        let way = Window { from: instants[which(*sample)], to: *meets };
        (way, way.to - way.from - LINK_OFFSET)
    };
    received.iter().map(way).collect()
}

fn added_by_taut_send() -> Vec<Way> {
    let far = Far::listen(LINK_OFFSET);
    let impulses = (1..=12).map(|at| f32::from(STEP * at) / 32_768.0).collect();
    let met = near::send(far.port, LINK_OFFSET, impulses);
    // It has sent a goodbye.
    sleep_until(*met.last().unwrap() + LINK_OFFSET + Span::from_millis(100));
    beyond_the_link_offset(&far.end().0, &met)
}

mod exclusive {
    use super::*;

    #[test]
    fn delay_before_the_start_is_buffer_plus_latency() {
        timed(|| {
            let far = Far::listen(Span::from_millis(300));
            let pcm = Handle::to_play(far.port, "latency \"300ms\"");
            pcm.set(Requested::default()).unwrap();
            let way = Rate::HZ_48000.frames_nearest(Span::from_millis(300)).count();
            let near = |delay: i64, expected: i64| (delay - expected).abs() <= 24;
            assert!(near(pcm.delay().unwrap(), way), "{:?}", pcm.delay());
            pcm.play(&[1; PERIOD]);
            assert_eq!(pcm.state(), alsa_sys::SND_PCM_STATE_PREPARED);
            assert!(near(pcm.delay().unwrap(), way + PERIOD as i64), "{:?}", pcm.delay());
            pcm.request(snd_pcm_prepare).unwrap();
            assert!(near(pcm.delay().unwrap(), way), "{:?}", pcm.delay());
            let recorder =
                Handle::to_record(free_udp_ports(), "latency \"300ms\" rate 48000 channels 1");
            recorder.set(Requested::default()).unwrap();
            assert!(near(recorder.delay().unwrap(), way), "{:?}", recorder.delay());
        });
    }

    #[test]
    fn recorder_delay_matches_the_far_adc_within_500_us() {
        timed(|| {
            let (port, link_offset) = (free_udp_ports(), Span::from_millis(300));
            let recorder = Handle::to_record(port, "latency \"300ms\" rate 48000 channels 1");
            let player = Handle::to_play(port, "latency \"300ms\"");
            let roomy = Requested { buffer: 24_000, ..Requested::default() };
            recorder.set(roomy).unwrap();
            player.set(roomy).unwrap();
            recorder.request(snd_pcm_start).unwrap();
            let silence = [0; PERIOD];
            (0..25).for_each(|_| player.play(&silence));
            player.request(snd_pcm_start).unwrap();
            let (mut played, mut received) = (Vec::new(), Vec::new());
            for block in 1..=300 {
                let mut bytes = [0; 2 * PERIOD];
                let (now, delay) = requested(&recorder);
                assert_eq!(recorder.read(&mut bytes, PERIOD), Ok(PERIOD as i64));
                if let Some(at) = bytes.chunks(2).position(|sample| sample != [0, 0]) {
                    received.push(now - delay + Rate::HZ_48000.span_of(Frames::from_len(at)));
                }
                if block % 10 == 0 && played.len() < IMPULSES {
                    played.push(promised(&player) - link_offset);
                    let mut impulse = silence;
                    impulse[0] = 16_384;
                    player.play(&impulse);
                } else {
                    player.play(&silence);
                }
            }
            assert_eq!(received.len(), IMPULSES);
            let errors: Vec<_> = received
                .iter()
                .zip(&played)
                .map(|(received, played)| *received - *played)
                .collect();
            println!("recorded less played: {errors:?}");
            assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
        });
    }

    #[test]
    fn drain_returns_when_the_far_end_has_played_and_not_before() {
        timed(|| {
            let after = drained_less_received();
            println!("drain returned {after} after the last frame was heard");
            assert!(after >= Span::ZERO && after <= Span::from_millis(1), "{after}");
        });
    }

    #[test]
    fn drain_starts_a_stopped_stream() {
        timed(|| {
            let far = Far::listen(Span::from_millis(300));
            let pcm = Handle::to_play(far.port, "latency \"300ms\"");
            pcm.set(Requested::default()).unwrap();
            assert!(drained_after(far, pcm) >= Span::ZERO);
        });
    }

    #[test]
    fn pcm_adds_at_most_one_application_period() {
        for period in [PERIOD, 96, 48] {
            timed(|| {
                let of_send = added_by_taut_send();
                println!("taut send adds {of_send:?}");
                each(of_send.iter().copied(), |added| {
                    assert!(added.abs() <= Span::from_micros(500), "{added} beside {of_send:?}");
                });
                let max_of_send = of_send.iter().map(|(_, added)| *added).max().unwrap();
                let added = added(period);
                println!("a PCM with periods of {period} frames adds {added:?}");
                assert!(added.len() > KNOWN * 3 / 4, "{} of {KNOWN} heard", added.len());
                let maximum =
                    max_of_send + Rate::HZ_48000.span_of(Frames::from_len(period)) + UNCERTAINTY;
                each(added, |added| assert!(added <= maximum, "{added}, {maximum} at most"));
            });
        }
    }

    #[test]
    fn delay_matches_the_far_dac_with_adaptive_latency() {
        let errors = received_less_promised("latency auto");
        println!("heard less promised: {errors:?}");
        assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
    }

    #[test]
    fn delay_is_true_to_the_far_dac_within_half_a_millisecond() {
        let errors = received_less_promised("latency \"200ms\"");
        println!("heard less promised: {errors:?}");
        assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
    }
}
