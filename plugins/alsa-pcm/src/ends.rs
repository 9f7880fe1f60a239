//! The device's end of what holds the application's sound, one for each way it goes: what is taken or given in one period.
//!
//! Positions count the stint's frames on the card's clock: when the application is late, the card
//! plays silence in their place, and the frames that come too late are dropped. So a frame's
//! position says when it meets the wire, whatever happened before.

use std::sync::Arc;

use rtrb::Producer;
use tautline_proto::card_clock::Turn;
use tautline_proto::time::Frames;

use crate::shared::{DeviceProgress, Mode, StreamShared};
use crate::track::Track;

/// Takes the application's sound for the wire.
pub(crate) struct Feeder {
    track: Arc<Track>,
    standing: DeviceProgress,
    running: bool,
}

impl Feeder {
    pub(crate) fn new(track: Arc<Track>) -> Self {
        Self { track, standing: DeviceProgress::default(), running: false }
    }

    /// Fills the block of this turn. Wait-free.
    // Stays a function in every build: scripts/check-realtime looks for it by name.
    #[inline(never)]
    pub(crate) fn feed(&mut self, shared: &StreamShared, turn: &Turn, block: &mut [f32]) {
        let order = shared.ordered();
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
        shared.stand(self.standing);
    }

    fn run(&mut self, turn: &Turn, block: &mut [f32]) {
        if !std::mem::replace(&mut self.running, true) {
            self.standing.anchor = Some(turn.frame - self.standing.position.as_frames());
        } else {
            self.standing.position += turn.skipped;
        }
        self.track.copy(self.standing.position, block);
        self.standing.position += Frames::from_len(block.len() / self.track.channels());
    }
}

/// Gives the application the wire's sound.
pub(crate) struct Giver {
    ring: Producer<f32>,
    channels: usize,
    /// Frames ever put into the ring.
    given: u64,
    standing: DeviceProgress,
    running: bool,
}

impl Giver {
    pub(crate) fn new(ring: Producer<f32>, channels: usize) -> Self {
        Self { ring, channels, given: 0, standing: DeviceProgress::default(), running: false }
    }

    /// Gives the block of this turn. Wait-free. A block that finds no room is lost, and what comes
    /// after it takes its position: the application had a whole buffer to read.
    // Stays a function in every build: scripts/check-realtime looks for it by name.
    #[inline(never)]
    pub(crate) fn give(&mut self, shared: &StreamShared, turn: &Turn, block: &[f32]) {
        let order = shared.ordered();
        if order.stint != self.standing.stint {
            self.standing = DeviceProgress {
                stint: order.stint,
                origin: self.given,
                ..DeviceProgress::default()
            };
        }
        self.running = order.mode == Mode::Running;
        if self.running {
            // Whatever was not given since the last block moves all that follows.
            self.standing.anchor = Some(turn.frame - self.standing.position.as_frames());
            if let Ok(mut chunk) = self.ring.write_chunk(block.len()) {
                let (head, tail) = chunk.as_mut_slices();
                let (first, rest) = block.split_at(head.len());
                head.copy_from_slice(first);
                tail.copy_from_slice(rest);
                chunk.commit_all();
                let frames = block.len() / self.channels;
                self.given += frames as u64;
                self.standing.position += Frames::from_len(frames);
            }
        }
        shared.stand(self.standing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Order;
    use tautline_proto::time::{LocalTime, MediaTime};

    const P: usize = 4;

    fn turn(frame: i64, skipped: i64) -> Turn {
        Turn { frame, meets: LocalTime::ZERO, skipped: Frames::new(skipped) }
    }

    fn order(shared: &StreamShared, stint: u64, mode: Mode) {
        shared.order(Order { stint, mode });
    }

    fn at(position: i64) -> MediaTime {
        MediaTime::from_frames(position)
    }

    /// A mono feeder of a track of 16 frames.
    fn scene() -> (Arc<Track>, StreamShared, Feeder) {
        let track = Arc::new(Track::new(16, 1));
        (Arc::clone(&track), StreamShared::default(), Feeder::new(track))
    }

    /// What it takes at the block that begins with `frame`.
    fn fed(feeder: &mut Feeder, shared: &StreamShared, frame: i64) -> Vec<f32> {
        let mut block = [9.0; P];
        feeder.feed(shared, &turn(frame, 0), &mut block);
        block.to_vec()
    }

    /// Frames from `position` on: these numbers.
    fn put(track: &Track, position: i64, range: core::ops::Range<u32>) {
        let samples: Vec<f32> = range.map(|number| number as f32).collect();
        let position = at(position);
        track.put(position, &samples);
        track.set_end(position + Frames::from_len(samples.len()));
    }

    #[test]
    fn what_the_application_writes_is_taken_once_it_runs() {
        let (track, shared, mut feeder) = scene();
        order(&shared, 1, Mode::Stopped);
        put(&track, 0, 1..9);
        assert_eq!(fed(&mut feeder, &shared, 0), [0.0; P]);
        order(&shared, 1, Mode::Running);
        assert_eq!(fed(&mut feeder, &shared, 4), [1.0, 2.0, 3.0, 4.0]);
        let stands = DeviceProgress { stint: 1, position: at(4), anchor: Some(4), origin: 0 };
        assert_eq!(shared.standing(), stands);
    }

    #[test]
    fn a_slow_application_costs_silence_and_its_late_frames_are_not_played_later() {
        let (track, shared, mut feeder) = scene();
        order(&shared, 1, Mode::Running);
        put(&track, 0, 1..4);
        assert_eq!(fed(&mut feeder, &shared, 0), [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(fed(&mut feeder, &shared, 4), [0.0; P]);
        // Frames 4 to 8 of the stint are too late, 9 is in time.
        put(&track, 3, 4..11);
        assert_eq!(fed(&mut feeder, &shared, 8), [9.0, 10.0, 0.0, 0.0]);
        assert_eq!(shared.standing().position, at(12));
        assert_eq!(shared.standing().anchor, Some(0));
    }

    #[test]
    fn a_pause_plays_silence_and_loses_nothing() {
        let (track, shared, mut feeder) = scene();
        put(&track, 0, 1..9);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, &shared, 0);
        order(&shared, 1, Mode::Paused);
        assert_eq!(fed(&mut feeder, &shared, 4), [0.0; P]);
        order(&shared, 1, Mode::Running);
        assert_eq!(fed(&mut feeder, &shared, 8), [5.0, 6.0, 7.0, 8.0]);
        let DeviceProgress { position, anchor, .. } = shared.standing();
        assert_eq!((position, anchor), (at(8), Some(4)), "later by the pause");
    }

    #[test]
    fn a_new_stint_plays_nothing_of_the_one_before() {
        let (track, shared, mut feeder) = scene();
        put(&track, 0, 1..9);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, &shared, 0);
        track.set_end(MediaTime::ZERO);
        order(&shared, 2, Mode::Running);
        assert_eq!(fed(&mut feeder, &shared, 40), [0.0; P]);
        put(&track, 0, 20..28);
        assert_eq!(fed(&mut feeder, &shared, 44), [24.0, 25.0, 26.0, 27.0]);
        let stands = DeviceProgress { stint: 2, position: at(8), anchor: Some(40), origin: 0 };
        assert_eq!(shared.standing(), stands);
    }

    #[test]
    fn frames_that_the_card_missed_are_not_played_later() {
        let (track, shared, mut feeder) = scene();
        put(&track, 0, 0..16);
        order(&shared, 1, Mode::Running);
        fed(&mut feeder, &shared, 0);
        let mut block = [0.0; P];
        feeder.feed(&shared, &turn(8, 4), &mut block);
        assert_eq!(block, [8.0, 9.0, 10.0, 11.0]);
        assert_eq!(shared.standing().position, at(12));
    }

    #[test]
    fn a_recording_begins_with_its_stint_and_loses_whole_blocks_when_nobody_reads() {
        let (producer, mut ring) = rtrb::RingBuffer::new(8);
        let (shared, mut giver) = (StreamShared::default(), Giver::new(producer, 1));
        giver.give(&shared, &turn(0, 0), &[1.0; P]);
        assert_eq!(ring.slots(), 0, "nobody started it");
        order(&shared, 1, Mode::Running);
        for number in 1..=3 {
            giver.give(&shared, &turn(4 * number, 0), &[number as f32; P]);
        }
        let stands = DeviceProgress { stint: 1, position: at(8), anchor: Some(4), origin: 0 };
        assert_eq!(shared.standing(), DeviceProgress { anchor: Some(12 - 8), ..stands });
        (0..8).for_each(|at| assert_eq!(ring.pop(), Ok(if at < 4 { 1.0 } else { 2.0 })));
        giver.give(&shared, &turn(16, 0), &[4.0; P]);
        assert_eq!(
            shared.standing(),
            DeviceProgress { position: at(12), anchor: Some(8), ..stands }
        );
        order(&shared, 2, Mode::Running);
        giver.give(&shared, &turn(20, 0), &[5.0; P]);
        assert_eq!(shared.standing().origin, 12);
    }
}
