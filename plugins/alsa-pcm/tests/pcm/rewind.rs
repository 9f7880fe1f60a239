//! Rewinding and rewriting.

use alsa_sys::*;
use tautline_proto::time::Span;

use crate::far::Far;
use crate::handle::{Handle, Requested, answer};
use crate::{free_udp_ports, received_as, sound, timed};

const ROOMY: u64 = 24_000;

fn rewind(pcm: &Handle, frames: i64) -> Result<i64, i32> {
    // SAFETY: the PCM is open.
    answer(unsafe { snd_pcm_rewind(pcm.0, frames as snd_pcm_uframes_t) })
}

fn forward(pcm: &Handle, frames: i64) -> Result<i64, i32> {
    // SAFETY: the PCM is open.
    answer(unsafe { snd_pcm_forward(pcm.0, frames as snd_pcm_uframes_t) })
}

fn received(sent: &[i16], then: impl FnOnce(&Handle)) -> Vec<f32> {
    let far = Far::listen(Span::from_millis(300));
    let pcm = Handle::to_play(far.port, "latency \"300ms\"");
    pcm.set(Requested { buffer: ROOMY, ..Requested::default() }).unwrap();
    pcm.play(sent);
    pcm.request(snd_pcm_start).unwrap();
    then(&pcm);
    pcm.request(snd_pcm_drain).unwrap();
    drop(pcm);
    far.end().0.iter().map(|(_, sample)| *sample).collect()
}

fn last_word(anew: usize) {
    let (sent, anew) = (sound(ROOMY as usize, 1), sound(anew, 2));
    let received = received(&sent, |pcm| {
        assert_eq!(rewind(pcm, 9600), Ok(9600));
        pcm.play(&anew);
    });
    assert!(
        received == [received_as(&sent[..14_400]), received_as(&anew)].concat(),
        "{}",
        received.len()
    );
}

mod exclusive {
    use super::*;

    #[test]
    fn rewound_and_rewritten_frames_are_played_as_rewritten() {
        timed(|| last_word(9600));
    }

    #[test]
    fn rewound_frames_are_not_played() {
        timed(|| last_word(2400));
    }

    #[test]
    fn rewound_and_unchanged_frames_are_played() {
        timed(|| {
            let sent = sound(ROOMY as usize, 1);
            let received = received(&sent, |pcm| {
                assert_eq!(rewind(pcm, 9600), Ok(9600));
                pcm.avail().unwrap();
                assert_eq!(forward(pcm, 4800), Ok(4800));
            });
            assert!(received == received_as(&sent[..19_200]), "{}", received.len());
        });
    }

    #[test]
    fn a_recorder_that_goes_back_reads_the_same_again() {
        timed(|| {
            let port = free_udp_ports();
            let recorder = Handle::to_record(port, "latency \"300ms\" rate 48000 channels 1");
            let player = Handle::to_play(port, "latency \"300ms\"");
            for pcm in [&recorder, &player] {
                pcm.set(Requested { buffer: ROOMY, ..Requested::default() }).unwrap();
            }
            recorder.request(snd_pcm_start).unwrap();
            player.play(&sound(ROOMY as usize, 3));
            player.request(snd_pcm_start).unwrap();
            let (mut first, mut again) = ([0; 2 * 960], [0; 2 * 960]);
            let mut left = 100;
            while first[0] == 0 {
                assert!(left > 0, "nothing was heard");
                left -= 1;
                assert_eq!(recorder.read(&mut first, 960), Ok(960));
            }
            assert_eq!(rewind(&recorder, 720), Ok(720));
            assert_eq!(recorder.read(&mut again, 960), Ok(960));
            assert_eq!(again[..2 * 720], first[2 * 240..]);
            let sample = |at: usize| i16::from_le_bytes([again[2 * at], again[2 * at + 1]]);
            assert_ne!(sample(720), 0);
        });
    }
}
