//! What is said between an experiment and an agent: a line of JSON each.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::confined::ChildLimits;
use super::usage::ChildUsage;
use crate::report::HostDescription;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Its version; those of another are not spoken to.
    pub(super) taut: String,
    pub(super) host: HostDescription,
    /// Alike where the monotonic clock is the same; absent where nobody knows.
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
    pub(super) ask: AgentAsk,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AgentAsk {
    Start(Start),
    Wait {
        child: u32,
        most_ms: u64,
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
        most: usize,
    },
    Noise {
        file: String,
        seconds: u32,
        rate: u32,
    },
    Listen {
        pairs: u16,
    },
    /// Set how long equals share a processor under SCHED_RR, until the agent ends.
    Slice {
        slice_ms: u32,
    },
    Knock {
        addresses: Vec<IpAddr>,
        port: u16,
    },
    Heard,
    Clock,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Start {
    /// What follows `taut`; `{dir}` is the folder of the experiment.
    pub(super) words: Vec<String>,
    /// Processors it may use; all if there are none.
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
        /// Where datagrams of a [`AgentAsk::Knock`] are heard.
        knock_at: u16,
        /// The first of as many pairs as were asked for, all of which were free.
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
    /// As the program says it; absent where a signal ended it.
    pub status: Option<i32>,
    /// What it wrote on standard output, which is read for itself.
    #[serde(skip)]
    pub printed: String,
    pub complaint: Option<String>,
}
