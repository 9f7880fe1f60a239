//! Classifies the residual of frame-aligned sound: rounding, dither, or neither.

use serde::Serialize;
use tautline_dsp::align::Similarity;

use super::pieces::{GainRange, Kind, Piece};
use super::sound::Sound;

/// Maximum rounding error, in steps.
const ROUNDED: f64 = 0.52;
/// Maximum error with triangular dither, in steps.
const DITHERED: f64 = 1.52;
/// Maximum autocorrelation.
const ALIKE: f64 = 0.1;
const LAGS: usize = 3;
/// Maximum error of a measured gain of 1, from 10 s of sound 60 dB above a step.
const ONE: f64 = 3e-6;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResidueKind {
    Rounding,
    /// Noise of about a step, as added before rounding.
    Dither,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Residue {
    pub kind: ResidueKind,
    /// Bits of the recorded samples.
    pub bits: u32,
    pub peak_steps: f64,
    pub rms_steps: f64,
}

impl Residue {
    /// `None` without frame-aligned pieces, or if the volume changes.
    pub(super) fn of(sent: &Sound, received: &Sound, pieces: &[Piece]) -> Option<Self> {
        let bits = received.bits()?;
        let step = 2.0_f64.powi(1 - bits as i32);
        let on_frames: Vec<_> = pieces
            .iter()
            .filter(|piece| matches!(piece.kind, Kind::Alike { resampled: false, .. }))
            .collect();
        let changes =
            |piece: &&Piece| piece.volumes.iter().flatten().any(|gain| GainRange::changes(*gain));
        if on_frames.is_empty() || on_frames.iter().any(changes) {
            return None;
        }
        let (mut peak, mut squares, mut count) = (0.0_f64, 0.0, 0_usize);
        let mut lagged = [0.0; LAGS];
        for channel in 0..received.channels.len() {
            let alike = on_frames.iter().fold(Similarity::default(), |all, piece| {
                let (received, sent) = both(sent, received, piece, channel);
                all.and(&Similarity::between(received, sent))
            });
            let gain = alike.gain();
            if !gain.is_finite()
                || on_frames.iter().any(|piece| piece.routing.gains[channel] == 0.0)
            {
                continue;
            }
            let gain = if (gain - 1.0).abs() < ONE { 1.0 } else { gain };
            for piece in &on_frames {
                let (received, sent) = both(sent, received, piece, channel);
                let off: Vec<_> = received
                    .iter()
                    .zip(sent)
                    .map(|(received, sent)| (f64::from(*received) - gain * f64::from(*sent)) / step)
                    .collect();
                peak = off.iter().fold(peak, |peak, off| peak.max(off.abs()));
                squares += off.iter().map(|off| off * off).sum::<f64>();
                for (lag, sum) in lagged.iter_mut().enumerate() {
                    let later = off.iter().skip(lag + 1);
                    *sum += off.iter().zip(later).map(|(one, other)| one * other).sum::<f64>();
                }
                count += off.len();
            }
        }
        if count == 0 {
            return None;
        }
        let is_noise = lagged.iter().all(|sum| sum.abs() <= ALIKE * squares);
        let kind = match peak {
            ..=ROUNDED => ResidueKind::Rounding,
            ..=DITHERED if is_noise => ResidueKind::Dither,
            _ => ResidueKind::Other,
        };
        let rms_steps = (squares / count as f64).sqrt();
        Some(Self { kind, bits, peak_steps: peak, rms_steps })
    }
}

fn both<'a>(
    sent: &'a Sound,
    received: &'a Sound,
    piece: &Piece,
    channel: usize,
) -> (&'a [f32], &'a [f32]) {
    let source = &sent.channels[piece.routing.sources[channel]];
    let from = (piece.from.round().max(0.0) as usize).min(source.len());
    let count = piece.received.len().min(source.len() - from);
    let received = &received.channels[channel][piece.received.start..piece.received.start + count];
    (received, &source[from..from + count])
}
