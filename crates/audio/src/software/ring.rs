//! What may wait between a card and the disk.

use tautline_proto::device::Settings;

/// Samples that are decoded ahead and that may wait for the disk: two seconds of them, which is 768 kB of
/// stereo at 48 kHz, as the threads that decode and write have no priority over others of a busy machine;
/// of many channels less, down to half a second, which is 25 MB of the most that is carried.
pub(super) fn ring_samples(settings: &Settings) -> usize {
    let channels = settings.channels.count();
    let second = settings.rate.hertz() as usize * channels;
    let most = MOST.max(second / 2);
    (2 * second).min(most).max(settings.channels.samples_in(settings.period) * 4)
}

/// Samples that are there when a device begins to play: three quarters of half a second. What comes by a pipe
/// stays as old as it is then.
pub(super) fn enough_to_begin(settings: &Settings) -> usize {
    let half_second = settings.rate.hertz() as usize * settings.channels.count() / 2;
    half_second.min(ring_samples(settings)) * 3 / 4
}

const MOST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    #[test]
    fn two_seconds_wait_and_half_a_second_of_many_channels() {
        let samples = |rate, channels, period| {
            let (rate, channels) = (Rate::new(rate).unwrap(), Channels::new(channels).unwrap());
            ring_samples(&Settings { rate, channels, period: Frames::new(period), periods: 2 })
        };
        assert_eq!(samples(48_000, 2, 48), 192_000);
        assert_eq!(samples(96_000, 8, 48), 1 << 20);
        assert_eq!(samples(192_000, 64, 48), 192_000 / 2 * 64);
        assert_eq!(samples(48_000, 1, 48_000), 192_000, "four periods at least");
    }

    #[test]
    fn what_comes_by_a_pipe_begins_when_less_than_half_a_second_is_there() {
        let settings = Settings {
            rate: Rate::new(48_000).unwrap(),
            channels: Channels::new(2).unwrap(),
            period: Frames::new(48),
            periods: 2,
        };
        assert_eq!(enough_to_begin(&settings), 36_000);
        assert!(enough_to_begin(&settings) < ring_samples(&settings));
    }
}
