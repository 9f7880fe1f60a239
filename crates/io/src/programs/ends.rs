//! Device's end of an application's audio. Late frames are dropped and silence is played, so a
//! frame's position fixes its time on the wire.

use std::sync::Arc;

use tautline_proto::card_clock::Turn;
use tautline_proto::time::Frames;

use super::buffer::{DeviceProgress, Mode, ProgramBuffer};

/// Plays the application's audio.
pub struct Feeder {
    buffer: Arc<ProgramBuffer>,
    reported: u64,
    standing: DeviceProgress,
    running: bool,
}

impl Feeder {
    /// Creates the only feeder of a buffer.
    pub fn new(buffer: Arc<ProgramBuffer>) -> Self {
        Self { buffer, reported: 0, standing: DeviceProgress::default(), running: false }
    }

    /// Resets the position when the card restarts its count.
    pub fn restart(&mut self) {
        self.running = false;
    }

    /// Returns the progress so far.
    pub fn standing(&self) -> DeviceProgress {
        self.standing
    }

    /// Fills this turn's block. Wait-free.
    // scripts/check-realtime finds this function by name: keep it out of line.
    #[inline(never)]
    pub fn feed(&mut self, turn: &Turn, block: &mut [f32]) {
        let order = self.buffer.ordered();
        if order.stint != self.standing.stint {
            self.standing = DeviceProgress { stint: order.stint, ..DeviceProgress::default() };
            self.running = false;
        }
        if order.mode == Mode::Running {
            self.run(turn, block);
        } else {
            self.running = false;
            block.fill(0.0);
        }
        self.reported += 1;
        self.buffer.stand(self.reported, self.standing);
    }

    fn run(&mut self, turn: &Turn, block: &mut [f32]) {
        if !std::mem::replace(&mut self.running, true) {
            self.standing.anchor = Some(turn.frame - self.standing.position.as_frames());
        } else {
            self.standing.position += turn.skipped;
        }
        self.buffer.copy(self.standing.position, block);
        self.standing.position += Frames::from_len(block.len() / self.buffer.channels());
    }
}

/// Records audio for the application.
pub struct Giver {
    buffer: Arc<ProgramBuffer>,
    reported: u64,
    given: u64,
    standing: DeviceProgress,
    running: bool,
}

impl Giver {
    /// Creates the only giver of a buffer.
    pub fn new(buffer: Arc<ProgramBuffer>) -> Self {
        Self { buffer, reported: 0, given: 0, standing: DeviceProgress::default(), running: false }
    }

    /// Returns the progress so far.
    pub fn standing(&self) -> DeviceProgress {
        self.standing
    }

    /// Records this turn's block. Wait-free. A block without room is lost; the next takes its
    /// position.
    // scripts/check-realtime finds this function by name: keep it out of line.
    #[inline(never)]
    pub fn give(&mut self, turn: &Turn, block: &[f32]) {
        let order = self.buffer.ordered();
        if order.stint != self.standing.stint {
            self.standing = DeviceProgress {
                stint: order.stint,
                origin: self.given,
                ..DeviceProgress::default()
            };
        }
        self.running = order.mode == Mode::Running;
        if self.running {
            self.standing.anchor = Some(turn.frame - self.standing.position.as_frames());
            if self.buffer.give(self.given, block) {
                let frames = block.len() / self.buffer.channels();
                self.given += frames as u64;
                self.standing.position += Frames::from_len(frames);
            }
        }
        self.reported += 1;
        self.buffer.stand(self.reported, self.standing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::buffer::Order;
    use crate::programs::buffer::RecordingEnd;
    use tautline_proto::time::{LocalTime, MediaTime};

    const P: usize = 4;

    fn turn(frame: i64, skipped: i64) -> Turn {
        Turn { frame, meets: LocalTime::ZERO, skipped: Frames::new(skipped) }
    }

    fn order(shared: &ProgramBuffer, stint: u64, mode: Mode) {
        shared.order(Order { stint, mode });
    }

    fn at(position: i64) -> MediaTime {
        MediaTime::from_frames(position)
    }

    fn scene() -> (Arc<ProgramBuffer>, Feeder) {
        let buffer = Arc::new(ProgramBuffer::new(16, 1));
        (Arc::clone(&buffer), Feeder::new(buffer))
    }

    fn fed(feeder: &mut Feeder, frame: i64) -> Vec<f32> {
        let mut block = [9.0; P];
        feeder.feed(&turn(frame, 0), &mut block);
        block.to_vec()
    }

    fn put(track: &ProgramBuffer, position: i64, range: core::ops::Range<u32>) {
        let samples: Vec<f32> = range.map(|number| number as f32).collect();
        let position = at(position);
        track.put(position, &samples);
        track.set_end(position + Frames::from_len(samples.len()));
    }

    #[test]
    fn frames_are_taken_once_the_application_runs() {
        let (shared, mut feeder) = scene();
        order(&shared, 1, Mode::Stopped);
        put(&shared, 0, 1..9);
        assert_eq!(fed(&mut feeder, 0), [0.0; P]);
        order(&shared, 1, Mode::Running);
        assert_eq!(fed(&mut feeder, 4), [1.0, 2.0, 3.0, 4.0]);
        let stands = DeviceProgress { stint: 1, position: at(4), anchor: Some(4), origin: 0 };
        assert_eq!(shared.standing(), stands);
    }

    #[test]
    fn late_frames_are_replaced_by_silence() {
        let (shared, mut feeder) = scene();
        order(&shared, 1, Mode::Running);
        put(&shared, 0, 1..4);
        assert_eq!(fed(&mut feeder, 0), [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(fed(&mut feeder, 4), [0.0; P]);
        put(&shared, 3, 4..11);
        assert_eq!(fed(&mut feeder, 8), [9.0, 10.0, 0.0, 0.0]);
        assert_eq!(shared.standing().position, at(12));
        assert_eq!(shared.standing().anchor, Some(0));
    }

    #[test]
    fn a_pause_plays_silence_and_loses_nothing() {
        let (shared, mut feeder) = scene();
        put(&shared, 0, 1..9);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, 0);
        order(&shared, 1, Mode::Paused);
        assert_eq!(fed(&mut feeder, 4), [0.0; P]);
        order(&shared, 1, Mode::Running);
        assert_eq!(fed(&mut feeder, 8), [5.0, 6.0, 7.0, 8.0]);
        let DeviceProgress { position, anchor, .. } = shared.standing();
        assert_eq!((position, anchor), (at(8), Some(4)), "later by the pause");
    }

    #[test]
    fn a_new_stint_plays_nothing_of_the_one_before() {
        let (shared, mut feeder) = scene();
        put(&shared, 0, 1..9);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, 0);
        shared.set_end(MediaTime::ZERO);
        order(&shared, 2, Mode::Running);
        assert_eq!(fed(&mut feeder, 40), [0.0; P]);
        put(&shared, 0, 20..28);
        assert_eq!(fed(&mut feeder, 44), [24.0, 25.0, 26.0, 27.0]);
        let stands = DeviceProgress { stint: 2, position: at(8), anchor: Some(40), origin: 0 };
        assert_eq!(shared.standing(), stands);
    }

    #[test]
    fn frames_that_the_card_missed_are_not_played_later() {
        let (shared, mut feeder) = scene();
        put(&shared, 0, 0..16);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, 0);
        let mut block = [0.0; P];
        feeder.feed(&turn(8, 4), &mut block);
        assert_eq!(block, [8.0, 9.0, 10.0, 11.0]);
        assert_eq!(shared.standing().position, at(12));
    }

    #[test]
    fn unread_recording_loses_whole_blocks() {
        let shared = Arc::new(ProgramBuffer::new(8, 1));
        let (mut ring, mut giver) =
            (RecordingEnd::new(Arc::clone(&shared)), Giver::new(Arc::clone(&shared)));
        giver.give(&turn(0, 0), &[1.0; P]);
        assert_eq!(ring.frames(), 0, "it is not started");
        order(&shared, 1, Mode::Running);
        for number in 1..=3 {
            giver.give(&turn(4 * number, 0), &[number as f32; P]);
        }
        let stands = DeviceProgress { stint: 1, position: at(8), anchor: Some(4), origin: 0 };
        assert_eq!(shared.standing(), DeviceProgress { anchor: Some(12 - 8), ..stands });
        let mut received = [0.0; 8];
        assert_eq!(ring.take(&mut received), 8);
        assert_eq!(received, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
        giver.give(&turn(16, 0), &[4.0; P]);
        assert_eq!(
            shared.standing(),
            DeviceProgress { position: at(12), anchor: Some(8), ..stands }
        );
        order(&shared, 2, Mode::Running);
        giver.give(&turn(20, 0), &[5.0; P]);
        assert_eq!(shared.standing().origin, 12);
    }
}
