//! How much of a period a source had samples for.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Whole,
    /// The disk was too slow: what is missing is silence, and comes later.
    Starved,
    /// The last of it; the rest of the period is silence.
    Last,
    Over,
}
