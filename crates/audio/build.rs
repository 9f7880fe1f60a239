//! Keeps PipeWire's library from being linked; `pipewire::library` loads it. Not every linker omits
//! a library whose functions are all defined elsewhere, but every linker accepts an empty archive
//! with its name.

use std::{env, fs, path::PathBuf};

const EMPTY_ARCHIVE: &str = "!<arch>\n";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_PIPEWIRE").is_none() {
        return;
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let archive = folder.join("libpipewire-0.3.a");
    fs::write(&archive, EMPTY_ARCHIVE).expect("the folder of build scripts can be written");
    println!("cargo:rustc-link-search=native={}", folder.display());
}
