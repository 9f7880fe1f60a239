//! Compares a recording with the sent sound, sample by sample
//! (docs/internals/decisions/0023-what-a-recording-holds.md).
#![forbid(unsafe_code)]

mod changes;
mod exact;
mod fit;
mod messages;
mod pieces;
mod remix;
mod resampled;
mod residue;
mod rows;
mod seek;
mod sound;
#[cfg(test)]
mod tests;
mod tone;
mod verdict;
mod walk;
mod why;

use core::ops::Range;

use exact::Both;
use pieces::Piece;
use walk::PieceWalk;

pub use remix::ChannelMix;
pub use resampled::ResampledRow;
pub use residue::{Residue, ResidueKind};
pub use rows::{ChangeRow, ChannelsRow, ComparisonReport, DropoutRow, DropoutsRow};
pub use sound::Sound;
pub use tone::{TestTone, Tone};
pub use verdict::{Comparison, Delay};

/// Compares with the sent channels, then with mixes of them. Both sounds have the same number of
/// channels. Reports progress in frames.
pub fn judge(sent: &Sound, received: &Sound, progress: &mut dyn FnMut(usize)) -> Comparison {
    let both = Both { sent, received };
    let sounding = sent.sounding();
    if sounding.is_empty() {
        return Comparison::of(both, Vec::new());
    }
    let bits = received.bits();
    let pieces = without_resemblances(PieceWalk::new(both, bits, progress).run(), &sounding);
    let plain = Comparison::of(both, pieces.clone());
    let mix = plain.is_unexplained(received).then(|| remix::find(both, bits, &pieces)).flatten();
    let Some(mix) = mix else { return plain };
    let mixed = mix.of(sent);
    let of_mix = Both { sent: &mixed, received };
    let pieces = PieceWalk::new(of_mix, bits, progress).run();
    let mixed = Comparison::of(of_mix, pieces).mixed(mix, both);
    if mixed.explains_more_than(&plain) { mixed } else { plain }
}

/// If one piece has the whole sent sound bit for bit, other sound that resembles it is none of it,
/// such as the tail of a reverb. Other bits of it are repeated sound.
fn without_resemblances(mut pieces: Vec<Piece>, sounding: &Range<usize>) -> Vec<Piece> {
    let is_whole = |piece: &Piece| {
        piece.is_exact() && piece.from <= sounding.start as f64 && piece.to >= sounding.end as f64
    };
    if pieces.iter().any(is_whole) {
        pieces.retain(Piece::is_exact);
    }
    pieces
}
