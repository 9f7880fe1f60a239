//! PCMs with another process's card, like that of `taut serve`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use alsa_sys::{
    SND_PCM_STREAM_CAPTURE, SND_PCM_STREAM_PLAYBACK, snd_pcm_drain, snd_pcm_prepare, snd_pcm_start,
    snd_pcm_stream_t,
};
use tautline_io::clock::{now, sleep_until};
use tautline_io::local::places;
use tautline_io::programs::listening::ProgramsSocket;
use tautline_io::programs::mixing::AttachedPrograms;
use tautline_io::thread::realtime;
use tautline_proto::card_clock::{CardClock, CardRing};
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Ppm, Rate};

use crate::handle::{Handle, Requested};
use crate::{received_as, sound, timed};

const PERIOD: usize = 240;

fn reported(frame: i64) -> i16 {
    (frame % 30_000) as i16 + 1
}

struct ServedCard {
    name: String,
    stream: snd_pcm_stream_t,
    received: Arc<Mutex<Vec<f32>>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl ServedCard {
    fn new(stream: snd_pcm_stream_t) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let direction = match stream {
            SND_PCM_STREAM_PLAYBACK => Direction::Playback,
            _ => Direction::Capture,
        };
        let (rate, channels) = (Rate::HZ_48000, Channels::MONO);
        let settings = Settings { rate, channels, period: Frames::from_len(PERIOD), periods: 2 };
        let folder = places().into_iter().next().unwrap();
        let opened = ProgramsSocket::open(&folder, &name.parse().unwrap(), direction, settings);
        let (listening, programs) = opened.unwrap();
        let (received, stop) = (Arc::<Mutex<Vec<f32>>>::default(), Stop::default());
        let (handles, stopped) = (Arc::clone(&received), stop.clone());
        let run = move || {
            run(settings, direction, programs, &handles, &stopped);
            drop(listening);
        };
        let thread = Some(std::thread::spawn(run));
        Self { name, stream, received, stop, thread }
    }

    fn open(&self) -> Handle {
        Handle::open(&format!("serve \"{}\"", self.name), self.stream).unwrap()
    }

    fn set(&self, requested: Requested) -> Handle {
        let handle = self.open();
        handle.set(requested).unwrap();
        handle
    }

    fn end(&mut self) {
        self.stop.request();
        self.thread.take().map(JoinHandle::join).transpose().unwrap();
    }

    fn received(&self) -> Vec<f32> {
        let received = self.received.lock().unwrap();
        received.iter().copied().skip_while(|sample| *sample == 0.0).collect()
    }
}

impl Drop for ServedCard {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
        let folder = places().into_iter().next().unwrap();
        for way in ["play", "record"] {
            let _ = std::fs::remove_file(folder.join(format!("programs-{}.{way}.lock", self.name)));
        }
    }
}

/// The real-time sanitizer watches each period.
fn run(
    settings: Settings,
    direction: Direction,
    mut programs: AttachedPrograms,
    received: &Mutex<Vec<f32>>,
    stop: &Stop,
) {
    let start = CardClock::start_at_tick(now());
    let clock = CardClock::new(start, settings.rate, Ppm::ZERO);
    let own = match direction {
        Direction::Playback => Direction::Capture,
        Direction::Capture => Direction::Playback,
    };
    let (mut ring, mut block) = (CardRing::new(own, clock, &settings), [0.0; PERIOD]);
    programs.begin(start);
    while !stop.is_requested() {
        sleep_until(ring.wakes());
        let turn = ring.begin(now());
        match direction {
            Direction::Playback => {
                {
                    let _realtime = realtime::scope();
                    programs.mix(&turn, &mut block);
                }
                received.lock().unwrap().extend(block);
            }
            Direction::Capture => {
                for (frame, sample) in (turn.frame..).zip(&mut block) {
                    *sample = f32::from(reported(frame)) / 32_768.0;
                }
                let _realtime = realtime::scope();
                programs.give(&turn, &block);
            }
        }
        ring.finish(now());
    }
}

#[test]
fn served_card_gets_all_frames_before_drain_returns() {
    let card = ServedCard::new(SND_PCM_STREAM_PLAYBACK);
    let pcm = card.set(Requested::default());
    let sound = sound(24_000, 3);
    pcm.play(&sound[..9600]);
    pcm.request(snd_pcm_start).unwrap();
    pcm.play(&sound[9600..]);
    pcm.request(snd_pcm_drain).unwrap();
    // The card reports its position before it takes the lock.
    let until = now() + Span::from_secs(5);
    while card.received().len() < sound.len() {
        assert!(now() < until, "the last is not heard");
        sleep_until(now() + Span::from_millis(1));
    }
    let mut received = card.received();
    let after = received.split_off(sound.len());
    assert_eq!(received, received_as(&sound));
    assert!(after.iter().all(|sample| *sample == 0.0));
}

#[test]
fn two_programs_are_mixed_and_end_independently() {
    let card = ServedCard::new(SND_PCM_STREAM_PLAYBACK);
    let (one, other) = (card.set(Requested::default()), card.set(Requested::default()));
    one.play(&[1024; 4800]);
    other.play(&[512; 9600]);
    [&one, &other].iter().for_each(|pcm| assert!(pcm.request(snd_pcm_start).is_ok()));
    drop(one);
    other.request(snd_pcm_drain).unwrap();
    let until = now() + Span::from_secs(5);
    let of_other =
        |received: &[f32]| received.iter().filter(|sample| **sample * 64.0 % 2.0 == 1.0).count();
    while of_other(&card.received()) < 9600 {
        assert!(now() < until, "{} frames of the other were heard", of_other(&card.received()));
        sleep_until(now() + Span::from_millis(1));
    }
    assert_eq!(of_other(&card.received()), 9600);
}

#[test]
fn a_program_records_each_frame_of_the_cards_once_and_in_order() {
    let card = ServedCard::new(SND_PCM_STREAM_CAPTURE);
    let pcm = card.set(Requested::default());
    pcm.request(snd_pcm_start).unwrap();
    let mut recorded: Vec<i16> = Vec::new();
    let mut bytes = [0; 2 * 480];
    for _ in 0..40 {
        assert_eq!(pcm.read(&mut bytes, 480), Ok(480));
        recorded.extend(bytes.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]])));
    }
    let first = i64::from(recorded[0]) - 1;
    let expected: Vec<i16> = (first..).map(reported).take(recorded.len()).collect();
    assert_eq!(recorded, expected);
    assert!(pcm.delay().unwrap() < 9600);
}

#[test]
fn pause_is_silent_and_lossless_and_a_new_stint_starts() {
    let card = ServedCard::new(SND_PCM_STREAM_PLAYBACK);
    let pcm = card.set(Requested::default());
    let sound = sound(9600, 5);
    pcm.play(&sound);
    assert_eq!(pcm.delay(), Ok(9600), "to the card's converter, and no further");
    pcm.request(snd_pcm_start).unwrap();
    pcm.pause(true).unwrap();
    let before = card.received().len();
    sleep_until(now() + Span::from_millis(20));
    pcm.pause(false).unwrap();
    pcm.request(snd_pcm_drain).unwrap();
    pcm.request(snd_pcm_prepare).unwrap();
    pcm.play(&sound);
    pcm.request(snd_pcm_drain).unwrap();
    let until = now() + Span::from_secs(5);
    let loud = || card.received().into_iter().filter(|sample| *sample != 0.0).collect::<Vec<_>>();
    while loud().len() < 2 * sound.len() {
        assert!(now() < until, "{} frames were heard, {before} before the pause", loud().len());
        sleep_until(now() + Span::from_millis(1));
    }
    assert_eq!(loud(), received_as(&[&*sound, &*sound].concat()));
}

#[test]
fn program_learns_that_its_card_is_gone() {
    for stream in [SND_PCM_STREAM_PLAYBACK, SND_PCM_STREAM_CAPTURE] {
        let mut card = ServedCard::new(stream);
        let pcm = card.set(Requested::default());
        if stream == SND_PCM_STREAM_PLAYBACK {
            pcm.play(&sound(9600, 1));
        }
        pcm.request(snd_pcm_start).unwrap();
        card.end();
        let _ = pcm.wait();
        let answer = match stream {
            SND_PCM_STREAM_PLAYBACK => pcm.write(&[0_i16; 9600], 9600),
            _ => pcm.read(&mut [0; 2 * 9600], 9600),
        };
        assert_eq!(answer, Err(libc::ENODEV));
        assert_eq!(pcm.request(snd_pcm_prepare), Err(libc::ENODEV));
    }
}

#[test]
fn a_program_may_have_the_cards_rate_and_channels_and_no_others() {
    let card = ServedCard::new(SND_PCM_STREAM_PLAYBACK);
    for requested in [
        Requested { rate: 44_100, ..Requested::default() },
        Requested { channels: 2, ..Requested::default() },
    ] {
        assert_eq!(card.open().set(requested), Err(libc::EINVAL));
    }
    let nobody = Handle::open("serve \"nobody\"", SND_PCM_STREAM_PLAYBACK).map(drop);
    assert_eq!(nobody, Err(libc::ENODEV));
    // The socket is for players only.
    let other = Handle::open(&format!("serve \"{}\"", card.name), SND_PCM_STREAM_CAPTURE).map(drop);
    assert_eq!(other, Err(libc::ENODEV));
}

mod exclusive {
    use super::*;

    #[test]
    fn a_pcm_that_is_served_opens_at_once() {
        timed(|| {
            let card = ServedCard::new(SND_PCM_STREAM_PLAYBACK);
            let took = (0..5).map(|_| {
                let begun = now();
                drop(card.open());
                now() - begun
            });
            let took = took.min().unwrap();
            println!("it took {took}");
            assert!(took < Span::from_millis(20), "{took}");
        });
    }
}
