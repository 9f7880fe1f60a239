//! Prevents unloading of the shared object. Hosts that scan plugins close it at once, and a client
//! thread may still wait for a worker's reply after the last instance is gone.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
