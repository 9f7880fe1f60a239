//! What packets brought, by media time.

use tautline_proto::time::{Frames, MediaTime};

/// The newest frames that packets brought; NaN where nothing came.
pub(super) struct RecentFrames {
    /// A ring of `room` and its first `longest` once more, so that runs lie in one piece. Empty at first.
    samples: Box<[f32]>,
    /// Of a power of two.
    room: usize,
    longest: usize,
    until: Option<MediaTime>,
}

impl RecentFrames {
    /// Remembers at least so many frames, of which `longest` are asked for together at most.
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

    /// So many samples from this frame on, no more than the longest run; `None` before anything was brought.
    pub(super) fn run(&self, frame: MediaTime, count: usize) -> Option<&[f32]> {
        self.samples.get(self.slot(frame)..)?.get(..count)
    }

    pub(super) fn from(&self, frame: MediaTime) -> impl Iterator<Item = f32> + '_ {
        (0..).map(move |index| self.at(frame + Frames::new(index)))
    }

    /// A packet brought `samples`, from `media` on.
    pub(super) fn write(&mut self, media: MediaTime, samples: &[f32]) {
        if self.samples.is_empty() {
            self.samples = vec![f32::NAN; self.room + self.longest].into();
        }
        let end = media + Frames::from_len(samples.len());
        let mut hole = self.until.unwrap_or(media);
        // Far ahead nothing that was known is near any more; far back another stream began.
        let room = self.room as i64;
        if (media - hole).count() > room || (hole - media).count() > room / 2 {
            self.samples.fill(f32::NAN);
            (hole, self.until) = (media, None);
        }
        // What lies between the last packet and this one did not come.
        while hole < media {
            self.put(hole, &[f32::NAN]);
            hole += Frames::new(1);
        }
        // Of more than there is room for, the newest.
        let first = samples.len().saturating_sub(self.room);
        self.put(media + Frames::from_len(first), &samples[first..]);
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }

    /// Lays samples, no more than there is room for, from `frame` on.
    fn put(&mut self, frame: MediaTime, samples: &[f32]) {
        let slot = self.slot(frame);
        let (here, over) = samples.split_at(samples.len().min(self.room - slot));
        for (slot, part) in [(slot, here), (0, over)] {
            self.samples[slot..][..part.len()].copy_from_slice(part);
            // What the ring begins with stands behind its end, too.
            let again = &part[..part.len().min(self.longest.saturating_sub(slot))];
            if !again.is_empty() {
                self.samples[self.room + slot..][..again.len()].copy_from_slice(again);
            }
        }
    }
}
