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

/// A channel of the plugin's output, and of the input that belongs to it.
#[derive(Debug, Clone, Copy, Default)]
struct ChannelLevels {
    /// In the present half second, and in the one before.
    wet: [Loudness; 2],
    dry: [Loudness; 2],
    /// What the input is multiplied by while it stands in.
    gain: f32,
    ceiling: f32,
}

/// The levels of the last half second to second.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    channels: Box<[ChannelLevels]>,
    half_second: usize,
    /// Frames of the present half second.
    frames: usize,
    /// Frames for which a change of the gain takes.
    fade: usize,
}

impl Levels {
    /// Nothing was heard yet.
    pub(super) fn new(channels: usize, rate: u32, fade: usize) -> Self {
        let nothing = ChannelLevels::default();
        let half_second = rate as usize / 2;
        Self { channels: vec![nothing; channels].into(), half_second, frames: 0, fade }
    }

    /// Forgets what was heard.
    pub(super) fn begin(&mut self) {
        self.channels.fill(ChannelLevels::default());
        self.frames = 0;
    }

    /// The plugin made this channel's `wet` of `dry`; each lies in two pieces.
    pub(super) fn hear(&mut self, channel: usize, wet: [&[f32]; 2], dry: [&[f32]; 2]) {
        let levels = &mut self.channels[channel];
        wet.into_iter().for_each(|piece| levels.wet[0].add(piece));
        dry.into_iter().for_each(|piece| levels.dry[0].add(piece));
    }

    /// So many frames of all channels were heard.
    pub(super) fn advance(&mut self, frames: usize) {
        self.frames += frames;
        if self.frames < self.half_second {
            return;
        }
        self.frames = 0;
        for levels in &mut self.channels {
            levels.wet = [Loudness::default(), levels.wet[0]];
            levels.dry = [Loudness::default(), levels.dry[0]];
        }
    }

    /// From now on the input stands in: as loud as the plugin was on average, and not louder than its peak. Where nothing
    /// was heard of the plugin, that is silence: nobody knows how loud it would be.
    pub(super) fn begin_hole(&mut self) {
        for levels in &mut self.channels {
            let (wet, dry) = (levels.wet[0].and(levels.wet[1]), levels.dry[0].and(levels.dry[1]));
            let gain = (wet.energy / dry.energy).sqrt();
            levels.gain = if gain.is_finite() { gain.min(1.0) } else { 0.0 };
            levels.ceiling = wet.peak;
        }
    }

    /// Brings a channel's input to that level. What would be over the plugin's peak lowers the gain until the hole ends.
    pub(super) fn play(&mut self, channel: usize, samples: &mut [f32]) {
        let fade = self.fade.max(1);
        let levels = &mut self.channels[channel];
        let ceiling = levels.ceiling;
        let mut loudness = Loudness::default();
        loudness.add(samples);
        let was = levels.gain;
        if loudness.peak * was > ceiling {
            levels.gain = ceiling / loudness.peak;
        }
        let step = (levels.gain - was) / fade as f32;
        for (at, sample) in samples.iter_mut().enumerate() {
            let gain = if at < fade { was + step * at as f32 } else { levels.gain };
            let played = *sample * gain;
            *sample = if played.is_finite() { played.clamp(-ceiling, ceiling) } else { 0.0 };
        }
    }
}
