//! Sends packets' frames to the measurement. Real-time safe.

use core::ops::Range;

use tautline_proto::time::{Frames, MediaTime};

use super::rings::Writer;

/// Consecutive packets are sent together, at the cost of one.
pub(crate) struct PacketTap {
    writer: Writer<MediaTime>,
    channel: usize,
    run: Range<MediaTime>,
    longest: Frames,
}

impl PacketTap {
    pub(crate) fn new(writer: Writer<MediaTime>, channel: usize, longest: Frames) -> Self {
        Self { writer, channel, run: MediaTime::ZERO..MediaTime::ZERO, longest }
    }

    #[cfg(test)]
    pub(super) fn reported(&mut self, media: MediaTime, channels: usize, samples: &[f32]) {
        self.writer.write(media, channels, self.channel, samples);
    }

    pub(crate) fn brought<'a>(
        &mut self,
        frames: &Range<MediaTime>,
        channels: usize,
        sound: impl Fn(&Range<MediaTime>) -> [&'a [f32]; 2],
    ) {
        if frames.start == self.run.end {
            self.run.end = frames.end;
        } else {
            self.notify(channels, &sound);
            self.run = frames.clone();
        }
        if self.run.end - self.run.start >= self.longest {
            self.notify(channels, sound);
        }
    }

    /// Sends pending frames that no more can follow. Not inlined, because its stack frame cost 15
    /// instructions per packet.
    #[inline(never)]
    pub(crate) fn notify<'a>(
        &mut self,
        channels: usize,
        sound: impl FnOnce(&Range<MediaTime>) -> [&'a [f32]; 2],
    ) {
        if self.run.is_empty() {
            return;
        }
        let channel = self.channel.min(channels.saturating_sub(1));
        self.writer.write_parts(self.run.start, channels, channel, sound(&self.run));
        self.run.start = self.run.end;
    }
}

#[cfg(test)]
mod tests {
    use super::super::rings::rings;
    use super::*;

    const SOUND: [f32; 32] = [0.5; 32];

    fn frames(from: i64, to: i64) -> Range<MediaTime> {
        MediaTime::from_frames(from)..MediaTime::from_frames(to)
    }

    fn lies(frames: &Range<MediaTime>) -> [&'static [f32]; 2] {
        let at = |media: MediaTime| media.as_frames() as usize;
        [&SOUND[at(frames.start)..at(frames.end)], &[]]
    }

    #[test]
    fn consecutive_packets_reach_the_measurement_together() {
        let (writer, mut reported) = rings(64, 8);
        let mut tap = PacketTap::new(writer, 0, Frames::new(6));
        let mut runs = Vec::new();
        for (from, to) in [(0, 2), (2, 4), (7, 9), (9, 11), (11, 13), (13, 15)] {
            tap.brought(&frames(from, to), 1, lies);
            reported.read(|at: MediaTime, samples| runs.push((at.as_frames(), samples.len())));
        }
        assert_eq!(runs, [(0, 4), (7, 6)], "the last may go on");
        tap.notify(1, lies);
        tap.notify(1, lies);
        reported.read(|at: MediaTime, samples| runs.push((at.as_frames(), samples.len())));
        assert_eq!(runs[2..], [(13, 2)]);
    }
}
