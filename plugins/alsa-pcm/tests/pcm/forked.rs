use core::ffi::c_int;

use alsa_sys::*;
use tautline_proto::time::Span;

use crate::far::Far;
use crate::handle::{Handle, Requested};
use crate::{alone, free_udp_ports, received_as, sound, timed};

/// Number of the first failure, from 1, or 0.
fn in_a_fork<const N: usize>(pcm: &Handle, looks: [fn(*mut snd_pcm_t) -> bool; N]) -> c_int {
    // SAFETY: the child calls only the PCM's functions, and exits.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let wrong = looks.iter().position(|look| !look(pcm.0)).map_or(0, |at| at + 1);
            libc::_exit(wrong as c_int);
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert!(libc::WIFEXITED(status), "{status:#x}");
    libc::WEXITSTATUS(status)
}

const GONE: c_int = -libc::ENODEV;

fn writes(pcm: *mut snd_pcm_t) -> bool {
    let frames = [1_i16; 8];
    // SAFETY: the PCM is open, and the frames are valid.
    unsafe { snd_pcm_writei(pcm, frames.as_ptr().cast(), 8) == GONE as snd_pcm_sframes_t }
}

fn state(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_state(pcm) == SND_PCM_STATE_DISCONNECTED }
}

fn status(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open, with a place for its status.
    unsafe {
        let mut status = core::ptr::null_mut();
        snd_pcm_status_malloc(&raw mut status);
        snd_pcm_status(pcm, status) == 0
            && snd_pcm_status_get_state(status) == SND_PCM_STATE_DISCONNECTED
    }
}

/// Without an xrun, the program does not call `prepare`.
fn avail(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_avail(pcm) >= 0 || snd_pcm_avail(pcm) == GONE as snd_pcm_sframes_t }
}

fn delay(pcm: *mut snd_pcm_t) -> bool {
    let mut frames = 0;
    // SAFETY: the PCM is open, with a place for the answer.
    unsafe { snd_pcm_delay(pcm, &raw mut frames) == GONE }
}

fn waits(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_wait(pcm, 1000) == GONE }
}

fn drains(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_drain(pcm) == GONE }
}

fn drops(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_drop(pcm) == GONE }
}

fn prepares(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_prepare(pcm) == GONE }
}

fn rewinds(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open.
    unsafe { snd_pcm_rewind(pcm, 8) == GONE as snd_pcm_sframes_t }
}

fn closes(pcm: *mut snd_pcm_t) -> bool {
    // SAFETY: the PCM is open, also in this process.
    unsafe { snd_pcm_close(pcm) <= 0 }
}

mod exclusive {
    use super::*;

    #[test]
    fn fork_disconnects_the_pcm_in_the_child_only() {
        timed(|| {
            let far = Far::listen(Span::from_millis(300));
            let pcm = Handle::to_play(far.port, "latency \"300ms\"");
            pcm.set(Requested { buffer: 24_000, ..Requested::default() }).unwrap();
            let sent = sound(24_000, 4);
            pcm.play(&sent[..12_000]);
            // ALSA's answers depend on earlier calls.
            let all = [
                state, status, avail, delay, waits, drains, writes, drops, prepares, rewinds,
                status, avail, drains, waits, state, closes,
            ];
            for (number, first) in all[..10].iter().enumerate() {
                assert_eq!(in_a_fork(&pcm, [*first, state]), 0, "{number}");
            }
            pcm.request(snd_pcm_start).unwrap();
            assert_eq!(in_a_fork(&pcm, all), 0, "the first that is not so");
            pcm.play(&sent[12_000..]);
            pcm.request(snd_pcm_drain).unwrap();
            drop(pcm);
            let (received, report) = far.end();
            let received: Vec<f32> = received.iter().map(|(_, sample)| *sample).collect();
            assert_eq!(received, received_as(&sent));
            assert_eq!(report.streams[0].counters.lost, 0);
        });
    }

    #[test]
    fn a_forked_process_that_lives_on_keeps_no_port() {
        let _turn = alone();
        let (port, keys) = (free_udp_ports(), "rate 48000 channels 1");
        let pcm = Handle::to_record(port, keys);
        pcm.set(Requested::default()).unwrap();
        pcm.request(snd_pcm_start).unwrap();
        let (mut says, mut waits) = ([0; 2], [0; 2]);
        // SAFETY: the arrays have room for descriptors. The child reads and writes them and exits.
        let child = unsafe {
            assert_eq!((libc::pipe(says.as_mut_ptr()), libc::pipe(waits.as_mut_ptr())), (0, 0));
            let child = libc::fork();
            if child == 0 {
                libc::close(waits[1]);
                libc::write(says[1], c"f".as_ptr().cast(), 1);
                let mut byte = 0_u8;
                libc::read(waits[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
            let mut byte = 0_u8;
            assert_eq!(libc::read(says[0], (&raw mut byte).cast(), 1), 1);
            child
        };
        let mut block = [1; 2 * 480];
        assert_eq!(pcm.read(&mut block, 480), Ok(480));
        drop(pcm);
        let again =
            Handle::open(&format!("from \"127.0.0.1:{port}\" {keys}"), SND_PCM_STREAM_CAPTURE);
        let set = again.as_ref().map(|pcm| pcm.set(Requested::default()));
        // SAFETY: this test owns the descriptors and the child. It closes and awaits each once.
        let status = unsafe {
            for fd in says.into_iter().chain(waits) {
                libc::close(fd);
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        assert_eq!(status, 0, "the child lived until then");
        assert_eq!(set, Ok(Ok(())));
    }
}
