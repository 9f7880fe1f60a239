//! `taut compare`: whether a recording holds what was sent: bit for bit, or how else.

mod exact;
mod fit;
mod pieces;
mod seek;
mod sound;
#[cfg(test)]
mod tests;
mod verdict;
mod walk;
mod words;

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use tautline_audio::FileReader;

use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;
use exact::Both;
use sound::Sound;
pub(crate) use verdict::Comparison;
use walk::PieceWalk;

pub(crate) fn run(flags: &Compare) -> Result<(), Failure> {
    let verdict = compare(&flags.sent, &flags.heard)?;
    screen::say(&verdict.to_string());
    if verdict.is_whole() || verdict.is_all_there() {
        return Ok(());
    }
    let (sent, heard) = (flags.sent.display(), flags.heard.display());
    Err(Failure::running(why(&verdict, &sent.to_string(), &heard.to_string())))
}

/// What is wrong with a recording that does not hold all, in one sentence with the mend.
fn why(verdict: &Comparison, sent: &str, heard: &str) -> String {
    let ends = (verdict.missed_first > 0, verdict.missed_last > 0);
    if !verdict.is_found() {
        return format!("{heard} holds nothing of {sent}; are they of one run?");
    }
    if verdict.is_mixed() {
        return format!(
            "{heard} holds {sent}, but not as it was sent: a --volume, a --map or a mixer was on the \
             way"
        );
    }
    if verdict.changes.iter().any(verdict::Difference::moves) {
        return format!(
            "{heard} holds {sent} in pieces that were moved; a latency that changes does so, and the \
             report of taut recv says what was lost"
        );
    }
    match ends {
        _ if !verdict.changes.is_empty() => {
            format!(
                "{heard} does not hold all of {sent}; the report of taut recv says what was lost"
            )
        }
        (false, false) => {
            format!("{heard} holds {sent}, but {}", verdict.difference())
        }
        (first, last) => {
            let missed = match (first, last) {
                (true, true) => "begins later and ends earlier than",
                (true, false) => "begins later than",
                (false, _) => "ends earlier than",
            };
            format!(
                "{heard} {missed} {sent}, and holds all between; start taut recv first, stop it last"
            )
        }
    }
}

/// Reads both files whole and compares them.
pub(crate) fn compare(sent: &Path, heard: &Path) -> Result<Comparison, Failure> {
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
    let channels = (sent.channels.len(), heard.channels.len());
    if channels.0 != channels.1 {
        return Err(Failure::usage(format!(
            "the files have {} and {} channels; compare files of as many, such as sox {} left.wav \
             remix 1 makes",
            channels.0,
            channels.1,
            if channels.0 > channels.1 { names.0 } else { names.1 }
        )));
    }
    let bar = ProgressBar::with_draw_target(Some(heard.frames() as u64), screen::target());
    let style = ProgressStyle::with_template("comparing {wide_bar} {percent} %");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let verdict = judge(&sent, &heard, &mut |frame| bar.set_position(frame as u64));
    bar.finish_and_clear();
    Ok(verdict)
}

fn read(path: &Path) -> Result<Sound, Failure> {
    let mut reader = FileReader::open(path)?;
    let format = reader.format();
    let count = format.channels.count();
    let mut channels = vec![Vec::new(); count];
    let mut some = Vec::new();
    while reader.read(&mut some) {
        for (index, channel) in channels.iter_mut().enumerate() {
            channel.extend(some.iter().skip(index).step_by(count));
        }
    }
    Ok(Sound { channels, rate: format.rate })
}

/// Compares two sounds of as many channels; `progress` hears the heard frame that is come to.
fn judge(sent: &Sound, heard: &Sound, progress: &mut dyn FnMut(usize)) -> Comparison {
    let pieces = match sent.sounding().is_empty() {
        true => Vec::new(),
        false => PieceWalk::new(Both { sent, heard }, heard.bits(), progress).run(),
    };
    Comparison::of(sent, heard, pieces)
}
