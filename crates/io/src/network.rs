//! Network cards, queues, and their traffic.

pub mod ethtool;
mod netlink;
pub mod qdisc;
pub mod route;
pub mod tap;
