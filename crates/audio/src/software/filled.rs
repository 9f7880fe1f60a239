//! How much of a period was filled.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Whole,
    /// The disk was slow: silence now, samples later.
    Starved,
    Last,
    Over,
}
