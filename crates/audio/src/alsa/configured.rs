//! PCMs of a user's configuration. None is opened: that might overwrite a file.
#![expect(unsafe_code, reason = "the crate `alsa` does not read configurations")]

use std::env;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::ptr;

use alsa_sys::{
    snd_config_delete, snd_config_get_id, snd_config_iterator_end, snd_config_iterator_entry,
    snd_config_iterator_first, snd_config_iterator_next, snd_config_load, snd_config_search,
    snd_config_t, snd_config_top, snd_input_close, snd_input_stdio_open,
};

fn files() -> Vec<PathBuf> {
    if let Some(paths) = env::var_os("ALSA_CONFIG_PATH") {
        return env::split_paths(&paths).collect();
    }
    let home = env::var_os("HOME").map(PathBuf::from);
    let own = |name: &str| home.as_ref().map(|home| home.join(name));
    let configuration = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or(own(".config"));
    let last = configuration.map(|folder| folder.join("alsa/asoundrc"));
    [Some("/etc/asound.conf".into()), own(".asoundrc"), last].into_iter().flatten().collect()
}

pub(super) fn names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for file in files().into_iter().filter(|file| file.is_file()) {
        let Ok(path) = CString::new(file.into_os_string().into_encoded_bytes()) else { continue };
        let fresh: Vec<_> = read(&path).into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(fresh);
    }
    names
}

fn read(path: &CStr) -> Vec<String> {
    let (mut top, mut input, mut pcms) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let mut names = Vec::new();
    // SAFETY: pointers are used only after their creating call succeeded; each object is deleted
    // once, after its ids are copied.
    unsafe {
        if snd_config_top(&mut top) < 0 {
            return names;
        }
        if snd_input_stdio_open(&mut input, path.as_ptr(), c"r".as_ptr()) >= 0 {
            let loaded = snd_config_load(top, input) >= 0;
            snd_input_close(input);
            if loaded && snd_config_search(top, c"pcm".as_ptr(), &mut pcms) >= 0 {
                let mut at = snd_config_iterator_first(pcms);
                while at != snd_config_iterator_end(pcms) {
                    names.extend(named(snd_config_iterator_entry(at)));
                    at = snd_config_iterator_next(at);
                }
            }
        }
        snd_config_delete(top);
    }
    names
}

/// Name of a definition without arguments.
///
/// # Safety
/// `definition` is a node of a live configuration.
unsafe fn named(definition: *mut snd_config_t) -> Option<String> {
    let (mut id, mut arguments) = (ptr::null(), ptr::null_mut());
    // SAFETY: the configuration is alive, and so is its NUL-terminated id.
    unsafe {
        let plain = snd_config_search(definition, c"@args".as_ptr(), &mut arguments) < 0;
        let named = snd_config_get_id(definition, &mut id) >= 0 && !id.is_null();
        (plain && named).then(|| CStr::from_ptr(id).to_string_lossy().into_owned())
    }
}
