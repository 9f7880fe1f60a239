//! `taut compare`: whether a recording holds what was sent, bit for bit.

mod alike;
mod runs;
#[cfg(test)]
mod tests;

use core::fmt;
use std::path::Path;

use tautline_audio::FileReader;
use tautline_proto::units::Rate;

use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;
use alike::Alike;
use runs::{Both, Heard, Splice};

pub(crate) fn run(flags: &Compare) -> Result<(), Failure> {
    let verdict = compare(&flags.sent, &flags.heard)?;
    screen::say(&verdict.to_string());
    if verdict.is_whole() {
        return Ok(());
    }
    let (sent, heard) = (flags.sent.display(), flags.heard.display());
    Err(Failure::running(match (verdict.begins, verdict.holes) {
        (None, _) if let Some(alike) = &verdict.alike => {
            format!("{heard} holds {sent}, but not bit for bit: {}", alike.why())
        }
        (None, _) => {
            format!("{heard} holds nothing of {sent} as it was sent; are they of one run?")
        }
        (_, Some(_)) if !verdict.splices.is_empty() => format!(
            "{heard} holds {sent} in pieces that were moved; a latency that changes does so, and the \
             report of taut recv says what was lost"
        ),
        (_, Some(_)) => format!(
            "{heard} does not hold all of {sent}; the report of taut recv says what was lost"
        ),
        (_, None) if !verdict.splices.is_empty() => format!(
            "{heard} holds all of {sent}, but not as one piece: a latency that changes moves what \
             follows"
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

/// Moves that are told one by one.
const SPLICES: usize = 8;

/// How two files compare, once the one is found in the other.
#[derive(Debug, Clone, PartialEq)]
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
    /// Where it was moved against what was sent, by frames of the sent file.
    pub(crate) splices: Vec<Splice>,
    /// The same sound, where none of it was heard bit for bit.
    pub(crate) alike: Option<Alike>,
}

impl Verdict {
    /// Whether every frame was heard as it was sent, one after the other.
    pub(crate) fn is_whole(&self) -> bool {
        self.begins.is_some() && self.identical == self.frames && self.splices.is_empty()
    }

    /// Where it was moved and by how much, in words.
    fn write_splices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Splice { at, moved } in self.splices.iter().take(SPLICES) {
            let millis = *moved as f64 * 1e3 / f64::from(self.rate.hertz());
            let way = if *moved < 0 { "earlier" } else { "later" };
            let from = self.seconds(*at as i64);
            write!(f, "; moved at {from}: {:.2} ms {way} from there on", millis.abs())?;
        }
        match self.splices.len().saturating_sub(SPLICES) {
            0 => Ok(()),
            more => write!(f, "; and moved {more} times more"),
        }
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
        if let (None, Some(alike)) = (self.begins, &self.alike) {
            let (frames, all, at) = (alike.frames, self.frames, alike.begins);
            return match at {
                0.. => write!(
                    f,
                    "{alike}: {frames} of {all} frames, from frame {at} on ({})",
                    self.seconds(at)
                ),
                _ => write!(
                    f,
                    "{alike}: {frames} of {all} frames, from frame {} of what was sent on",
                    -at
                ),
            };
        }
        let Some(at) = self.begins else {
            return f.write_str("the sent sound was not found in what was heard");
        };
        let (first, end) = (self.first, self.first + self.frames);
        if self.is_whole() {
            write!(f, "identical: all {} frames, silent ends aside", self.frames)?;
        } else {
            let (identical, all) = (self.identical, self.frames);
            write!(f, "{identical} of {all} frames identical, silent ends aside")?;
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
        self.write_splices(f)?;
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
    let names = (sent.display(), heard.display());
    let (sent, heard) = (read(sent)?, read(heard)?);
    if sent.rate != heard.rate {
        let (first, second, hertz) = (names.0, names.1, sent.rate.hertz());
        let out = Path::new("heard").with_extension(format!("{hertz}.wav"));
        return Err(Failure::usage(format!(
            "{first} has {} and {second} {}, and sound of two rates has no frame in common; convert \
             one and compare that: sox {second} -r {hertz} {}",
            sent.rate,
            heard.rate,
            out.display()
        )));
    }
    if sent.channels != heard.channels {
        return Err(Failure::usage(format!(
            "the files have {} and {} channels; compare files of as many, such as sox {} left.wav \
             remix 1 makes",
            sent.channels,
            heard.channels,
            if sent.channels > heard.channels { names.0 } else { names.1 }
        )));
    }
    let mut verdict = judge(&sent, &heard.samples);
    if verdict.begins.is_none() && verdict.frames > 0 {
        let sounding = verdict.first..verdict.first + verdict.frames;
        verdict.alike = alike::find(&sent, sounding, &heard);
    }
    Ok(verdict)
}

impl Sound {
    fn frames(&self) -> usize {
        self.samples.len() / self.channels
    }

    fn frames_of(&self, frames: core::ops::Range<usize>) -> &[f32] {
        &self.samples[frames.start * self.channels..frames.end * self.channels]
    }
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
        splices: Vec::new(),
        alike: None,
    };
    let mut all = 0..samples.len() / channels;
    let (Some(first), last) = (all.clone().find(sounds), all.rfind(sounds)) else {
        return verdict;
    };
    let last = last.unwrap_or(first);
    verdict.first = first;
    verdict.frames = last + 1 - first;
    let sound = &samples[first * channels..(last + 1) * channels];
    let reach = sent.rate.hertz() as usize;
    let Some(found) = (Both { sound, heard, channels }).follow(reach) else {
        return verdict;
    };
    let Heard { begins, same, splices } = found;
    verdict.begins = Some(begins - first as i64);
    verdict.identical = same.iter().filter(|same| **same).count();
    let from = same.iter().position(|same| *same).unwrap_or(0);
    let to = same.iter().rposition(|same| *same).unwrap_or(0);
    verdict.missed_first = from;
    verdict.missed_last = same.len() - 1 - to;
    let differs = |index: &usize| !same[*index];
    let holes = (from..=to).find(differs).zip((from..=to).rfind(differs));
    verdict.holes = holes.map(|(from, to)| (first + from, first + to));
    let place = |splice: Splice| Splice { at: first + splice.at, ..splice };
    verdict.splices = splices.into_iter().map(place).collect();
    verdict
}
