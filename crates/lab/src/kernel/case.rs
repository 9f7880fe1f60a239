use core::fmt;

use tautline_proto::time::Span;

use super::{KernelOptions, PacketRun, PacketShape, Way};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CaseSender {
    OneCore,
    TwoCores,
    Far(String),
}

impl fmt::Display for CaseSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneCore => f.write_str("one core"),
            Self::TwoCores => f.write_str("two cores"),
            Self::Far(place) => write!(f, "from {place}"),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct KernelCase {
    pub(super) packets: PacketShape,
    pub(super) way: Way,
    pub(super) sender: CaseSender,
    pub(super) count: usize,
    pub(super) tick: Span,
    pub(super) run: u32,
}

impl KernelCase {
    pub(super) fn of(
        options: &KernelOptions,
        packets: PacketShape,
        way: Way,
        sender: CaseSender,
    ) -> Self {
        let count = options.count(packets);
        let length = packets.ptime.times(count.max(1) as i64).as_nanos();
        let period = options.period.as_nanos();
        // The device's clock drifts by a period, so packets arrive equally at each phase.
        let slide = i128::from(period) * i128::from(period) / i128::from(length.max(1));
        let slide = i64::try_from(slide).unwrap_or(i64::MAX).min(period);
        let tick = Span::from_nanos(period.saturating_add(slide));
        Self { packets, way, sender, count, tick, run: fastrand::u32(..) }
    }

    pub(super) fn sent(&self) -> PacketRun {
        PacketRun { packets: self.packets, count: self.count, run: self.run }
    }

    pub(super) fn name(&self) -> String {
        let way = match self.way {
            Way::Blocked => "blocked",
            Way::Direct => "direct",
        };
        format!("{} {way}, {}", self.packets.ptime, self.sender)
    }
}
