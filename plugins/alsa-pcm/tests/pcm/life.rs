use alsa_sys::*;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::Span;

use crate::far::Far;
use crate::handle::{Handle, Requested};
use crate::{alone, free_udp_ports, received_as, sound, timed};

const LATENCY: Span = Span::from_millis(300);

fn scene() -> (Far, Handle) {
    let far = Far::listen(LATENCY);
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    (far, pcm)
}

const TIMEOUT: Span = Span::from_secs(20);

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = now() + TIMEOUT;
    while !is_so() {
        assert!(now() < end, "waited {TIMEOUT} until {what}");
        sleep_until(now() + Span::from_millis(1));
    }
}

fn samples(received: &[crate::far::Frame]) -> Vec<f32> {
    received.iter().map(|(_, sample)| *sample).collect()
}

/// Non-silent samples that 24 bits carry unchanged.
fn coded(format: snd_pcm_format_t, samples: usize) -> Vec<u8> {
    let step = |at: usize| (at as i32).wrapping_mul(0x00c5_2b49) >> 8 | 1;
    let coded = (1..=samples).flat_map(|at| match format {
        SND_PCM_FORMAT_S16_LE => (step(at) as i16).to_le_bytes().to_vec(),
        SND_PCM_FORMAT_S24_3LE => step(at).to_le_bytes()[..3].to_vec(),
        SND_PCM_FORMAT_S24_LE => step(at).to_le_bytes().to_vec(),
        SND_PCM_FORMAT_S32_LE => (step(at) << 8).to_le_bytes().to_vec(),
        _ => (step(at) as f32 / 8_388_608.0).to_le_bytes().to_vec(),
    });
    coded.collect()
}

struct Both(*mut snd_pcm_t);

// SAFETY: ALSA locks each call, and the opener waits for both threads.
unsafe impl Send for Both {}

impl Both {
    fn drain(&self) -> Result<i64, i32> {
        // SAFETY: the PCM is open.
        crate::handle::answer(unsafe { snd_pcm_drain(self.0) }.into())
    }
}

#[test]
fn delay_is_zero_after_the_last_frame() {
    let (_far, pcm) = scene();
    pcm.set(Requested { stubborn: true, ..Requested::default() }).unwrap();
    pcm.play(&sound(1000, 1));
    pcm.request(snd_pcm_start).unwrap();
    until("the last frame was heard", || pcm.avail().unwrap() > 9600 + 2 * 14400);
    assert_eq!(pcm.delay(), Ok(0));
}

mod exclusive {
    use super::*;

    #[test]
    fn a_pause_is_silence_and_loses_no_frame() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            let sent = sound(9600, 5);
            pcm.play(&sent);
            pcm.request(snd_pcm_start).unwrap();
            until("2400 frames are played", || {
                pcm.wait().unwrap();
                pcm.avail().unwrap() >= 2400
            });
            pcm.pause(true).unwrap();
            assert_eq!(pcm.state(), SND_PCM_STATE_PAUSED);
            let (before, delay) = (pcm.avail().unwrap(), pcm.delay().unwrap());
            assert!(delay >= 9600 - before, "{delay} {before}");
            sleep_until(now() + Span::from_millis(100));
            // The device's thread may have been in its last period.
            assert!(pcm.avail().unwrap() - before <= 48, "it stands still");
            pcm.pause(false).unwrap();
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let (received, report) = far.end();
            assert_eq!(samples(&received), received_as(&sent));
            let apart = received
                .windows(2)
                .filter(|two| two[1].0 - two[0].0 > Span::from_millis(90))
                .count();
            assert_eq!(
                (apart, report.streams[0].counters.lost),
                (1, 0),
                "one silence, no lost packet"
            );
        });
    }

    #[test]
    fn resume_offer_does_not_change_the_sound() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            assert!(pcm.can_resume());
            let sent = sound(9600, 6);
            pcm.play(&sent[..7200]);
            assert_eq!(pcm.request(snd_pcm_resume), Ok(0));
            assert_eq!(pcm.state(), SND_PCM_STATE_PREPARED);
            pcm.request(snd_pcm_start).unwrap();
            assert_eq!(pcm.request(snd_pcm_resume), Ok(0));
            assert_eq!(pcm.state(), SND_PCM_STATE_RUNNING);
            pcm.play(&sent[7200..]);
            pcm.pause(true).unwrap();
            assert_eq!(pcm.request(snd_pcm_resume), Ok(0));
            assert_eq!(pcm.state(), SND_PCM_STATE_PAUSED);
            pcm.pause(false).unwrap();
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let (received, report) = far.end();
            assert_eq!(samples(&received), received_as(&sent));
            assert_eq!(report.streams[0].counters.lost, 0);
        });
    }

    #[test]
    fn slow_application_gets_an_xrun_and_the_stream_continues() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            let (first, second) = (sound(1000, 1), sound(2000, 2));
            pcm.play(&first);
            pcm.request(snd_pcm_start).unwrap();
            until("it has an xrun", || pcm.avail() == Err(libc::EPIPE));
            assert_eq!(pcm.state(), SND_PCM_STATE_XRUN);
            assert_eq!(pcm.write(&first, first.len()), Err(libc::EPIPE));
            assert_eq!(pcm.delay(), Err(libc::EPIPE));
            pcm.request(snd_pcm_prepare).unwrap();
            pcm.play(&second);
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let (received, report) = far.end();
            assert_eq!(samples(&received), [received_as(&first), received_as(&second)].concat());
            let counters = &report.streams[0].counters;
            assert_eq!((counters.lost, counters.missing_frames), (0, 0), "the stream was whole");
        });
    }

    #[test]
    fn application_continues_with_packets_in_time() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested { stubborn: true, ..Requested::default() }).unwrap();
            let sent = sound(480, 1);
            pcm.play(&sent);
            pcm.request(snd_pcm_start).unwrap();
            until("it is behind", || pcm.avail().unwrap() >= 9600 + 480);
            assert_eq!(pcm.state(), SND_PCM_STATE_RUNNING);
            // The application skips the late frames and 100 ms more.
            let behind = pcm.avail().unwrap() - 9600 + 4800;
            // SAFETY: the PCM is open.
            assert_eq!(unsafe { snd_pcm_forward(pcm.0, behind as snd_pcm_uframes_t) }, behind);
            let later = sound(960, 9);
            pcm.play(&later);
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let received = samples(&far.end().0);
            assert_eq!(received, [received_as(&sent), received_as(&later)].concat());
        });
    }

    #[test]
    fn pcm_closed_mid_stream_sends_a_goodbye() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            pcm.play(&sound(9600, 1));
            pcm.request(snd_pcm_start).unwrap();
            until("something is heard", || !far.received().is_empty());
            drop(pcm);
            let (received, report) = far.end();
            assert!(!received.is_empty() && received.len() < 9600, "{}", received.len());
            assert_eq!(report.streams[0].counters.lost, 0);
        });
    }

    #[test]
    fn dropped_frames_are_not_played_later() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            pcm.play(&sound(9600, 1));
            pcm.request(snd_pcm_drop).unwrap();
            pcm.request(snd_pcm_prepare).unwrap();
            let sent = sound(4800, 2);
            pcm.play(&sent);
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            assert_eq!(samples(&far.end().0), received_as(&sent));
        });
    }

    #[test]
    fn unread_recorder_has_an_xrun_and_restarts() {
        let _turn = alone();
        let pcm = Handle::to_record(free_udp_ports(), "rate 48000 channels 1");
        pcm.set(Requested::default()).unwrap();
        pcm.request(snd_pcm_start).unwrap();
        until("it has an xrun", || pcm.avail() == Err(libc::EPIPE));
        let mut block = [1; 2 * 4800];
        assert_eq!(pcm.read(&mut block, 4800), Err(libc::EPIPE));
        for _ in 0..2 {
            pcm.request(snd_pcm_prepare).unwrap();
            pcm.request(snd_pcm_start).unwrap();
            assert_eq!(pcm.read(&mut block, 4800), Ok(4800));
            assert_eq!(block, [0; 2 * 4800], "no sender");
            pcm.request(snd_pcm_drop).unwrap();
        }
    }

    #[test]
    fn two_pcms_in_one_process_carry_every_format_unchanged() {
        timed(|| {
            for (format, bytes) in [
                (SND_PCM_FORMAT_S16_LE, 2),
                (SND_PCM_FORMAT_S24_3LE, 3),
                (SND_PCM_FORMAT_S24_LE, 4),
                (SND_PCM_FORMAT_S32_LE, 4),
                (SND_PCM_FORMAT_FLOAT_LE, 4),
            ] {
                let port = free_udp_ports();
                let recorder = Handle::to_record(port, "latency \"300ms\" rate 48000 channels 2");
                let player = Handle::to_play(port, "latency \"300ms\"");
                let requested = Requested { format, channels: 2, ..Requested::default() };
                recorder.set(requested).unwrap();
                player.set(requested).unwrap();
                recorder.request(snd_pcm_start).unwrap();
                let sent = coded(format, 2 * 4800);
                assert_eq!(player.write(&sent, 4800), Ok(4800));
                player.request(snd_pcm_start).unwrap();
                let mut received = Vec::new();
                let mut block = vec![0; 480 * 2 * bytes];
                let mut left = 48_000 + 4800;
                while received.len() < sent.len() {
                    assert!(left > 0, "{format}: {} of {} bytes heard", received.len(), sent.len());
                    left -= 480;
                    assert_eq!(recorder.read(&mut block, 480), Ok(480));
                    let silent = block.iter().take_while(|byte| **byte == 0).count() / (2 * bytes);
                    let from = if received.is_empty() { silent * 2 * bytes } else { 0 };
                    received.extend_from_slice(&block[from..]);
                }
                assert!(received[..sent.len()] == sent[..], "{format}");
            }
        });
    }

    #[test]
    fn drain_plays_frames_written_after_a_drop_only() {
        timed(|| {
            let (far, pcm) = scene();
            pcm.set(Requested::default()).unwrap();
            pcm.play(&sound(9600, 1));
            let shared = Both(pcm.0);
            let sent = sound(4800, 2);
            std::thread::scope(|scope| {
                let drained = scope.spawn(move || shared.drain());
                until("it drains", || pcm.state() == SND_PCM_STATE_DRAINING);
                pcm.request(snd_pcm_drop).unwrap();
                pcm.request(snd_pcm_prepare).unwrap();
                pcm.play(&sent);
                // Played, or the frames to drain are gone.
                assert!(matches!(drained.join().unwrap(), Ok(0) | Err(libc::EBADFD)));
            });
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let received = samples(&far.end().0);
            // Some of the dropped frames had already left.
            assert!(
                received.len() < 9600 + 4800 && received.ends_with(&received_as(&sent)),
                "{}",
                received.len()
            );
        });
    }
}
