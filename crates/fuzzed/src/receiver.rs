#[path = "../../proto/tests/it/receiver_bounds/operations.rs"]
pub(crate) mod operations;

/// Runs operations on a receiver and its playout, at any time and in any order; both keep their bounds.
pub fn receiver(bytes: &[u8]) {
    operations::play(bytes, || 0);
}
