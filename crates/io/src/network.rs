//! What the network cards and their queues are set to, and what goes by them.

pub mod ethtool;
mod netlink;
pub mod qdisc;
pub mod route;
pub mod tap;
