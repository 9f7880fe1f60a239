//! Reports, as scripts read them.

use serde_json::Value;

use super::program::Ended;

impl Ended {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Requires success. A goodbye may be lost.
    #[track_caller]
    pub(crate) fn report(self) -> Report {
        let ended = if self.status == Some(4) { self } else { self.well() };
        Report(ended.json())
    }
}

const CAUSES: [&str; 8] = [
    "late_sender",
    "late_network",
    "late_unattributed",
    "late_too_short",
    "late_receiver",
    "host_stalled",
    "lost",
    "discarded",
];

#[derive(Debug)]
pub(crate) struct Report(pub(crate) Value);

impl Report {
    /// The value at `/a/b/0` of the first stream.
    #[track_caller]
    pub(crate) fn stream(&self, pointer: &str) -> &Value {
        self.of_stream(0, pointer)
    }

    #[track_caller]
    pub(crate) fn of_stream(&self, index: usize, pointer: &str) -> &Value {
        let found = self.0["streams"][index].pointer(pointer);
        found.unwrap_or_else(|| panic!("no {pointer} in {:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn nanos(&self, pointer: &str) -> i64 {
        let value = self.stream(pointer);
        value.as_i64().unwrap_or_else(|| panic!("{pointer} is {value} in {:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn count(&self, counter: &str) -> u64 {
        let value = self.stream(&format!("/counters/{counter}"));
        value.as_u64().unwrap_or_else(|| panic!("{counter} is {value}"))
    }

    #[track_caller]
    pub(crate) fn cause(&self, name: &str) -> u64 {
        let count = self.stream(&format!("/gaps/{name}"));
        count.as_u64().unwrap_or_else(|| panic!("{name} is {count}"))
    }

    #[track_caller]
    pub(crate) fn adds_up(&self) {
        let causes: u64 = CAUSES.iter().map(|name| self.cause(name)).sum();
        let missed: u64 =
            ["late", "lost", "underrun_discarded"].map(|name| self.count(name)).iter().sum();
        assert_eq!(causes, missed, "{:#}", self.0);
        let unplayed =
            ["undecodable", "too_early"].map(|name| self.count(name)).iter().sum::<u64>();
        let misses = self.stream("/misses").as_array().unwrap().iter();
        let misses: u64 = misses.map(|second| second["count"].as_u64().unwrap()).sum();
        assert_eq!(misses, missed + unplayed + self.cause("not_sent"), "{:#}", self.0);
    }

    /// Packets missed by any cause, stalls of the host included, and xruns.
    #[track_caller]
    pub(crate) fn missed(&self) -> u64 {
        self.adds_up();
        let missed: u64 = CAUSES.iter().map(|name| self.cause(name)).sum();
        missed + self.count("xruns")
    }

    pub(crate) fn refused(&self, reason: &str) -> u64 {
        let refused = self.stream("/invalid").as_array().unwrap();
        let found = refused.iter().find(|invalid| invalid["reason"] == reason);
        found.and_then(|invalid| invalid["count"].as_u64()).unwrap_or(0)
    }

    pub(crate) fn notes(&self) -> Vec<&str> {
        self.0["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
    }

    /// A resync is allowed: on a busy machine, the sender's clock may become known after the first
    /// packet.
    #[track_caller]
    pub(crate) fn missed_nothing(&self) {
        for counter in ["lost", "late", "missing_frames", "xruns", "resampled_frames"] {
            assert_eq!(self.count(counter), 0, "{counter} in {:#}", self.0);
        }
    }
}
