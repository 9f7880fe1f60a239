//! A station's claim, in an APP packet of its own datagram (RFC 5506).
//!
//! Big-endian: version (8 bits), flags (8: bit 0, the end is known), priority (8), zero (8), rank
//! (16), number of targets (16), announcement (64), start, departure and end as NTP times (64
//! each), maximum duration in milliseconds (32), depth in −1/100 dB (16; all ones mute), ramp down,
//! hold and ramp up in milliseconds (16 each), targets (16 each), zeros to a whole word. Readers
//! ignore unknown flags and all fields after the targets.

use tautline_dsp::gain::Gain;

use super::NtpTime;
use super::write::Out;
use crate::time::{Span, WallTime};
use crate::zone::{AnnouncementId, Claim, Duck, Priority, Targets};

pub(super) const CLAIM: u8 = 7;
/// Versions only add flags and fields, so readers accept later versions.
const VERSION: u8 = 1;
const ENDED: u8 = 1;
const HEAD: usize = 52;
const MUTE: u16 = u16::MAX;

/// Maximum bytes of a claim: fits the IPv4 minimum of 576 with SRTCP (RFC 791 §3.1).
pub const MAX_CLAIM_BYTES: usize = 12 + HEAD + 2 * Targets::MAX;

/// Writes a claim. Returns the length, or `None` without room. Spans saturate.
pub fn write_claim(
    ssrc: u32,
    claim: &Claim,
    targets: Targets<'_>,
    buffer: &mut [u8],
) -> Option<usize> {
    let numbers = targets.as_bytes().as_flattened();
    let mut data = [0; HEAD + 2 * Targets::MAX];
    let length = (HEAD + numbers.len()).next_multiple_of(4);
    if buffer.len() < 12 + length {
        return None;
    }
    let ntp = |time: WallTime| NtpTime::from_unix_nanos(time.as_unix_nanos()).to_bits();
    let Duck { depth, down, hold, up } = claim.duck;
    let depth = match (depth.as_db() * -100.0).round() {
        hundredths if hundredths < f64::from(MUTE) => hundredths as u16,
        _ => MUTE,
    };
    data[0] = VERSION;
    data[1] = if claim.ends.is_some() { ENDED } else { 0 };
    data[2] = claim.priority.0;
    data[4..6].copy_from_slice(&claim.rank.to_be_bytes());
    data[6..8].copy_from_slice(&(targets.as_bytes().len() as u16).to_be_bytes());
    let times = [claim.starts, claim.sent, claim.ends.unwrap_or(claim.starts)].map(ntp);
    let [starts, sent, ends] = times;
    for (word, at) in [claim.id.0, starts, sent, ends].into_iter().zip((8..).step_by(8)) {
        data[at..at + 8].copy_from_slice(&word.to_be_bytes());
    }
    data[40..44].copy_from_slice(&(millis(claim.longest, u32::MAX.into()) as u32).to_be_bytes());
    let ramps = [down, hold, up].map(|span| millis(span, u16::MAX.into()) as u16);
    for (half, at) in [depth].into_iter().chain(ramps).zip((44..).step_by(2)) {
        data[at..at + 2].copy_from_slice(&half.to_be_bytes());
    }
    data[HEAD..HEAD + numbers.len()].copy_from_slice(numbers);
    Some(Out::new(buffer).whole_app(ssrc, CLAIM, &data[..length]))
}

fn millis(span: Span, maximum: i64) -> i64 {
    (span.as_nanos() / 1_000_000).clamp(0, maximum)
}

/// `None` if the targets are missing, too many or beyond the packet; `Some(None)` for version 0.
pub(super) fn claim_from_bytes(bytes: &[u8]) -> Option<Option<(Claim, Targets<'_>)>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
    if head[0] < VERSION {
        return Some(None);
    }
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let word = |at: usize| u64::from(half(at)) << 16 | u64::from(half(at + 2));
    let long = |at: usize| word(at) << 32 | word(at + 4);
    let time = |at| WallTime::from_unix_nanos(NtpTime::from_bits(long(at)).to_unix_nanos());
    let ramp = |at| Span::from_millis(half(at).into());
    let depth = match half(44) {
        MUTE => Gain::SILENCE,
        hundredths => Gain::from_db(f64::from(hundredths) / -100.0)?,
    };
    let (targets, _) = rest.split_at_checked(2 * usize::from(half(6)))?;
    let claim = Claim {
        id: AnnouncementId(long(8)),
        priority: Priority(head[2]),
        rank: half(4),
        starts: time(16),
        sent: time(24),
        ends: (head[1] & ENDED > 0).then(|| time(32)),
        longest: Span::from_millis(word(40) as i64),
        duck: Duck { depth, down: ramp(46), hold: ramp(48), up: ramp(50) },
    };
    Some(Some((claim, Targets::new(targets.as_chunks().0)?)))
}
