//! `taut lab`: the experiments.

use core::fmt::Display;
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use tautline_audio::{DeviceSpec, Extras, Opened, SoftwareSpec};
use tautline_engine::plan::address::Resolved;
use tautline_io::clock::now;
use tautline_io::udp::UdpOptions;
use tautline_lab::EXPERIMENTS;
use tautline_lab::delay::{DelayOptions, measure, measure_both_ways};
use tautline_lab::impair::{PathChanges, Relay, RelayOptions};
use tautline_proto::device::{Direction, Directions, Settings};
use tautline_proto::time::{Frames, Span};
use tautline_sim::link::PathModel;
use tautline_sim::trace::Trace;

use super::{settled, stop_on_signals};
use crate::failure::Failure;
use crate::flags::{Back, Delay, Impair, Lab, ReportKind};
use crate::screen;

pub(crate) fn run(lab: &Lab) -> Result<(), Failure> {
    match lab {
        Lab::List => EXPERIMENTS.iter().for_each(|experiment| {
            screen::say(&format!("{:10} {}", experiment.name, experiment.does));
        }),
        Lab::Delay(flags) => delay(flags)?,
        Lab::Impair(flags) => impair(flags)?,
    }
    Ok(())
}

/// What a delay that was measured at the ports of this device is made of, if it has some.
fn at_ports(spec: &DeviceSpec) -> Option<String> {
    let cycle = match spec {
        DeviceSpec::Jack(_) => "",
        DeviceSpec::PipeWire(_) => {
            "; the cycle that taut send and taut recv count for a card at each end in PipeWire is not"
        }
        _ => return None,
    };
    Some(format!(
        "{spec}: measured at its ports, so what lies beyond them, a card too, is in the delay{cycle}"
    ))
}

/// Opens a device whose sound is measured: at its ports, if it has some.
fn open_measured(
    spec: &DeviceSpec,
    directions: impl Into<Directions>,
    wanted: Settings,
) -> Result<Opened, Failure> {
    let (spec, directions) = (&spec.clone().at_ports(), directions.into());
    let settings = settled(spec, directions, wanted, Some(wanted.rate))?;
    Ok(tautline_audio::open(spec, directions, settings, Extras::default())?)
}

fn tell_devices(flags: &Delay) {
    if flags.report != ReportKind::None {
        let (output, input) = (&flags.output, &flags.input);
        screen::tell(&format!("marks are played at {output} and listened for at {input}"));
    }
}

fn delay(flags: &Delay) -> Result<(), Failure> {
    let (channel, channels) = (flags.channel, flags.channels);
    if channel as usize > channels.count() {
        return Err(Failure::usage(format!(
            "--channel {channel} is to be listened to, and both devices have {channels}; use \
             --channel {channels} or less, or --channels {channel}"
        )));
    }
    for spec in [&flags.output, &flags.input] {
        if matches!(spec, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
            return Err(Failure::usage(
                "file:- is for taut send and taut recv: a delay is measured between two devices; \
                 taut devices lists them",
            ));
        }
    }
    let stop = stop_on_signals()?;
    let wanted = Settings {
        rate: flags.rate,
        channels: flags.channels,
        period: Frames::new(i64::from(flags.period)),
        periods: flags.periods,
    };
    let options = DelayOptions {
        configured: flags.configured,
        settle: flags.settle,
        duration: flags.duration,
        scheduler: flags.scheduler,
        channel: flags.channel as usize - 1,
    };
    let report = if flags.output.is_same(&flags.input) {
        let device = open_measured(&flags.output, Directions::Both, wanted)?;
        tell_devices(flags);
        let mut report = measure_both_ways(device.device, &options, &stop)?;
        report.notes.extend(at_ports(&flags.output));
        report.notes.extend(device.notes.take());
        report
    } else {
        let output = open_measured(&flags.output, Direction::Playback, wanted)?;
        let input = open_measured(&flags.input, Direction::Capture, wanted)?;
        tell_devices(flags);
        let mut report = measure(output.device, input.device, &options, &stop)?;
        report.notes.extend([&flags.output, &flags.input].into_iter().filter_map(at_ports));
        report.notes.extend(output.notes.take().into_iter().chain(input.notes.take()));
        report
    };
    answer(flags.report, &report.to_string(), report.to_json())?;
    if report.heard_any() {
        return Ok(());
    }
    Err(Failure::running(format!(
        "no mark that {} played was heard at {}; check what joins them, and the volume",
        flags.output, flags.input
    )))
}

/// Prints a report as it was asked for.
fn answer(kind: ReportKind, text: &str, json: Result<String, impl Display>) -> Result<(), Failure> {
    match kind {
        ReportKind::Text => screen::print(text),
        ReportKind::Json => {
            screen::print(&json.map_err(|error| Failure::running(error.to_string()))?);
        }
        ReportKind::None => {}
    }
    Ok(())
}

/// From one look at the clock and the signals to the next.
const BEAT: Span = Span::from_millis(50);

fn impair(flags: &Impair) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let begun = now();
    let relay = Relay::start(&options(flags)?)?;
    if flags.report != ReportKind::None {
        screen::tell(&format!("relaying rtp://{} to {}", relay.address(), flags.to));
    }
    let ends = flags.duration.map(|duration| begun + duration);
    while !stop.is_requested() && ends.is_none_or(|ends| now() < ends) {
        let next = now() + BEAT;
        tautline_io::clock::sleep_until(ends.map_or(next, |ends| ends.min(next)));
    }
    let Some(report) = relay.stop() else {
        return Err(Failure::running("the relay broke down; what it said stands above"));
    };
    answer(flags.report, &report.to_string(), report.to_json())
}

fn options(flags: &Impair) -> Result<RelayOptions, Failure> {
    let (listen, to) = (flags.listen.resolve()?, flags.to.resolve()?);
    refuse_loop(flags, &listen, &to)?;
    let path = flags.preset.map_or(PathModel::ideal(Span::ZERO), |preset| preset.path());
    let mut changes = PathChanges {
        delay: flags.delay,
        jitter: flags.jitter,
        loss: flags.loss,
        burst: flags.burst,
        reorder: flags.reorder,
        duplicate: flags.duplicate,
        rate: flags.rate,
        mtu: flags.mtu.map(usize::from),
        outages: flags.outage.clone(),
        trace: flags.trace.as_deref().map(read_trace).transpose()?,
    };
    if flags.once {
        changes.trace = changes.trace.map(Trace::once);
    }
    let there = changes.of(path).map_err(|error| Failure::usage(error.to_string()))?;
    let mut options = RelayOptions::between(listen.rtp, to.rtp);
    options.back = match flags.back {
        Back::Same => there.clone(),
        Back::Ideal => PathModel::ideal(there.delay),
    };
    options.there = there;
    options.seed = flags.seed;
    options.scheduler = flags.scheduler;
    options.listen.interface.clone_from(&flags.listen.interface);
    options.listen.sources.clone_from(&flags.listen.sources);
    options.onward = UdpOptions {
        interface: flags.to.interface.clone(),
        ttl: flags.to.ttl.unwrap_or(options.onward.ttl),
        loopback: flags.to.loopback.unwrap_or(options.onward.loopback),
        ..options.onward
    };
    Ok(options)
}

/// A relay that hears what it hands on hands it on for ever.
fn refuse_loop(flags: &Impair, listen: &Resolved, to: &Resolved) -> Result<(), Failure> {
    // Between the same group on two networks it is a relay like any other.
    let apart = flags.listen.interface != flags.to.interface && to.rtp.ip().is_multicast();
    let at = listen.rtp.ip();
    let hears = |ip: IpAddr| {
        at == ip || (at.is_unspecified() || ip.is_unspecified()) && is_own(at) && is_own(ip)
    };
    let ours = [listen.rtp.port(), listen.rtcp.port()];
    let heard = [to.rtp, to.rtcp].into_iter().find(|to| ours.contains(&to.port()));
    let Some(heard) = heard.filter(|heard| !apart && hears(heard.ip())) else { return Ok(()) };
    Err(Failure::usage(format!(
        "--to {}: {heard} is heard by the relay itself at --listen {}, and would go round for ever; \
         write the receiver's address, its UDP ports at least two apart from the relay's",
        flags.to, flags.listen
    )))
}

/// Whether it is an address of this machine: nobody can be bound to another's.
fn is_own(ip: IpAddr) -> bool {
    !ip.is_multicast() && UdpSocket::bind((ip, 0)).is_ok()
}

fn read_trace(path: &Path) -> Result<Trace, Failure> {
    let failed = |why: String| Failure::open(format!("reading {}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| failed(format!("{error}; check the path")))?;
    Trace::read(&text).map_err(|error| failed(error.to_string()))
}
