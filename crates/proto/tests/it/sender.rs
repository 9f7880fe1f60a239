//! Packets contain exactly the captured frames, with correct numbers, times and markers.

use proptest::prelude::*;
use tautline_dsp::format::{SampleFormat, encode};
use tautline_proto::ledger::Departure;
use tautline_proto::packet::{Instants, StreamId};
use tautline_proto::packetizer::{
    BlockTimes, Identity, Packetizer, PacketizerConfig, PacketizerState,
};
use tautline_proto::redundancy::{ETHERNET, Layout};
use tautline_proto::stream::{MAX_DATAGRAM_BYTES, Outgoing, StreamFormat};
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span, WallTime};
use tautline_proto::units::{Channels, Rate};

use crate::reformat::Reformat;
use tautline_proto::wire::rtp::{NtpTime, PACK, Packet};

const IDENTITY: Identity =
    Identity { stream: StreamId(77), sequence: 65_530, timestamp: u32::MAX - 90 };
const WALL: Span = Span::from_secs(1_700_000_000);
const PERIOD: Frames = Frames::new(40);

#[derive(Debug, Clone)]
enum Step {
    Push(i64),
    Skip(i64),
    Packet(i64),
    Sample(SampleFormat),
}

fn step() -> impl Strategy<Value = Step> {
    let sample = prop::sample::select(&SampleFormat::ALL[..]);
    prop_oneof![
        12 => (1..100_i64).prop_map(Step::Push),
        3 => (0..80_i64).prop_map(Step::Skip),
        2 => (1..60_i64).prop_map(Step::Packet),
        2 => sample.prop_map(Step::Sample),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    Captured {
        value: i16,
        at: LocalTime,
        taken: LocalTime,
    },
    /// The card lost the frame.
    Lost,
}

struct Model {
    format: StreamFormat,
    frames: Vec<Frame>,
    /// First frame that is neither packed nor lost.
    open: usize,
    marker: bool,
    packets: u64,
    octets: u64,
}

impl Model {
    fn check(
        &mut self,
        (datagram, instants): (&[u8], Departure),
        now: LocalTime,
    ) -> Result<Frames, TestCaseError> {
        let format = self.format;
        let packet = Packet::parse(datagram).expect("a sender sends packets");
        prop_assert_eq!(packet.ssrc, IDENTITY.stream.ssrc());
        prop_assert_eq!(packet.sequence, IDENTITY.sequence.wrapping_add(self.packets as u16));
        prop_assert_eq!(packet.payload_type, format.payload_type);
        prop_assert_eq!(packet.marker, self.marker);
        let first = packet.timestamp.wrapping_sub(IDENTITY.timestamp) as usize;
        prop_assert_eq!(first, self.open, "no frame is left out, and none comes twice");
        prop_assert_eq!(instants.media, MediaTime::from_frames(first as i64));
        let count = packet.payload.len() / format.frame_bytes();
        let Frame::Captured { at, taken, .. } = self.frames[first] else {
            panic!("a packet begins with a frame that was captured")
        };
        let capture = NtpTime::from_unix_nanos(WallTime::of_local(at, WALL).as_unix_nanos());
        let said = packet.sender.expect("stamps were asked for");
        prop_assert_eq!(said.capture, capture);
        let sent =
            Instants { taken: taken - at, packed: now - at, handed: Span::ZERO, held: Span::ZERO };
        prop_assert_eq!(said.instants, Some(sent));
        prop_assert_eq!((instants.capture, instants.taken, instants.packed), (at, taken, now));
        prop_assert_eq!(instants.due, at + format.packing_age(PERIOD));
        let values = self.frames[first..first + count].iter().flat_map(|frame| match frame {
            Frame::Captured { value, .. } => [f32::from(*value) / 32_768.0; 2],
            Frame::Lost => [0.0; 2],
        });
        let values: Vec<f32> = values.collect();
        let mut wanted = vec![0; packet.payload.len()];
        encode(format.sample, &values, &mut wanted);
        prop_assert_eq!(packet.payload, &wanted[..]);
        self.open += count;
        self.marker = false;
        self.packets += 1;
        self.octets += packet.payload.len() as u64;
        Ok(Frames::from_len(count))
    }
}

fn format(packet: i64, sample: SampleFormat) -> StreamFormat {
    StreamFormat {
        codec: None,
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        sample,
        packet: Frames::new(packet),
        payload_type: StreamFormat::default_payload_type(sample),
    }
}

fn config(format: StreamFormat, redundancy: Layout) -> PacketizerConfig {
    PacketizerConfig {
        wire: PACK,
        format,
        identity: IDENTITY,
        period: PERIOD,
        stamps: true,
        wall_offset: WALL,
        redundancy,
        presented_after: Span::ZERO,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_hold_captured_frames_and_silence_for_lost_ones(
        packet in 1..60_i64,
        redundancy in any::<bool>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let layout = if redundancy { Layout::copies(1, 3) } else { Layout::NONE };
        let mut sender = Packetizer::new(config(format(packet, SampleFormat::L24), layout));
        let mut model = Model {
            format: *sender.format(),
            frames: Vec::new(),
            open: 0,
            marker: true,
            packets: 0,
            octets: 0,
        };
        let mut now = LocalTime::from_nanos(1_000_000);
        for (number, step) in steps.iter().enumerate() {
            now += Span::from_micros(300 + number as i64);
            let mut sent = Vec::new();
            let keep = |packet: Outgoing<'_>| {
                assert!(packet.handed_at.is_some());
                sent.push((packet.datagram.to_vec(), packet.instants));
            };
            match *step {
                Step::Push(frames) => {
                    let capture = now - Span::from_micros(2500);
                    let taken = now - Span::from_micros(17);
                    let first = model.frames.len();
                    let fresh = (0..frames).map(|frame| Frame::Captured {
                        value: ((first as i64 + frame) * 7919 % 31_000 + 1) as i16,
                        at: capture + Rate::HZ_48000.span_of(Frames::new(frame)),
                        taken,
                    });
                    model.frames.extend(fresh);
                    let block: Vec<f32> = model.frames[first..].iter().flat_map(|frame| match frame {
                        Frame::Captured { value, .. } => [f32::from(*value) / 32_768.0; 2],
                        Frame::Lost => unreachable!("a block is captured"),
                    }).collect();
                    sender.push(&block, BlockTimes { capture, taken, now }, keep);
                    let coming = *sender.format();
                    let begun = first > model.open;
                    let short = begun && coming.packet != model.format.packet;
                    if !begun {
                        model.format = coming;
                    }
                    for (at, (datagram, instants)) in sent.into_iter().enumerate() {
                        let frames = model.check((&datagram, instants), now)?;
                        // Begun at the old length, sent short.
                        let whole = frames == model.format.packet;
                        prop_assert!(whole || (at == 0 && short && model.open == first));
                        if (at == 0 && short) || coming.packet == model.format.packet {
                            model.format = coming;
                        }
                    }
                }
                Step::Skip(frames) => {
                    let lost = model.frames.len();
                    model.frames.extend((0..frames).map(|_| Frame::Lost));
                    let within = sender.until_packet().as_len().min(frames as usize);
                    sender.skip(Frames::new(frames), now, keep);
                    for (datagram, instants) in sent {
                        prop_assert_eq!(model.check((&datagram, instants), now)?, model.format.packet);
                    }
                    // The next packet begins after lost frames.
                    if within < frames as usize {
                        prop_assert_eq!(model.open, lost + within);
                        model.open = model.frames.len();
                        model.marker = true;
                    }
                }
                Step::Packet(packet) => {
                    prop_assert!(sender.set_packet(Frames::new(packet)));
                    prop_assert_eq!(sender.format().packet, Frames::new(packet));
                }
                Step::Sample(sample) => {
                    let payload_type = StreamFormat::default_payload_type(sample);
                    prop_assert!(sender.set_sample(sample, payload_type));
                    let format = sender.format();
                    prop_assert_eq!((format.sample, format.payload_type), (sample, payload_type));
                }
            }
            let open = Frames::from_len(model.frames.len() - model.open);
            let until = if open == Frames::ZERO { open } else { model.format.packet - open };
            prop_assert_eq!(sender.until_packet(), until);
            let PacketizerState { packets, octets, .. } = sender.state();
            prop_assert_eq!((packets, octets), (model.packets, model.octets));
        }
    }
}

#[test]
fn room_fits_the_longest_possible_datagram() {
    let mono = |packet, sample| StreamFormat { channels: Channels::MONO, ..format(packet, sample) };
    // 20 ms of floats at 48 kHz, plus 40 bytes.
    let short = Packetizer::new(config(mono(48, SampleFormat::L16), Layout::NONE));
    assert_eq!(short.datagram_bytes(), 40 + 960 * 4);
    let channels = Channels::new(64).expect("there are 64");
    let wide = StreamFormat { channels, ..mono(48, SampleFormat::L16) };
    assert_eq!(Packetizer::new(config(wide, Layout::NONE)).datagram_bytes(), MAX_DATAGRAM_BYTES);
    // Within an Ethernet frame, even with redundancy.
    let slow =
        StreamFormat { rate: Rate::new(8000).expect("supported"), ..mono(8, SampleFormat::L16) };
    assert_eq!(Packetizer::new(config(slow, Layout::NONE)).datagram_bytes(), ETHERNET);
    let jumbo = Layout::copies(2, 4).within(8000);
    assert_eq!(Packetizer::new(config(slow, jumbo)).datagram_bytes(), 8000);
}

#[test]
fn packet_larger_than_the_buffer_is_refused() {
    let channels = Channels::new(64).expect("there are 64");
    let wide = StreamFormat { channels, ..format(48, SampleFormat::L16) };
    let mut sender = Packetizer::new(config(wide, Layout::NONE));
    let maximum = (MAX_DATAGRAM_BYTES - 40) / (64 * 2);
    assert!(!sender.set_packet(Frames::ZERO));
    assert!(!sender.set_packet(Frames::from_len(maximum + 1)));
    assert_eq!(sender.format().packet, Frames::new(48));
    assert!(sender.set_packet(Frames::from_len(maximum)));
    assert!(!sender.set_sample(SampleFormat::F32, 98), "twice as long");
    assert_eq!(sender.format().sample, SampleFormat::L16);
}

#[test]
fn nothing_is_repaired_across_frames_that_the_card_lost() {
    let mut sender = Packetizer::new(config(format(40, SampleFormat::L16), Layout::copies(1, 2)));
    let block = [0.25; 80];
    let mut carries = Vec::new();
    for number in 0..8 {
        let now = LocalTime::from_nanos(1_000_000 * number);
        let times = BlockTimes { capture: now - Span::from_micros(900), taken: now, now };
        let mut keep = |packet: Outgoing<'_>| {
            carries.push(Packet::parse(packet.datagram).expect("a packet").carried.is_some());
        };
        if number == 4 {
            sender.skip(Frames::new(1), now, &mut keep);
        }
        if number == 6 {
            sender.skip(Frames::new(0), now, &mut keep);
        }
        sender.push(&block, times, keep);
    }
    // Repair data restarts after a gap.
    assert_eq!(carries, [false, true, true, true, false, true, true, true]);
}

#[test]
fn redundancy_changes_with_the_next_packet() {
    let mut sender = Packetizer::new(config(format(40, SampleFormat::L16), Layout::NONE));
    let mut carried = Vec::new();
    for number in 0..6 {
        let now = LocalTime::from_nanos(1_000_000 * number);
        if number == 2 {
            sender.set_redundancy(Layout::copies(1, 2));
            assert_eq!(sender.redundancy(), Layout::copies(1, 2));
        }
        if number == 5 {
            sender.set_redundancy(Layout::NONE);
        }
        let times = BlockTimes { capture: now - Span::from_micros(900), taken: now, now };
        sender.push(&[0.25; 80], times, |packet| {
            carried.push(Packet::parse(packet.datagram).expect("a packet").carried.is_some());
        });
    }
    assert_eq!(carried, [false, false, false, true, true, false]);
}

#[test]
fn repeat_is_named_by_distance_and_packed_once() {
    let mut sender = Packetizer::new(config(format(40, SampleFormat::L16), Layout::repeated(3)));
    let mut sent = Vec::new();
    for number in 0..8 {
        let now = LocalTime::from_nanos(1_000_000 * number);
        if number == 5 {
            sender.set_redundancy(Layout::NONE);
        }
        let times = BlockTimes { capture: now - Span::from_micros(900), taken: now, now };
        sender.push(&[0.25; 80], times, |packet| {
            sent.push((Packet::parse(packet.datagram).expect("a packet").sequence, packet.again));
        });
    }
    let first = sent[0].0;
    let reported = [Some(3), Some(3), Some(3), Some(3), Some(3), None, None, None];
    let wanted = reported.iter().zip(0..).map(|(again, later)| (first.wrapping_add(later), *again));
    assert_eq!(sent, wanted.collect::<Vec<_>>());
}
