//! Settings of network cards and their queues, and the traffic that passes through them.

pub mod ethtool;
mod netlink;
pub mod qdisc;
pub mod route;
pub mod tap;
