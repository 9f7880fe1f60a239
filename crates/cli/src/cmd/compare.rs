//! `taut compare`: compares a recording with the sent sound, bit for bit.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use tautline_compare::{Comparison, judge};
use tautline_ui::read_sound;

use super::answer;
use crate::failure::Failure;
use crate::flags::Compare;
use crate::screen;

pub(crate) fn run(flags: &Compare) -> Result<(), Failure> {
    let verdict = compare(&flags.sent, &flags.received)?;
    answer(flags.report, &format!("{verdict}\n"), verdict.report().to_json())?;
    if verdict.is_whole() || verdict.is_all_there() {
        return Ok(());
    }
    let (sent, received) = (flags.sent.display(), flags.received.display());
    let why = verdict.why(&sent.to_string(), &received.to_string());
    Err(if verdict.is_open() { Failure::undecided(why) } else { Failure::running(why) })
}

pub(crate) fn compare(sent: &Path, received: &Path) -> Result<Comparison, Failure> {
    let names = (sent.display(), received.display());
    let (sent, received) = (read_sound(sent)?, read_sound(received)?);
    if sent.rate != received.rate {
        let (first, second, hertz) = (names.0, names.1, sent.rate.hertz());
        let out = Path::new("heard").with_extension(format!("{hertz}.wav"));
        return Err(Failure::usage(format!(
            "{first} has {}, {second} {}: different rates cannot be compared\n\
             hint: convert one: sox {second} -r {hertz} {}",
            sent.rate,
            received.rate,
            out.display()
        )));
    }
    let channels = (sent.channels.len(), received.channels.len());
    if channels.0 != channels.1 {
        return Err(Failure::usage(format!(
            "the files have {} and {} channels\nhint: extract a channel: sox {} left.wav remix 1",
            channels.0,
            channels.1,
            if channels.0 > channels.1 { names.0 } else { names.1 }
        )));
    }
    let bar = ProgressBar::with_draw_target(Some(received.frames() as u64), screen::target());
    let style = ProgressStyle::with_template("comparing {wide_bar} {percent} %");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let verdict = judge(&sent, &received, &mut |frame| bar.set_position(frame as u64));
    bar.finish_and_clear();
    Ok(verdict)
}
