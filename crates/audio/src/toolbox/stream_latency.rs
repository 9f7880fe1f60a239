//! What a stream takes from converter to converter, told to its device.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tautline_proto::time::Span;

/// The link offset of what a device captures for or plays, for devices that tell others of it: in a
/// graph of JACK or PipeWire, programs align what they record by it. Wait-free; clones share it.
#[derive(Debug, Clone, Default)]
pub struct StreamLatency(Arc<AtomicI64>);

impl StreamLatency {
    /// It is this from now on; zero if nobody knows.
    pub fn set(&self, latency: Span) {
        self.0.store(latency.as_nanos(), Ordering::Relaxed);
    }

    /// Whether there are clones of it.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn get(&self) -> Span {
        Span::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
