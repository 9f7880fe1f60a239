//! Under test: two ends of a session, joined by a pipe that delays, jitters and loses reports, on
//! clocks that drift. The test knows the true time.

mod clocks;
mod reports;
mod strangers;
mod talk;
