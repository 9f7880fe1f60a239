//! Rate control over narrow paths, lossy paths, and paths without feedback. Packets have lengths
//! but no content.

use std::collections::VecDeque;
use std::fmt::Write;

use tautline_dsp::format::SampleFormat;
use tautline_proto::codec::Codec;
use tautline_proto::congestion::{
    CodingLimits, CodingSteps, PathFeedback, RateControl, Sent, TransitMeter,
};
use tautline_proto::stream::{Coding, StreamFormat, packet_frames};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_sim::clock::TrueTime;
use tautline_sim::link::{Bottleneck, Loss, Path, PathModel};

/// From capture to loudspeaker.
const LATENCY: Span = Span::from_millis(60);
const SHAPE: (Rate, Channels) = (Rate::HZ_48000, Channels::STEREO);
const SECOND: i64 = 1_000_000_000;
/// Interval between steps; all packet times are multiples of it.
const STEP: i64 = 2_500_000;
const BEAT: i64 = 20_000_000;
/// RTP, timestamps and SRTP tag, in bytes.
const HEADS: usize = 48;
/// With SRTCP index and tag, in bytes.
const FEEDBACK: usize = 36 + 20;
/// Encrypted compound RTCP packet, sent twice per second, in bytes.
const REPORT: usize = 260;

fn any_coding() -> CodingLimits {
    CodingLimits {
        codings: vec![
            SampleFormat::L24.into(),
            Coding::LOSSLESS_24,
            Coding::LOSSLESS_16,
            Coding::OPUS,
            Coding::OPUS_VOICE,
        ],
        ptimes: (Span::from_micros(2500), Span::from_millis(20)),
        max_bitrate: None,
        after_loss: false,
    }
}

fn only(coding: Coding, ptime: Span) -> CodingLimits {
    CodingLimits {
        codings: vec![coding],
        ptimes: (ptime, ptime),
        max_bitrate: None,
        after_loss: false,
    }
}

/// Coding at the end of the second, and the share of packets lost, late or not sent.
struct Second {
    coding: Coding,
    ptime: Span,
    damaged: f64,
}

struct Flow {
    path: Path,
    control: RateControl,
    meter: TransitMeter,
    number: u32,
    sent: Sent,
    /// Arrivals: time, number, send time, and payload.
    coming: VecDeque<(TrueTime, u32, TrueTime, usize)>,
    fed_back: u32,
    /// Due packets of this second, and the spoilt ones.
    counts: [u32; 2],
}

impl Flow {
    fn new(limits: &CodingLimits, model: PathModel, seed: u64) -> Self {
        let steps = CodingSteps::new(SHAPE, limits).expect("a choice");
        Self {
            path: Path::new(model, seed),
            control: RateControl::new(steps, None, LocalTime::ZERO),
            meter: TransitMeter::default(),
            number: 0,
            sent: Sent { packets: 0, newest: 0, octets: 0, at: LocalTime::ZERO },
            coming: VecDeque::new(),
            fed_back: 0,
            counts: [0; 2],
        }
    }

    fn step(&mut self, now: TrueTime) {
        let terms = self.control.terms();
        if now.as_nanos() % terms.ptime.as_nanos() == 0 {
            self.send(payload(terms.coding, terms.ptime), now);
        }
        while let Some((at, number, sent, bytes)) = self.coming.front().copied()
            && at <= now
        {
            self.coming.pop_front();
            self.counts[1] += u32::from(at.since(sent) > LATENCY);
            self.meter.observe((1, number), bytes, at.since(sent).as_nanos(), local(at));
        }
        if now.as_nanos() % BEAT == 0 {
            self.control.observe_sent(Sent { at: local(now), ..self.sent });
            self.control.poll(local(now));
        }
    }

    fn send(&mut self, bytes: usize, now: TrueTime) {
        self.number += 1;
        self.counts[0] += 1;
        let mut arrives = None;
        if !self.control.is_paused() {
            self.sent.packets += 1;
            self.sent.octets += bytes as u64;
            self.sent.newest = self.number as u16;
            self.path.carry(bytes + HEADS, now, |at| arrives = arrives.or(Some(at)));
        }
        match arrives {
            Some(at) => self.coming.push_back((at, self.number, now, bytes)),
            None => self.counts[1] += 1,
        }
    }

    fn feedback(&mut self) -> Option<PathFeedback> {
        let feedback = self.meter.feedback().filter(|it| it.at_us != self.fed_back)?;
        self.fed_back = feedback.at_us;
        Some(feedback)
    }

    fn second(&mut self) -> Second {
        let [due, damaged] = core::mem::take(&mut self.counts);
        let terms = self.control.terms();
        let damaged = f64::from(damaged) / f64::from(due.max(1));
        Second { coding: terms.coding, ptime: terms.ptime, damaged }
    }
}

fn local(at: TrueTime) -> LocalTime {
    LocalTime::from_nanos(at.as_nanos())
}

/// Bytes of sound. Lossless compression saves a little over a third.
fn payload(coding: Coding, ptime: Span) -> usize {
    let (rate, channels) = SHAPE;
    let packet = packet_frames(rate, ptime).expect("a length of packets");
    let Coding { sample, codec } = coding;
    let format = StreamFormat { rate, channels, sample, codec, packet, payload_type: 0 };
    let left = if codec == Some(Codec::Lossless) { 0.62 } else { 1.0 };
    (format.payload_bytes() as f64 * left) as usize
}

fn stream(limits: &CodingLimits, model: PathModel, seconds: i64, seed: u64) -> Vec<Second> {
    let mut flow = Flow::new(limits, model, seed);
    let mut reported: VecDeque<(TrueTime, PathFeedback)> = VecDeque::new();
    let mut all = Vec::new();
    for step in 0..seconds * (SECOND / STEP) {
        let now = TrueTime::from_nanos(step * STEP);
        flow.step(now);
        reported
            .extend(flow.feedback().map(|feedback| (now.after(Span::from_millis(10)), feedback)));
        while let Some((_, feedback)) = reported.front().copied().filter(|(at, _)| *at <= now) {
            reported.pop_front();
            flow.control.observe(feedback, local(now));
        }
        if (step + 1) % (SECOND / STEP) == 0 {
            all.push(flow.second());
        }
    }
    all
}

/// Plays both directions, each with the other's feedback and reports. Returns the first one's
/// seconds.
fn both_ways(model: &PathModel, seconds: i64, seed: u64) -> Vec<Second> {
    let mut flows = [0, 1].map(|way| Flow::new(&any_coding(), model.clone(), seed + way));
    let mut reported: [VecDeque<(TrueTime, PathFeedback)>; 2] = Default::default();
    let mut all = Vec::new();
    for step in 0..seconds * (SECOND / STEP) {
        let now = TrueTime::from_nanos(step * STEP);
        for way in 0..2 {
            flows[way].step(now);
            let feedback = flows[way].feedback();
            let back = &mut flows[1 - way].path;
            if let Some(feedback) = feedback {
                back.carry(FEEDBACK, now, |at| reported[way].push_back((at, feedback)));
            }
            if now.as_nanos() % (SECOND / 2) == 0 {
                back.carry(REPORT, now, |_| {});
            }
            while let Some((_, feedback)) = reported[way].front().copied().filter(|it| it.0 <= now)
            {
                reported[way].pop_front();
                flows[way].control.observe(feedback, local(now));
            }
        }
        if (step + 1) % (SECOND / STEP) == 0 {
            all.push(flows[0].second());
            flows[1].second();
        }
    }
    all
}

fn in_words(stream: &[Second]) -> String {
    let mut words = String::new();
    for (second, Second { coding, ptime, damaged }) in stream.iter().enumerate() {
        let bits = coding.bitrate().map_or(String::new(), |bits| format!(" {}k", bits / 1000));
        let _ = write!(words, "{second}:{}{bits}/{ptime} {:.0}%  ", coding.name(), damaged * 100.0);
    }
    words
}

fn narrow(rate: u64) -> PathModel {
    // A queue of 250 ms, as in home routers.
    let bottleneck = Some(Bottleneck { rate, queue: (rate / 32) as usize });
    PathModel { bottleneck, ..PathModel::ideal(Span::from_millis(10)) }
}

fn becoming(model: PathModel, rates: &[(i64, u64)]) -> PathModel {
    let changes = rates.iter().map(|(at, rate)| (TrueTime::from_nanos(at * SECOND), narrow(*rate)));
    PathModel { changes: changes.collect(), ..model }
}

fn damaged(stream: &[Second]) -> usize {
    stream.iter().filter(|second| second.damaged > 0.02).count()
}

#[test]
fn stream_uses_a_coding_that_the_network_carries() {
    for (rate, best) in [
        (100_000_000, "l24"),
        (2_200_000, "lossless24"),
        (1_500_000, "lossless16"),
        (450_000, "opus"),
        (80_000, "opus-voice"),
    ] {
        let stream = stream(&any_coding(), narrow(rate), 600, 1);
        let reported = in_words(&stream);
        let found = stream.iter().position(|second| second.coding.name() == best).expect(&reported);
        assert!(found <= 20, "{rate} bit/s: {best} after {found} s: {reported}");
        let there = stream[20..].iter().filter(|second| second.coding.name() == best).count();
        assert!(there >= 540, "{rate} bit/s: {best} for {there} of 580 s: {reported}");
        assert!(damaged(&stream) <= 14, "{rate} bit/s: {} s spoilt: {reported}", damaged(&stream));
    }
}

#[test]
fn opus_bitrate_leaves_room_for_packet_headers() {
    for rate in [80_000, 110_000, 150_000, 250_000, 300_000, 350_000] {
        let stream = stream(&any_coding(), narrow(rate), 600, 4);
        let reported = in_words(&stream);
        let fits = |second: &&Second| {
            // 114 bytes with Ethernet's headers.
            let heads = 8 * 114 * SECOND / second.ptime.as_nanos();
            let carried = rate as i64 - heads;
            let bitrate = second.coding.bitrate().map_or(0, i64::from);
            bitrate <= carried && bitrate >= carried * 6 / 10
        };
        let there = stream[20..].iter().filter(fits).count();
        assert!(there >= 520, "{rate} bit/s: {there} of 580 s: {reported}");
        assert!(damaged(&stream) <= 16, "{rate} bit/s: {} s spoilt: {reported}", damaged(&stream));
    }
}

#[test]
fn fixed_opus_follows_the_network_by_bitrate_and_recovers() {
    let path = becoming(narrow(100_000_000), &[(30, 250_000), (60, 100_000_000)]);
    let stream = stream(&only(Coding::OPUS, Span::from_millis(5)), path, 240, 5);
    let reported = in_words(&stream);
    let bitrates = |from: usize, to: usize| {
        stream[from..to].iter().map(|second| second.coding.bitrate().unwrap_or(0))
    };
    assert!(stream.iter().all(|second| second.coding.name() == "opus"), "{reported}");
    assert!(bitrates(15, 30).all(|bitrate| bitrate == 256_000), "{reported}");
    assert!(bitrates(33, 60).all(|bitrate| bitrate < 128_000), "{reported}");
    assert_eq!(bitrates(239, 240).next(), Some(256_000), "{reported}");
    let lossless = only(Coding::LOSSLESS_16, Span::from_millis(5));
    assert!(CodingSteps::new(SHAPE, &lossless).is_none());
}

#[test]
fn random_loss_of_5_percent_costs_no_bits() {
    let mut path = narrow(100_000_000);
    let lossy = PathModel { loss: Loss::random(0.05), ..path.clone() };
    path.changes = vec![(TrueTime::from_nanos(20 * SECOND), lossy)];
    for coding in [Coding::OPUS_VOICE, Coding::OPUS] {
        let stream = stream(&only(coding, Span::from_millis(20)), path.clone(), 60, 6);
        let before = stream[19].coding.bitrate();
        let all = stream[20..].iter().all(|second| second.coding.bitrate() == before);
        assert!(all, "{}", in_words(&stream));
    }
}

#[test]
fn narrowed_path_is_followed_within_three_seconds_and_back() {
    let path = becoming(narrow(100_000_000), &[(60, 1_500_000), (120, 100_000_000)]);
    let stream = stream(&any_coding(), path, 240, 2);
    let reported = in_words(&stream);
    assert_eq!(stream[59].coding.name(), "l24", "{reported}");
    assert!(stream[63..73].iter().all(|second| second.damaged < 0.02), "{reported}");
    assert_eq!(stream[66].coding.name(), "lossless16", "{reported}");
    assert!(damaged(&stream[63..120]) <= 6, "{reported}");
    assert_eq!(stream[239].coding.name(), "l24", "{reported}");
}

#[test]
fn loss_that_fewer_bits_do_not_lessen_costs_no_quality() {
    for loss in [0.005, 0.03, 0.08] {
        let model = PathModel { loss: Loss::random(loss), ..narrow(100_000_000) };
        let stream = stream(&any_coding(), model, 300, 3);
        let best = stream[60..].iter().filter(|second| second.coding.name() == "l24").count();
        assert!(best >= 216, "{loss}: {best} of 240 s: {}", in_words(&stream));
    }
}

#[test]
fn stream_without_room_for_feedback_shrinks_and_recovers() {
    // The minimum is 42.4 kbit/s over IP.
    for (rate, seed) in [(20_000, 1), (30_000, 2), (40_000, 3)] {
        let path = becoming(narrow(100_000_000), &[(30, rate), (90, 100_000_000)]);
        let stream = both_ways(&path, 600, seed);
        let reported = format!("{rate} bit/s, seed {seed}: {}", in_words(&stream));
        assert_eq!(stream[29].coding.name(), "l24", "{reported}");
        let fewest = |second: &Second| {
            let voice = second.coding.name() == "opus-voice";
            voice
                && second.coding.bitrate() == Some(12_000)
                && second.ptime == Span::from_millis(20)
        };
        assert!(stream[40..90].iter().all(fewest), "{reported}");
        let back = stream[90..].iter().position(|second| second.coding.name() == "l24");
        assert!(back.is_some_and(|seconds| seconds <= 90), "{back:?}: {reported}");
    }
}

#[test]
fn a_stream_that_is_simulated_twice_is_coded_the_same() {
    let model = PathModel { loss: Loss::bursts(0.04, 3.0), ..narrow(1_000_000) };
    let once = stream(&any_coding(), model.clone(), 120, 9);
    assert_eq!(in_words(&once), in_words(&stream(&any_coding(), model, 120, 9)));
}
