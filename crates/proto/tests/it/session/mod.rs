//! Two RTCP ends with drifting clocks, over a path with delay, jitter and loss.

mod clocks;
mod reports;
mod strangers;
mod talk;
