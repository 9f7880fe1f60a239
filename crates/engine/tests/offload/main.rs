//! Offloaded plugins over real sockets, compared with local ones.
#![expect(clippy::unwrap_used, reason = "a test that cannot open its socket has failed")]
#![expect(
    clippy::single_range_in_vec_init,
    reason = "blocks that are named, in one run or several"
)]

mod crew;
mod filter;
mod oracle;
mod plain;
mod road;
#[cfg(not(tautline_rtsan))]
mod shown;
mod stage;
mod waits;
mod workers;
