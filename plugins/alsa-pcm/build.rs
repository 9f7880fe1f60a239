//! The shared object stays in the process once it is there: a thread that was given up may still run
//! in it after the last PCM is closed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
