use serde::{Deserialize, Serialize};
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Running;
use tautline_io::clock::{now, sleep_until};
use tautline_io::thread::Scheduler;
use tautline_proto::device::{Cycle, Device, Flow, Process, Settings, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};

use crate::recording::{RecordOptions, record};

/// Buffer length in periods. It outlasts a busy core and adds no delay, because cables place frames
/// by time.
const PERIODS: u32 = 10;
const BEAT: Span = Span::from_millis(20);

pub(super) fn alongside(rate: Rate, channels: Channels) -> Settings {
    let period = rate.frames_within(Span::from_millis(10)).max(Frames::new(1));
    Settings { rate, channels, period, periods: PERIODS }
}

/// White noise, peak −12 dBFS. Unlike a metronome's, its delay may exceed a beat.
pub(super) fn mouth(
    device: Box<dyn Device>,
    scheduler: Scheduler,
    stop: &Stop,
) -> Result<(), RunError> {
    let channels = device.settings().channels.count();
    let noise = NoisePlayer { channels, random: fastrand::Rng::new() };
    let running = Running::start(device, Box::new(noise), scheduler, stop)?;
    while !stop.is_requested() && !running.is_over() {
        sleep_until(now() + BEAT);
    }
    running.end().map(drop)
}

struct NoisePlayer {
    channels: usize,
    random: fastrand::Rng,
}

impl Process for NoisePlayer {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        for frame in cycle.playback.samples.chunks_exact_mut(self.channels) {
            frame.fill((self.random.f32() - 0.5) / 2.0);
        }
        Flow::Continue
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BranchTap {
    pub rate_hz: u32,
    /// First frame's ADC time on its host's monotonic clock; absent without sound.
    pub begins_ns: Option<i64>,
    /// 16 bits per frame, two's complement, as hex digits, high first.
    pub samples: String,
    pub notes: Vec<String>,
}

pub(super) fn tap(
    device: Box<dyn Device>,
    frames: Frames,
    scheduler: Scheduler,
    stop: &Stop,
) -> Result<BranchTap, RunError> {
    let options = RecordOptions { channels: vec![0], frames, scheduler };
    let kept = record(device, &options, stop, |_| {})?;
    let samples = kept.sound.channels.first().map_or(&[][..], Vec::as_slice);
    Ok(BranchTap {
        rate_hz: kept.sound.rate.hertz(),
        begins_ns: kept.begins.map(|begins| (begins - LocalTime::ZERO).as_nanos()),
        samples: digits(samples),
        notes: kept.notes,
    })
}

const SCALE: f32 = 32_768.0;

fn digits(samples: &[f32]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let word = |sample: &f32| {
        let bits = (sample * SCALE).round() as i16 as u16;
        [12, 8, 4, 0].map(|shift| DIGITS[usize::from(bits >> shift & 15)])
    };
    samples.iter().flat_map(word).collect()
}

impl BranchTap {
    /// Full scale 1; `None` for invalid digits.
    pub(super) fn sound(&self) -> Option<Vec<f32>> {
        let digits = self.samples.as_bytes();
        if !digits.len().is_multiple_of(4) {
            return None;
        }
        let value = |digit: &u8| char::from(*digit).to_digit(16);
        let word = |four: &[u8]| {
            let bits = four.iter().try_fold(0, |bits, digit| Some(bits << 4 | value(digit)?))?;
            Some(f32::from(bits as u16 as i16) / SCALE)
        };
        digits.chunks_exact(4).map(word).collect()
    }

    pub(super) fn begins(&self) -> Option<LocalTime> {
        self.begins_ns.map(|nanos| LocalTime::ZERO + Span::from_nanos(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_samples_round_trip_and_invalid_digits_are_rejected() {
        let sound = [0.0, 0.25, -0.25, 0.999_969_5, -1.0, 1.0 / SCALE];
        let tap = |samples: String| BranchTap {
            rate_hz: 48_000,
            begins_ns: Some(7),
            samples,
            notes: Vec::new(),
        };
        assert_eq!(tap(digits(&sound)).sound().as_deref(), Some(&sound[..]));
        assert_eq!(digits(&[1.5, -1.5]), "7fff8000");
        assert_eq!(tap("7ff".into()).sound(), None);
        assert_eq!(tap("7ffg".into()).sound(), None);
    }
}
