use tautline_dsp::delay::DelayLine;
use tautline_dsp::equalizer::EqualizerFilter;
use tautline_dsp::limiter::Limiter;
use tautline_proto::time::Span;
use tautline_proto::units::Rate;

use super::control::{OutputControl, OutputSettings};

/// Maximum delay of an output: loudspeakers 340 m apart.
pub const MAX_OUTPUT_DELAY: Span = Span::from_millis(1000);

/// Duration of a change.
const FADE: Span = Span::from_millis(10);

/// Processing of a stereo output.
pub(super) struct Strip {
    rate: Rate,
    settings: OutputSettings,
    equalizer: EqualizerFilter<2>,
    delay: DelayLine<2>,
    limiter: Limiter,
}

impl Strip {
    pub(super) fn new(settings: OutputSettings, rate: Rate) -> Self {
        let fade = rate.frames_within(FADE).as_len();
        let (first, longest) = (frames(settings.delay, rate), frames(MAX_OUTPUT_DELAY, rate));
        let mut delay = DelayLine::new(first, longest, fade);
        // Touches its memory.
        (0..=longest).for_each(|_| delay.apply(first, &mut [0.0; 2]));
        Self {
            rate,
            settings,
            equalizer: EqualizerFilter::new(settings.equalizer, fade),
            delay,
            limiter: Limiter::new(rate.hertz()),
        }
    }

    /// Applies the settings to stereo frames without NaN or infinity. Real-time safe.
    pub(super) fn apply(&mut self, control: &OutputControl, samples: &mut [f32]) {
        if let Some(settings) = control.try_settings() {
            self.settings = settings;
        }
        self.equalizer.apply(&self.settings.equalizer, samples);
        control.add_peak(samples.iter().fold(0.0, |peak, sample| peak.max(sample.abs())));
        self.delay.apply(frames(self.settings.delay, self.rate), samples);
        self.limiter.apply(self.settings.limiter, 2, samples);
    }
}

/// The delay line clamps it.
fn frames(delay: Span, rate: Rate) -> usize {
    rate.frames_nearest(delay).as_len()
}
