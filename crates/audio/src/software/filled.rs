//! How much of a period a source filled.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    Whole,
    /// The disk was too slow: missing samples are silent now and follow later.
    Starved,
    /// The last samples; the rest of the period is silence.
    Last,
    Over,
}
