pub(crate) mod announce;
pub(crate) mod call;
mod calls;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod id;
pub(crate) mod join;
mod keys;
pub(crate) mod node;
pub(crate) mod pages;
pub(crate) mod pair;
pub(crate) mod plugins;
pub(crate) mod recv;
pub(crate) mod schedule;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod site;
pub(crate) mod srtp_key;
pub(crate) mod top;
pub(crate) mod trust;
pub(crate) mod work;
pub(crate) mod zones;

use core::fmt::Display;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tautline_audio::{DeviceSpec, FileFormat};
use tautline_codec::coding_cost;
use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::address::{Address, Resolved};
use tautline_engine::plan::pacing::Paced;
use tautline_io::clock::thread_time;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_proto::wire::{PacketHeads, WireForm};
pub(crate) use tautline_ui::answer;
use tautline_ui::{settled, stop_on_signals};

use crate::failure::Failure;
use crate::flags::{RunFlags, Timing};
use crate::messages::{long_coding, words};
use crate::sound_files;
use crate::voice::Voice;

/// An input file determines missing rate and channels.
fn device_settings(
    timing: &Timing,
    rate: Option<Rate>,
    channels: Option<Channels>,
    file: Option<&FileFormat>,
) -> Settings {
    Settings {
        rate: rate.or(file.map(|file| file.rate)).unwrap_or(Rate::HZ_48000),
        channels: channels.or(file.map(|file| file.channels)).unwrap_or(Channels::STEREO),
        period: timing.period(),
        periods: timing.periods,
    }
}

fn run_options(timing: &Timing, flags: &RunFlags) -> RunOptions {
    RunOptions {
        scheduler: timing.scheduler,
        duration: flags.duration,
        stall_monitor: !flags.no_stall_monitor,
        lock_memory: true,
        words,
    }
}

fn print_stream(
    voice: Voice,
    spec: &DeviceSpec,
    device: &Settings,
    format: &StreamFormat,
    heads: PacketHeads,
) {
    let payload_type = match heads.form {
        WireForm::Rtp => format!(" (payload type {})", format.payload_type),
        WireForm::Avtp(_) => String::new(),
    };
    voice.detail(&format!(
        "stream: {}{payload_type}, {}, {} channels, packets of {} frames ({}), {} bytes",
        format.coding_name(),
        format.rate,
        format.channels,
        format.packet,
        format.ptime(),
        heads.datagram_bytes(format)
    ));
    voice.detail(&format!(
        "device: {spec}, {}, {} channels, {} ({})",
        device.rate,
        device.channels,
        periods(device),
        device.rate.span_of(device.period)
    ));
}

fn print_coding_time(
    voice: Voice,
    (spec, device, direction): (&DeviceSpec, &Settings, Direction),
    streams: usize,
    format: &StreamFormat,
) {
    let long = coding_cost(format, direction, streams, device.period, &mut thread_time);
    long.iter().for_each(|long| {
        voice.notify(&long_coding(long, (spec, direction), streams, format));
    });
}

fn print_period(voice: Voice, spec: &DeviceSpec, timing: &Timing, device: &Settings) {
    period_note(spec, timing.period, device.period).iter().for_each(|note| voice.notify(note));
}

fn period_note(spec: &DeviceSpec, requested: Option<u32>, runs: Frames) -> Option<String> {
    let requested = requested.filter(|requested| Frames::new(i64::from(*requested)) != runs)?;
    let hint = match spec {
        DeviceSpec::Jack(_) => "; the JACK server sets it (jackd -p)",
        _ => "",
    };
    Some(format!("--period {requested} ignored: {spec} runs at periods of {runs} frames{hint}"))
}

/// Maximum warnings about one description.
const MAX_WARNINGS: usize = 12;

/// A pipe's `open` waits for a writer, at most as long as the run.
fn within<T: core::marker::Send + 'static>(
    run: &RunFlags,
    (what, is_pipe): (impl Display, bool),
    open: impl FnOnce() -> T + core::marker::Send + 'static,
) -> Result<T, Failure> {
    let Some(duration) = run.duration.filter(|_| is_pipe) else { return Ok(open()) };
    let (done, opened) = mpsc::channel();
    let waiting = thread::Builder::new().name("taut-open".to_owned());
    waiting.spawn(move || done.send(open())).map_err(|error| {
        Failure::running(format!(
            "starting a thread: {error}\nhint: end other programs, or raise ulimit -u"
        ))
    })?;
    let longest = Duration::from_nanos(duration.as_nanos().unsigned_abs());
    let late = |_| Failure::running(format!("{what}: no data within {duration}"));
    opened.recv_timeout(longest).map_err(late)
}

fn resolve(address: &Address, run: &RunFlags) -> Result<Resolved, Failure> {
    let (requested, voice) = (address.clone(), run.voice());
    let is_pipe = address.file().is_some_and(sound_files::is_pipe);
    let resolved = within(run, (address, is_pipe), move || requested.resolve_or_wait())??;
    let warnings = &resolved.warnings;
    for warning in warnings.iter().take(MAX_WARNINGS) {
        voice.notify(&format!("{address}: {warning}"));
    }
    if warnings.len() > MAX_WARNINGS {
        voice.notify(&format!("{address}: {} more lines ignored", warnings.len() - MAX_WARNINGS));
    }
    Ok(resolved)
}

fn resolve_all(addresses: &[Address], run: &RunFlags) -> Result<Vec<Resolved>, Failure> {
    addresses.iter().map(|address| resolve(address, run)).collect()
}

fn periods(device: &Settings) -> String {
    let Settings { period, periods, .. } = device;
    let plural = if *periods == 1 { "" } else { "s" };
    format!("{periods} period{plural} of {period} frames")
}

fn reported_pacing(paced: &Paced) -> String {
    let Paced { mode, why, .. } = paced;
    let lead = match paced.lead() {
        Span::ZERO => String::new(),
        lead => format!(", each launched {lead} after it is due"),
    };
    format!("pacing: {mode}{lead}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_that_the_device_does_not_run_at_is_reported() {
        let jack: DeviceSpec = "jack:x".parse().unwrap();
        let note = |requested, runs| period_note(&jack, requested, Frames::new(runs));
        assert_eq!(note(None, 256), None);
        assert_eq!(note(Some(256), 256), None);
        let reported = "--period 48 ignored: jack:x runs at periods of 256 frames; the JACK server sets it (jackd -p)";
        assert_eq!(note(Some(48), 256).as_deref(), Some(reported));
    }
}
