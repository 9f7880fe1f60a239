//! Compares the sound that a receiver played with the sound that was captured.
//!
//! Each captured frame has a unique value, so each played frame shows which one it is.

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

/// Sound that one receiver played, compared with the captured sound, by true time.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub who: String,
    pub counters: Counters,
    /// For each datagram of the stream in the order of sending, whether any path carried it.
    pub carried: Vec<bool>,
    pub blocks: u64,
    /// True latency of the first frame of each block that began with sound, minus the link offset.
    pub errors: Vec<Span>,
    /// Number of runs of frames that were not played as captured, by length: gaps and the fades at
    /// their ends.
    pub spoilt: BTreeMap<i64, u64>,
    /// Number of runs of blocks with missing frames, by the number of those frames.
    pub holes: BTreeMap<i64, u64>,
    /// Bytes of the stream's datagrams, on all networks together.
    pub bytes: u64,
    pub resyncs: Vec<(TrueTime, Resync)>,
    pub offsets: Vec<(TrueTime, Span)>,
    /// Every packet that was missing at its turn, each with one cause.
    pub gaps: Gaps,
    pub curve: Vec<CurvePoint>,
    pub advised: Option<Span>,
    pub notes: Vec<ReceiveNote>,
    /// History of the link offset that arrivals need, whether it was used or not.
    pub journal: Journal,
    /// Frames of silence that the card played because its program was late.
    pub starved: Frames,
    /// The first frame that was neither the due one nor silence: the time, the due frame, and the
    /// played frame.
    pub first_wrong: Option<(TrueTime, i64, i64)>,
    missing: i64,
    /// Times of ten milliseconds or more, after the first sound, in which nothing was played as
    /// captured: start and end.
    pub silences: Vec<(TrueTime, TrueTime)>,
    /// The loudest sample where a resampler does not ring.
    pub loudest: f32,
    /// The loudest sample where a resampler rings: around the end of the ramp, where it falls by
    /// two.
    pub loudest_ringing: f32,
    /// Digest of every sample of every block played, in order.
    pub digest: u64,
    /// The first channel of the played sound, if the scenario has real sound.
    pub played: Vec<f32>,
    last_right: Option<TrueTime>,
    begun: bool,
    /// Frames in the current run of frames that were not played as captured.
    run: i64,
    fading: i64,
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |share| self.error_at(share).unwrap_or(Span::MAX);
        write!(
            f,
            "{}: first wrong frame {:?}; off by {} (p50), {} (p99); spoilt {:?}; silences {:?}; resyncs {:?}; {:?}; {:?}",
            self.who,
            self.first_wrong,
            at(0.5),
            at(0.99),
            self.spoilt,
            self.silences,
            self.resyncs,
            self.gaps,
            self.counters
        )
    }
}

impl Heard {
    pub(crate) fn by(who: String) -> Self {
        Self { who, digest: DIGEST, ..Self::default() }
    }

    pub(crate) fn misses(&mut self, missing: Frames) {
        self.missing += missing.count();
        if missing == Frames::ZERO && self.missing > 0 {
            *self.holes.entry(core::mem::take(&mut self.missing)).or_default() += 1;
        }
    }

    /// Returns the number of packets that cannot be repaired: all datagrams from their own to the
    /// last of `window` more were lost. For streams that send one datagram per packet.
    pub fn beyond_repair(&self, window: usize) -> u64 {
        let lost_again = |all: &[bool]| all.iter().all(|carried| !carried);
        self.carried.windows(window + 1).filter(|all| lost_again(all)).count() as u64
    }

    pub fn longest_spoilt(&self) -> Frames {
        Frames::new(self.spoilt.keys().next_back().copied().unwrap_or(0))
    }

    /// Whether anything was played as captured in the last tenth of a second of a run of length
    /// `whole`.
    pub fn received_until(&self, whole: Span) -> bool {
        let least = TrueTime::ZERO.after(whole - Span::from_millis(100));
        self.last_right.is_some_and(|last| last >= least)
    }

    /// Absolute error that this share of the blocks does not exceed.
    pub fn error_at(&self, share: f64) -> Option<Span> {
        let mut errors: Vec<Span> = self.errors.iter().map(|error| error.abs()).collect();
        errors.sort_unstable();
        let rank = (errors.len() as f64 * share).ceil() as usize;
        errors.get(rank.checked_sub(1)?.min(errors.len() - 1)).copied()
    }
}

/// Offset basis and prime of the 64-bit hash FNV-1a (Fowler, Noll, Vo), here over words.
const DIGEST: u64 = 0xCBF2_9CE4_8422_2325;
const DIGEST_PRIME: u64 = 0x0000_0100_0000_01B3;

/// Values of frames repeat after this many frames: 1.4 s at 48 kHz.
pub(crate) const VALUES: i64 = 1 << 16;

/// Returns the value of frame `index` in its first channel. It is odd, so it is never silence, and
/// exact in 24 bits. The values are a ramp, so a position between two frames can be recognised too.
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

/// Frames around the end of the ramp where a resampler rings, and the maximum error that its ripple
/// of 0.001 dB causes elsewhere.
const RINGS: i64 = 64;
const RIPPLE: f64 = 6.0;

/// Whether `sample` is the frame captured at `index`. If frames are resampled, it may be just after
/// it.
pub(crate) fn is_sound(sample: f32, index: i64, copied: bool) -> bool {
    if copied {
        return index_of(sample, index) == Some(index);
    }
    let heard = (f64::from(sample) * VALUES as f64 - 1.0 + VALUES as f64) / 2.0;
    rings(index, copied) || (heard - index.rem_euclid(VALUES) as f64).abs() <= RIPPLE
}

fn rings(index: i64, copied: bool) -> bool {
    !copied && !(RINGS..VALUES - RINGS).contains(&index.rem_euclid(VALUES))
}

impl Heard {
    pub(crate) fn digest(&mut self, block: &[f32]) {
        for sample in block {
            let mixed = self.digest ^ u64::from(sample.to_bits());
            self.digest = mixed.wrapping_mul(DIGEST_PRIME);
        }
    }
}

const SHORTEST_SILENCE: Span = Span::from_millis(10);

/// Frames of a fade, in which the sound differs from the captured sound.
const FADE: i64 = 56;

impl Heard {
    /// Takes the sound played at `now`. `disturbed` is whether anything disturbed the card. The
    /// sound begins with the frame that the receiver reports, or just after it unless it is
    /// `copied`.
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
            let most = match rings(index, copied) {
                true => &mut self.loudest_ringing,
                false => &mut self.loudest,
            };
            *most = most.max(sample.abs());
            if is_sound(*sample, index, copied) {
                self.begun = true;
                right += usize::from(*sample != 0.0);
                if self.run > 0 {
                    *self.spoilt.entry(self.run).or_default() += 1;
                    self.run = 0;
                }
            } else if self.begun {
                self.run += 1;
                let silent = *sample == 0.0;
                if let (false, false, None) = (silent, self.fading >= 0, self.first_wrong) {
                    let heard = index_of(*sample, index).unwrap_or(i64::MIN);
                    self.first_wrong = Some((now, index, heard));
                }
            }
        }
        // Frames at the edges of a resampled ramp always count as correct.
        if right > sound.len() / 2 {
            self.count_silence(now, sound.len());
        }
    }

    fn count_silence(&mut self, now: TrueTime, frames: usize) {
        // The time from one block to the next. A card of another rate is not far off.
        let block = Rate::HZ_48000.span_of(Frames::from_len(frames));
        if let Some(last) = self.last_right.replace(now)
            && now.since(last) >= SHORTEST_SILENCE + block
        {
            self.silences.push((last, now));
        }
    }
}
