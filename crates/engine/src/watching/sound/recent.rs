//! What packets brought, by media time.

use tautline_proto::time::{Frames, MediaTime};

/// The newest frames that packets brought; NaN where nothing came.
pub(super) struct RecentFrames {
    /// Of a power of two, once anything was brought.
    samples: Box<[f32]>,
    room: usize,
    until: Option<MediaTime>,
}

impl RecentFrames {
    /// Remembers at least so many frames.
    pub(super) fn new(frames: Frames) -> Self {
        let room = frames.as_len().max(1).next_power_of_two();
        Self { samples: Box::default(), room, until: None }
    }

    /// Frames that are remembered.
    fn room(&self) -> Frames {
        Frames::from_len(self.room)
    }

    fn slot(&self, frame: MediaTime) -> usize {
        frame.as_frames() as usize & (self.room - 1)
    }

    /// The frame's sample, or NaN.
    pub(super) fn at(&self, frame: MediaTime) -> f32 {
        self.samples.get(self.slot(frame)).copied().unwrap_or(f32::NAN)
    }

    /// The samples from this frame on, without end.
    pub(super) fn from(&self, frame: MediaTime) -> impl Iterator<Item = f32> + '_ {
        (0..).map(move |index| self.at(frame + Frames::new(index)))
    }

    /// A packet brought `samples`, from `media` on.
    pub(super) fn write(&mut self, media: MediaTime, samples: &[f32]) {
        if self.samples.is_empty() {
            self.samples = vec![f32::NAN; self.room].into();
        }
        let end = media + Frames::from_len(samples.len());
        let mut hole = self.until.unwrap_or(media);
        // Far ahead nothing that was known is near any more; far back another stream began.
        if media - hole > self.room() || (hole - media).count() > self.room().count() / 2 {
            self.samples.fill(f32::NAN);
            (hole, self.until) = (media, None);
        }
        // What lies between the last packet and this one did not come.
        while hole < media {
            self.samples[self.slot(hole)] = f32::NAN;
            hole += Frames::new(1);
        }
        for (index, sample) in samples.iter().enumerate() {
            let slot = self.slot(media + Frames::from_len(index));
            self.samples[slot] = *sample;
        }
        self.until = Some(self.until.map_or(end, |until| until.max(end)));
    }
}
