//! What may wait between a card and the disk.

use tautline_proto::device::Settings;

/// Samples that are decoded ahead and that may wait for the disk: half a second of them, which is
/// 192 KiB of stereo at 48 kHz and 24 MiB of the most that is carried.
pub(super) fn ring_samples(settings: &Settings) -> usize {
    let channels = settings.channels.count();
    let half_second = settings.rate.hertz() as usize / 2 * channels;
    half_second.max(settings.channels.samples_in(settings.period) * 4)
}
