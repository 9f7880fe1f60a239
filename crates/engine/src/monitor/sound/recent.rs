//! Received frames by media time.

use tautline_proto::time::{Frames, MediaTime};

/// Newest frames of received packets; NaN if missing.
pub(super) struct RecentFrames {
    /// A ring of `room` samples and a copy of its first `longest` samples, so that runs are
    /// contiguous. Empty at first.
    samples: Box<[f32]>,
    room: usize,
    longest: usize,
    until: Option<MediaTime>,
}

impl RecentFrames {
    pub(super) fn new(frames: Frames, longest: Frames) -> Self {
        let longest = longest.as_len();
        let room = frames.as_len().max(longest).max(1).next_power_of_two();
        Self { samples: Box::default(), room, longest, until: None }
    }

    fn slot(&self, frame: MediaTime) -> usize {
        frame.as_frames() as usize & (self.room - 1)
    }

    pub(super) fn at(&self, frame: MediaTime) -> f32 {
        self.samples.get(self.slot(frame)).copied().unwrap_or(f32::NAN)
    }

    pub(super) fn run(&self, frame: MediaTime, count: usize) -> Option<&[f32]> {
        self.samples.get(self.slot(frame)..)?.get(..count)
    }

    pub(super) fn from(&self, frame: MediaTime) -> impl Iterator<Item = f32> + '_ {
        (0..).map(move |index| self.at(frame + Frames::new(index)))
    }

    pub(super) fn write(&mut self, media: MediaTime, samples: &[f32]) {
        if self.samples.is_empty() {
            self.samples = vec![f32::NAN; self.room + self.longest].into();
        }
        let end = media + Frames::from_len(samples.len());
        let mut hole = self.until.unwrap_or(media);
        let room = self.room as i64;
        if (media - hole).count() > room || (hole - media).count() > room / 2 {
            self.samples.fill(f32::NAN);
            (hole, self.until) = (media, None);
        }
        while hole < media {
            self.put(hole, &[f32::NAN]);
            hole += Frames::new(1);
        }
        let first = samples.len().saturating_sub(self.room);
        self.put(media + Frames::from_len(first), &samples[first..]);
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }

    fn put(&mut self, frame: MediaTime, samples: &[f32]) {
        let slot = self.slot(frame);
        let (here, over) = samples.split_at(samples.len().min(self.room - slot));
        for (slot, part) in [(slot, here), (0, over)] {
            self.samples[slot..][..part.len()].copy_from_slice(part);
            let again = &part[..part.len().min(self.longest.saturating_sub(slot))];
            if !again.is_empty() {
                self.samples[self.room + slot..][..again.len()].copy_from_slice(again);
            }
        }
    }
}
