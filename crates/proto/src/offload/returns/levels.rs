//! How loud a plugin played lately, and its input at that level: what stands in for it is never louder.

/// Peak and energy of a stretch of sound.
#[derive(Debug, Clone, Copy, Default)]
struct Loudness {
    peak: f32,
    energy: f32,
}

/// Sums that do not depend on one another, so that a processor adds several at once.
const LANES: usize = 8;

impl Loudness {
    fn add(&mut self, samples: &[f32]) {
        let (mut peaks, mut sums) = ([0.0f32; LANES], [0.0f32; LANES]);
        let (chunks, rest) = samples.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                peaks[lane] = peaks[lane].max(chunk[lane].abs());
                sums[lane] += chunk[lane] * chunk[lane];
            }
        }
        for (lane, sample) in rest.iter().enumerate() {
            peaks[lane] = peaks[lane].max(sample.abs());
            sums[lane] += sample * sample;
        }
        self.peak = peaks.into_iter().fold(self.peak, f32::max);
        self.energy += sums.into_iter().sum::<f32>();
    }

    fn and(self, other: Self) -> Self {
        Self { peak: self.peak.max(other.peak), energy: self.energy + other.energy }
    }
}

/// Output and input of a plugin in the present stretch of time, and in the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    wet: [Loudness; 2],
    dry: [Loudness; 2],
}

impl Stretch {
    fn next(&mut self) {
        self.wet = [Loudness::default(), self.wet[0]];
        self.dry = [Loudness::default(), self.dry[0]];
    }

    fn wet(&self) -> Loudness {
        self.wet[0].and(self.wet[1])
    }

    fn dry(&self) -> Loudness {
        self.dry[0].and(self.dry[1])
    }

    /// By how much the plugin is louder than its input, on average; silent where there was no input.
    fn gain(&self) -> f32 {
        let gain = (self.wet().energy / self.dry().energy).sqrt();
        if gain.is_finite() { gain.min(1.0) } else { 0.0 }
    }
}

/// A channel of the plugin's output, and of the input that belongs to it.
#[derive(Debug, Clone, Copy, Default)]
struct ChannelLevels {
    /// Of half a second each, for the level; of a twentieth, for what was just turned down.
    long: Stretch,
    short: Stretch,
    /// What the input is multiplied by while it stands in, where that goes to, and by how much in a frame.
    gain: f32,
    goal: f32,
    step: f32,
    ceiling: f32,
}

/// The levels of the last half second to second.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    channels: Box<[ChannelLevels]>,
    /// Frames of a stretch of each kind, and of the present ones.
    spans: [usize; 2],
    frames: [usize; 2],
    /// Frames for which a change of the gain takes.
    fade: usize,
}

/// Input that lately had less than this part of the energy of a stretch ten times as long, which is 30 dB below its level,
/// tells nothing of a gain: a gate is closed then.
const TELLING: f32 = 1e-4;

impl Levels {
    pub(super) fn new(channels: usize, rate: u32, fade: usize) -> Self {
        let nothing = ChannelLevels::default();
        let spans = [rate as usize / 2, rate as usize / 20];
        Self { channels: vec![nothing; channels].into(), spans, frames: [0; 2], fade: fade.max(1) }
    }

    pub(super) fn begin(&mut self) {
        self.channels.fill(ChannelLevels::default());
        self.frames = [0; 2];
    }

    /// The plugin made this channel's `wet` of `dry`; each lies in two pieces.
    pub(super) fn hear(&mut self, channel: usize, wet: [&[f32]; 2], dry: [&[f32]; 2]) {
        let levels = &mut self.channels[channel];
        let [mut of_wet, mut of_dry] = [Loudness::default(); 2];
        wet.into_iter().for_each(|piece| of_wet.add(piece));
        dry.into_iter().for_each(|piece| of_dry.add(piece));
        for stretch in [&mut levels.long, &mut levels.short] {
            stretch.wet[0] = stretch.wet[0].and(of_wet);
            stretch.dry[0] = stretch.dry[0].and(of_dry);
        }
    }

    /// So many frames of all channels were heard.
    pub(super) fn advance(&mut self, frames: usize) {
        for (kind, (passed, span)) in self.frames.iter_mut().zip(self.spans).enumerate() {
            *passed += frames;
            if *passed < span {
                continue;
            }
            *passed = 0;
            for levels in &mut self.channels {
                if kind == 0 { levels.long.next() } else { levels.short.next() }
            }
        }
    }

    /// From now on the input stands in: as loud as the plugin was on average, and not louder than its peak. Where nothing
    /// was heard of the plugin, that is silence: nobody knows how loud it would be.
    pub(super) fn begin_hole(&mut self) {
        for levels in &mut self.channels {
            let ChannelLevels { long, short, .. } = levels;
            let tells = short.dry().energy > TELLING * long.dry().energy;
            let gain = if tells { long.gain().min(short.gain()) } else { long.gain() };
            levels.ceiling = long.wet().peak;
            (levels.gain, levels.goal, levels.step) = (gain, gain, 0.0);
        }
    }

    /// Brings a channel's input to that level. What would be over the plugin's peak lowers the gain until the hole ends.
    pub(super) fn play(&mut self, channel: usize, samples: &mut [f32]) {
        let levels = &mut self.channels[channel];
        let ceiling = levels.ceiling;
        let mut loudness = Loudness::default();
        loudness.add(samples);
        if loudness.peak * levels.goal > ceiling {
            levels.goal = ceiling / loudness.peak;
            levels.step = (levels.gain - levels.goal) / self.fade as f32;
        }
        for sample in samples {
            levels.gain = (levels.gain - levels.step).max(levels.goal);
            let played = *sample * levels.gain;
            *sample = if played.is_finite() { played.clamp(-ceiling, ceiling) } else { 0.0 };
        }
    }
}
