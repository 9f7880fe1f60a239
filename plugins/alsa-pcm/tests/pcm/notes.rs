//! What a PCM has to say is said to the application, on a thread of its own.

use core::ffi::{CStr, c_char, c_int};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use alsa_sys::*;
use tautline_io::clock::now;
use tautline_proto::time::Span;

use crate::handle::{Asked, Handle};
use crate::{alone, free_udp_ports};

/// What was said, and on which thread.
static SAID: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// The application's handler, of messages that are a text alone.
unsafe extern "C" fn hear(
    _: *const c_char,
    _: c_int,
    _: *const c_char,
    _: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: texts that end; the second is there where the first asks for it.
    unsafe {
        if CStr::from_ptr(format) == c"%s" {
            let text = CStr::from_ptr(text).to_string_lossy().into_owned();
            SAID.lock().unwrap().push((thread::current().id(), text));
        }
    }
}

type Handler =
    unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char, *const c_char);

unsafe extern "C" {
    /// `snd_lib_error_set_handler` of `alsa/error.h`, of a handler that reads one text: Linux hands
    /// the arguments that a format asks for over as it does named ones.
    #[link_name = "snd_lib_error_set_handler"]
    fn set_handler(handler: Option<Handler>) -> c_int;
}

/// Tests that run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn what_a_recorder_cannot_hear_is_told_on_the_thread_that_reads() {
        let _turn = alone();
        SAID.lock().unwrap().clear();
        let port = free_udp_ports();
        let recorder = Handle::to_record(port, "rate 48000 channels 1");
        recorder.set(Asked::default()).unwrap();
        recorder.ask(snd_pcm_start).unwrap();
        // SAFETY: a handler that stays.
        unsafe { set_handler(Some(hear)) };
        let sender = Handle::to_play(port, "rate 44100");
        sender.set(Asked { rate: 44_100, ..Asked::default() }).unwrap();
        let until = now() + Span::from_secs(20);
        let ours = |said: &[(ThreadId, String)]| {
            said.iter().find(|(_, text)| text.contains("44100")).map(|(thread, _)| *thread)
        };
        let heard = loop {
            assert!(now() < until, "nothing was said");
            let mut block = [0; 2 * 480];
            assert_eq!(recorder.read(&mut block, 480), Ok(480));
            if let Some(thread) = ours(&SAID.lock().unwrap()) {
                break thread;
            }
        };
        // SAFETY: the library's own again.
        unsafe { set_handler(None) };
        assert_eq!(heard, thread::current().id());
    }
}
