//! Prevents unloading: hosts that scan plugins close it immediately, while a client thread may
//! still run.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
