//! Sequences of operations on a receiver and its playout, at any time and in any order.
#![no_main]

#[path = "../../crates/proto/tests/it/receiver_bounds/operations.rs"]
mod operations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    operations::play(bytes, || 0);
});
