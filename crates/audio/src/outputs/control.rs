use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use tautline_dsp::equalizer::Equalizer;
use tautline_dsp::gain::Gain;
use tautline_proto::time::Span;
use try_lock::TryLock;

/// Processing of an output, in this order. The default keeps every bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutputSettings {
    /// Bands, for the card's rate.
    pub equalizer: Equalizer,
    /// Delay after the engine's presentation time, to the nearest frame. Clamped to 0 to
    /// [`MAX_OUTPUT_DELAY`](crate::MAX_OUTPUT_DELAY).
    pub delay: Span,
    /// Ceiling of the protection limiter, relative to full scale.
    pub limiter: Option<Gain>,
}

impl Default for OutputSettings {
    fn default() -> Self {
        Self { equalizer: Equalizer::FLAT, delay: Span::ZERO, limiter: None }
    }
}

/// Changes an output's settings from any thread; clones share it. Each change but the limiter's
/// takes 10 ms, without a click.
#[derive(Clone)]
pub struct OutputControl(Arc<ControlState>);

struct ControlState {
    /// The card's thread tries once per block, and else keeps its settings.
    settings: TryLock<OutputSettings>,
    /// Bits of a float. The bits of positive floats have the same order as the floats.
    peak: AtomicU32,
}

impl OutputControl {
    pub(super) fn new(settings: OutputSettings) -> Self {
        let (settings, peak) = (TryLock::new(settings), AtomicU32::new(0));
        Self(Arc::new(ControlState { settings, peak }))
    }

    /// Changes settings. Without a ceiling, the limiter's gain recovers.
    pub fn change<T>(&self, change: impl FnOnce(&mut OutputSettings) -> T) -> T {
        loop {
            if let Some(mut settings) = self.0.settings.try_lock() {
                return change(&mut settings);
            }
            // The card's thread may wait for this core.
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Largest absolute sample of both channels since the last call, after the equalizer.
    pub fn peak(&self) -> f32 {
        f32::from_bits(self.0.peak.swap(0, Ordering::Relaxed))
    }

    /// `None` during a change. Real-time safe.
    pub(super) fn try_settings(&self) -> Option<OutputSettings> {
        self.0.settings.try_lock().map(|settings| *settings)
    }

    /// For the card's thread alone. Real-time safe.
    pub(super) fn add_peak(&self, peak: f32) {
        let bits = peak.to_bits();
        if bits > self.0.peak.load(Ordering::Relaxed) {
            self.0.peak.store(bits, Ordering::Relaxed);
        }
    }
}
