//! Overlapping packets at a change of coding.

use super::*;
use crate::codec::{Decode, OpusTuning, Undecodable};
use crate::playout::{Placed, Playout};

const OPUS: Codec = Codec::Opus(Opus { tuning: OpusTuning::Music, bitrate: 64_000 });

/// Sets all frames of a packet to its third byte.
#[derive(Debug)]
struct Level(Codec);

impl Decode for Level {
    fn codec(&self) -> Codec {
        self.0
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        let same = payload[2..].iter().all(|byte| *byte == payload[2]);
        out.fill(f32::from(payload[2]));
        if same { Ok(()) } else { Err(Undecodable) }
    }

    fn recover(&mut self, _: &[u8], _: Frames, _: &mut [f32]) -> bool {
        false
    }

    fn conceal(&mut self, _: &mut [f32]) -> bool {
        false
    }

    fn reset(&mut self) {}
}

fn playout() -> Playout {
    let mut playout = Playout::new(Rate::HZ_48000, Channels::MONO, Frames::new(4_800));
    let decoders: Vec<Box<dyn Decode>> =
        vec![Box::new(Level(Codec::Lossless)), Box::new(Level(OPUS))];
    playout.decode_by(Rate::HZ_48000, decoders);
    playout.move_to(MediaTime::ZERO);
    playout
}

fn place(playout: &mut Playout, first: i64, frames: i64, codec: Codec, level: u8, bytes: usize) {
    let payload = vec![level; bytes];
    let placed =
        playout.place_coded(MediaTime::from_frames(first), Frames::new(frames), codec, &payload);
    assert_eq!(placed, Placed::Whole);
}

fn pull(playout: &mut Playout, frames: usize) -> (Frames, Vec<f32>) {
    let mut out = vec![0.0; frames];
    (playout.pull(&mut out), out)
}

/// Recovers up to two packets of 240 frames: 10 plus the distance in packets.
#[derive(Debug)]
struct Deep;

impl Decode for Deep {
    fn codec(&self) -> Codec {
        OPUS
    }

    fn decode(&mut self, payload: &[u8], out: &mut [f32]) -> Result<(), Undecodable> {
        Level(OPUS).decode(payload, out)
    }

    fn recover(&mut self, _: &[u8], ahead: Frames, out: &mut [f32]) -> bool {
        out.fill(10.0 + (ahead.count() / 240) as f32);
        ahead < Frames::new(480)
    }

    fn reset(&mut self) {}
}

#[test]
fn burst_is_recovered_from_the_packet_after_it() {
    let mut playout = Playout::new(Rate::HZ_48000, Channels::MONO, Frames::new(4_800));
    playout.decode_by(Rate::HZ_48000, vec![Box::new(Deep)]);
    playout.move_to(MediaTime::ZERO);
    place(&mut playout, 0, 240, OPUS, 1, 9);
    place(&mut playout, 4 * 240, 240, OPUS, 5, 9);
    let received: Vec<f32> = (0..5).map(|_| pull(&mut playout, 240).1[120]).collect();
    // Without a copy.
    assert_eq!((received[0], &received[2..]), (1.0, &[11.0, 10.0, 5.0][..]));
}

#[test]
fn overlapping_packet_plays_from_the_previous_end() {
    let mut playout = playout();
    place(&mut playout, 0, 240, Codec::Lossless, 1, 9);
    place(&mut playout, 240, 240, Codec::Lossless, 2, 9);
    for (at, level) in [(360, 3), (600, 4), (840, 5)] {
        place(&mut playout, at, 240, OPUS, level, 9);
    }
    let (missing, received) = pull(&mut playout, 1_080);
    assert_eq!(missing, Frames::ZERO);
    // A millisecond of cross-fade.
    for (range, level) in [(0..240, 1.0), (240..480, 2.0), (528..600, 3.0), (600..840, 4.0)] {
        assert!(received[range.clone()].iter().all(|received| *received == level), "{range:?}");
    }
}

#[test]
fn overlapping_payloads_keep_only_the_later_one() {
    let mut playout = playout();
    place(&mut playout, 0, 240, Codec::Lossless, 1, 9);
    // 960 bytes of room, half of them in use.
    place(&mut playout, 240, 240, Codec::Lossless, 2, 700);
    for at in [360, 600, 840] {
        place(&mut playout, at, 240, OPUS, 3, 9);
    }
    let (missing, received) = pull(&mut playout, 1_080);
    assert_eq!(missing, Frames::new(120));
    // A fade-in after a gap.
    assert!(received[840..].iter().all(|received| *received == 3.0));
    assert_eq!(playout.coded().unwrap().undecodable(), 0);
}

#[test]
fn search_needs_compressed_packets() {
    let mut playout = playout();
    let coded = playout.coded_mut().unwrap();
    // Not registered, but a search would find it.
    let hidden = WaitingPayload { first: MediaTime::ZERO, frames: 240, bytes: 9, decoder: 0 };
    coded.waiting[0] = hidden;
    let (missing, _) = pull(&mut playout, 240);
    assert_eq!(missing, Frames::new(240));
}
