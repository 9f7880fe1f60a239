//! Third-party plugins in their own processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod all;
mod common;
mod confined;
mod master;
mod scanned;
mod taken_over;
mod worked;
