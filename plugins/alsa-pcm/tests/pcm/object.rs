//! The shared object: linked libraries, exported symbols, and the layout shared with ALSA.

use std::process::Command;

use crate::handle::shared_object;
use tautline_trial::{Lack, skipped};

fn said(program: &str, options: &[&str]) -> Option<String> {
    match Command::new(program).args(options).arg(shared_object()).output() {
        Ok(done) => Some(String::from_utf8(done.stdout).unwrap()),
        Err(_) => {
            skipped(Lack::Package, &format!("{program} of binutils is not installed"));
            None
        }
    }
}

#[test]
fn it_links_alsa_and_the_c_library_and_stays_where_it_is() {
    let Some(said) = said("readelf", &["-d"]) else { return };
    let needed = said.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<_> = needed.filter_map(|line| line.split(['[', ']']).nth(1)).collect();
    assert!(needed.contains(&"libasound.so.2"), "{needed:?}");
    let family = ["libasound.so", "libc.so", "libm.so", "libgcc_s.so", "ld-linux", "libpthread"];
    let strange = |name: &&&str| !family.iter().any(|known| name.starts_with(known));
    assert_eq!(needed.iter().find(strange), None, "{needed:?}");
    assert!(said.contains("NODELETE"), "{said}");
}

#[test]
fn it_shows_its_entry_and_nothing_else() {
    let Some(said) = said("nm", &["-D", "--defined-only"]) else { return };
    let mut names: Vec<_> = said.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    names.sort_unstable();
    assert_eq!(names, ["__snd_pcm_tautline_open_dlsym_pcm_001", "_snd_pcm_tautline_open"]);
}

/// On 64-bit hosts.
const LAYOUT: &str = r#"
#include <stddef.h>
#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
_Static_assert(SND_PCM_IOPLUG_VERSION >= 0x010002, "protocol");
#define IO(f, at) _Static_assert(offsetof(snd_pcm_ioplug_t, f) == at, #f);
#define CB(f, at) _Static_assert(offsetof(snd_pcm_ioplug_callback_t, f) == at, #f);
_Static_assert(sizeof(snd_pcm_ioplug_t) == 120, "ioplug");
_Static_assert(sizeof(snd_pcm_ioplug_callback_t) == 160, "callbacks");
IO(name, 8) IO(flags, 16) IO(poll_fd, 20) IO(mmap_rw, 28) IO(callback, 32) IO(private_data, 40)
IO(pcm, 48) IO(stream, 56) IO(state, 60) IO(appl_ptr, 64) IO(hw_ptr, 72) IO(nonblock, 80)
IO(access, 84) IO(format, 88) IO(channels, 92) IO(rate, 96) IO(period_size, 104)
IO(buffer_size, 112)
CB(pointer, 16) CB(transfer, 24) CB(close, 32) CB(hw_params, 40) CB(hw_free, 48) CB(sw_params, 56)
CB(prepare, 64) CB(drain, 72) CB(pause, 80) CB(resume, 88) CB(poll_descriptors_count, 96)
CB(poll_descriptors, 104) CB(poll_revents, 112) CB(dump, 120) CB(delay, 128) CB(set_chmap, 152)
_Static_assert(SND_PCM_IOPLUG_FLAG_BOUNDARY_WA == 4 && SND_PCM_IOPLUG_HW_PERIODS == 6, "names");
"#;

#[test]
#[cfg(target_pointer_width = "64")]
fn the_header_lays_out_the_interface_as_we_do() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, LAYOUT).unwrap();
    match Command::new("cc").arg("-fsyntax-only").arg(&source).output() {
        Ok(done) => {
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{why}");
        }
        Err(error) => skipped(Lack::Package, &format!("cc: {error}")),
    }
}
