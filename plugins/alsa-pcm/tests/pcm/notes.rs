use core::ffi::{CStr, c_char, c_int};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use alsa_sys::*;
use tautline_io::clock::now;
use tautline_proto::time::Span;

use crate::handle::{Handle, Requested};
use crate::{alone, free_udp_ports};

static SAID: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn handle(
    _: *const c_char,
    _: c_int,
    _: *const c_char,
    _: c_int,
    format: *const c_char,
    text: *const c_char,
) {
    // SAFETY: the texts are NUL-terminated.
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
    /// `snd_lib_error_set_handler`, for a handler with one text argument. Linux passes variadic
    /// arguments like named ones.
    #[link_name = "snd_lib_error_set_handler"]
    fn set_handler(handler: Option<Handler>) -> c_int;
}

mod exclusive {
    use super::*;

    #[test]
    fn recorder_errors_reach_the_reading_thread() {
        let _turn = alone();
        SAID.lock().unwrap().clear();
        let port = free_udp_ports();
        let recorder = Handle::to_record(port, "rate 48000 channels 1");
        recorder.set(Requested::default()).unwrap();
        recorder.request(snd_pcm_start).unwrap();
        // SAFETY: the handler stays valid.
        unsafe { set_handler(Some(handle)) };
        let sender = Handle::to_play(port, "rate 44100");
        sender.set(Requested { rate: 44_100, ..Requested::default() }).unwrap();
        let until = now() + Span::from_secs(20);
        let ours = |said: &[(ThreadId, String)]| {
            said.iter().find(|(_, text)| text.contains("44100")).map(|(thread, _)| *thread)
        };
        let received = loop {
            assert!(now() < until, "nothing was said");
            let mut block = [0; 2 * 480];
            assert_eq!(recorder.read(&mut block, 480), Ok(480));
            if let Some(thread) = ours(&SAID.lock().unwrap()) {
                break thread;
            }
        };
        // SAFETY: the call restores the library's handler.
        unsafe { set_handler(None) };
        assert_eq!(received, thread::current().id());
    }
}
