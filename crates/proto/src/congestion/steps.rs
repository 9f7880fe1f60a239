//! The codings, packet times and bit rates that a stream may have, by the rate that they take.

use crate::codec::Codec;
use crate::stream::{Coding, StreamFormat, packet_frames};
use crate::time::Span;
use crate::units::{Channels, Rate};

/// Bits beside the sound of each packet: IPv4 and UDP 28 bytes, RTP 12, the sender's instants 20, SRTP's tag 16.
pub(super) const HEADS: f64 = 8.0 * 76.0;
/// Packets of Opus for any sound, the shortest first, and the least bits per second of a channel in them: in shorter packets
/// more bits than these go into headers.
const OPUS: [(Span, u32); 3] = [
    (Span::from_millis(5), 64_000),
    (Span::from_millis(10), 40_000),
    (Span::from_millis(20), 24_000),
];
/// Bit rates are whole thousands.
const BITRATE_STEP: f64 = 1000.0;

/// Among what a sender may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodingLimits {
    /// Codings that the other end takes.
    pub codings: Vec<Coding>,
    /// Sound in one packet: the shortest and the longest.
    pub ptimes: (Span, Span),
    /// The most bits per second of a coding that has a choice.
    pub max_bitrate: Option<u32>,
}

/// How to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTerms {
    /// The coding, with its bit rate.
    pub coding: Coding,
    /// Sound in one packet.
    pub ptime: Span,
}

#[derive(Debug, Clone, Copy)]
struct CodingStep {
    terms: StepTerms,
    format: StreamFormat,
    /// Bits per second by IP, at the least bit rate where there is a choice.
    rate: f64,
    /// The bit rates to choose from.
    bits: Option<(u32, u32)>,
    /// Bits by IP that a bit of sound takes: more than one where packets carry earlier ones.
    share: f64,
}

impl CodingStep {
    fn new(
        (rate, channels): (Rate, Channels),
        (coding, ptime): (Coding, Span),
        bits: Option<(u32, u32)>,
    ) -> Option<Self> {
        let coding = bits.map_or(coding, |(least, _)| coding.at_bitrate(least));
        let Coding { sample, coder } = coding;
        let packet = packet_frames(rate, ptime).ok()?;
        let format = StreamFormat { rate, channels, sample, coder, packet, payload_type: 0 };
        if coder.is_some_and(|coder| coder.check((rate, channels), packet).is_err()) {
            return None;
        }
        let packets = f64::from(rate.hertz()) / format.packet.count() as f64;
        let share = coder.map_or(1.0, |coder| coder.rules().mean_share());
        let bytes = format.payload_bytes() as f64 * share;
        let terms = StepTerms { coding, ptime };
        let rate = packets * (8.0 * bytes + HEADS);
        Some(Self { terms, format, rate, bits, share: 1.0 })
    }

    /// The same where packets carry so many bytes beside their sound.
    fn carrying(mut self, cost: &dyn Fn(&StreamFormat) -> usize) -> Self {
        let packets = f64::from(self.format.rate.hertz()) / self.format.packet.count() as f64;
        let bits = |coding: Coding| {
            let format = StreamFormat { coder: coding.coder, ..self.format };
            packets * 8.0 * cost(&format) as f64
        };
        let at_least = bits(self.terms.coding);
        if let Some((least, most)) = self.bits.filter(|(least, most)| least < most) {
            let at_most = bits(self.terms.coding.at_bitrate(most));
            self.share += (at_most - at_least) / f64::from(most - least);
        }
        self.rate += at_least;
        self
    }

    /// Bits per second by IP at the greatest bit rate.
    fn most(&self) -> f64 {
        self.rate + self.bits.map_or(0.0, |(least, most)| self.share * f64::from(most - least))
    }

    /// The most that takes no more than `rate`, or the least that it has; and what that takes.
    fn within(&self, rate: f64) -> (StepTerms, f64) {
        let Some((least, most)) = self.bits else { return (self.terms, self.rate) };
        let bitrate = f64::from(least) + (rate - self.rate) / self.share;
        let bitrate = (bitrate / BITRATE_STEP).floor() * BITRATE_STEP;
        let bitrate = bitrate.clamp(least.into(), most.into());
        let coding = self.terms.coding.at_bitrate(bitrate as u32);
        let rate = self.rate + self.share * (bitrate - f64::from(least));
        (StepTerms { coding, ..self.terms }, rate)
    }
}

/// Whether packets carry copies of earlier sound, made by the coder.
fn has_copies(coding: &Coding) -> bool {
    coding.coder.is_some_and(|coder| coder.rules().has_copies())
}

/// The shortest packets in which a coding is tried within the limits, if it has any.
fn adapted_ptime(coding: Coding, limits: &CodingLimits) -> Option<Span> {
    let (least, most) = limits.ptimes;
    let wanted = coding.row().adapts_from.unwrap_or_default().max(least).min(most);
    let Some(all) = coding.coder.as_ref().and_then(|coder| coder.rules().ptimes()) else {
        return Some(wanted);
    };
    let mut within = all.iter().copied().filter(|ptime| (least..=most).contains(ptime));
    within.clone().find(|ptime| *ptime >= wanted).or_else(|| within.next_back())
}

/// Packets of Opus within these lengths, each with its bit rates. Unless speech takes fewer bits, the longest have all.
fn lengths_of_opus(
    channels: Channels,
    (shortest, most): (Span, Span),
    (fewest, greatest): (u32, u32),
    has_voice: bool,
) -> Vec<(Span, Option<(u32, u32)>)> {
    let fits = |(ptime, _): &(Span, u32)| (shortest..=most).contains(ptime);
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

/// All that a stream may be sent as, the best first.
#[derive(Debug, Clone)]
pub struct CodingSteps(Vec<CodingStep>);

impl CodingSteps {
    /// Of streams of this shape. `None` where there is nothing to choose.
    pub fn new(shape: (Rate, Channels), limits: &CodingLimits) -> Option<Self> {
        let (_, channels) = shape;
        let (_, most) = limits.ptimes;
        let mut codings = limits.codings.clone();
        codings.sort_by_key(|coding| coding.row().rank);
        let only = codings.len() == 1;
        let has_voice =
            codings.iter().any(|one| has_copies(one) && adapted_ptime(*one, limits).is_some());
        let mut steps = Vec::new();
        for coding in codings {
            // Alone it is what the user chose; among others only those count that a network can make necessary.
            if coding.row().adapts_from.is_none() && !only {
                continue;
            }
            let Some(shortest) = adapted_ptime(coding, limits) else { continue };
            let rules = coding.coder.as_ref().map(Codec::rules);
            let adapted = rules.and_then(|rules| rules.adapted_bitrates(channels));
            let adapted = adapted.map(|(least, most)| {
                let most = limits.max_bitrate.unwrap_or(most);
                (least.min(most), most)
            });
            // Speech has packets of one length.
            let lengths = match adapted {
                Some(bits) if !has_copies(&coding) => {
                    lengths_of_opus(channels, (shortest, most), bits, has_voice)
                }
                bits => vec![(shortest, bits)],
            };
            let step = |(ptime, bits)| CodingStep::new(shape, (coding, ptime), bits);
            steps.extend(lengths.into_iter().filter_map(step));
        }
        let has_choice = steps.len() > 1 || steps.iter().any(|step| step.bits.is_some());
        has_choice.then_some(Self(steps))
    }

    /// The same where packets of a format carry `cost` bytes of earlier ones.
    #[must_use]
    pub fn carrying(self, cost: &dyn Fn(&StreamFormat) -> usize) -> Self {
        Self(self.0.into_iter().map(|step| step.carrying(cost)).collect())
    }

    /// The least bits per second by IP of the codings that carry no copies of earlier sound by themselves, or of all if
    /// each does.
    pub fn min_without_copies(&self) -> f64 {
        let least = |all: &mut dyn Iterator<Item = &CodingStep>| {
            all.map(|step| step.rate).min_by(f64::total_cmp)
        };
        let mut without = self.0.iter().filter(|step| !has_copies(&step.terms.coding));
        least(&mut without).or_else(|| least(&mut self.0.iter())).unwrap_or(f64::INFINITY)
    }

    /// The best that takes no more than `rate` bits per second by IP, or else the least of all; and what that takes.
    pub fn within(&self, rate: f64) -> (StepTerms, f64) {
        let fits = self.0.iter().find(|step| step.rate <= rate);
        let least = || self.0.iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
        match fits.or_else(least) {
            Some(step) => step.within(rate),
            // `new` refuses an empty list.
            None => unreachable!("a sender without any coding"),
        }
    }

    /// The least rate that is better than `rate`, where that is the most of its coding.
    pub fn above(&self, rate: f64) -> Option<f64> {
        let at = self.0.iter().position(|step| step.rate <= rate)?;
        if self.0[at].most() > rate + BITRATE_STEP {
            return Some(rate);
        }
        at.checked_sub(1).map(|above| self.0[above].rate)
    }

    /// Without the step that `terms` are of: the stream cannot be sent so.
    pub fn remove(&mut self, terms: StepTerms) {
        if self.0.len() > 1 {
            let is = |step: &CodingStep| {
                step.terms.ptime == terms.ptime && step.terms.coding.is_coded_as(terms.coding)
            };
            self.0.retain(|step| !is(step));
        }
    }
}
