//! Faults of the sender's device, from its reports.

use super::ReceiveNote;
use crate::device::CaptureFaults;
use crate::time::Span;

/// Faults of the devices of all senders while they were received.
#[derive(Debug, Default)]
pub(super) struct SenderDevice {
    total: CaptureFaults,
    /// Last report of the current sender.
    last: Option<(u32, CaptureFaults)>,
    /// Silence since the device was lost.
    lost: Option<Span>,
}

impl SenderDevice {
    pub(super) const fn total(&self) -> CaptureFaults {
        self.total
    }

    /// Returns a note if the device is lost, or is back: a report without further silence.
    /// `settled`: the sender was received for longer than the interval of reports.
    pub(super) fn handle(
        &mut self,
        ssrc: u32,
        reported: CaptureFaults,
        settled: bool,
    ) -> Option<ReceiveNote> {
        let last = self.last.replace((ssrc, reported)).filter(|(last, _)| *last == ssrc);
        // Reports begin with the first fault, which may precede the reception.
        let first = if settled { CaptureFaults::default() } else { reported };
        let before = last.map_or(first, |(_, last)| last);
        let replaced = (reported.replaced - before.replaced).max(Span::ZERO);
        self.total.replaced += replaced;
        let xruns = reported.xruns.saturating_sub(before.xruns);
        self.total.xruns = self.total.xruns.saturating_add(xruns);
        match (replaced > Span::ZERO, self.lost) {
            (true, lost) => {
                self.lost = Some(lost.unwrap_or(Span::ZERO) + replaced);
                lost.is_none().then_some(ReceiveNote::DeviceLost)
            }
            (false, Some(silence)) => {
                self.lost = None;
                Some(ReceiveNote::DeviceBack(silence))
            }
            (false, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_device_of_a_sender_is_noted_and_counted() {
        let mut device = SenderDevice::default();
        let mut report = |ssrc, xruns, millis| {
            let faults = CaptureFaults { xruns, replaced: Span::from_millis(millis) };
            device.handle(ssrc, faults, ssrc != 9)
        };
        assert_eq!(report(7, 2, 0), None);
        assert_eq!(report(7, 3, 400), Some(ReceiveNote::DeviceLost));
        assert_eq!(report(7, 3, 900), None);
        assert_eq!(report(7, 4, 1_100), None);
        let back = ReceiveNote::DeviceBack(Span::from_millis(1_100));
        assert_eq!(report(7, 4, 1_100), Some(back));
        assert_eq!(report(7, 4, 1_100), None);
        assert_eq!(report(8, 1, 0), None, "another sender counts from zero");
        assert_eq!(report(9, 50, 60_000), None, "faults before the reception");
        let back = report(9, 51, 60_000);
        let replaced = Span::from_millis(1_100);
        assert_eq!((back, device.total()), (None, CaptureFaults { xruns: 6, replaced }));
    }
}
