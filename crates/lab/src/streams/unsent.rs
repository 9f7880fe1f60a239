//! Packets never sent: an xrun lost their sound, or the kernel had no room. They are gaps in media
//! time between sent packets.

use std::collections::BTreeMap;

use tautline_proto::time::LocalTime;
use tautline_report::ledger::{ReceivedPacket, SentPacket};

use super::{StreamOutcome, first_counters};
use crate::report::{Events, INTERVAL, SecondCount};

const NEVER_SENT: (&str, &str) = ("never_sent", "packets never sent");

/// Maximum gap between packets. Packets further apart are not a stream.
const LONGEST_SECONDS: u32 = 3600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnsentPackets {
    at: i64,
    count: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NeverSent {
    gaps: Vec<UnsentPackets>,
    each: i64,
}

impl StreamOutcome {
    pub(crate) fn count_never_sent(&self) -> u64 {
        self.never_sent(&self.counted()).count()
    }

    /// Whether host stalls explain all xruns of the sender's device.
    pub(crate) fn sender_only_froze(&self) -> bool {
        let counted = first_counters(&self.sent);
        counted.xruns > 0 && counted.xruns <= counted.host_stalled
    }

    pub(super) fn never_sent(&self, counted: &[(LocalTime, ReceivedPacket)]) -> NeverSent {
        counted.first().map_or_else(NeverSent::default, |(_, first)| {
            NeverSent::among(self.departures_from(first), self.shape.rate)
        })
    }
}

impl NeverSent {
    fn among(departures: &[SentPacket], rate: u32) -> Self {
        let steps = departures.windows(2).filter_map(|two| {
            // A negative step of the 32-bit media time is not a later packet.
            let step = two[1].timestamp.wrapping_sub(two[0].timestamp);
            (1..=i32::MAX as u32).contains(&step).then_some((two[0].capture, step))
        });
        let Some(packet) = steps.clone().map(|(_, step)| step).min() else {
            return Self::default();
        };
        let nanos = |frames: u32| i64::from(frames) * 1_000_000_000 / i64::from(rate.max(1));
        let begin = departures.first().map_or(0, |first| first.capture);
        // Another machine's log may contain any media time.
        let mut room = rate.saturating_mul(LONGEST_SECONDS);
        let gap = |(capture, step): (i64, u32)| {
            // A partly lost packet is missed.
            let count = (step - packet).div_ceil(packet);
            room = room.checked_sub(step - packet)?;
            let at = capture.saturating_sub(begin).saturating_add(nanos(packet));
            Some(UnsentPackets { at, count })
        };
        let gaps = steps.map_while(gap).filter(|gap| gap.count > 0).collect();
        Self { gaps, each: nanos(packet).max(1) }
    }

    pub(super) fn count(&self) -> u64 {
        self.gaps.iter().map(|gap| u64::from(gap.count)).sum()
    }

    pub(super) fn by_second(&self) -> Vec<SecondCount> {
        let second = INTERVAL.as_nanos();
        let mut all: BTreeMap<u32, u32> = BTreeMap::new();
        for gap in &self.gaps {
            let (mut at, mut left) = (gap.at.max(0), i64::from(gap.count));
            while let (1.., Ok(number)) = (left, u32::try_from(at / second)) {
                let within = left.min((second - at % second + self.each - 1) / self.each);
                let sum = all.entry(number).or_insert(0);
                *sum = sum.saturating_add(within as u32);
                at += within * self.each;
                left -= within;
            }
        }
        all.into_iter().collect()
    }

    pub(super) fn events(&self) -> Option<Events> {
        let reported = self.gaps.iter().map(|gap| (gap.at, gap.count));
        Events::since(0, NEVER_SENT, reported, 0)
    }
}
