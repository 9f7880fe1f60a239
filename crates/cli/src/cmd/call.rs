//! `taut call`: two-way sound with a machine that runs `taut serve`.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use clap::ValueEnum;
use tautline_api::call::CallAddress;
use tautline_api::client::WorkerAddress;
use tautline_api::trust::{TrustFile, TrustStore, TrustedHosts, usual_folder};
use tautline_call::{CallerConfig, Callers, Command, DeviceChoice, is_mixed};
use tautline_engine::control::requests;
use tautline_proto::device::Stop;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{Coding, LONGEST_LINK_OFFSET, PTIME_RANGE};

use super::calls::devices::{device_choice, devices};
use super::calls::status::{CallStatus, page};
use super::calls::tunnel::Tunnel;
use super::calls::usual::choose_devices;
use super::calls::{Calls, config, failure, print_reports};
use super::keys::{Pressed, PressedKeys};
use super::stop_on_signals;
use crate::control::{self, nothing};
use crate::failure::{Failure, on_one_line};
use crate::flags::{
    CallFlags, CallHost, TransportFlag, bitrate, coding_in_line, latency, parse, span,
};
use crate::messages::cannot_change;
use crate::sound_files;

/// Fits 80 columns.
const KEYS: &str = "m: mute   SPACE: talk while muted   + -: latency   < >: packets   q: hang up";

pub(crate) fn run(flags: &mut CallFlags) -> Result<(), Failure> {
    flags.end.running.refuse_partial_packet_log()?;
    // An unreadable list is refused once this host's key is needed.
    let list = usual_folder().and_then(|folder| TrustFile::in_folder(&folder).hosts());
    let list = list.unwrap_or_default();
    flags.hosts.iter_mut().for_each(|host| *host = paired(host, &list).unwrap_or(host.clone()));
    refuse_twice(&flags.hosts)?;
    if let Some(file) = flags.end.record.as_deref().filter(|record| is_mixed(record)) {
        sound_files::make_room(file, flags.end.overwrite)?;
    }
    if flags.bitrate.is_some() && flags.end.format.flatten().and_then(Coding::bitrate).is_none() {
        return Err(Failure::usage(
            "--bitrate needs Opus\nhint: add --format opus or --format opus-voice, or leave --bitrate out",
        ));
    }
    let several = flags.hosts.len() > 1;
    if flags.bridge && !several {
        return Err(Failure::usage(
            "--bridge needs several hosts\nhint: call several hosts, or leave --bridge out",
        ));
    }
    let by_ssh = flags.hosts.iter().filter(|host| matches!(host, CallHost::BySsh { .. })).count();
    // ssh forwards TCP only.
    let paths = match flags.transport {
        TransportFlag::Udp if by_ssh > 0 => {
            return Err(Failure::usage(
                "--transport udp: ssh carries no UDP\nhint: leave --transport out",
            ));
        }
        _ if by_ssh == flags.hosts.len() => TransportFlag::Tcp.paths(),
        transport => transport.paths(),
    };
    choose_devices(flags)?;
    let flags = &*flags;
    let stop = stop_on_signals()?;
    let trust = TrustStore::usual()?;
    let mut tunnels = Vec::new();
    let Some(hosts) = reached(&flags.hosts, &mut tunnels, &stop)? else { return Ok(()) };
    // Several calls share devices, which must agree on a rate before all hosts answer.
    let choice = match several {
        false => device_choice(&flags.end, &flags.input, &flags.output)?,
        true => DeviceChoice::alone(devices(&flags.end, &flags.input, &flags.output)?),
    };
    let files = flags.end.running.report_files()?;
    let voice = flags.end.running.voice();
    let calls = if several { Calls::Several } else { Calls::One };
    let end = config(&flags.end, (&flags.input, &flags.output), flags.echo_cancel, calls);
    let mut status = CallStatus::on_terminal(voice);
    // Standard input carries either keys or lines.
    let (mut requested, mut keys) = (None, None);
    if flags.end.running.control {
        let lines = CallLines { hosts: hosts.clone(), of_files: end.has_files() };
        let (asker, requests) = requests();
        let read = move |verb: &str, rest: &str| lines.read(verb, rest);
        control::listen(asker, status.answers(), stop.clone(), read)?;
        requested = Some(requests);
    } else if status.are_seen() {
        keys = PressedKeys::listen(stop.clone(), key)?;
        keys.iter().for_each(|_| status.with_keys(KEYS));
    }
    let config = CallerConfig {
        end,
        hosts,
        bridged: flags.bridge,
        auto_format: flags.end.format.map_or(by_ssh > 0, |format| format.is_none()),
        bitrate: flags.bitrate,
        paths,
        muted: flags.mute,
        held: flags.hold,
    };
    let mut calls = Callers::new(config, &trust, &choice, stop).map_err(failure)?;
    while calls.turn() {
        tunnels.iter_mut().for_each(Tunnel::turn);
        requested.iter().for_each(|requested| requested.serve(|command| calls.change(command)));
        for command in keys.iter().flat_map(PressedKeys::pressed) {
            if let Err(why) = calls.change(command) {
                voice.notify(&on_one_line(&cannot_change(&why)));
            }
        }
        let microphone = calls.microphone();
        status.show(calls.views().flat_map(|view| page(&view, several, microphone)).collect());
    }
    let ended = calls.finish();
    status.end();
    print_reports("call", ended.map_err(failure)?, files, &flags.end.running)
}

const fn key(byte: u8) -> Option<Pressed<Command>> {
    Some(Pressed::Key(match byte {
        b' ' => Command::Talk,
        b'm' | b'M' => Command::ToggleMute,
        b'q' | b'Q' => return Some(Pressed::End),
        b'+' | b'=' => Command::LatencyBy(1),
        b'-' => Command::LatencyBy(-1),
        b'>' | b'.' => Command::PtimeBy(Ordering::Greater),
        b'<' | b',' => Command::PtimeBy(Ordering::Less),
        _ => return None,
    }))
}

fn paired(host: &CallHost, list: &TrustedHosts) -> Option<CallHost> {
    let CallHost::At(CallAddress(WorkerAddress { name: None, host, port }, None)) = host else {
        return None;
    };
    let mut paired = format!("{host}={}", list.place(host)?).parse().ok()?;
    match &mut paired {
        CallHost::At(CallAddress(WorkerAddress { port: at, .. }, _))
        | CallHost::BySsh { port: at, .. } => *at = *port,
    }
    Some(paired)
}

/// Uses a tunnel for ssh hosts. `None` once `stop` is requested.
fn reached(
    hosts: &[CallHost],
    tunnels: &mut Vec<Tunnel>,
    stop: &Stop,
) -> Result<Option<Vec<CallAddress>>, Failure> {
    let mut addresses = Vec::new();
    for host in hosts {
        addresses.push(match host {
            CallHost::At(address) => address.clone(),
            CallHost::BySsh { name, destination, port } => {
                let Some((tunnel, port)) = Tunnel::open(destination, *port, stop)? else {
                    return Ok(None);
                };
                tunnels.push(tunnel);
                let (name, host) = (name.clone(), Ipv4Addr::LOCALHOST.to_string());
                CallAddress(WorkerAddress { name, host, port }, Some(destination.as_str().into()))
            }
        });
    }
    Ok(Some(addresses))
}

/// A peer called twice would hear the same sound twice.
fn refuse_twice(hosts: &[CallHost]) -> Result<(), Failure> {
    let place = |host: &CallHost| match host {
        CallHost::At(address) => (address.0.host.clone(), address.0.port),
        CallHost::BySsh { destination, port, .. } => (format!("ssh:{destination}"), *port),
    };
    let mut seen = BTreeSet::new();
    match hosts.iter().find(|host| !seen.insert(place(host))) {
        Some(host) => {
            Err(Failure::usage(format!("{host} is named twice\nhint: name each host once")))
        }
        None => Ok(()),
    }
}

struct CallLines {
    hosts: Vec<CallAddress>,
    of_files: bool,
}

impl CallLines {
    fn which(&self, verb: &str, text: &str) -> Result<Option<usize>, String> {
        if text.is_empty() || self.hosts.len() < 2 {
            return nothing(verb, text, None);
        }
        let is_meant = |host: &CallAddress| {
            let whole = host.to_string();
            let place = whole.split_once('=').map_or(&*whole, |(_, place)| place);
            [Some(&*whole), Some(place), Some(&*host.0.host), host.0.name.as_deref()]
                .contains(&Some(text))
        };
        let mut meant = (0..).zip(&self.hosts).filter(|(_, host)| is_meant(host));
        match (meant.next(), meant.next()) {
            (Some((index, _)), None) => Ok(Some(index)),
            (one, _) => {
                let what = if one.is_some() { "several calls" } else { "no call" };
                let hosts: Vec<_> = self.hosts.iter().map(ToString::to_string).collect();
                Err(format!(
                    "`{text}` is {what}\nhint: write {verb} alone for all, or one of {} after it",
                    hosts.join(", ")
                ))
            }
        }
    }

    fn read(&self, verb: &str, rest: &str) -> Result<Command, String> {
        match verb {
            "mute" => nothing(verb, rest, Command::Mute(true)),
            "unmute" => nothing(verb, rest, Command::Mute(false)),
            "hold" if self.of_files => Err(
                "a held file would start from its beginning\nhint: quit and call again, or use --record".to_owned(),
            ),
            "hold" => Ok(Command::Hold(true, self.which(verb, rest)?)),
            "resume" => Ok(Command::Hold(false, self.which(verb, rest)?)),
            "volume" => Ok(Command::Volume(parse(rest)?)),
            "ptime" => match span(rest)? {
                ptime if ptime < PTIME_RANGE.0 || ptime > PTIME_RANGE.1 => Err(format!(
                    "packets have {} to {}\nhint: write a time such as ptime 5ms", PTIME_RANGE.0, PTIME_RANGE.1
                )),
                ptime => Ok(Command::Ptime(ptime)),
            },
            "format" if rest == "auto" => Ok(Command::AutoFormat),
            "bitrate" => Ok(Command::Bitrate(bitrate(rest)?)),
            "transport" => match TransportFlag::from_str(rest, true) {
                Ok(way) => Ok(Command::Transport(way.paths(), way.name())),
                Err(_) => Err(format!("unknown transport `{rest}`\nhint: write udp, tcp or auto")),
            },
            "format" => Ok(Command::Format(coding_in_line(rest, "auto, ")?)),
            "latency" => match latency(rest)? {
                LatencyRule::Chosen(requested) if requested > LONGEST_LINK_OFFSET => Err(format!(
                    "the maximum latency is {LONGEST_LINK_OFFSET}\nhint: write latency {LONGEST_LINK_OFFSET} or less"
                )),
                rule => Ok(Command::Latency(rule)),
            },
            "status" => nothing(verb, rest, Command::Status),
            _ => Err("unknown change\nhint: write mute, unmute, hold, resume, volume, latency, ptime, format, \
                bitrate, transport, status or quit"
                .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_paired_machine_is_called_where_it_was_paired() {
        let key = "A".repeat(43) + "=";
        let list = format!(
            "studio = '{key} 10.0.0.2'\nattic = '{key} [fe80::1]'\nshed = '{key} ssh:me@shed'\nlab = '{key}'"
        );
        let list = TrustedHosts::read(&list).unwrap();
        for (requested, called) in [
            ("studio", Some("studio=10.0.0.2")),
            ("studio:17250", Some("studio=10.0.0.2:17250")),
            ("attic", Some("attic=[fe80::1]")),
            ("shed", Some("shed=ssh:me@shed")),
            ("studio=10.0.0.3", None),
            ("ssh:studio", None),
            ("lab", None),
            ("10.0.0.2", None),
        ] {
            let [requested, called] =
                [Some(requested), called].map(|host| host.map(|host| host.parse().unwrap()));
            assert_eq!(requested.and_then(|requested| paired(&requested, &list)), called);
        }
    }
}
