//! What the application's threads and the device's thread know of each other, besides the
//! samples. Each value has one writer; writing is wait-free.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

use tautline_proto::time::{MediaTime, Span};

/// What the device's thread is to do with the application's sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Mode {
    /// Leave it alone: nothing was started, or all was dropped.
    Stopped = 0,
    /// Take from it, or put into it.
    Running = 1,
    /// Leave it as it is for a while.
    Paused = 2,
}

/// What the application wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// The how many-th time the PCM was prepared; positions count from 0 in each.
    pub(crate) stint: u64,
    pub(crate) mode: Mode,
}

/// How far the device's thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DeviceProgress {
    /// The newest order that it has seen.
    pub(crate) stint: u64,
    /// Frames of this stint that it has taken, silence that it put in their place included, or that
    /// it has given.
    pub(crate) position: MediaTime,
    /// Frame of the card's clock at which frame 0 of the stint met it, or would have met it if it had
    /// gone on without a pause. Known once it runs.
    pub(crate) anchor: Option<i64>,
    /// Of a recorder: frames that were put into the ring before this stint's.
    pub(crate) origin: u64,
}

/// Stands for an anchor that is not known.
const NO_ANCHOR: i64 = i64::MIN;

/// A standing, word by word.
#[derive(Debug, Default)]
struct ProgressCell {
    stint: AtomicU64,
    position: AtomicI64,
    anchor: AtomicI64,
    origin: AtomicU64,
}

impl ProgressCell {
    fn write(&self, standing: DeviceProgress) {
        self.stint.store(standing.stint, Ordering::Relaxed);
        self.position.store(standing.position.as_frames(), Ordering::Relaxed);
        self.anchor.store(standing.anchor.unwrap_or(NO_ANCHOR), Ordering::Relaxed);
        self.origin.store(standing.origin, Ordering::Relaxed);
    }

    fn read(&self) -> DeviceProgress {
        let anchor = self.anchor.load(Ordering::Relaxed);
        DeviceProgress {
            stint: self.stint.load(Ordering::Relaxed),
            position: MediaTime::from_frames(self.position.load(Ordering::Relaxed)),
            anchor: (anchor != NO_ANCHOR).then_some(anchor),
            origin: self.origin.load(Ordering::Relaxed),
        }
    }
}

/// The two ends' word to each other.
#[derive(Debug, Default)]
pub(crate) struct StreamShared {
    /// Stint × 4 + mode.
    order: AtomicU64,
    /// Standings told so far; the newest is in the slot of that number's parity, and the next goes
    /// to the other.
    told: AtomicU64,
    slots: [ProgressCell; 2],
    /// From capture to the far DAC, nanoseconds.
    latency: AtomicI64,
}

impl StreamShared {
    /// Orders.
    pub(crate) fn order(&self, order: Order) {
        self.order.store(order.stint << 2 | order.mode as u64, Ordering::Release);
    }

    /// What is ordered.
    pub(crate) fn ordered(&self) -> Order {
        let word = self.order.load(Ordering::Acquire);
        let mode = match word & 3 {
            1 => Mode::Running,
            2 => Mode::Paused,
            _ => Mode::Stopped,
        };
        Order { stint: word >> 2, mode }
    }

    /// The device's thread tells how far it is.
    pub(crate) fn stand(&self, standing: DeviceProgress) {
        self.note(standing);
        self.told.store(self.told.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Writes it where nobody reads.
    fn note(&self, standing: DeviceProgress) {
        // Who reads any of what follows sees that the slot's own standing is not the newest any more.
        fence(Ordering::Release);
        self.slots[self.told.load(Ordering::Relaxed).wrapping_add(1) as usize & 1].write(standing);
    }

    /// How far the device's thread is: values that belong together. It never waits for the device's
    /// thread, which an application at a higher priority may keep from its core: it reads again only
    /// if that thread has come a period further meanwhile.
    pub(crate) fn standing(&self) -> DeviceProgress {
        loop {
            let newest = self.told.load(Ordering::Acquire);
            let standing = self.slots[newest as usize & 1].read();
            fence(Ordering::Acquire);
            if self.told.load(Ordering::Relaxed) == newest {
                return standing;
            }
        }
    }

    /// Tells the latency.
    pub(crate) fn set_latency(&self, latency: Span) {
        self.latency.store(latency.as_nanos(), Ordering::Relaxed);
    }

    /// The latency.
    pub(crate) fn latency(&self) -> Span {
        Span::from_nanos(self.latency.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_order_arrives_whole() {
        let shared = StreamShared::default();
        for (stint, mode) in [(1, Mode::Stopped), (7, Mode::Running), (7, Mode::Paused)] {
            let order = Order { stint, mode };
            shared.order(order);
            assert_eq!(shared.ordered(), order);
        }
    }

    #[test]
    fn a_standing_is_read_while_the_next_is_half_written() {
        let shared = StreamShared::default();
        for number in 1..5 {
            let standing =
                DeviceProgress { stint: number, anchor: Some(7), ..DeviceProgress::default() };
            shared.stand(standing);
            shared.note(DeviceProgress { stint: 99, ..standing });
            assert_eq!(shared.standing(), standing);
        }
    }

    #[test]
    fn a_standing_is_never_half_of_one_and_half_of_another() {
        let shared = Arc::new(StreamShared::default());
        let writer = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for number in 1..100_000 {
                let anchor = Some(number as i64);
                let position = MediaTime::from_frames(number as i64);
                writer.stand(DeviceProgress { stint: number, position, anchor, origin: number });
            }
        });
        let mut newest = 0;
        while newest < 99_999 {
            let DeviceProgress { stint, position, anchor, origin } = shared.standing();
            let position = position.as_frames();
            let same = position as u64 == stint && origin == stint;
            assert!(
                same && (stint == 0 || anchor == Some(position)),
                "{stint} {position} {origin}"
            );
            assert!(stint >= newest);
            newest = stint;
        }
        thread.join().unwrap();
    }
}
