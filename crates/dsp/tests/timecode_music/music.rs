//! Synthetic music: chords, a bass, and drums of noise.

const RATE: f64 = 48_000.0;
const TABLE: usize = 1024;
const VOICES: usize = 8;
/// 120 a minute, four notes each.
const BEAT: usize = 6_000;

pub(crate) struct Music {
    state: u64,
    tables: Vec<[f32; TABLE + 1]>,
    voices: [Voice; VOICES],
    next: usize,
    drums: [Drum; 3],
    kick: (f64, f32),
    frame: usize,
    root: f64,
    noise: [f32; 2],
}

#[derive(Clone, Copy, Default)]
struct Voice {
    hertz: f64,
    phase: f64,
    vibrato: f64,
    level: f32,
    fade: f32,
    table: usize,
}

#[derive(Clone, Copy, Default)]
struct Drum {
    level: f32,
    fade: f32,
}

impl Music {
    pub(crate) fn new(seed: u64) -> Self {
        // Dull, like strings, like brass.
        let tables = [2.0, 1.2, 0.8].map(|slope: f64| {
            let mut table = [0.0; TABLE + 1];
            for (index, sample) in table.iter_mut().enumerate() {
                let phase = core::f64::consts::TAU * index as f64 / TABLE as f64;
                *sample = (1..=24)
                    .map(|tone| (f64::from(tone) * phase).sin() / f64::from(tone).powf(slope))
                    .sum::<f64>() as f32;
            }
            table
        });
        Self {
            state: seed | 1,
            tables: tables.to_vec(),
            voices: [Voice::default(); VOICES],
            next: 0,
            drums: [Drum::default(); 3],
            kick: (0.0, 0.0),
            frame: 0,
            root: 110.0,
            noise: [0.0; 2],
        }
    }

    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 20
    }

    fn chance(&mut self) -> f64 {
        (self.random() % 10_000) as f64 / 10_000.0
    }

    fn note(&mut self, hertz: f64, level: f32) {
        let (table, vibrato) = (self.random() as usize % self.tables.len(), self.chance());
        let seconds = 0.1 + 1.5 * self.chance();
        let fade = (-1.0 / (seconds * RATE)).exp() as f32;
        self.voices[self.next % VOICES] = Voice { hertz, phase: 0.0, vibrato, level, fade, table };
        self.next += 1;
    }

    fn beat(&mut self) {
        let beat = self.frame / BEAT;
        if beat.is_multiple_of(16) {
            self.root = 55.0 * 2_f64.powf((self.random() % 12) as f64 / 12.0);
            let root = self.root;
            self.note(root, 0.5);
            let third = if self.chance() < 0.5 { 3.0 } else { 4.0 };
            for step in [0.0, third, 7.0] {
                self.note(root * 4.0 * 2_f64.powf(step / 12.0), 0.25);
            }
        }
        if self.chance() < 0.6 {
            let step = [0.0, 2.0, 4.0, 7.0, 9.0, 12.0][self.random() as usize % 6];
            let hertz = self.root * 8.0 * 2_f64.powf(step / 12.0);
            self.note(hertz, 0.3);
        }
        let loud = 0.5 + 0.5 * self.chance() as f32;
        match beat % 8 {
            0 | 3 => self.kick = (0.0, 0.6 * loud),
            4 => self.drums[0] = Drum { level: 0.35 * loud, fade: 0.9996 },
            _ if self.chance() < 0.1 => self.drums[1] = Drum { level: 0.25 * loud, fade: 0.9998 },
            _ => {}
        }
        self.drums[2] = Drum { level: 0.12 * loud, fade: 0.9985 };
    }

    pub(crate) fn sample(&mut self) -> f32 {
        if self.frame.is_multiple_of(BEAT) {
            self.beat();
        }
        let seconds = self.frame as f64 / RATE;
        let sway = (core::f64::consts::TAU * 5.5 * seconds).sin() * 0.006;
        self.frame += 1;
        let mut sum = 0.0;
        for voice in &mut self.voices {
            let place = voice.phase * TABLE as f64;
            let (index, part) = (place as usize, (place - place.floor()) as f32);
            let table = &self.tables[voice.table];
            sum += voice.level * (table[index] * (1.0 - part) + table[index + 1] * part) * 0.4;
            voice.level *= voice.fade;
            voice.phase += voice.hertz * (1.0 + sway * voice.vibrato) / RATE;
            voice.phase -= voice.phase.floor();
        }
        let white = (self.random() & 0xFFFF) as f32 / 32_768.0 - 1.0;
        // White as a snare, smoothed as a tom, sharpened as a hat.
        let soft = self.noise[1] + (white - self.noise[1]) * 0.2;
        let colours = [white, soft * 2.0, white - self.noise[0]];
        self.noise = [white, soft];
        for (drum, noise) in self.drums.iter_mut().zip(colours) {
            sum += drum.level * noise;
            drum.level *= drum.fade;
        }
        let (phase, level) = &mut self.kick;
        *phase += (45.0 + 120.0 * f64::from(*level)) / RATE;
        sum += *level * (core::f64::consts::TAU * *phase).sin() as f32;
        *level *= 0.9997;
        0.5 * sum + white * 1e-4
    }
}
