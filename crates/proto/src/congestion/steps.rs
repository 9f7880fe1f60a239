//! Codings, packet times and bit rates of a stream, by total rate.

use crate::codec::Codec;
use crate::stream::{Coding, StreamFormat, packet_frames};
use crate::time::Span;
use crate::units::{Channels, Rate};

/// Bits per packet besides the audio: IPv4 and UDP 28 bytes, RTP 12, instants 20, SRTP's tag 16.
pub(super) const HEADS: f64 = 8.0 * 76.0;
/// Packet times of Opus, with their minimum bits per second and channel. Below these, headers
/// exceed the audio.
const OPUS: [(Span, u32); 3] = [
    (Span::from_millis(5), 64_000),
    (Span::from_millis(10), 40_000),
    (Span::from_millis(20), 24_000),
];
const BITRATE_STEP: f64 = 1000.0;

/// Choices of a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodingLimits {
    /// Codings that the receiver supports.
    pub codings: Vec<Coding>,
    /// Minimum and maximum packet time.
    pub ptimes: (Span, Span),
    /// Maximum bit rate of variable codings.
    pub max_bitrate: Option<u32>,
    /// Whether the stream keeps its format until a heavy loss.
    pub after_loss: bool,
}

/// Terms for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTerms {
    /// Coding with its bit rate.
    pub coding: Coding,
    /// Packet time.
    pub ptime: Span,
}

#[derive(Debug, Clone, Copy)]
struct CodingStep {
    terms: StepTerms,
    format: StreamFormat,
    /// IP bits per second, at the minimum bit rate if variable.
    rate: f64,
    bits: Option<(u32, u32)>,
    /// IP bits per audio bit: above 1 with redundancy.
    share: f64,
}

impl CodingStep {
    fn new(
        (rate, channels): (Rate, Channels),
        (coding, ptime): (Coding, Span),
        bits: Option<(u32, u32)>,
    ) -> Option<Self> {
        let coding = bits.map_or(coding, |(minimum, _)| coding.at_bitrate(minimum));
        let Coding { sample, codec } = coding;
        let packet = packet_frames(rate, ptime).ok()?;
        let format = StreamFormat { rate, channels, sample, codec, packet, payload_type: 0 };
        if codec.is_some_and(|codec| codec.check((rate, channels), packet).is_err()) {
            return None;
        }
        let packets = f64::from(rate.hertz()) / format.packet.count() as f64;
        let share = codec.map_or(1.0, |codec| codec.rules().mean_share());
        let bytes = format.payload_bytes() as f64 * share;
        let terms = StepTerms { coding, ptime };
        let rate = packets * (8.0 * bytes + HEADS);
        Some(Self { terms, format, rate, bits, share: 1.0 })
    }

    fn carrying(mut self, cost: &dyn Fn(&StreamFormat) -> usize) -> Self {
        let packets = f64::from(self.format.rate.hertz()) / self.format.packet.count() as f64;
        let bits = |coding: Coding| {
            let format = StreamFormat { codec: coding.codec, ..self.format };
            packets * 8.0 * cost(&format) as f64
        };
        let at_least = bits(self.terms.coding);
        if let Some((minimum, maximum)) = self.bits.filter(|(minimum, maximum)| minimum < maximum) {
            let at_most = bits(self.terms.coding.at_bitrate(maximum));
            self.share += (at_most - at_least) / f64::from(maximum - minimum);
        }
        self.rate += at_least;
        self
    }

    fn maximum(&self) -> f64 {
        self.rate
            + self.bits.map_or(0.0, |(minimum, maximum)| self.share * f64::from(maximum - minimum))
    }

    fn within(&self, rate: f64) -> (StepTerms, f64) {
        let Some((minimum, maximum)) = self.bits else { return (self.terms, self.rate) };
        let bitrate = f64::from(minimum) + (rate - self.rate) / self.share;
        let bitrate = (bitrate / BITRATE_STEP).floor() * BITRATE_STEP;
        let bitrate = bitrate.clamp(minimum.into(), maximum.into());
        let coding = self.terms.coding.at_bitrate(bitrate as u32);
        let rate = self.rate + self.share * (bitrate - f64::from(minimum));
        (StepTerms { coding, ..self.terms }, rate)
    }
}

/// Whether packets carry copies of earlier audio.
fn has_copies(coding: &Coding) -> bool {
    coding.codec.is_some_and(|codec| codec.rules().has_copies())
}

fn adapted_ptime(coding: Coding, limits: &CodingLimits) -> Option<Span> {
    let (minimum, maximum) = limits.ptimes;
    let wanted = coding.row().adapts_from.unwrap_or_default().max(minimum).min(maximum);
    let Some(all) = coding.codec.as_ref().and_then(|codec| codec.rules().ptimes()) else {
        return Some(wanted);
    };
    let mut within = all.iter().copied().filter(|ptime| (minimum..=maximum).contains(ptime));
    within.clone().find(|ptime| *ptime >= wanted).or_else(|| within.next_back())
}

/// The longest packet time has the full range unless a speech coding covers the lowest rates.
fn lengths_of_opus(
    channels: Channels,
    (shortest, maximum): (Span, Span),
    (fewest, greatest): (u32, u32),
    has_voice: bool,
) -> Vec<(Span, Option<(u32, u32)>)> {
    let fits = |(ptime, _): &(Span, u32)| (shortest..=maximum).contains(ptime);
    let mut lengths: Vec<_> = OPUS.into_iter().filter(fits).collect();
    if lengths.is_empty() {
        return vec![(shortest, Some((fewest, greatest)))];
    }
    for (_, from) in &mut lengths {
        *from *= channels.count() as u32;
    }
    if let Some((_, from)) = lengths.last_mut().filter(|_| !has_voice) {
        *from = fewest;
    }
    let has_any = |(_, from): &(Span, u32)| *from <= greatest;
    let lengths = lengths.into_iter().filter(has_any);
    lengths.map(|(ptime, from)| (ptime, Some((from, greatest)))).collect()
}

/// All steps in order of preference.
#[derive(Debug, Clone)]
pub struct CodingSteps(Vec<CodingStep>);

impl CodingSteps {
    /// Creates the steps; `None` if there is no choice.
    pub fn new(shape: (Rate, Channels), limits: &CodingLimits) -> Option<Self> {
        let (_, channels) = shape;
        let (_, maximum) = limits.ptimes;
        let mut codings = limits.codings.clone();
        codings.sort_by_key(|coding| coding.row().rank);
        let only = codings.len() == 1;
        let has_voice =
            codings.iter().any(|one| has_copies(one) && adapted_ptime(*one, limits).is_some());
        let mut steps = Vec::new();
        for coding in codings {
            // A single coding is the user's choice. Of several, use those that a network can
            // require.
            if coding.row().adapts_from.is_none() && !only {
                continue;
            }
            let Some(shortest) = adapted_ptime(coding, limits) else { continue };
            let rules = coding.codec.as_ref().map(Codec::rules);
            let adapted = rules.and_then(|rules| rules.adapted_bitrates(channels));
            let adapted = adapted.map(|(minimum, maximum)| {
                let maximum = limits.max_bitrate.unwrap_or(maximum);
                (minimum.min(maximum), maximum)
            });
            let lengths = match adapted {
                Some(bits) if !has_copies(&coding) => {
                    lengths_of_opus(channels, (shortest, maximum), bits, has_voice)
                }
                bits => vec![(shortest, bits)],
            };
            let step = |(ptime, bits)| CodingStep::new(shape, (coding, ptime), bits);
            steps.extend(lengths.into_iter().filter_map(step));
        }
        let has_choice = steps.len() > 1 || steps.iter().any(|step| step.bits.is_some());
        has_choice.then_some(Self(steps))
    }

    /// Includes `cost` bytes of redundancy per packet.
    #[must_use]
    pub fn carrying(self, cost: &dyn Fn(&StreamFormat) -> usize) -> Self {
        Self(self.0.into_iter().map(|step| step.carrying(cost)).collect())
    }

    /// Minimum IP bits per second of codings without built-in copies, if any.
    pub fn min_without_copies(&self) -> f64 {
        let minimum = |all: &mut dyn Iterator<Item = &CodingStep>| {
            all.map(|step| step.rate).min_by(f64::total_cmp)
        };
        let mut without = self.0.iter().filter(|step| !has_copies(&step.terms.coding));
        minimum(&mut without).or_else(|| minimum(&mut self.0.iter())).unwrap_or(f64::INFINITY)
    }

    /// Best terms within `rate` IP bits per second, or else the minimum; and their rate.
    pub fn within(&self, rate: f64) -> (StepTerms, f64) {
        let fits = self.0.iter().find(|step| step.rate <= rate);
        let minimum = || self.0.iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
        match fits.or_else(minimum) {
            Some(step) => step.within(rate),
            // `new` rejects an empty list.
            None => unreachable!("a sender without any coding"),
        }
    }

    /// Minimum rate of the next step, if this step is exhausted.
    pub fn above(&self, rate: f64) -> Option<f64> {
        let at = self.0.iter().position(|step| step.rate <= rate)?;
        if self.0[at].maximum() > rate + BITRATE_STEP {
            return Some(rate);
        }
        at.checked_sub(1).map(|above| self.0[above].rate)
    }

    /// Removes the step of these terms.
    pub fn remove(&mut self, terms: StepTerms) {
        if self.0.len() > 1 {
            let is = |step: &CodingStep| {
                step.terms.ptime == terms.ptime && step.terms.coding.is_coded_as(terms.coding)
            };
            self.0.retain(|step| !is(step));
        }
    }
}
