use std::ffi::CString;

use alsa_sys::{SND_PCM_STREAM_CAPTURE, SND_PCM_STREAM_PLAYBACK};
use tautline_io::clock::{now, sleep_until};
use tautline_proto::time::Span;

use crate::handle::Handle;
use crate::{alone, free_udp_ports, timed};

/// The limit is a second, for a host that freezes.
const MAX: Span = Span::from_millis(800);

fn opened(keys: &str, stream: alsa_sys::snd_pcm_stream_t) -> (Span, Option<i32>) {
    let begun = now();
    let answer = Handle::open(keys, stream).err();
    (now() - begun, answer)
}

fn asking() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b"taut-resolve")).count()
}

mod exclusive {
    use super::*;

    #[test]
    fn recorder_without_a_sender_opens_within_1_s() {
        timed(|| {
            let keys = format!("from \"127.0.0.1:{}\"", free_udp_ports());
            let (took, answer) = opened(&keys, SND_PCM_STREAM_CAPTURE);
            println!("it took {took}");
            assert_eq!(answer, None);
            assert!(took <= MAX, "{took}");
        });
    }

    #[test]
    fn recorder_without_a_sender_opens_in_200_ms() {
        timed(|| {
            let keys = format!("from \"127.0.0.1:{}\" rate 48000 channels 2", free_udp_ports());
            let (took, answer) = opened(&keys, SND_PCM_STREAM_CAPTURE);
            assert_eq!(answer, None);
            assert!(took <= Span::from_millis(200), "{took}");
        });
    }

    #[test]
    fn description_in_a_pipe_is_rejected_without_waiting() {
        let _turn = alone();
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("x.sdp");
        let name = CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name is NUL-terminated.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for (key, stream) in [("to", SND_PCM_STREAM_PLAYBACK), ("from", SND_PCM_STREAM_CAPTURE)] {
            let (_, answer) = opened(&format!("{key} \"{}\"", pipe.display()), stream);
            assert_eq!(answer, Some(libc::ENXIO), "{key}");
        }
        let end = now() + Span::from_secs(10);
        while asking() > 0 {
            assert!(now() < end, "a thread waits for a writer of the pipe");
            sleep_until(now() + Span::from_millis(1));
        }
    }
}
