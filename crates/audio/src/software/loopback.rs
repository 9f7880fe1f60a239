use tautline_proto::device::Settings;
use tautline_proto::time::Frames;

pub(crate) struct Loopback {
    channels: usize,
    length: i64,
    /// Frame `f` of what was played lies at `f` modulo their number; silence once it was heard.
    frames: Box<[f32]>,
    next: i64,
}

impl Loopback {
    pub(crate) fn new(length: Frames, settings: &Settings) -> Self {
        // What is played lies a buffer ahead of what is heard.
        let buffer = settings.period.count() * (i64::from(settings.periods) + 2);
        let room = Frames::new(buffer + length.count());
        let frames = vec![0.0; settings.channels.samples_in(room)].into();
        Self { channels: settings.channels.count(), length: length.count(), frames, next: 0 }
    }

    /// The output played `samples` from `frame` on. Real-time.
    pub(crate) fn play(&mut self, frame: i64, samples: &[f32]) {
        for (played, frame) in samples.chunks_exact(self.channels).zip(frame..) {
            self.at(frame).copy_from_slice(played);
        }
    }

    /// The next frames at the input. Real-time.
    pub(crate) fn fill(&mut self, samples: &mut [f32]) {
        for heard in samples.chunks_exact_mut(self.channels) {
            let frame = self.at(self.next - self.length);
            heard.copy_from_slice(frame);
            frame.fill(0.0);
            self.next += 1;
        }
    }

    /// Nobody takes the next `frames` of the input. Real-time.
    pub(crate) fn skip(&mut self, frames: Frames) {
        let held = (self.frames.len() / self.channels) as i64;
        let last = self.next + frames.count() - self.length;
        for frame in (last - frames.count().min(held))..last {
            self.at(frame).fill(0.0);
        }
        self.next += frames.count();
    }

    fn at(&mut self, frame: i64) -> &mut [f32] {
        let held = (self.frames.len() / self.channels) as i64;
        let at = frame.rem_euclid(held) as usize * self.channels;
        &mut self.frames[at..at + self.channels]
    }
}
