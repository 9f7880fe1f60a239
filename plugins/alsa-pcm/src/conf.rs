use core::ffi::{CStr, c_char};
use std::ffi::CString;

use alsa_sys::{
    SND_CONFIG_TYPE_INTEGER, SND_CONFIG_TYPE_INTEGER64, SND_CONFIG_TYPE_REAL,
    SND_CONFIG_TYPE_STRING, snd_config_get_id, snd_config_get_integer, snd_config_get_integer64,
    snd_config_get_real, snd_config_get_string, snd_config_get_type, snd_config_iterator_end,
    snd_config_iterator_entry, snd_config_iterator_first, snd_config_iterator_next, snd_config_t,
};

use crate::ffi;
use crate::keys::Value;
use tautline_proto::text::on_one_line;

/// Keys of one compound, in order.
///
/// # Safety
/// `conf` is a valid compound from ALSA.
pub(crate) unsafe fn pairs(conf: *const snd_config_t) -> Vec<(String, Value)> {
    let mut pairs = Vec::new();
    // SAFETY: ALSA's own iteration over a valid compound.
    unsafe {
        let end = snd_config_iterator_end(conf);
        let mut at = snd_config_iterator_first(conf);
        while at != end {
            let entry = snd_config_iterator_entry(at);
            let mut id: *const c_char = core::ptr::null();
            if snd_config_get_id(entry, &raw mut id) >= 0 && !id.is_null() {
                pairs.push((text(id), value(entry)));
            }
            at = snd_config_iterator_next(at);
        }
    }
    pairs
}

/// # Safety
/// `entry` is a valid node of an ALSA configuration.
unsafe fn value(entry: *const snd_config_t) -> Value {
    // SAFETY: each getter matches the node's type and writes to a place of that type.
    unsafe {
        match snd_config_get_type(entry) {
            SND_CONFIG_TYPE_STRING => {
                let mut held: *const c_char = core::ptr::null();
                snd_config_get_string(entry, &raw mut held);
                Value::Text(if held.is_null() { String::new() } else { text(held) })
            }
            SND_CONFIG_TYPE_INTEGER => {
                let mut held = 0;
                snd_config_get_integer(entry, &raw mut held);
                #[expect(clippy::useless_conversion, reason = "32 bits on some hosts")]
                Value::Number(i64::from(held))
            }
            SND_CONFIG_TYPE_INTEGER64 => {
                let mut held = 0;
                snd_config_get_integer64(entry, &raw mut held);
                Value::Number(held)
            }
            SND_CONFIG_TYPE_REAL => {
                let mut held = 0.0;
                snd_config_get_real(entry, &raw mut held);
                Value::Real(held)
            }
            _ => Value::Other,
        }
    }
}

/// # Safety
/// `text` is valid and NUL-terminated.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller guarantees the terminator, and the text is copied.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Reports via the application's error handler or on standard error. Only on the application's
/// threads.
pub(crate) fn complain(sentence: &str) {
    if sentence.is_empty() {
        return;
    }
    // The handler expects one line.
    let sentence = on_one_line(sentence).replace('\0', "?");
    let Ok(sentence) = CString::new(sentence) else { return };
    if let Some(emit) = ffi::emit() {
        // SAFETY: the arguments match the format and are NUL-terminated.
        unsafe {
            emit(c"tautline".as_ptr(), 0, c"pcm".as_ptr(), 0, c"%s".as_ptr(), sentence.as_ptr());
        }
    }
}
