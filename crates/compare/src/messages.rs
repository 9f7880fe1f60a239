//! Text of a verdict.

use core::fmt;
use core::ops::Range;

use super::changes::{Difference, Instead};
use super::pieces::{ChannelRouting, GainRange};
use super::resampled::ResampledRow;
use super::residue::{Residue, ResidueKind};
use super::tone::{TestTone, Tone};
use super::verdict::{Comparison, Delay};
use super::why::NOTHING;

const TOLD: usize = 8;
/// Minimum displayed gain. Smaller gains are rounding errors.
const NO_GAIN_DB: f64 = 0.05;
/// Minimum displayed rate difference. Smaller differences are rounding errors.
const NO_PPM: f64 = 0.05;

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = match self.delay {
            Delay::NotFound => {
                return f.write_str("the sent sound was not found in the recording");
            }
            Delay::Known(at) | Delay::Ambiguous { nearest: at, .. } => at,
        };
        let (identical, there, all) = (self.identical, self.there, self.sounding.len());
        if self.is_whole() {
            write!(f, "identical: all {all} frames, not counting silent ends")?;
        } else if self.is_all_there() {
            let ends = "not counting silent ends";
            write!(f, "complete: {all} frames, {ends}, {identical} of these frames identical")?;
        } else if let Delay::Ambiguous { period, .. } = self.delay {
            let period = self.millis(period);
            write!(f, "periodic sound: {there} frames of it, delay ambiguous modulo {period}")?;
            write!(f, "; nearest to 0: frame {at} ({})", self.millis(at as f64))?;
        } else if identical > 0 {
            write!(f, "{identical} of {all} frames identical, not counting silent ends")?;
        } else {
            write!(f, "the same sound: {there} of {all} frames, not counting silent ends")?;
        }
        match at {
            _ if self.is_ambiguous() => {}
            0.. => write!(f, ", from frame {at} on ({})", self.seconds(at))?,
            _ => write!(f, ", from sent frame {} on ({})", -at, self.seconds(-at))?,
        }
        self.write_routings(f)?;
        self.write_mix(f)?;
        self.write_volumes(f)?;
        self.write_rest(f)?;
        self.write_passages(f)?;
        self.write_changes(f)?;
        self.write_dropouts(f)?;
        self.write_ends(f)?;
        self.tones.iter().try_for_each(|tone| write_tone(tone, f))
    }
}

impl Comparison {
    fn seconds(&self, frames: i64) -> String {
        format!("{:.3} s", frames as f64 / f64::from(self.rate.hertz()))
    }

    fn at(&self, frame: usize) -> String {
        self.seconds(frame as i64)
    }

    fn millis(&self, frames: f64) -> String {
        format!("{:.2} ms", frames * 1e3 / f64::from(self.rate.hertz()))
    }

    fn range(&self, frames: Range<usize>) -> String {
        format!("frames {} to {} ({} on)", frames.start, frames.end - 1, self.at(frames.start))
    }

    fn write_routings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (from, routing)) in self.routings.iter().take(TOLD).enumerate() {
            let reported = reported(routing);
            if reported.is_empty() && index == 0 {
                continue;
            }
            let reported = if reported.is_empty() { "as sent" } else { &reported };
            write!(f, "; {reported}")?;
            if self.routings.len() > 1 {
                write!(f, " from {} on", self.at(*from))?;
            }
        }
        Ok(())
    }

    fn write_volumes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // U+2212, as for losses.
        let db = |gain: f64| {
            format!("{:.1}", 20.0 * gain.log10()).replace('-', "−").replace("−0.0", "0.0")
        };
        let between = |volume: &GainRange| {
            format!(
                "its volume changes: between {} and {} dB",
                db(volume.minimum),
                db(volume.maximum)
            )
        };
        let reported: Vec<_> =
            self.volumes.iter().map(|volume| volume.as_ref().map(between)).collect();
        let mut reported = reported.as_slice();
        if let Some(Some(first)) = reported.first()
            && reported.iter().all(|one| one.as_ref() == Some(first))
        {
            write!(f, "; {first}")?;
            reported = &[];
        }
        for (channel, reported) in reported.iter().enumerate() {
            if let Some(reported) = reported {
                write!(f, "; of channel {}, {reported}", channel + 1)?;
            }
        }
        Ok(())
    }

    fn write_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((sent, Some(received))) = self.bits.filter(|_| self.rest.is_some()) {
            let sent = sent.map_or("float".to_owned(), |sent| sent.to_string());
            write!(f, "; in samples of {received} bits instead of {sent}")?;
        }
        match self.rest {
            Some(rest) if rest > NOTHING && self.volumes.iter().all(Option::is_none) => {
                write!(f, "; the difference is {:.0} dB below it", -10.0 * rest.log10())?;
                self.residue.map_or(Ok(()), |residue| write_residue(&residue, f))
            }
            _ => Ok(()),
        }
    }

    fn write_mix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(mix) = &self.mix else { return Ok(()) };
        for (channel, row) in mix.coefficients.iter().enumerate() {
            let parts: Vec<_> = row
                .iter()
                .enumerate()
                .filter(|(_, part)| **part != 0.0)
                .map(|(source, part)| format!("{} of channel {}", signed(*part, 4), source + 1))
                .collect();
            let reported =
                if parts.is_empty() { "nothing of it".to_owned() } else { parts.join(" and ") };
            write!(f, "; channel {} holds {reported}", channel + 1)?;
        }
        Ok(())
    }

    fn write_dropouts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.dropouts();
        let Some(longest) =
            all.iter().max_by_key(|dropout| dropout.frames).filter(|_| all.len() > 1)
        else {
            return Ok(());
        };
        let frames: usize = all.iter().map(|dropout| dropout.frames).sum();
        let (count, longest, length, at) = (
            all.len(),
            longest.frames,
            self.millis(longest.frames as f64),
            self.at(longest.at_frame),
        );
        write!(
            f,
            "; {count} dropouts of {frames} in all, the longest of {longest} ({length}) at {at}"
        )
    }

    fn write_passages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ResampledRow { from_frame, to_frame, ppm, ends } in self.passages.iter().take(TOLD) {
            let compared = if *ppm < 0.0 { "slower" } else { "faster" };
            match ppm.abs() {
                // A constant fractional delay.
                ..NO_PPM => write!(f, "; resampled at the same rate")?,
                ppm => write!(f, "; resampled, {ppm:.1} ppm {compared}")?,
            }
            write!(f, ", from {}", self.at(*from_frame))?;
            match ends {
                true => write!(f, " to {}", self.at(*to_frame))?,
                false => f.write_str(" on")?,
            }
        }
        more(f, self.passages.len(), "resampled")
    }

    fn write_changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in self.changes.iter().take(TOLD) {
            f.write_str("; ")?;
            match *change {
                Difference::Replaced { at, frames: 0, by } => {
                    write!(f, "{} for a moment at {}", instead(by), self.at(at))?;
                }
                Difference::Replaced { at, frames, by: Instead::Same } => {
                    let damaged = self.range(at..at + frames);
                    write!(f, "{frames} nearly the same: {damaged}")?;
                }
                Difference::Replaced { at, frames, by } => {
                    let (lost, by) = (self.range(at..at + frames), instead(by));
                    write!(f, "{frames} missing, {by} instead: {lost}")?;
                }
                Difference::Dropped { at, frames, earlier } => {
                    let (at, earlier) = (self.at(at), self.millis(earlier));
                    write!(f, "{frames} dropped at {at}: {earlier} earlier from there on")?;
                }
                Difference::Repeated { at, from, frames, later } => {
                    let (at, from, later) = (self.at(at), self.at(from), self.millis(later));
                    write!(
                        f,
                        "{frames} repeated at {at}, those from {from} on: {later} later from there on"
                    )?;
                }
                Difference::Inserted { at, by, later } => {
                    let (at, by, later) = (self.at(at), instead(by), self.millis(later));
                    write!(f, "{by} inserted at {at}: {later} later from there on")?;
                }
                Difference::Shifted { at, later, modulo } => {
                    let (at, period) = (self.at(at), self.millis(modulo));
                    let moved = if later < 0.0 { "earlier" } else { "later" };
                    let by = self.millis(later.abs());
                    write!(f, "shifted at {at}: {by} {moved} from there on, modulo {period}")?;
                }
            }
        }
        more(f, self.changes.len(), "changed")
    }

    fn write_ends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.sounding;
        if self.is_ambiguous() {
            return Ok(());
        }
        if self.missed_first > 0 {
            let missed = self.range(start..start + self.missed_first);
            write!(f, "; {missed} are missing at the beginning")?;
        }
        if self.missed_last > 0 {
            let missed = self.range(end - self.missed_last..end);
            write!(f, "; {missed} are missing at the end")?;
        }
        Ok(())
    }
}

/// With U+2212, as for losses.
fn signed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}").replace('-', "−")
}

fn write_residue(residue: &Residue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let kind = match residue.kind {
        ResidueKind::Rounding => "rounding",
        ResidueKind::Dither => "dither",
        ResidueKind::Other => return Ok(()),
    };
    write!(f, " ({kind}, within {:.2} steps of {} bits)", residue.peak_steps, residue.bits)
}

fn write_tone(tone: &TestTone, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TestTone { channel, sent, received } = tone;
    let Some(Tone { hertz, level_dbfs, thd_n_db, thd_db, noise_dbfs }) = *received else {
        return write!(f, "; the tone of {:.2} Hz is not in channel {}", sent.hertz, channel + 1);
    };
    let [level, all, harmonics, noise, before] =
        [level_dbfs, thd_n_db, thd_db, noise_dbfs, sent.thd_n_db]
            .map(|decibels| signed(decibels, 1));
    write!(
        f,
        "; a tone of {hertz:.3} Hz at {level} dBFS in channel {}: THD+N {all} dB (as sent {before}), \
         THD {harmonics} dB, noise {noise} dBFS",
        channel + 1
    )
}

fn more(f: &mut fmt::Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    match count.saturating_sub(TOLD) {
        0 => Ok(()),
        more => write!(f, "; and {what} {more} times more"),
    }
}

fn instead(by: Instead) -> &'static str {
    match by {
        Instead::Silence => "silence",
        Instead::Other => "other sound (concealed or damaged)",
        Instead::Same => "nearly the same",
    }
}

fn reported(routing: &ChannelRouting) -> String {
    let gains = &routing.gains;
    let alike = gains.iter().all(|gain| (gain / gains[0] - 1.0).abs() < 0.003);
    let mut all = Vec::new();
    for (channel, (source, gain)) in routing.sources.iter().zip(gains).enumerate() {
        if *gain == 0.0 {
            all.push(format!("channel {} holds nothing of it", channel + 1));
        } else if *source != channel {
            all.push(format!("channel {} holds channel {}", channel + 1, source + 1));
        }
    }
    let loud = |gain: f64| {
        let db = 20.0 * gain.abs().log10();
        let compared = if db < 0.0 { "quieter" } else { "louder" };
        let loud = (db.abs() >= NO_GAIN_DB).then(|| format!("{:.1} dB {compared}", db.abs()));
        let turned = (gain < 0.0).then(|| "inverted".to_owned());
        loud.into_iter().chain(turned).collect::<Vec<_>>().join(", ")
    };
    if alike {
        all.push(loud(gains[0]));
    } else {
        let live = gains.iter().enumerate().filter(|(_, gain)| **gain != 0.0);
        all.extend(
            live.map(|(channel, gain)| (channel, loud(*gain)))
                .filter(|(_, loud)| !loud.is_empty())
                .map(|(channel, loud)| format!("channel {} {loud}", channel + 1)),
        );
    }
    all.retain(|reported| !reported.is_empty());
    all.join(", ")
}
