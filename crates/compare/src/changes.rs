//! Discontinuities between a recording and the sent sound.

use super::pieces::{BLOCK, Piece};
use super::sound::Sound;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instead {
    Silence,
    Other,
    Same,
}

/// Positions are sent frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Difference {
    /// Later frames keep their timing.
    Replaced {
        at: usize,
        frames: usize,
        by: Instead,
    },
    Dropped {
        at: usize,
        frames: usize,
        earlier: f64,
    },
    Repeated {
        at: usize,
        from: usize,
        frames: usize,
        later: f64,
    },
    Inserted {
        at: usize,
        by: Instead,
        later: f64,
    },
    /// Shift by `later` plus an unknown multiple of `modulo`.
    Shifted {
        at: usize,
        later: f64,
        modulo: f64,
    },
}

const SAME_LINE: f64 = 0.5;

impl Difference {
    pub(super) fn loses(&self) -> bool {
        !matches!(self, Self::Replaced { by: Instead::Same, .. })
    }

    pub(super) fn moves(&self) -> bool {
        !matches!(self, Self::Replaced { .. })
    }
}

pub(super) fn changes(received: &Sound, pieces: &[Piece]) -> Vec<Difference> {
    let mut furthest = 0.0_f64;
    let mut all: Vec<Difference> = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let again = (piece.to.min(furthest) - piece.from).max(0.0).round() as usize;
        if let Some(last) = index.checked_sub(1).map(|before| &pieces[before]) {
            match change(received, last, piece, again) {
                _ if last.modulo.or(piece.modulo).is_some() => {
                    all.extend(change_modulo(received, last, piece));
                }
                Some(change) => all.push(change),
                None => {
                    if let Some(Difference::Repeated { frames, .. }) = all.last_mut() {
                        *frames += again;
                    }
                }
            }
        }
        let single = |(_, at): &(usize, usize)| Difference::Replaced {
            at: *at,
            frames: 1,
            by: Instead::Other,
        };
        all.extend(piece.clicks.iter().map(single));
        if !piece.is_exact() && !piece.is_resampled() && beside_exact(pieces, index) {
            let (at, frames) = (piece.from.round() as usize, piece.received.len());
            all.push(Difference::Replaced { at, frames, by: Instead::Same });
        }
        furthest = furthest.max(piece.to);
    }
    all
}

fn beside_exact(pieces: &[Piece], index: usize) -> bool {
    let exact = |piece: Option<&Piece>| piece.is_some_and(Piece::is_exact);
    exact(index.checked_sub(1).and_then(|before| pieces.get(before)))
        || exact(pieces.get(index + 1))
}

/// `again` frames of the second are repeated.
fn change(received: &Sound, last: &Piece, next: &Piece, again: usize) -> Option<Difference> {
    let between = last.received.end..next.received.start;
    let (gap, skipped) = (between.len() as f64, next.from - last.to);
    let by = instead(received, last, next);
    let (at, later) = (last.to.round() as usize, gap - skipped);
    if later.abs() < SAME_LINE {
        let frames = skipped.round() as usize;
        return (frames > 0 || !between.is_empty()).then_some(Difference::Replaced {
            at,
            frames,
            by,
        });
    }
    Some(match (later > 0.0, again) {
        (true, 0) => Difference::Inserted { at, by, later },
        (true, frames) => {
            Difference::Repeated { at, from: next.from.round() as usize, frames, later }
        }
        (false, _) => Difference::Dropped { at, frames: skipped.round() as usize, earlier: -later },
    })
}

/// Edges of inexact pieces are known only to a block.
fn instead(received: &Sound, last: &Piece, next: &Piece) -> Instead {
    let edge = |piece: &Piece| if piece.is_exact() { 0 } else { BLOCK };
    let between = last.received.end..next.received.start;
    let inner = between.start + edge(last)..between.end.saturating_sub(edge(next));
    let frames = if inner.is_empty() { between } else { inner };
    let is_silent = frames.clone().all(|frame| received.is_silent(frame));
    if is_silent { Instead::Silence } else { Instead::Other }
}

/// For pieces whose alignment is ambiguous by a period.
fn change_modulo(received: &Sound, last: &Piece, next: &Piece) -> Vec<Difference> {
    let Some(modulo) = last.modulo.or(next.modulo) else { return Vec::new() };
    let between = last.received.end..next.received.start;
    let (at, frames) = (last.to.round() as usize, between.len());
    let later = frames as f64 - (next.from - last.to);
    let later = later - (later / modulo).round() * modulo;
    let is_shifted = later.abs() >= SAME_LINE;
    // A shift is uncertain by a block.
    let is_hole = frames >= if is_shifted { 2 * BLOCK } else { 1 };
    let hole = Difference::Replaced { at, frames, by: instead(received, last, next) };
    let shift = Difference::Shifted { at, later, modulo };
    [is_hole.then_some(hole), is_shifted.then_some(shift)].into_iter().flatten().collect()
}
