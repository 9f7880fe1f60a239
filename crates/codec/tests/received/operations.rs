//! Packets of a compressed stream and device requests. Shared with the fuzz target `codec`.

use tautline_codec::decoder;
use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Coding;
use tautline_proto::endpoint::Author;
use tautline_proto::jitter_buffer::{JitterBuffer, JitterBufferConfig, PullTimes};
use tautline_proto::packet::Codings;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::rtp::{Header, RtpUnpack};

const SSRC: u32 = 7;

#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) loud: usize,
    pub(crate) undecodable: u64,
}

pub(crate) fn play(channels: Channels, bytes: &[u8]) -> Played {
    let format = StreamFormat {
        rate: Rate::HZ_48000,
        channels,
        sample: SampleFormat::L24,
        codec: None,
        packet: Frames::new(240),
        payload_type: StreamFormat::default_payload_type(SampleFormat::L24),
    };
    let wire = RtpUnpack::taking(Codings::ByConvention);
    let config = JitterBufferConfig {
        decoders: Some(decoder),
        ..JitterBufferConfig::new(wire, format, Span::from_millis(20))
    };
    let mut receiver = JitterBuffer::new(config);
    receiver.measure_unannounced(Span::from_millis(2), true);
    let mut now = LocalTime::from_nanos(1_000_000_000);
    let mut header = Header {
        sequence: 0,
        timestamp: 0,
        ssrc: SSRC,
        marker: true,
        payload_type: 100,
        stamps: None,
    };
    let mut datagram = Vec::new();
    let mut out = vec![0.0; 256 * channels.count()];
    let mut played = Played::default();
    let mut rest = bytes;
    while let Some((operation, after)) = rest.split_first() {
        rest = after;
        match operation >> 5 {
            0..=3 => {
                let Some((&[leaves_out, high, low], after)) = rest.split_first_chunk() else {
                    break;
                };
                let len = usize::from(u16::from_be_bytes([high & 0x07, low])).min(after.len());
                let (payload, after) = after.split_at(len);
                rest = after;
                header.payload_type = [100, 101, 102, 97][usize::from(operation & 3)];
                let coding = Coding::find(|row| row.payload_type == header.payload_type);
                let codec = coding.and_then(|coding| coding.codec);
                let said = codec.and_then(|codec| codec.frames(payload));
                let frames = said.map_or(240, Frames::as_len) as u32;
                // Frames move the packet off the grid.
                let (packets, off) = (u32::from(leaves_out & 7), u32::from(leaves_out >> 3));
                header.sequence = header.sequence.wrapping_add(packets as u16);
                header.timestamp = header.timestamp.wrapping_add(packets * frames + off);
                datagram.resize(header.bytes(), 0);
                header.write(&mut datagram);
                datagram.extend_from_slice(payload);
                let _ = receiver.handle(&datagram, now, now);
                header.sequence = header.sequence.wrapping_add(1);
                header.timestamp = header.timestamp.wrapping_add(frames);
                header.marker = false;
            }
            4 => {
                let back = u32::from(operation & 0x1F);
                header.sequence = header.sequence.wrapping_sub(back as u16);
                header.timestamp = header.timestamp.wrapping_sub(back * 240);
            }
            5 if operation & 0x1F == 0 => receiver.say_goodbye(Author::of(SSRC)),
            _ => {
                let frames = 8 * usize::from(operation & 0x1F) + 8;
                let out = &mut out[..frames * channels.count()];
                now += format.rate.span_of(Frames::from_len(frames));
                let times = PullTimes { now, meets: now, skipped: Frames::ZERO, clock: None };
                receiver.pull(out, times, |_| {});
                assert!(out.iter().all(|sample| sample.is_finite()));
                played.loud += out.iter().filter(|sample| sample.abs() > 0.01).count();
            }
        }
    }
    played.undecodable = receiver.counters().undecodable;
    played
}
