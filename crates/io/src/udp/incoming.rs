//! The receiving half of a socket, media or control.

use std::net::IpAddr;

use tautline_proto::endpoint::Endpoint;
use tautline_proto::time::{LocalTime, Span};

use crate::clock::now;
use crate::link::{Arrival, LinkCounters};
use crate::udp::open::UdpOptions;
use crate::udp::receive_batch::{ReceiveBatch, Received};
use crate::udp::socket::Socket;
use crate::udp::timestamp::StampClock;

/// Full batches that one [`Incoming::receive`] fetches at most, so that a flood cannot hold a
/// real-time thread for ever.
const RECEIVE_ROUNDS: usize = 64;

/// Fetches datagrams with their stamps.
pub(crate) struct Incoming {
    batch: ReceiveBatch,
    pub(crate) clock: StampClock,
    source: Option<IpAddr>,
    overflow: u32,
}

impl Incoming {
    /// Fetches up to `batch` of them by one system call.
    pub(crate) fn new(options: &UdpOptions, batch: usize) -> Self {
        Self {
            batch: ReceiveBatch::new(batch, options.datagram_bytes),
            clock: StampClock::new(now()),
            source: options.source_filter,
            overflow: 0,
        }
    }

    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        counters: &mut LinkCounters,
        deliver: &mut dyn FnMut(Arrival<'_>),
    ) {
        for _ in 0..RECEIVE_ROUNDS {
            let count = match self.batch.receive(socket) {
                Ok(count) => count,
                Err(libc::EAGAIN) => return,
                // An error left by an earlier datagram is reported once and then gone.
                Err(error) => {
                    counters.last_error = error;
                    continue;
                }
            };
            let read = now();
            self.clock.refresh(read);
            for index in 0..count {
                let message = self.batch.message(index);
                if self.source.is_some_and(|wanted| message.source.map(|s| s.ip()) != Some(wanted))
                {
                    counters.foreign += 1;
                    continue;
                }
                if let Some(arrival) = place(&message, &mut self.clock, read) {
                    count_arrival(&arrival, counters);
                    deliver(arrival);
                }
                if let Some(overflow) = message.told.overflow {
                    counters.kernel_drops += u64::from(overflow.wrapping_sub(self.overflow));
                    self.overflow = overflow;
                }
            }
            self.batch.rearm(count);
            if count < self.batch.capacity() {
                return;
            }
        }
    }
}

fn place<'a>(
    message: &Received<'a>,
    clock: &mut StampClock,
    read: LocalTime,
) -> Option<Arrival<'a>> {
    let stamp = message.told.stamp.and_then(|stamp| clock.localise(stamp, read));
    let (arrival, stamp_uncertainty) = stamp.unwrap_or((read, Span::MAX));
    Some(Arrival {
        datagram: message.datagram,
        source: Endpoint::new(message.source?, message.told.interface),
        arrival,
        stamp_uncertainty,
        read,
        truncated: message.truncated,
    })
}

fn count_arrival(arrival: &Arrival<'_>, counters: &mut LinkCounters) {
    counters.received += 1;
    counters.truncated += u64::from(arrival.truncated);
    counters.unstamped += u64::from(arrival.stamp_uncertainty == Span::MAX);
}
