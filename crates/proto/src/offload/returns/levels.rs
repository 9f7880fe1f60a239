//! A plugin's recent loudness: concealment must not be louder.

#[derive(Debug, Clone, Copy, Default)]
struct Loudness {
    peak: f32,
    energy: f32,
}

/// Independent sums for SIMD.
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

/// Current and previous stretch.
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

    /// Average gain, at most 1; 0 without input.
    fn gain(&self) -> f32 {
        let gain = (self.wet().energy / self.dry().energy).sqrt();
        if gain.is_finite() { gain.min(1.0) } else { 0.0 }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct ChannelLevels {
    /// Half a second, and a twentieth for recent reductions.
    long: Stretch,
    short: Stretch,
    /// `step` is the decrement per frame.
    gain: f32,
    goal: f32,
    step: f32,
    ceiling: f32,
}

/// Levels of the last half to full second.
#[derive(Debug, Clone)]
pub(super) struct Levels {
    channels: Box<[ChannelLevels]>,
    spans: [usize; 2],
    frames: [usize; 2],
    fade: usize,
}

/// Minimum energy ratio. A short stretch 30 dB below the ten times longer stretch is ignored
/// (closed gate).
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

    pub(super) fn handle(&mut self, channel: usize, wet: [&[f32]; 2], dry: [&[f32]; 2]) {
        let levels = &mut self.channels[channel];
        let [mut of_wet, mut of_dry] = [Loudness::default(); 2];
        wet.into_iter().for_each(|piece| of_wet.add(piece));
        dry.into_iter().for_each(|piece| of_dry.add(piece));
        for stretch in [&mut levels.long, &mut levels.short] {
            stretch.wet[0] = stretch.wet[0].and(of_wet);
            stretch.dry[0] = stretch.dry[0].and(of_dry);
        }
    }

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

    /// Silence if the level is unknown.
    pub(super) fn begin_hole(&mut self) {
        for levels in &mut self.channels {
            let ChannelLevels { long, short, .. } = levels;
            let notifies = short.dry().energy > TELLING * long.dry().energy;
            let gain = if notifies { long.gain().min(short.gain()) } else { long.gain() };
            levels.ceiling = long.wet().peak;
            (levels.gain, levels.goal, levels.step) = (gain, gain, 0.0);
        }
    }

    /// Samples above the plugin's peak lower the gain until the gap ends.
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
