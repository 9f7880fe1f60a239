//! The calls to measure: the paper's buffers translated to calls, and usual calls of this program.
//!
//! The paper's slots hold one block each:
//!
//! - *Block*: period of both cards, and a packet: `bytes ÷ (2 × channels × rate)` seconds of 16-bit
//!   samples. A longer block is split into equal packets.
//! - *Playback slots* × block: most sound waiting at the ear, so the latency (`--latency`). The
//!   paper's program does not fill the slots.
//! - *Recording slots* × block: the card's buffer at the mouth. It adds no delay, as sound is sent
//!   immediately.

use tautline_proto::stream::{LONGEST_LINK_OFFSET, PTIME_RANGE};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

use crate::report::{Published, Statistic};

tautline_dsp::named_enum! {
    /// 16-bit sound of the paper's two softphones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum PaperSound {
        Voice = "16 kHz mono",
        Wide = "48 kHz stereo",
    }
}

impl PaperSound {
    const fn shape(self) -> (Rate, Channels) {
        match self {
            Self::Voice => (Rate::HZ_16000, Channels::MONO),
            Self::Wide => (Rate::HZ_48000, Channels::STEREO),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPoint {
    pub sound: PaperSound,
    pub block: u32,
    pub playback: u32,
    pub recording: u32,
    pub transport: CallTransport,
}

const SETTLED: SlotPoint = SlotPoint {
    sound: PaperSound::Voice,
    block: 1024,
    playback: 64,
    recording: 16,
    transport: CallTransport::Udp,
};

const PLAYBACK: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];
const RECORDING: [u32; 6] = [4, 8, 16, 32, 64, 128];
const BLOCKS: [u32; 4] = [512, 1024, 2048, 4096];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCase {
    pub name: String,
    pub(super) rate: Rate,
    pub(super) channels: Channels,
    pub(super) coding: &'static str,
    /// Packet time, rounded up to hold its whole frames.
    pub(super) ptime: Span,
    pub(super) period: Frames,
    pub(super) periods: u32,
    /// Requested buffer at the mouth, if no card has it.
    pub(super) recording: Option<Span>,
    /// Latency of the call; `None` if it follows the packets.
    pub(super) latency: Option<Span>,
    pub(super) transport: CallTransport,
    pub(super) is_capped: bool,
    pub(super) published: Vec<Published>,
}

pub type CaseOrNot = Result<CallCase, (String, String)>;

/// Longest buffer of an `audio::software::cable` card.
const LONGEST_BUFFER: Span = Span::from_millis(250);
/// Minimum periods of the recording device. All cards support two.
const FEWEST: u32 = 2;

fn holding(rate: Rate, frames: i64) -> Span {
    let hertz = i64::from(rate.hertz());
    Span::from_nanos((frames * 1_000_000_000 + hertz - 1) / hertz)
}

impl SlotPoint {
    fn name(&self) -> String {
        let Self { sound, block, playback, recording, transport } = self;
        let block = match block % 1024 {
            0 => format!("{} KB", block / 1024),
            _ => format!("{block} B"),
        };
        format!(
            "{}, {block}, playback {playback}, recording {recording}, {}",
            sound.name(),
            transport.name().to_uppercase()
        )
    }

    pub fn case(&self) -> CaseOrNot {
        let name = self.name();
        self.call(name.clone()).map_err(|why| (name, why))
    }

    fn call(&self, name: String) -> Result<CallCase, String> {
        let (rate, channels) = self.sound.shape();
        let frames = i64::from(self.block) / (2 * channels.count() as i64);
        let span = |blocks: u32| rate.span_of(Frames::new(frames * i64::from(blocks)));
        let (block, latency, recording) = (span(1), span(self.playback), span(self.recording));
        if span(FEWEST) > LONGEST_BUFFER {
            return Err(format!(
                "a block is {block}, but a card's buffer of at least two blocks holds at most \
                 {LONGEST_BUFFER}"
            ));
        }
        if latency > LONGEST_LINK_OFFSET {
            return Err(format!(
                "{} blocks of {block} are {latency}, more than the maximum of \
                 {LONGEST_LINK_OFFSET}",
                self.playback
            ));
        }
        let parts = (0..).map(|power| 1_i64 << power);
        let fits = |parts: &i64| holding(rate, frames / parts) <= PTIME_RANGE.1;
        let parts = parts.take_while(|parts| frames % parts == 0).find(fits);
        let parts = parts.ok_or_else(|| {
            format!(
                "a block of {block} is not a whole number of \
                                                 packets"
            )
        })?;
        let maximum = LONGEST_BUFFER.as_nanos() / block.as_nanos().max(1);
        let periods = self.recording.min(u32::try_from(maximum).unwrap_or(u32::MAX)).max(FEWEST);
        Ok(CallCase {
            name,
            rate,
            channels,
            coding: "l16",
            ptime: holding(rate, frames / parts),
            period: Frames::new(frames),
            periods,
            recording: (periods < self.recording).then_some(recording),
            latency: Some(latency),
            transport: self.transport,
            is_capped: true,
            published: Vec::from_iter(self.is_settled().then(|| by(self.transport))),
        })
    }

    pub(super) fn is_settled(&self) -> bool {
        Self { transport: SETTLED.transport, ..*self } == SETTLED
    }
}

const USUAL: [(&str, &str, i64, i64, Option<i64>); 4] = [
    ("L16, packets of 2.5 ms, latency auto", "l16", 2_500, 48, None),
    ("L16, packets and periods of 2.5 ms", "l16", 2_500, 120, Some(8_500)),
    ("L16, packets and periods of 2.5 ms, kept at 15 ms", "l16", 2_500, 120, Some(15_000)),
    ("Opus, packets of 5 ms, periods of 2.5 ms, kept at 25 ms", "opus", 5_000, 120, Some(25_000)),
];

/// The first two have the paper's figures.
pub fn usual() -> Vec<CaseOrNot> {
    let call = |(what, coding, ptime, period, latency): (&str, _, i64, i64, Option<i64>)| {
        CallTransport::ALL.map(|transport| {
            Ok(CallCase {
                name: format!("48 kHz stereo, {what}, {}", transport.name().to_uppercase()),
                rate: Rate::HZ_48000,
                channels: Channels::STEREO,
                coding,
                ptime: Span::from_micros(ptime),
                period: Frames::new(period),
                periods: 4,
                recording: None,
                latency: latency.map(Span::from_micros),
                transport,
                is_capped: false,
                published: of_usual(transport),
            })
        })
    };
    USUAL.into_iter().flat_map(call).collect()
}

/// Varies one parameter of the paper's final choice at a time.
pub fn short() -> Vec<SlotPoint> {
    let mut points = Vec::new();
    for sound in PaperSound::ALL {
        let settled = SlotPoint { sound, ..SETTLED };
        points.extend(CallTransport::ALL.map(|transport| SlotPoint { transport, ..settled }));
        points.extend([4, 16, 256].map(|playback| SlotPoint { playback, ..settled }));
        points.extend([512, 2048, 4096].map(|block| SlotPoint { block, ..settled }));
    }
    let settled = SlotPoint { sound: PaperSound::Wide, ..SETTLED };
    points.extend([4, 128].map(|recording| SlotPoint { recording, ..settled }));
    points
}

pub fn full() -> Vec<SlotPoint> {
    let mut points = Vec::new();
    for sound in PaperSound::ALL {
        for block in BLOCKS {
            for playback in PLAYBACK {
                for recording in RECORDING {
                    let point = SlotPoint { sound, block, playback, recording, ..SETTLED };
                    points.extend(
                        CallTransport::ALL.map(|transport| SlotPoint { transport, ..point }),
                    );
                }
            }
        }
    }
    points
}

tautline_dsp::named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CallTransport {
        Udp = "udp",
        Tcp = "tcp",
    }
}

const SOURCE: &str = "Morales 2009, Mouth-to-Ear Latency Measurements";

const fn paper(name: &'static str, millis: i64) -> Published {
    Published { source: SOURCE, name, statistic: Statistic::Mean, value_ns: millis * 1_000_000 }
}

/// 64 playback and 16 recording slots of 1 KB; mean of the more stable softphone.
const fn by(transport: CallTransport) -> Published {
    match transport {
        CallTransport::Udp => paper("pTHINC", 292),
        CallTransport::Tcp => paper("pTHINC", 321),
    }
}

fn of_usual(transport: CallTransport) -> Vec<Published> {
    vec![by(transport), paper("Skype on the device", 190)]
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_proto::stream::packet_frames;

    use super::*;

    const VOICE: SlotPoint = SETTLED;
    const WIDE: SlotPoint = SlotPoint { sound: PaperSound::Wide, ..SETTLED };

    fn lies(point: SlotPoint) -> (i64, i64, u32, i64) {
        let case = point.case().unwrap();
        let packet = packet_frames(case.rate, case.ptime).unwrap().count();
        let latency = case.latency.unwrap().as_nanos() / 1000;
        (packet, case.period.count(), case.periods, latency)
    }

    #[test]
    fn slots_of_blocks_are_times_by_rate_and_channels() {
        // 1 KB of 16 kHz mono is 32 ms: two packets (max. 20 ms).
        assert_eq!(lies(VOICE), (256, 512, 7, 2_048_000));
        assert_eq!(lies(SlotPoint { block: 512, ..VOICE }), (256, 256, 15, 1_024_000));
        assert_eq!(lies(SlotPoint { block: 2048, ..VOICE }), (256, 1024, 3, 4_096_000));
        assert_eq!(lies(SlotPoint { recording: 4, ..VOICE }).2, 4);
        // 1 KB of 48 kHz stereo is 5.33 ms, 4 KB 21.3 ms.
        assert_eq!(lies(WIDE), (256, 256, 16, 341_333));
        assert_eq!(lies(SlotPoint { playback: 4, block: 512, ..WIDE }), (128, 128, 16, 10_666));
        assert_eq!(lies(SlotPoint { block: 4096, ..WIDE }), (512, 1024, 11, 1_365_333));
    }

    #[test]
    fn short_output_tap_reports_its_length() {
        assert_eq!(VOICE.case().unwrap().recording, Some(Span::from_millis(512)));
        assert_eq!(WIDE.case().unwrap().recording, None);
    }

    #[test]
    fn impossible_calls_are_reported_with_the_reason() {
        let why = |point: SlotPoint| point.case().unwrap_err();
        let (name, reported) = why(SlotPoint { playback: 256, ..VOICE });
        snapshot!(name);
        snapshot!(reported);
        let (_, reported) = why(SlotPoint { block: 4096, playback: 4, ..VOICE });
        snapshot!(reported);
    }

    #[test]
    fn slot_sweeps_include_the_papers_choice_with_its_figures() {
        for points in [short(), full()] {
            let settled = points.iter().filter(|point| point.is_settled());
            let alongside =
                settled.map(|point| point.case().unwrap().published[0].value_ns / 1_000_000);
            assert_eq!(alongside.collect::<Vec<_>>(), [292, 321]);
        }
        assert_eq!(full().len(), 2 * 4 * 7 * 6 * 2);
        let distinct = short();
        for (at, point) in distinct.iter().enumerate() {
            assert!(!distinct[..at].contains(point), "{point:?}");
        }
    }
}
