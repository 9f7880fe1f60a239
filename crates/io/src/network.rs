//! What the network cards and their queues are set to, and what goes by them.

pub mod ethtool;
pub mod qdisc;
pub mod tap;
