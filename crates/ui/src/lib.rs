//! Shared parts of the `taut` commands: option parsers, messages, report files and exit codes.

#![forbid(unsafe_code)]

pub mod failure;
pub mod live;
pub mod readers;
pub mod report_file;
pub mod screen;

use core::fmt::Display;
use std::path::Path;

use tautline_audio::{DeviceSpec, FileReader};
use tautline_compare::Sound;
use tautline_proto::device::{Directions, Settings, Stop};
use tautline_proto::units::Rate;

use failure::Failure;
use report_file::PlainKind;

/// Rejects a device with another rate than the stream's: nothing resamples from 44100 Hz to 48000.
pub fn settled(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
    rate: Option<Rate>,
) -> Result<Settings, Failure> {
    let settings = tautline_audio::settle(spec, directions, wanted)?;
    match rate {
        Some(rate) if rate != settings.rate => Err(Failure::open(format!(
            "{spec} runs at {}, the stream at {rate}\nhint: set the device to {rate}, or use --rate {} at the \
             sender",
            settings.rate,
            settings.rate.hertz()
        ))),
        _ => Ok(settings),
    }
}

/// Stops on Ctrl-C, SIGTERM and SIGHUP (a closed terminal). A second Ctrl-C or SIGTERM ends the
/// program immediately; a second SIGHUP does not, because the kernel and the shell both send one.
pub fn stop_on_signals() -> Result<Stop, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Stop::default();
    // nohup(1) ignores SIGHUP, which must stay so.
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let stops = |signal| signal_hook::flag::register(signal, stop.flag());
    let ends = |signal| {
        signal_hook::flag::register_conditional_default(signal, stop.flag())
            .and_then(|_| stops(signal))
    };
    let registered = [SIGINT, SIGTERM].into_iter().map(ends).chain(hangup.map(stops));
    for result in registered {
        result.map_err(|error| Failure::running(format!("waiting for signals: {error}")))?;
    }
    Ok(stop)
}

/// Whether the signal is ignored: bit n − 1 of `SigIgn` (proc_pid_status(5)).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Prints a report that has no HTML page.
pub fn answer(
    kind: PlainKind,
    text: &str,
    json: Result<String, impl Display>,
) -> Result<(), Failure> {
    match kind {
        PlainKind::Text => screen::print(text),
        PlainKind::Json => {
            screen::print(&json.map_err(|error| Failure::running(error.to_string()))?);
        }
        PlainKind::None => {}
    }
    Ok(())
}

pub fn read_sound(path: &Path) -> Result<Sound, Failure> {
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
