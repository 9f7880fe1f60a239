//! Lower bound: take a packet, read its header, convert its samples.

use super::*;
use tautline_dsp::format::decode;

const PAYLOAD: usize = 3 * SAMPLES;

struct FloorProcess {
    link: Memory,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
}

impl Process for FloorProcess {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let samples = &mut *cycle.playback.samples;
        let (sequence, timestamp, ssrc) = (&mut self.sequence, &mut self.timestamp, &mut self.ssrc);
        self.link.receive(&mut |datagram| {
            let [_, _, s0, s1, t0, t1, t2, t3, n0, n1, n2, n3, ..] = *datagram.bytes else {
                return;
            };
            *sequence = u16::from_be_bytes([s0, s1]);
            *timestamp = u32::from_be_bytes([t0, t1, t2, t3]);
            *ssrc = u32::from_be_bytes([n0, n1, n2, n3]);
            if let Some(payload) = datagram.bytes.last_chunk::<PAYLOAD>() {
                decode(SampleFormat::L24, payload, samples);
            }
        });
        Flow::Continue
    }
}

#[test]
fn converted_stream_equals_the_sent_one() {
    let scene = CostScene { drift: 0, carried: Layout::NONE, everything: true };
    let mut world = CostWorld::new(1, scene);
    world.sender.set_redundancy(Layout::NONE);
    let link = Memory(Arc::clone(&world.ends[0].arrived));
    let mut floor = FloorProcess { link, sequence: 0, timestamp: 0, ssrc: 0 };
    let mut samples = [0.0; SAMPLES];
    let periods = wanted(PERIODS, 4000);
    for _ in 0..periods {
        let now = world.woken;
        world.woken += PACKET;
        world.send(now);
        let (uncertainty, skipped) = (Span::ZERO, Frames::ZERO);
        let playback = Side { samples: &mut samples, meets: now + RING, uncertainty, skipped };
        let mut cycle = Cycle { now, capture: Side::absent(), playback, xruns: 0, clock: None };
        let process: &mut dyn Process = &mut floor;
        black_box(process).process(&mut cycle);
        black_box(&samples);
    }
    assert_eq!(floor.ssrc, 1);
    let packets = periods - 1;
    assert_eq!(floor.sequence, 65_000_u16.wrapping_add(packets as u16 - 1));
    let furthest = samples.iter().zip(&world.block).map(|(received, sent)| (received - sent).abs());
    assert!(furthest.fold(0.0, f32::max) <= 1.0 / (1 << 23) as f32);
}
