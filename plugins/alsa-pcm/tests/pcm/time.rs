//! `delay` and `drain` speak of the far end's DAC, and the far end's own record says whether they
//! speak the truth.

use alsa_sys::{snd_pcm_drain, snd_pcm_prepare, snd_pcm_start};
use tautline_io::clock::now;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::Rate;

use crate::far::Far;
use crate::handle::{Asked, Handle};
use crate::{alone, free_udp_ports, heard_as, sound};

/// Frames between impulses, and how many there are.
const GAP: usize = 4800;
const IMPULSES: usize = 12;

/// Silence for three seconds, in which the far end reports what latency it really keeps.
const REPORTED: usize = 30;

/// An instant and what the PCM says of its delay then: asked until nothing came between.
fn asked(pcm: &Handle) -> (LocalTime, Span) {
    loop {
        let before = now();
        let delay = pcm.delay().unwrap();
        if now() - before < Span::from_micros(50) {
            return (before, Rate::HZ_48000.span_of(Frames::new(delay)));
        }
    }
}

/// When the next frame is heard, by the PCM's word.
fn promised(pcm: &Handle) -> LocalTime {
    let (now, delay) = asked(pcm);
    now + delay
}

/// When impulses were heard less when the delay promised them. At first it promises less than the far
/// end keeps: only that end's word makes it true.
fn heard_less_promised(latency: &str) -> Vec<Span> {
    let _turn = alone();
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, latency);
    pcm.set(Asked { buffer: 24_000, ..Asked::default() }).unwrap();
    let silence = vec![0_i16; GAP];
    pcm.play(&silence);
    pcm.ask(snd_pcm_start).unwrap();
    (0..REPORTED).for_each(|_| pcm.play(&silence));
    let mut promises = Vec::new();
    for _ in 0..IMPULSES {
        promises.push(promised(&pcm));
        pcm.play(&[16_384]);
        pcm.play(&silence);
    }
    pcm.ask(snd_pcm_drain).unwrap();
    drop(pcm);
    let (heard, report) = far.end();
    assert_eq!(heard.len(), IMPULSES, "{report:?}");
    heard.iter().zip(&promises).map(|((meets, _), promise)| *meets - *promise).collect()
}

#[test]
fn delay_is_true_to_the_far_dac_within_half_a_millisecond() {
    let errors = heard_less_promised("latency \"200ms\"");
    println!("heard less promised: {errors:?}");
    assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
}

#[test]
fn delay_is_true_to_the_far_dac_where_the_latency_follows_the_packets() {
    let errors = heard_less_promised("latency auto");
    println!("heard less promised: {errors:?}");
    assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
}

#[test]
fn before_the_start_delay_is_what_lies_in_the_buffer_and_the_way() {
    let _turn = alone();
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    pcm.set(Asked::default()).unwrap();
    let way = Rate::HZ_48000.frames_nearest(Span::from_millis(300)).count();
    let near = |delay: i64, expected: i64| (delay - expected).abs() <= 24;
    assert!(near(pcm.delay().unwrap(), way), "{:?}", pcm.delay());
    pcm.play(&[1; PERIOD]);
    assert_eq!(pcm.state(), alsa_sys::SND_PCM_STATE_PREPARED);
    assert!(near(pcm.delay().unwrap(), way + PERIOD as i64), "{:?}", pcm.delay());
    // It stands still, and so does its delay.
    pcm.ask(snd_pcm_prepare).unwrap();
    assert!(near(pcm.delay().unwrap(), way), "{:?}", pcm.delay());
    let recorder = Handle::to_record(free_udp_ports(), "latency \"300ms\" rate 48000 channels 1");
    recorder.set(Asked::default()).unwrap();
    assert!(near(recorder.delay().unwrap(), way), "{:?}", recorder.delay());
}

#[test]
fn a_recorders_delay_is_true_to_the_far_adc_within_half_a_millisecond() {
    let _turn = alone();
    let (port, link_offset) = (free_udp_ports(), Span::from_millis(300));
    let recorder = Handle::to_record(port, "latency \"300ms\" rate 48000 channels 1");
    let player = Handle::to_play(port, "latency \"300ms\"");
    let roomy = Asked { buffer: 24_000, ..Asked::default() };
    recorder.set(roomy).unwrap();
    player.set(roomy).unwrap();
    recorder.ask(snd_pcm_start).unwrap();
    let silence = [0; PERIOD];
    (0..25).for_each(|_| player.play(&silence));
    player.ask(snd_pcm_start).unwrap();
    let (mut played, mut heard) = (Vec::new(), Vec::new());
    for block in 1..=300 {
        let mut bytes = [0; 2 * PERIOD];
        let (now, delay) = asked(&recorder);
        assert_eq!(recorder.read(&mut bytes, PERIOD), Ok(PERIOD as i64));
        if let Some(at) = bytes.chunks(2).position(|sample| sample != [0, 0]) {
            heard.push(now - delay + Rate::HZ_48000.span_of(Frames::from_len(at)));
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
    assert_eq!(heard.len(), IMPULSES);
    let errors: Vec<_> =
        heard.iter().zip(&played).map(|(heard, played)| *heard - *played).collect();
    println!("recorded less played: {errors:?}");
    assert!(errors.iter().all(|error| error.abs() <= Span::from_micros(500)), "{errors:?}");
}

#[test]
fn drain_returns_when_the_far_end_has_played_and_not_before() {
    let _turn = alone();
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    pcm.set(Asked::default()).unwrap();
    let sent = sound(2400, 3);
    pcm.play(&sent);
    // Nothing was started: draining does.
    pcm.ask(snd_pcm_drain).unwrap();
    let returned = now();
    drop(pcm);
    let (heard, _) = far.end();
    let samples: Vec<f32> = heard.iter().map(|(_, sample)| *sample).collect();
    assert_eq!(samples, heard_as(&sent));
    let last = heard.last().unwrap().0;
    println!("drain returned {} after the last frame was heard", returned - last);
    assert!(returned >= last, "{} before", last - returned);
}

/// Of an application that keeps as little in the buffer as two periods allow.
const PERIOD: usize = 480;

#[test]
fn a_pcm_adds_a_period_of_the_applications_at_most_to_the_link_offset() {
    let _turn = alone();
    let link_offset = Span::from_millis(300);
    let far = Far::listen(link_offset);
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    let (period, buffer) = (PERIOD as u64, 2 * PERIOD as u64);
    pcm.set(Asked { period, buffer, ..Asked::default() }).unwrap();
    let silence = [0; PERIOD];
    let mut block = silence;
    block[0] = 16_384;
    // Written anew after each xrun: a host that freezes for longer than the buffer makes some.
    let (mut written, mut blocks) = (Vec::new(), 0);
    while blocks < 200 {
        pcm.ask(snd_pcm_prepare).unwrap();
        pcm.play(&silence);
        pcm.play(&silence);
        pcm.ask(snd_pcm_start).unwrap();
        while blocks < 200 && pcm.wait().is_ok() {
            blocks += 1;
            let before = now();
            if blocks % 10 != 0 {
                if pcm.write(&silence, PERIOD).is_err() {
                    break;
                }
            } else if pcm.write(&block, PERIOD).is_ok() {
                written.push(before);
            } else {
                break;
            }
        }
    }
    // An xrun drops what waited; all that was heard was written, in order.
    let _ = pcm.ask(snd_pcm_drain);
    drop(pcm);
    let (heard, _) = far.end();
    let most = Span::from_millis(10) + Span::from_micros(500);
    let mut added = Vec::new();
    for (meets, _) in &heard {
        // What was written last early enough to be this one.
        let at = written.iter().rev().find(|written| **written + link_offset <= *meets);
        added.push(*meets - *at.unwrap() - link_offset);
    }
    println!("added beyond the link offset: {added:?}");
    assert!(!added.is_empty() && added.iter().all(|added| *added <= most), "{added:?}");
}
