//! Prevents unloading of the shared object. Hosts that scan close it at once, and a clerk may still
//! wait for a worker's answer after the last instance is gone.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
