//! `taut compare`: whether a recording holds what was sent, bit for bit.

mod runs;

use core::fmt;
use std::path::Path;

use tautline_audio::FileReader;
use tautline_proto::units::Rate;

use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;
use runs::{Both, Heard, Splice};

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
        splices: Vec::new(),
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
        let said = "identical: all 1000 frames, silent ends aside, from frame 140 on (0.003 s)";
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

    /// What a card plays when at `at` of a sound the latency changes by so many frames, with a fade.
    fn spliced(sound: &[f32], at: usize, by: i64) -> Vec<f32> {
        const FADE: usize = 96;
        let on = (at as i64 - by) as usize;
        let fade = (0..FADE * 2).map(|i| {
            let share = (i / 2 + 1) as f32 / (FADE + 1) as f32;
            sound[at * 2 + i] * (1.0 - share) + sound[on * 2 + i] * share
        });
        let head = sound[..at * 2].iter().copied();
        head.chain(fade).chain(sound[(on + FADE) * 2..].iter().copied()).collect()
    }

    /// Noise that does not repeat.
    fn long_noise(frames: usize) -> Vec<f32> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 - 8_388_608.0) / 8_388_608.0
        };
        (0..frames * 2).map(|_| next()).collect()
    }

    #[test]
    fn a_sound_that_is_moved_in_mid_run_is_found_again_either_way() {
        let sent = long_noise(60_000);
        for by in [1440, -1440, 24_000, -24_000] {
            let verdict = judge(&sent, &spliced(&sent, 30_000, by));
            let [Splice { at, moved }] = verdict.splices[..] else { panic!("{verdict:?}") };
            assert_eq!(moved, by);
            assert_eq!(verdict.missed_last, 0, "{verdict}");
            // What is repeated is whole; what is left out is missing, the fade with it.
            let missing = if by > 0 { 0 } else { by.unsigned_abs() as usize + 96 };
            assert_eq!(verdict.frames - verdict.identical, missing, "{verdict}");
            assert_eq!(at, 30_000 + missing, "{verdict}");
            assert!(!verdict.is_whole());
            let way = if by > 0 { "later" } else { "earlier" };
            let told = format!("ms {way} from there on");
            assert!(verdict.to_string().contains(&told), "{verdict}");
        }
        let verdict = judge(&sent, &spliced(&sent, 30_000, 1440));
        assert!(verdict.to_string().contains("moved at 0.625 s: 30.00 ms later"), "{verdict}");
    }

    #[test]
    fn two_moves_and_a_hole_are_told_apart() {
        let sent = long_noise(90_000);
        let mut heard = spliced(&sent, 60_000, -960);
        heard[80_000..80_096].fill(0.0);
        let heard = spliced(&heard, 20_000, 960);
        let verdict = judge(&sent, &heard);
        let moved: Vec<i64> = verdict.splices.iter().map(|splice| splice.moved).collect();
        assert_eq!((moved, verdict.missed_last), (vec![960, -960], 0), "{verdict}");
        assert_eq!(verdict.frames - verdict.identical, 48 + 960 + 96, "{verdict}");
    }

    #[test]
    fn a_hole_in_a_sound_that_repeats_itself_is_no_move() {
        let bar = long_noise(12_000);
        let sent = [&bar[..], &bar, &bar, &bar, &long_noise(20_000)].concat();
        let mut heard = sent.clone();
        heard[40_000..42_000].fill(0.0);
        let verdict = judge(&sent, &heard);
        assert_eq!(
            (verdict.splices.len(), verdict.holes),
            (0, Some((20_000, 20_999))),
            "{verdict}"
        );
    }
}
