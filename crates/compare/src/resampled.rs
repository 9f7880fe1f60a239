//! Passages that were recorded resampled.

use serde::Serialize;

use super::pieces::Piece;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResampledRow {
    pub from_frame: usize,
    pub to_frame: usize,
    pub ppm: f64,
    #[serde(skip)]
    pub(super) ends: bool,
}

pub(super) fn passages(pieces: &[Piece]) -> Vec<ResampledRow> {
    let mut all: Vec<(ResampledRow, f64)> = Vec::new();
    let mut last: Option<&Piece> = None;
    for piece in pieces {
        if piece.is_resampled() {
            let [from_frame, to_frame] = [piece.from, piece.to].map(|place| place.round() as usize);
            let (length, ppm) = (piece.received.len() as f64, piece.ppm());
            match all.last_mut().filter(|_| last.is_some_and(Piece::is_resampled)) {
                // Continues an interrupted passage.
                Some((passage, received)) => {
                    passage.ppm = (passage.ppm * *received + ppm * length) / (*received + length);
                    passage.to_frame = to_frame;
                    *received += length;
                }
                None => {
                    let row = ResampledRow { from_frame, to_frame, ppm, ends: false };
                    all.push((row, length));
                }
            }
        } else if let Some((passage, _)) = all.last_mut() {
            passage.ends = true;
        }
        last = Some(piece);
    }
    all.into_iter().map(|(passage, _)| passage).collect()
}
