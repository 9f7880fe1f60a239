//! Tests of two ends of an RTCP session over a path with delay, jitter and loss. Their clocks
//! drift. The test knows the true time.

mod clocks;
mod reports;
mod strangers;
mod talk;
