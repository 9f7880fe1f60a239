//! Changes to `taut send` via standard input.

use tautline_audio::{DeviceSpec, SoftwareSpec};
use tautline_engine::control::{Destined, SendChange};
use tautline_engine::plan::address::{Address, Resolved};
use tautline_engine::plan::sockets;
use tautline_io::link::destinations::Destinations;
use tautline_io::udp::{UdpOptions, check_destinations};
use tautline_proto::stream::Coding;
use tautline_proto::units::Channels;
use tautline_proto::wire::WireForm;

use crate::control::nothing;
use crate::failure::Failure;
use crate::flags::{Send, coding_in_line, latency, parse, span};

pub(super) fn in_bits(
    coding: Coding,
    bitrate: Option<u32>,
    channels: Channels,
) -> Result<Coding, Failure> {
    match (coding.bitrate(), bitrate) {
        (Some(_), Some(bitrate)) => Ok(coding.at_bitrate(bitrate)),
        (_, None) => Ok(coding.usual_for(channels)),
        (_, Some(_)) => Err(Failure::usage(format!(
            "--bitrate needs Opus, but the format is {}\nhint: leave --bitrate out, or use --format opus",
            coding.name()
        ))),
    }
}

pub(crate) struct SendLines {
    pub(crate) form: WireForm,
    pub(crate) udp: Option<UdpOptions>,
    pub(crate) bitrate: Option<u32>,
    pub(crate) channels: Channels,
}

impl SendLines {
    pub(crate) fn read(&self, verb: &str, rest: &str) -> Result<SendChange, String> {
        match verb {
            "latency" | "format" if self.form.presents() => Err(format!(
                "the {verb} of an AVTP stream is fixed\nhint: restart taut with another --{verb}"
            )),
            "redundancy" if self.form.presents() => {
                Err("AVTP has no redundancy\nhint: send RTP for --redundancy".into())
            }
            "latency" if rest.is_empty() => {
                Err("latency needs a time\nhint: write latency 8ms or latency auto".into())
            }
            "latency" => Ok(SendChange::Latency(latency(rest)?)),
            "ptime" => Ok(SendChange::Ptime(span(rest)?)),
            "format" => self.coding(rest).map(SendChange::Format),
            "redundancy" => Ok(SendChange::Redundancy(parse(rest)?)),
            "volume" => Ok(SendChange::Volume(parse(rest)?)),
            "mute" => nothing(verb, rest, SendChange::Mute(true)),
            "unmute" => nothing(verb, rest, SendChange::Mute(false)),
            "to" => self.destined(rest),
            "status" => nothing(verb, rest, SendChange::Status),
            _ => Err("unknown change\nhint: write latency, ptime, format, redundancy, \
                      volume, mute, unmute, to, status or quit"
                .into()),
        }
    }

    fn coding(&self, text: &str) -> Result<Coding, String> {
        let coding = coding_in_line(text, "")?;
        let bitrate = self.bitrate.filter(|_| coding.bitrate().is_some());
        in_bits(coding, bitrate, self.channels).map_err(|failure| failure.to_string())
    }

    fn destined(&self, text: &str) -> Result<SendChange, String> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let addresses: Vec<Address> = words.map(Address::to_send_to).collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err("to needs all addresses to send to\nhint: write \
                        to rtp://HOST:PORT,rtp://HOST:PORT"
                .into());
        }
        let resolved = addresses.iter().map(Address::resolve);
        let resolved: Vec<Resolved> =
            resolved.collect::<Result<_, _>>().map_err(|failure| failure.to_string())?;
        let Some(opened) = &self.udp else {
            return Err("an Ethernet or TCP stream cannot change its destination\nhint: restart \
                        taut with another --to"
                .into());
        };
        if let Some(other) = addresses.iter().find(|to| to.form() != self.form) {
            return Err(format!("{other} needs another packet format\nhint: restart taut with it"));
        }
        let mut udp = opened.clone();
        sockets::set(&mut udp, &addresses, &resolved).map_err(|failure| failure.to_string())?;
        let ways = |udp: &UdpOptions| (udp.interface.clone(), udp.ttl, udp.loopback);
        if ways(&udp) != ways(opened) {
            return Err(
                "iface, ttl and loop cannot change\nhint: keep the old values, or restart \
                        taut with the new ones"
                    .into(),
            );
        }
        udp.destinations = resolved.iter().filter_map(Resolved::media).collect();
        check_destinations(&udp).map_err(|error| error.to_string())?;
        if opened.launch.is_some() && sockets::interfaces(&udp) != sockets::interfaces(opened) {
            return Err(
                "packets have launch times for the queue of their interface, and these addresses use \
                 another\nhint: restart taut with them, or use --pacing sleep"
                    .into(),
            );
        }
        let Some(destinations) = Destinations::new(&udp.destinations) else {
            let maximum = Destinations::MAX;
            return Err(format!(
                "more than {maximum} addresses\nhint: send to a multicast group instead"
            ));
        };
        Ok(SendChange::To(Box::new(Destined {
            address: addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            destinations,
            reports_to: resolved.iter().filter_map(Resolved::reports).map(Into::into).collect(),
        })))
    }
}

/// Standard input carries sound or changes, not both.
pub(super) fn refuse_two_readers(flags: &Send) -> Result<(), Failure> {
    if flags.running.control
        && matches!(flags.input, DeviceSpec::Software(SoftwareSpec::Standard(_)))
    {
        return Err(Failure::usage(
            "--control and --input file:- both read standard input\nhint: leave --control out, or name \
             the file",
        ));
    }
    Ok(())
}
