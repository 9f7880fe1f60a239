//! Prevents unloading of the shared object: an abandoned thread may still run in it after the last
//! PCM is closed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
