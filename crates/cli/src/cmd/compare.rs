//! `taut compare`: whether a recording holds what was sent, bit for bit.

use core::fmt;
use std::path::Path;

use tautline_audio::FileReader;
use tautline_proto::units::Rate;

use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;

pub(crate) fn run(flags: &Compare) -> Result<(), Failure> {
    let verdict = compare(&flags.sent, &flags.heard)?;
    screen::say(&verdict.to_string());
    if verdict.is_whole() {
        return Ok(());
    }
    let (sent, heard) = (flags.sent.display(), flags.heard.display());
    Err(Failure::running(match (verdict.begins, verdict.holes) {
        (None, _) => {
            format!("{heard} holds nothing of {sent} as it was sent; are they of one run?")
        }
        (_, Some(_)) => format!(
            "{heard} does not hold all of {sent}; the report of taut recv says what was lost"
        ),
        (_, None) => {
            let missed = match (verdict.missed_first > 0, verdict.missed_last > 0) {
                (true, false) => "begins later than",
                (false, _) => "ends earlier than",
                (true, true) => "begins later and ends earlier than",
            };
            format!(
                "{heard} {missed} {sent}, and holds all between; start taut recv first, stop it last"
            )
        }
    }))
}

/// How two files compare, once the one is found in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Of both files.
    pub(crate) rate: Rate,
    /// Frames of what was sent, without the digital silence at its ends.
    pub(crate) frames: usize,
    /// Frames of these that were heard bit for bit.
    pub(crate) identical: usize,
    /// Where the sent file begins in the heard one, if it was found there; negative where the
    /// recording begins later.
    pub(crate) begins: Option<i64>,
    /// Where the sound begins in the sent file.
    pub(crate) first: usize,
    /// Frames at the beginning of the sound before the first that was heard as it was sent.
    pub(crate) missed_first: usize,
    /// Frames at its end after the last that was heard as it was sent.
    pub(crate) missed_last: usize,
    /// Frames between these that were not, as the first and the last of them in the sent file.
    pub(crate) holes: Option<(usize, usize)>,
}

impl Verdict {
    /// Whether every frame was heard as it was sent.
    pub(crate) fn is_whole(&self) -> bool {
        self.begins.is_some() && self.identical == self.frames
    }

    fn seconds(&self, frames: i64) -> String {
        format!("{:.3} s", frames as f64 / f64::from(self.rate.hertz()))
    }

    /// Frames of the sent file, from one up to and with another.
    fn range(&self, first: usize, last: usize) -> String {
        format!("frames {first} to {last} ({} on)", self.seconds(first as i64))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = self.begins else {
            return f.write_str("the sent sound was not found in what was heard");
        };
        let (first, end) = (self.first, self.first + self.frames);
        if self.is_whole() {
            write!(f, "identical: all {} frames", self.frames)?;
        } else {
            write!(f, "{} of {} frames identical", self.identical, self.frames)?;
        }
        match at {
            0.. => write!(f, ", from frame {at} on ({})", self.seconds(at))?,
            _ => write!(f, ", from frame {} of what was sent on ({})", -at, self.seconds(-at))?,
        }
        if self.missed_first > 0 {
            let missed = self.range(first, first + self.missed_first - 1);
            write!(f, "; {missed} are missing at the beginning")?;
        }
        if let Some((from, to)) = self.holes {
            let missed = self.frames - self.identical - self.missed_first - self.missed_last;
            let between = self.range(from, to);
            write!(f, "; {missed} missing in the middle, within {between}")?;
        }
        if self.missed_last > 0 {
            let missed = self.range(end - self.missed_last, end - 1);
            write!(f, "; {missed} are missing at the end")?;
        }
        Ok(())
    }
}

/// Interleaved samples and what they are of.
struct Sound {
    samples: Vec<f32>,
    channels: usize,
    rate: Rate,
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
    Ok(judge(&sent, &heard.samples))
}

fn read(path: &Path) -> Result<Sound, Failure> {
    let mut reader = FileReader::open(path)?;
    let format = reader.format();
    let (channels, rate) = (format.channels.count(), format.rate);
    let (mut samples, mut some) = (Vec::new(), Vec::new());
    while reader.read(&mut some) {
        samples.extend_from_slice(&some);
    }
    Ok(Sound { samples, channels, rate })
}

fn judge(sent: &Sound, heard: &[f32]) -> Verdict {
    let (samples, channels) = (&sent.samples, sent.channels);
    let frame = |index: usize| &samples[index * channels..(index + 1) * channels];
    let sounds = |index: &usize| frame(*index).iter().any(|sample| *sample != 0.0);
    let mut verdict = Verdict {
        rate: sent.rate,
        frames: 0,
        identical: 0,
        begins: None,
        first: 0,
        missed_first: 0,
        missed_last: 0,
        holes: None,
    };
    let mut all = 0..samples.len() / channels;
    let (Some(first), last) = (all.clone().find(sounds), all.rfind(sounds)) else {
        return verdict;
    };
    let last = last.unwrap_or(first);
    verdict.first = first;
    verdict.frames = last + 1 - first;
    let sound = &samples[first * channels..(last + 1) * channels];
    let Some(begins) = find(sound, heard, channels).map(|at| at - first as i64) else {
        return verdict;
    };
    verdict.begins = Some(begins);
    let same = |index: &usize| {
        let at = usize::try_from(*index as i64 + begins).ok().map(|at| at * channels);
        at.and_then(|at| heard.get(at..at + channels)) == Some(frame(*index))
    };
    verdict.identical = (first..=last).filter(same).count();
    let (from, to) = ((first..=last).find(same), (first..=last).rfind(same));
    let (from, to) = (from.unwrap_or(first), to.unwrap_or(first));
    verdict.missed_first = from - first;
    verdict.missed_last = last - to;
    let differs = |index: &usize| !same(index);
    verdict.holes = (from..=to).find(differs).zip((from..=to).rfind(differs));
    verdict
}

/// Frames that must agree for a place to be the right one.
const PROBE: usize = 256;
/// Places of the sound that are looked for, until one is found: each takes a pass through what was
/// heard.
const PROBES: usize = 64;

/// The frame at which the sound begins in what was heard: before it, if only a later part of it is
/// there.
fn find(sound: &[f32], heard: &[f32], channels: usize) -> Option<i64> {
    let frames = sound.len() / channels;
    let length = frames.min(PROBE);
    let step = (frames / PROBES).max(1);
    (0..=frames - length).step_by(step).find_map(|from| {
        let probe = &sound[from * channels..(from + length) * channels];
        // Frames that are all the same would be found anywhere.
        let tells = from == 0 || probe.chunks(channels).any(|frame| frame != &probe[..channels]);
        let mut places = 0..=(heard.len() / channels).checked_sub(length)?;
        let at = places.find(|at| tells && heard[at * channels..].starts_with(probe))?;
        Some(at as i64 - from as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(frames: usize) -> Vec<f32> {
        (0..frames * 2).map(|i| ((i * 7919) % 30_011 + 1) as f32 / 32_768.0).collect()
    }

    fn judge(sent: &[f32], heard: &[f32]) -> Verdict {
        let sent = Sound { samples: sent.to_vec(), channels: 2, rate: Rate::HZ_48000 };
        super::judge(&sent, heard)
    }

    #[test]
    fn a_recording_that_begins_and_ends_with_silence_is_identical() {
        let sent = [vec![0.0; 20], noise(1000), vec![0.0; 40]].concat();
        let heard = [vec![0.0; 300], noise(1000), vec![0.0; 10]].concat();
        let verdict = judge(&sent, &heard);
        assert!(verdict.is_whole());
        assert_eq!((verdict.frames, verdict.begins), (1000, Some(140)));
        let said = "identical: all 1000 frames, from frame 140 on (0.003 s)";
        assert_eq!(verdict.to_string(), said);
    }

    #[test]
    fn one_frame_that_differs_is_seen_and_placed() {
        let mut heard = noise(1000);
        heard[1500] += 1.0 / 8_388_608.0;
        let verdict = judge(&noise(1000), &heard);
        assert_eq!((verdict.identical, verdict.holes), (999, Some((750, 750))));
        let said = verdict.to_string();
        assert!(said.ends_with("; 1 missing in the middle, within frames 750 to 750 (0.016 s on)"));
    }

    #[test]
    fn a_recording_that_ends_early_is_not_whole_and_says_where() {
        let silence = vec![0.0; 20];
        for heard in [noise(1000)[..1990].to_vec(), [&noise(1000)[..1990], &silence].concat()] {
            let verdict = judge(&noise(1000), &heard);
            assert!(!verdict.is_whole());
            assert_eq!((verdict.missed_first, verdict.holes, verdict.missed_last), (0, None, 5));
            let said = verdict.to_string();
            assert!(
                said.ends_with("frames 995 to 999 (0.021 s on) are missing at the end"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_recording_that_begins_late_is_found_and_says_from_where() {
        let verdict = judge(&noise(1000), &noise(1000)[300..]);
        assert_eq!((verdict.begins, verdict.identical), (Some(-150), 850));
        assert_eq!((verdict.missed_first, verdict.holes, verdict.missed_last), (150, None, 0));
        let said = verdict.to_string();
        assert!(said.contains("from frame 150 of what was sent on (0.003 s)"), "{said}");
        assert!(
            said.ends_with("frames 0 to 149 (0.000 s on) are missing at the beginning"),
            "{said}"
        );
    }

    #[test]
    fn what_holds_nothing_of_the_sound_is_not_whole() {
        for heard in [vec![], vec![0.0; 2000]] {
            let verdict = judge(&noise(1000), &heard);
            assert_eq!((verdict.is_whole(), verdict.begins), (false, None));
        }
    }
}
