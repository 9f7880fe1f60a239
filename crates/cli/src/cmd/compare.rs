//! `taut compare`: whether a recording holds what was sent, bit for bit.

use core::fmt;
use std::path::Path;

use tautline_audio::FileReader;

use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;

pub(crate) fn run(flags: &Compare) -> Result<(), Failure> {
    let verdict = compare(&flags.sent, &flags.heard)?;
    screen::say(&verdict.to_string());
    if verdict.is_whole() {
        Ok(())
    } else {
        Err(Failure::running(format!(
            "{} does not hold all of {}; the report of taut recv says what was lost",
            flags.heard.display(),
            flags.sent.display()
        )))
    }
}

/// How two files compare, once the one is found in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Frames of what was sent, without the digital silence at its ends.
    pub(crate) frames: usize,
    /// Frames of these that were heard bit for bit.
    pub(crate) identical: usize,
    /// Where the sent sound begins in the heard one, if it was found there.
    pub(crate) begins: Option<usize>,
}

impl Verdict {
    /// Whether every frame was heard as it was sent.
    pub(crate) fn is_whole(&self) -> bool {
        self.begins.is_some() && self.identical == self.frames
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.begins {
            None => f.write_str("the sent sound was not found in what was heard"),
            Some(at) if self.is_whole() => {
                write!(f, "identical: all {} frames, from frame {at} on", self.frames)
            }
            Some(at) => write!(
                f,
                "{} of {} frames identical, from frame {at} on",
                self.identical, self.frames
            ),
        }
    }
}

/// Interleaved samples and how many of them a frame has.
struct Sound {
    samples: Vec<f32>,
    channels: usize,
}

/// Reads both files whole and compares them.
pub(crate) fn compare(sent: &Path, heard: &Path) -> Result<Verdict, Failure> {
    let (sent, heard) = (read(sent)?, read(heard)?);
    if sent.channels != heard.channels {
        return Err(Failure::usage(format!(
            "the files have {} and {} channels; compare files of as many",
            sent.channels, heard.channels
        )));
    }
    Ok(judge(&sent.samples, &heard.samples, sent.channels))
}

fn read(path: &Path) -> Result<Sound, Failure> {
    let mut reader = FileReader::open(path)?;
    let channels = reader.format().channels.count();
    let (mut samples, mut some) = (Vec::new(), Vec::new());
    while reader.read(&mut some) {
        samples.extend_from_slice(&some);
    }
    Ok(Sound { samples, channels })
}

/// Frames that must agree for a place to be the right one.
const PROBE: usize = 256;

fn judge(sent: &[f32], heard: &[f32], channels: usize) -> Verdict {
    let silent = |frame: &[f32]| frame.iter().all(|sample| *sample == 0.0);
    let frames: Vec<&[f32]> = sent.chunks_exact(channels).collect();
    let first = frames.iter().position(|frame| !silent(frame));
    let last = frames.iter().rposition(|frame| !silent(frame));
    let (Some(first), Some(last)) = (first, last) else {
        return Verdict { frames: 0, identical: 0, begins: None };
    };
    let sound = &sent[first * channels..(last + 1) * channels];
    let probe = &sound[..sound.len().min(PROBE * channels)];
    let begins = (0..(heard.len() / channels).saturating_sub(probe.len() / channels) + 1)
        .find(|at| heard[at * channels..].starts_with(probe));
    let total = last + 1 - first;
    let Some(begins) = begins else {
        return Verdict { frames: total, identical: 0, begins: None };
    };
    let identical = sound
        .chunks_exact(channels)
        .zip(heard[begins * channels..].chunks_exact(channels))
        .filter(|(sent, heard)| sent == heard)
        .count();
    // Where the whole file begins, its leading silence included.
    Verdict { frames: total, identical, begins: Some(begins.saturating_sub(first)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(frames: usize) -> Vec<f32> {
        (0..frames * 2).map(|i| ((i * 7919) % 30_011 + 1) as f32 / 32_768.0).collect()
    }

    #[test]
    fn a_recording_that_begins_and_ends_with_silence_is_identical() {
        let sent = [vec![0.0; 20], noise(1000), vec![0.0; 40]].concat();
        let heard = [vec![0.0; 300], noise(1000), vec![0.0; 10]].concat();
        let verdict = judge(&sent, &heard, 2);
        assert!(verdict.is_whole());
        assert_eq!((verdict.frames, verdict.begins), (1000, Some(140)));
    }

    #[test]
    fn one_frame_that_differs_is_seen() {
        let mut heard = noise(1000);
        heard[1500] += 1.0 / 8_388_608.0;
        assert_eq!(judge(&noise(1000), &heard, 2).identical, 999);
    }

    #[test]
    fn a_recording_that_ends_early_is_not_whole() {
        assert!(!judge(&noise(1000), &noise(1000)[..1990], 2).is_whole());
        assert!(!judge(&noise(1000), &[], 2).is_whole());
    }
}
