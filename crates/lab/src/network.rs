//! Effect of other traffic on a stream, with interface traffic by protocol and the audio's share.
//!
//! Sections 3.1.1 and 3.2.1 of the 2020 thesis, with tables 3.1 and 3.2 and figure 3.1.

mod ambient;
mod found;
mod mix;
mod parts;
mod rows;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tautline_ui::failure::Failure;

use crate::answer::Answer;
use crate::cases::Cases;
use crate::hosts::{HostError, LabHost};
use crate::interval::unread;
use crate::loadgen::{Alongside, BusyHost, Noise, TcpRate};
use crate::report::ReportRow;
use crate::runner::{BusyFlags, StreamFlags, counted_down, line};
use crate::streams::{LabStream, StreamEnds, StreamOutcome};
use crate::traffic::WatchedTraffic;
pub use ambient::of_capture;
pub use parts::{NetworkPart, PARTS};

const SHORT_HELP: &str = r#"Examples:
  taut lab network --with ssh:studio --only ambient --duration 60s
  taut lab network --pcap ambient.pcap --report-file ambient.html

All options and details: taut lab network --help"#;

const HELP: &str = r#"Examples:
  # The traffic without a stream; a stream in silence, and next to multicast,
  # chatter, bulk TCP and all of them; then the overhead of packets of 20, 10, 5
  # and 1 ms:
  taut lab network --with ssh:studio
  # The protocols on the interfaces of both machines for a minute, no stream:
  taut lab network --with ssh:studio --only ambient --duration 60s
  # The same for a capture by `tcpdump -i eth0 -w ambient.pcap`, as a page:
  taut lab network --pcap ambient.pcap --report-file ambient.html
  # Between two namespaces of one machine, with 1 Gbit/s of TCP:
  taut lab network --with netns:far --only silent --only all --tcp-rate 1Gbit
  # Only the overhead:
  taut lab network --with netns:far --only overhead --duration 5s
  # While every core of the receiver's host is busy:
  taut lab network --with ssh:studio --load spin

Multicast is 4 Mbit/s to a group without members. Chatter is 2500 packets of 60
to 300 bytes per second, in bursts, which a program at the receiver reads and
parses. TCP is one connection. All start at this machine before the stream, and
end after it. Each row reports the traffic that they really caused.

Ambient traffic is the traffic that a tap sees on each interface (root or
CAP_NET_RAW): its protocols and kinds of addresses, with their shares of packets
and bytes, the mean of the run and the busiest second. Protocols are detected by
EtherType, IP protocol and well-known port, RTP by its header and consecutive
packets.

Rows of interfaces are the counters of both machines' kernels during the stream,
including other programs. Rows of protocols and layers come from a tap, which
needs root or CAP_NET_RAW at both ends. Without it, protocols are counted in
packets of the whole machine, and a note reports it. Overhead is the part of an
Ethernet frame, with its checksum, that is not sound; for layers, the part that
is not payload of UDP or TCP, or of RTP in the stream. `counted` is the
interface's count per packet of sound, without checksums and with its share of
control traffic."#;

/// `taut lab network`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP)]
pub struct NetworkFlags {
    /// Only ambient, silent, multicast, chatter, tcp, all or overhead; repeatable
    ///
    /// ambient is the traffic without a stream.
    #[arg(long, value_name = "PART", help_heading = "Run")]
    only: Vec<NetworkPart>,
    /// Report the traffic in a capture (pcap or pcapng), and send nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "with", "load", "duration"],
          help_heading = "Run")]
    pcap: Option<PathBuf>,
    /// Rate of bulk TCP, such as 100Mbit, or full
    #[arg(long, value_name = "RATE", default_value = "full", help_heading = "Network")]
    tcp_rate: TcpRate,
    #[command(flatten)]
    busy: BusyFlags,
    #[command(flatten)]
    streams: StreamFlags,
}

struct TrafficSeries {
    outcome: StreamOutcome,
    alongside: Alongside,
    watched: [WatchedTraffic; 2],
}

pub(crate) fn run(flags: &NetworkFlags) -> Result<(), Failure> {
    if let Some(path) = &flags.pcap {
        let answer = Answer::of_file(&flags.streams.reporting)?;
        let file = File::open(path).map_err(|error| unread(path, &error))?;
        return answer.give(of_capture(file));
    }
    let all = || PARTS.iter().filter_map(|name| name.parse().ok()).collect::<Vec<NetworkPart>>();
    let parts = if flags.only.is_empty() { all() } else { flags.only.clone() };
    let parts: Vec<_> = parts.into_iter().map(|part| part.with_tcp(flags.tcp_rate)).collect();
    let left = parts.iter().map(NetworkPart::cases).sum();
    let words = counted_down(left, |row| reported_ambient(row).unwrap_or_else(|| line(row)));
    flags.streams.run("network", words, |ends, cases, _| each(ends, cases, &parts, flags))
}

fn reported_ambient(row: &ReportRow) -> Option<String> {
    let figure = |key| row.figures.iter().find(|figure| figure.key == key)?.value.as_f64();
    let (packets, megabits) = (figure("packets_per_s")?, figure("mbit_per_s")?);
    Some(format!("{}: {packets:.1} packets/s, {megabits:.3} Mbit/s", row.name))
}

fn each(ends: &mut StreamEnds, cases: &mut Cases<'_>, parts: &[NetworkPart], flags: &NetworkFlags) {
    let (plan, load) = (&flags.streams.plan(), flags.busy.load.as_ref());
    if parts.iter().any(|part| *part != NetworkPart::Ambient) {
        NOTES.iter().for_each(|note| cases.note(*note));
    }
    let [mut carried, mut mixed, mut layers, mut sizes] = [const { Vec::new() }; 4];
    let mut more_ambient = Vec::new();
    let mut notes = Vec::new();
    for part in parts {
        let streams: Vec<_> = match part {
            NetworkPart::Ambient => {
                cases.run(ambient::NAME, ends, |ends| {
                    let mut rows = Vec::new();
                    for (place, traffic) in ambient::watch(ends, plan.duration)? {
                        rows.extend(ambient::rows(place, &traffic));
                        notes.extend(ambient::notes(place, &traffic));
                    }
                    let first = rows.remove(0);
                    more_ambient.extend(rows);
                    Ok(first)
                });
                continue;
            }
            NetworkPart::Alongside(noise) => vec![(*noise, None, plan.clone())],
            NetworkPart::Overhead => {
                let all = parts::PACKETS.iter();
                all.map(|packets| (Noise::SILENT, Some(packets), packets.plan(plan))).collect()
            }
        };
        for (noise, packets, plan) in streams {
            let name = match packets {
                Some(packets) => format!("packets of {}", packets.ptime),
                None => noise.to_string(),
            };
            let name = BusyHost::named(load, name);
            cases.run(&name, ends, |ends| {
                let seen = BusyHost::around_if(load, ends, &plan, |ends| seen(ends, &plan, noise))?;
                let mut row = seen.outcome.row(&name);
                seen.alongside.notify(&mut row);
                notes.extend(mix::notes(&name, &seen, one_machine(ends)));
                let stamped = !plan.send.iter().any(|word| word == "--no-header-extensions");
                match packets {
                    Some(packets) => sizes.push(rows::overhead(&name, &seen, packets, stamped)),
                    None => {
                        if noise == Noise::SILENT {
                            rows::control(&mut row, &seen, stamped);
                        }
                        carried.extend(rows::carried(&name, &seen, noise, one_machine(ends)));
                        mixed.extend(rows::mixed(&name, &seen, one_machine(ends)));
                        layers.extend(rows::layers(&name, &seen, one_machine(ends)));
                    }
                }
                Ok(row)
            });
        }
    }
    let report = &mut cases.report;
    if let Some(first) = report.rows.iter().position(|row| row.name.starts_with(ambient::NAME)) {
        report.rows.splice(first + 1..first + 1, more_ambient);
    }
    for rows in [carried, mixed, layers, sizes] {
        report.rows.extend(rows);
    }
    let found = found::sentences(&report.rows);
    for note in notes {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
    report.notes.extend(found);
}

const NOTES: [&str; 2] = [
    "interface counters come from the kernel and include other programs; packets handed over \
     together, such as TCP segments, count once at the interface and separately in the mix",
    "in the thesis, noise reached both machines from elsewhere; here the sender's machine \
     generates it, so it leaves there and arrives at the receiver's",
];

fn one_machine(ends: &StreamEnds) -> bool {
    ends.sender.place() == ends.receiver.place()
}

fn seen(ends: &mut StreamEnds, plan: &LabStream, noise: Noise) -> Result<TrafficSeries, HostError> {
    let (address, _) = ends.reached(plan.at, 1)?;
    // The stream must use only this address.
    let plan = &LabStream { at: Some(address), ..plan.clone() };
    let words = |end: &str| ["lab", "traffic", end, &address.to_string()].map(str::to_owned);
    let at_sender = ends.sender.start(&words("--to"), &[])?;
    let at_receiver = match ends.receiver.start(&words("--at"), &[]) {
        Ok(child) => child,
        Err(error) => {
            ends.sender.interrupt(at_sender)?;
            return Err(error);
        }
    };
    let arrived = noise.around(ends, plan);
    // Both must be ended on errors too.
    let watched = [watched(&mut ends.sender, at_sender), watched(&mut ends.receiver, at_receiver)];
    let (outcome, alongside) = arrived?;
    let [sender, receiver] = watched;
    Ok(TrafficSeries { outcome, alongside, watched: [sender?, receiver?] })
}

const WRITING: Duration = Duration::from_secs(10);

fn watched(host: &mut LabHost, child: u32) -> Result<WatchedTraffic, HostError> {
    host.said_by(child, "lab traffic", WRITING)
}
