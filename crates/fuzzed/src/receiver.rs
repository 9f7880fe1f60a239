#[path = "../../proto/tests/it/receiver_bounds/operations.rs"]
pub(crate) mod operations;

/// A receiver and its playout keep their bounds, in any order.
pub fn receiver(bytes: &[u8]) {
    operations::play(bytes, || 0);
}
