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

/// The keys of one compound, in order.
///
/// # Safety
/// `conf` is a compound that ALSA made and keeps while this runs.
pub(crate) unsafe fn pairs(conf: *const snd_config_t) -> Vec<(String, Value)> {
    let mut pairs = Vec::new();
    // SAFETY: ALSA's own way through a compound that lives.
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
/// `entry` is a node of a configuration that ALSA keeps.
unsafe fn value(entry: *const snd_config_t) -> Value {
    // SAFETY: each is asked for what its type says it holds, and writes to a place of that type.
    unsafe {
        match snd_config_get_type(entry) {
            SND_CONFIG_TYPE_STRING => {
                let mut held: *const c_char = core::ptr::null();
                snd_config_get_string(entry, &raw mut held);
                // A text that is not there is an empty one.
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
/// `text` ends with a zero byte and lives.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller vouches for the zero byte, and the text is copied before this returns.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Reports a sentence by the application's error handler, or on standard error, and only on the application's own
/// threads.
pub(crate) fn complain(sentence: &str) {
    if sentence.is_empty() {
        return;
    }
    let Ok(sentence) = CString::new(sentence.replace('\0', "?")) else { return };
    if let Some(say) = ffi::say() {
        // SAFETY: format and arguments fit, and end.
        unsafe {
            say(c"tautline".as_ptr(), 0, c"pcm".as_ptr(), 0, c"%s".as_ptr(), sentence.as_ptr());
        }
    }
}
