//! What the network cards and their queues are set to.

pub mod ethtool;
pub mod qdisc;
