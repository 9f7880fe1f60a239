//! `delay` and `drain` speak of the far end's DAC, and the far end's own record says whether they
//! speak the truth.

use alsa_sys::{snd_pcm_drain, snd_pcm_start};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::Rate;

use crate::far::Far;
use crate::handle::{Asked, Handle};
use crate::{alone, heard_as, sound};

/// Frames between impulses, and how many there are.
const GAP: usize = 4800;
const IMPULSES: usize = 12;

/// Silence for three seconds, in which the far end reports what latency it really keeps.
const REPORTED: usize = 30;

/// When the next frame is heard, by the PCM's word: asked until nothing came between the clock and
/// the question.
fn promised(pcm: &Handle) -> LocalTime {
    loop {
        let before = now();
        let delay = pcm.delay().unwrap();
        if now() - before < Span::from_micros(50) {
            return before + Rate::HZ_48000.span_of(tautline_proto::time::Frames::new(delay));
        }
    }
}

#[test]
fn delay_is_true_to_the_far_dac_within_half_a_millisecond() {
    let _turn = alone();
    // Promised is less than the far end keeps: only its word makes it true.
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, "latency \"200ms\"");
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
    let errors: Vec<_> =
        heard.iter().zip(&promises).map(|((meets, _), promise)| *meets - *promise).collect();
    println!("heard less promised: {errors:?}");
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
