//! Recognisable sound: noise in which all frames differ, and bit-exact comparison.

use std::ops::Range;
use std::path::Path;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileCoding {
    L16,
    L24,
    F32,
}

impl FileCoding {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::L16 => "l16",
            Self::L24 => "l24",
            Self::F32 => "f32",
        }
    }

    fn bits(self) -> u16 {
        match self {
            Self::L16 => 16,
            Self::L24 => 24,
            Self::F32 => 32,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rate: u32,
    pub(crate) channels: usize,
    pub(crate) coding: FileCoding,
}

impl Shape {
    pub(crate) const STEREO_24: Self = Self { rate: 48_000, channels: 2, coding: FileCoding::L24 };
}

/// Interleaved samples as integers; floats as their bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sound {
    pub(crate) shape: Shape,
    pub(crate) samples: Vec<i32>,
}

fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Sound {
    /// Loud, without zeros, with both extremes among the first samples.
    pub(crate) fn noise(shape: Shape, millis: usize, seed: u64) -> Self {
        // No packet length divides it.
        let frames = shape.rate as usize * millis / 1000 + 17;
        let mut state = seed;
        let sample = |index| {
            let random = mixed(&mut state) as i32 | 1;
            match (shape.coding, index) {
                (FileCoding::L16 | FileCoding::L24, 2) => i32::MIN >> (32 - shape.coding.bits()),
                (FileCoding::L16 | FileCoding::L24, 3) => i32::MAX >> (32 - shape.coding.bits()),
                (FileCoding::L16, _) => random >> 16 | 1,
                (FileCoding::L24, _) => random >> 8 | 1,
                (FileCoding::F32, 2) => (-1.0_f32).to_bits() as i32,
                (FileCoding::F32, 3) => f32::MIN_POSITIVE.to_bits() as i32,
                (FileCoding::F32, _) => (random as f32 / i32::MAX as f32).to_bits() as i32,
            }
        };
        Self { shape, samples: (0..frames * shape.channels).map(sample).collect() }
    }

    /// A quarter of the level: two of them can be added.
    pub(crate) fn quieter(mut self) -> Self {
        assert_ne!(self.shape.coding, FileCoding::F32);
        self.samples.iter_mut().for_each(|sample| *sample = *sample >> 2 | 1);
        self
    }

    pub(crate) fn write(&self, path: &Path) {
        let Shape { rate, channels, coding } = self.shape;
        let float = coding == FileCoding::F32;
        let spec = WavSpec {
            channels: channels as u16,
            sample_rate: rate,
            bits_per_sample: coding.bits(),
            sample_format: if float { SampleFormat::Float } else { SampleFormat::Int },
        };
        let mut writer = WavWriter::create(path, spec).unwrap();
        for sample in &self.samples {
            match float {
                true => writer.write_sample(f32::from_bits(*sample as u32)).unwrap(),
                false => writer.write_sample(*sample).unwrap(),
            }
        }
        writer.finalize().unwrap();
    }

    #[track_caller]
    pub(crate) fn read(path: &Path) -> Self {
        let mut reader = WavReader::open(path).unwrap();
        let spec = reader.spec();
        let coding = match (spec.sample_format, spec.bits_per_sample) {
            (SampleFormat::Int, 16) => FileCoding::L16,
            (SampleFormat::Int, 24) => FileCoding::L24,
            (SampleFormat::Float, 32) => FileCoding::F32,
            other => panic!("{other:?}"),
        };
        let samples = match coding {
            FileCoding::F32 => {
                reader.samples::<f32>().map(|sample| sample.unwrap().to_bits() as i32).collect()
            }
            FileCoding::L16 | FileCoding::L24 => reader.samples().map(Result::unwrap).collect(),
        };
        let channels = usize::from(spec.channels);
        Self { shape: Shape { rate: spec.sample_rate, channels, coding }, samples }
    }

    pub(crate) fn frames(&self) -> usize {
        self.samples.len() / self.shape.channels
    }

    pub(crate) fn frame(&self, index: usize) -> &[i32] {
        &self.samples[index * self.shape.channels..][..self.shape.channels]
    }

    pub(crate) fn sounds(&self, frame: usize) -> bool {
        self.frame(frame).iter().any(|sample| *sample != 0)
    }

    pub(crate) fn begins(&self) -> Option<usize> {
        (0..self.frames()).find(|index| self.sounds(*index))
    }

    /// At least `minimum` frames, between the first and the last sound.
    pub(crate) fn silences(&self, minimum: usize) -> Vec<Range<usize>> {
        let loud: Vec<usize> = (0..self.frames()).filter(|index| self.sounds(*index)).collect();
        let silences = loud.windows(2).map(|two| two[0] + 1..two[1]);
        silences.filter(|silence| silence.len() >= minimum).collect()
    }

    /// Asserts silence. Zeros of floats have a sign.
    #[track_caller]
    pub(crate) fn is_silent(&self) {
        let loud = |sample: &i32| match self.shape.coding {
            FileCoding::F32 => f32::from_bits(*sample as u32) != 0.0,
            FileCoding::L16 | FileCoding::L24 => *sample != 0,
        };
        let first = self.samples.iter().position(loud);
        assert_eq!(first, None, "sound, of {} samples", self.samples.len());
    }

    pub(crate) fn without(&self, other: &Self, at: usize) -> Self {
        let mut rest = self.clone();
        let from = at * self.shape.channels;
        rest.samples[from..].iter_mut().zip(&other.samples).for_each(|(a, b)| *a -= b);
        rest
    }

    #[track_caller]
    pub(crate) fn is_exactly(&self, sent: &Self) {
        self.is_about(sent, |sample| sample, 0);
    }

    /// Asserts `sent` after `change`, up to `tolerance` steps, with silence around it.
    #[track_caller]
    pub(crate) fn is_about(&self, sent: &Self, change: impl Fn(i32) -> i32, tolerance: u32) {
        assert_eq!(self.shape, sent.shape);
        let begins = self.begins().unwrap_or_else(|| panic!("nothing but silence was heard"));
        let received = &self.samples[begins * self.shape.channels..];
        let wrong = |(index, want): (usize, &i32)| {
            let got = received.get(index).copied();
            let near = got.is_some_and(|got| got.abs_diff(change(*want)) <= tolerance);
            (!near).then_some((index / self.shape.channels, change(*want), got))
        };
        let wrongs: Vec<_> = sent.samples.iter().enumerate().filter_map(wrong).collect();
        assert!(
            wrongs.is_empty(),
            "{} of {} samples differ; as (frame, sent, heard): {:?} … {:?}",
            wrongs.len(),
            sent.samples.len(),
            &wrongs[..wrongs.len().min(4)],
            wrongs.last()
        );
        let after = received.iter().skip(sent.samples.len()).find(|sample| **sample != 0);
        assert_eq!(after, None, "there is sound after the end");
    }

    /// Asserts `sent` with inserted silent cycles, for which the player was not ready. Returns the
    /// number of cycles.
    #[cfg(feature = "pipewire")]
    #[track_caller]
    pub(crate) fn is_exactly_but_for_waits_of(&self, cycle: usize, sent: &Self) -> usize {
        assert_eq!(self.shape, sent.shape);
        let cycle = cycle * self.shape.channels;
        let begins = self.begins().unwrap_or_else(|| panic!("nothing but silence was heard"));
        let mut received = &self.samples[begins * self.shape.channels..];
        let mut waits = 0;
        for (index, piece) in sent.samples.chunks(cycle).enumerate() {
            while !received.starts_with(piece) {
                let silence =
                    received.get(..cycle).filter(|cycle| cycle.iter().all(|sample| *sample == 0));
                let at = index * cycle / self.shape.channels;
                assert!(silence.is_some(), "frame {at} is not what was sent, after {waits} waits");
                received = &received[cycle..];
                waits += 1;
            }
            received = &received[piece.len()..];
        }
        assert!(received.iter().all(|sample| *sample == 0), "there is sound after the end");
        waits
    }
}
