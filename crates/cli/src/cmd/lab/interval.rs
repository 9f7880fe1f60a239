//! `taut lab interval`

use std::fs::{File, read, write};
use std::path::Path;

use tautline_dsp::format::SampleFormat;
use tautline_engine::plan::address::{Address, StreamPlace};
use tautline_engine::plan::pacing::PacingRung;
use tautline_engine::plan::sockets::hearing_by_ethernet;
use tautline_io::udp::UdpOptions;
use tautline_lab::interval::{
    BareLoop, IntervalListener, ListenOptions, ListenPlace, QUESTION, climb, of_capture, of_ledger,
};
use tautline_lab::report::LabReport;
use tautline_lab::streams::{LabStream, LabWire};
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::Frames;

use super::answer::ExperimentAnswer;
use super::ends::over;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{IntervalFlags, LoopFlags};
use crate::screen;

/// As many packets a second as the socket's buffer is laid out for: those of 125 µs.
const PACKETS_PER_SECOND: u32 = 8000;

pub(crate) fn run(flags: &IntervalFlags) -> Result<(), Failure> {
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    if flags.rungs {
        return by_rungs(flags, answer);
    }
    let report = match (&flags.ledger, &flags.pcap, &flags.listen) {
        (Some(path), _, _) => {
            let bytes = read(path).map_err(|error| unread(path, &error))?;
            // What is no text has no columns of a ledger, and that is said of it.
            of_ledger(&String::from_utf8_lossy(&bytes), flags.rate)
        }
        (_, Some(path), _) => {
            let file = File::open(path).map_err(|error| unread(path, &error))?;
            of_capture(file, flags.rate)
        }
        (_, _, Some(address)) => heard(flags, address, &answer)?,
        _ => return Err(Failure::usage("give one of --ledger, --pcap, --listen and --rungs")),
    };
    answer.give(report)
}

/// Each rung of the ladder in turn.
fn by_rungs(flags: &IntervalFlags, answer: ExperimentAnswer) -> Result<(), Failure> {
    let plan = LabStream {
        rate: flags.rate.hertz(),
        ptime: flags.ptime,
        period: flags.period,
        latency: flags.latency,
        duration: flags.duration,
        wire: flags.avtp.clone().map_or(LabWire::Rtp, LabWire::Avtp),
        at: flags.far.at,
        ..LabStream::default()
    };
    let mut rungs =
        if flags.pacing.is_empty() { PacingRung::ALL.to_vec() } else { flags.pacing.clone() };
    // The least regular first: what follows is to be better.
    rungs.sort_unstable_by_key(|rung| core::cmp::Reverse(*rung));
    let stop = stop_on_signals()?;
    let asked = LabReport::of("interval", QUESTION);
    let mut void = None;
    over(&flags.far.with, asked, answer, &stop, |ends, answer| {
        let report = climb(ends, &plan, &rungs, &stop, &mut |sentence| answer.tell(sentence));
        void = nothing_of(&rungs, &report);
        report
    })?;
    // What the stamps are worth is said all the same, and is nothing that was asked for.
    void.map_or(Ok(()), |why| Err(Failure::running(why)))
}

/// Why nothing was measured of any of these rungs, if nothing was.
fn nothing_of(rungs: &[PacingRung], report: &LabReport) -> Option<String> {
    let whys = rungs.iter().map(|rung| {
        let row = report.rows.iter().find(|row| row.name == rung.name());
        row.map_or(Some("asked to stop before it was sent"), |row| row.void.as_deref())
    });
    let whys = whys.collect::<Option<Vec<_>>>()?;
    whys.first().map(|why| (*why).to_owned())
}

pub(super) fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::open(format!("reading {}: {error}; check the path", path.display()))
}

fn heard(
    flags: &IntervalFlags,
    address: &Address,
    answer: &ExperimentAnswer,
) -> Result<LabReport, Failure> {
    let stop = stop_on_signals()?;
    let resolved = address.resolve()?;
    let place = match resolved.place {
        StreamPlace::Udp { media, .. } => ListenPlace::Udp(UdpOptions {
            interface: address.interface.clone(),
            sources: address.sources.clone(),
            packets_per_second: PACKETS_PER_SECOND,
            ..UdpOptions::receiver(media)
        }),
        StreamPlace::Ethernet(place) => ListenPlace::Ethernet(hearing_by_ethernet(&place)),
        StreamPlace::Tcp(_) => {
            let why = format!("{address} is TCP, which arrives without packets of its own");
            return Err(Failure::usage(format!("{why}; capture it and use --pcap FILE")));
        }
    };
    let options = ListenOptions {
        place,
        duration: flags.duration,
        rate: flags.rate,
        most: flags.packets as usize,
    };
    let listener = IntervalListener::open(options)?;
    answer.tell(&format!("listening at {address} for {}", flags.duration));
    Ok(listener.listen(&stop))
}

pub(crate) fn send(flags: &LoopFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let sample = SampleFormat::from(flags.format);
    let format = StreamFormat {
        coder: None,
        rate: flags.rate,
        channels: flags.channels,
        sample,
        packet: packet_frames(flags.rate, flags.ptime)
            .map_err(|e| Failure::usage(e.to_string()))?,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let bare = BareLoop {
        rung: flags.pacing,
        format,
        period: Frames::new(flags.period.into()),
        latency: flags.latency,
        duration: flags.duration,
        scheduler: flags.scheduler,
    };
    let sent = bare.send(&flags.to, &stop).map_err(Failure::open)?;
    write(&flags.ledger, sent.ledger())
        .map_err(|error| Failure::running(format!("{}: {error}", flags.ledger.display())))?;
    // As the report of `taut send` has it.
    let pacing = serde_json::json!({ "lead_ns": sent.lead.as_nanos() });
    let report = serde_json::json!({ "streams": [{ "pacing": pacing }] });
    screen::print(&format!("{report}\n"));
    Ok(())
}
