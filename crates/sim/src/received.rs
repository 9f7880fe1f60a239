//! Compares played with captured sound. Each captured frame has a unique value.

use core::fmt;
use std::collections::BTreeMap;

use tautline_proto::cause::Gaps;
use tautline_proto::counters::Counters;
use tautline_proto::jitter_buffer::Resync;
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::target_delay::{CurvePoint, Journal};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;

use crate::clock::TrueTime;

#[derive(Debug, Clone, Default)]
pub struct Received {
    pub who: String,
    pub counters: Counters,
    /// For each datagram sent, in order: whether any path carried it.
    pub carried: Vec<bool>,
    pub blocks: u64,
    /// True latency minus link offset, for the first frame of each block that began with sound.
    pub errors: Vec<Span>,
    /// Runs of frames not played as captured (gaps with their fades), by length.
    pub damaged: BTreeMap<i64, u64>,
    /// Runs of blocks with missing frames, by number of missing frames.
    pub holes: BTreeMap<i64, u64>,
    pub bytes: u64,
    pub resyncs: Vec<(TrueTime, Resync)>,
    pub offsets: Vec<(TrueTime, Span)>,
    pub gaps: Gaps,
    pub curve: Vec<CurvePoint>,
    pub advised: Option<Span>,
    pub notes: Vec<ReceiveNote>,
    /// Link offset that arrivals need, used or not.
    pub journal: Journal,
    pub starved: Frames,
    /// First wrong frame outside of fades and silence: time, expected frame, played frame
    /// (`i64::MIN` if it was never captured).
    pub first_wrong: Option<(TrueTime, i64, i64)>,
    missing: i64,
    /// Start and end of times of 10 ms or more, after the first sound, without captured sound.
    pub silences: Vec<(TrueTime, TrueTime)>,
    pub loudest: f32,
    /// Loudest sample where one rings: around the end of the ramp, a step of two.
    pub loudest_ringing: f32,
    pub digest: u64,
    pub played: Vec<f32>,
    last_right: Option<TrueTime>,
    begun: bool,
    run: i64,
    fading: i64,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share| self.error_at(share).unwrap_or(Span::MAX);
        write!(
            f,
            "{}: first wrong frame {:?}; off by {} (p50), {} (p99); spoilt {:?}; silences {:?}; resyncs {:?}; {:?}; {:?}",
            self.who,
            self.first_wrong,
            at(0.5),
            at(0.99),
            self.damaged,
            self.silences,
            self.resyncs,
            self.gaps,
            self.counters
        )
    }
}

impl Received {
    pub(crate) fn by(who: String) -> Self {
        Self { who, digest: DIGEST, ..Self::default() }
    }

    pub(crate) fn misses(&mut self, missing: Frames) {
        self.missing += missing.count();
        if missing == Frames::ZERO && self.missing > 0 {
            *self.holes.entry(core::mem::take(&mut self.missing)).or_default() += 1;
        }
    }

    /// Packets beyond repair: every datagram from their own to the last of `window` more was lost.
    /// Assumes one datagram per packet.
    pub fn beyond_repair(&self, window: usize) -> u64 {
        let lost_again = |all: &[bool]| all.iter().all(|carried| !carried);
        self.carried.windows(window + 1).filter(|all| lost_again(all)).count() as u64
    }

    pub fn longest_spoilt(&self) -> Frames {
        Frames::new(self.damaged.keys().next_back().copied().unwrap_or(0))
    }

    /// Whether captured sound was played in the last 100 ms of a run of length `whole`.
    pub fn received_until(&self, whole: Span) -> bool {
        let minimum = TrueTime::ZERO.after(whole - Span::from_millis(100));
        self.last_right.is_some_and(|last| last >= minimum)
    }

    /// Quantile `share` of the blocks' absolute errors.
    pub fn error_at(&self, share: f64) -> Option<Span> {
        let mut errors: Vec<Span> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_unstable();
        let rank = (errors.len() as f64 * share).ceil() as usize;
        errors.get(rank.checked_sub(1)?.min(errors.len() - 1)).copied()
    }
}

/// Offset basis and prime of 64-bit FNV-1a (Fowler, Noll, Vo), here over words.
const DIGEST: u64 = 0xCBF2_9CE4_8422_2325;
const DIGEST_PRIME: u64 = 0x0000_0100_0000_01B3;

/// Period of the frame values: 1.4 s at 48 kHz.
pub(crate) const VALUES: i64 = 1 << 16;

/// Value of frame `index` in its first channel. It is odd, so never silence, and exact in 24 bits.
/// The values form a ramp, so positions between frames are recognised too.
pub(crate) fn value(index: i64) -> f32 {
    (2 * index.rem_euclid(VALUES) + 1 - VALUES) as f32 / VALUES as f32
}

fn index_of(value: f32, expected: i64) -> Option<i64> {
    let scaled = f64::from(value) * VALUES as f64;
    let number = scaled as i64;
    if number as f64 != scaled || number % 2 == 0 {
        return None;
    }
    let away = ((number - 1 + VALUES) / 2 - expected).rem_euclid(VALUES);
    Some(expected + if away >= VALUES / 2 { away - VALUES } else { away })
}

/// Frames around the end of the ramp where a resampler rings, and the maximum error elsewhere
/// (ripple of 0.001 dB).
const RINGS: i64 = 64;
const RIPPLE: f64 = 6.0;

/// Whether `sample` is frame `index`. Unless `copied`, it may be just after it.
pub(crate) fn is_sound(sample: f32, index: i64, copied: bool) -> bool {
    if copied {
        return index_of(sample, index) == Some(index);
    }
    let received = (f64::from(sample) * VALUES as f64 - 1.0 + VALUES as f64) / 2.0;
    rings(index, copied) || (received - index.rem_euclid(VALUES) as f64).abs() <= RIPPLE
}

fn rings(index: i64, copied: bool) -> bool {
    !copied && !(RINGS..VALUES - RINGS).contains(&index.rem_euclid(VALUES))
}

impl Received {
    pub(crate) fn digest(&mut self, block: &[f32]) {
        for sample in block {
            let mixed = self.digest ^ u64::from(sample.to_bits());
            self.digest = mixed.wrapping_mul(DIGEST_PRIME);
        }
    }
}

const SHORTEST_SILENCE: Span = Span::from_millis(10);

const FADE: i64 = 56;

impl Received {
    /// `disturbed`: something disturbed the card. Unless `copied`, the sound may begin just after
    /// the reported frame.
    pub(crate) fn take(
        &mut self,
        sound: &[f32],
        (begin, copied): (i64, bool),
        now: TrueTime,
        disturbed: bool,
    ) {
        self.blocks += 1;
        let mut right = 0;
        if disturbed {
            self.fading = sound.len() as i64 + if copied { FADE } else { FADE + RINGS };
        }
        for (index, sample) in (begin..).zip(sound) {
            self.fading -= 1;
            let maximum = match rings(index, copied) {
                true => &mut self.loudest_ringing,
                false => &mut self.loudest,
            };
            *maximum = maximum.max(sample.abs());
            if is_sound(*sample, index, copied) {
                self.begun = true;
                right += usize::from(*sample != 0.0);
                if self.run > 0 {
                    *self.damaged.entry(self.run).or_default() += 1;
                    self.run = 0;
                }
            } else if self.begun {
                self.run += 1;
                let silent = *sample == 0.0;
                if let (false, false, None) = (silent, self.fading >= 0, self.first_wrong) {
                    let received = index_of(*sample, index).unwrap_or(i64::MIN);
                    self.first_wrong = Some((now, index, received));
                }
            }
        }
        if right > sound.len() / 2 {
            self.count_silence(now, sound.len());
        }
    }

    fn count_silence(&mut self, now: TrueTime, frames: usize) {
        // Approximately the block's duration, for cards of other rates too.
        let block = Rate::HZ_48000.span_of(Frames::from_len(frames));
        if let Some(last) = self.last_right.replace(now)
            && now.since(last) >= SHORTEST_SILENCE + block
        {
            self.silences.push((last, now));
        }
    }
}
