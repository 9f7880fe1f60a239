//! The receiving half of a socket, media or control.

use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::time::Span;

use crate::clock::now;
use crate::socket::descriptor::Socket;
use crate::socket::receive_batch::{ReceiveBatch, ReceivedMessage};
use crate::socket::seal::Seal;
use crate::socket::timestamp::StampClock;
use crate::socket::{Arrival, LinkCounters};

/// Full batches that one [`Incoming::receive`] fetches at most, so that a flood cannot hold a
/// real-time thread for ever.
const RECEIVE_ROUNDS: usize = 64;

/// Fetches datagrams with their stamps.
pub(crate) struct Incoming {
    batch: ReceiveBatch,
    pub(crate) clock: StampClock,
    /// The only hosts to hear; all where there are none.
    sources: Box<[Host]>,
    overflow: u32,
}

impl Incoming {
    /// Fetches up to `batch` of them by one system call, each of so many bytes at most, of these hosts alone
    /// where there are any.
    pub(crate) fn new(batch: usize, datagram_bytes: usize, sources: Box<[Host]>) -> Self {
        Self {
            batch: ReceiveBatch::new(batch, datagram_bytes),
            clock: StampClock::new(now()),
            sources,
            overflow: 0,
        }
    }

    /// Delivers what has arrived, opened by `seal` if there is one. Returns the `errno` of an error that
    /// an earlier datagram left, 0 if there was none: each is reported once and then gone.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        mut seal: Option<&mut (dyn Seal + '_)>,
        deliver: &mut dyn FnMut(Arrival<'_>),
    ) -> i32 {
        let mut left = 0;
        for _ in 0..RECEIVE_ROUNDS {
            let count = match self.batch.receive(socket) {
                Ok(count) => count,
                Err(libc::EAGAIN) => break,
                Err(error) => {
                    left = error;
                    continue;
                }
            };
            self.deliver(count, counters, seal.as_deref_mut(), deliver);
            self.batch.rearm(count);
            if count < self.batch.capacity() {
                break;
            }
        }
        left
    }

    /// The same of a socket that blocks: waits for the first datagram as long as the socket is set to,
    /// and fetches one batch. How many came.
    pub(crate) fn receive_blocked(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        deliver: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<usize, i32> {
        let count = self.batch.receive_blocked(socket)?;
        self.deliver(count, counters, None, deliver);
        self.batch.rearm(count);
        Ok(count)
    }

    /// The first `count` messages of the batch, which were read just now.
    fn deliver(
        &mut self,
        count: usize,
        counters: &mut LinkCounters,
        mut seal: Option<&mut (dyn Seal + '_)>,
        deliver: &mut dyn FnMut(Arrival<'_>),
    ) {
        let read = now();
        self.clock.refresh(read);
        for index in 0..count {
            let message = self.batch.message(index);
            let wanted = |source: Endpoint| self.sources.contains(&source.host());
            if !self.sources.is_empty() && !message.source.is_some_and(wanted) {
                counters.foreign += 1;
                continue;
            }
            if let Some(overflow) = message.told.overflow {
                counters.kernel_drops += u64::from(overflow.wrapping_sub(self.overflow));
                self.overflow = overflow;
            }
            let ReceivedMessage { datagram, told, truncated, source: Some(source) } = message
            else {
                continue;
            };
            let datagram = match &mut seal {
                None => datagram,
                Some(seal) => {
                    let Some(opened) = seal.open(datagram) else {
                        counters.unopened += 1;
                        continue;
                    };
                    opened
                }
            };
            let stamp = told.stamp.and_then(|stamp| self.clock.localise(stamp, read));
            let (arrival, stamp_uncertainty) = stamp.unwrap_or((read, Span::MAX));
            let arrival = Arrival { datagram, source, arrival, stamp_uncertainty, read, truncated };
            count_arrival(&arrival, counters);
            deliver(arrival);
        }
    }
}

fn count_arrival(arrival: &Arrival<'_>, counters: &mut LinkCounters) {
    counters.received += 1;
    counters.truncated += u64::from(arrival.truncated);
    counters.unstamped += u64::from(arrival.stamp_uncertainty == Span::MAX);
}
