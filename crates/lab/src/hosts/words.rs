//! Messages between experiment and agent: a JSON line each.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::confined::ChildLimits;
use super::usage::ChildUsage;
use crate::report::HostDescription;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Other versions are rejected.
    pub(super) taut: String,
    pub(super) host: HostDescription,
    /// ID of the monotonic clock; absent if unknown.
    pub(super) clock: Option<String>,
}

impl Default for Hello {
    fn default() -> Self {
        let host = HostDescription {
            name: String::new(),
            kernel: String::new(),
            processor: String::new(),
            cpus: 0,
            stalls: None,
        };
        Self { taut: String::new(), host, clock: None }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AgentRequest {
    pub(super) id: u64,
    pub(super) request: AgentAsk,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentAsk {
    Start(Start),
    Wait {
        child: u32,
        max_ms: u64,
    },
    Usage {
        child: u32,
    },
    Interrupt {
        child: u32,
    },
    Read {
        file: String,
        from: u64,
        maximum: usize,
    },
    Noise {
        file: String,
        seconds: u32,
        rate: u32,
    },
    Listen {
        pairs: u16,
    },
    /// Sets the SCHED_RR time slice until the agent ends.
    Slice {
        slice_ms: u32,
    },
    Knock {
        addresses: Vec<IpAddr>,
        port: u16,
    },
    Received,
    Clock,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Start {
    /// Arguments of `taut`; `{dir}` is the experiment's folder.
    pub(super) words: Vec<String>,
    pub(super) cpus: Vec<usize>,
    pub(super) limits: Option<ChildLimits>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) answer: AgentAnswer,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentAnswer {
    Done,
    Started {
        child: u32,
    },
    Child(ChildState),
    Usage(ChildUsage),
    Text {
        text: String,
    },
    Listening {
        addresses: Vec<IpAddr>,
        /// For [`AgentAsk::Knock`].
        knock_at: u16,
        ports: u16,
    },
    Reached {
        address: Option<IpAddr>,
    },
    Clock {
        received_ns: i64,
        answered_ns: i64,
    },
    Failed {
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildState {
    Running,
    Ended(ChildEnded),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildEnded {
    pub status: Option<i32>,
    #[serde(skip)]
    pub printed: String,
    pub complaint: Option<String>,
}
