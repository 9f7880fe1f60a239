//! Text about a call for its users: the played sound, its latency, and the cause of missing sound.

use core::fmt::{self, Write};

use super::Nanos;
use super::arrivals::Percent;
use super::redundancy::{FEWER_BITS, LESS_TRAFFIC, MANY, is_coded};
use crate::{GapReport, RemoteReceiver, Report, StreamReport};

/// Writes a line per stream, received before sent, and the xruns at both ends of each call.
pub(super) fn directions(out: &mut String, reports: &[Report]) -> fmt::Result {
    let (mut output, mut there) = (0, 0);
    for report in reports {
        direction(out, report)?;
        let xruns = report.streams.iter().map(|stream| stream.counters.xruns).max().unwrap_or(0);
        if report.role != "send" {
            output = xruns;
            there = report.streams.iter().filter_map(|it| Some(it.sender_device?.xruns)).sum();
            continue;
        }
        let devices = [(core::mem::take(&mut output), "output"), (xruns, "input")];
        let devices = devices.iter().filter(|(xruns, _)| *xruns > 0);
        let devices: Vec<_> = devices.map(|(xruns, device)| format!("{xruns} {device}")).collect();
        if !devices.is_empty() {
            writeln!(out, "xruns here: {}", devices.join(", "))?;
        }
        match core::mem::take(&mut there) {
            0 => {}
            xruns => writeln!(out, "xruns there: {xruns} input")?,
        }
    }
    Ok(())
}

fn direction(out: &mut String, report: &Report) -> fmt::Result {
    for stream in &report.streams {
        let measured = if report.role == "send" {
            write!(out, "sent to {}: ", stream.address)?;
            sent(out, stream)?;
            stream.receivers.iter().find_map(|receiver| receiver.effective_ns)
        } else {
            write!(out, "received from {}: ", stream.address)?;
            received(out, stream)?;
            let device = stream.sender_device.unwrap_or_default();
            if device.replaced_ns > 0 {
                write!(out, ", no device there for {}", Nanos(device.replaced_ns))?;
            }
            if let Some(silent) = stream.silent_ns {
                write!(out, ", no packets for the last {}", Nanos(silent))?;
            }
            stream.latency.changed_ns.or(stream.latency.measured.p50_ns)
        };
        if let Some(measured) = measured {
            write!(out, ", latency {}", Nanos(measured))?;
        }
        let fixed = stream.latency.configured_ns.filter(|_| stream.latency.auto.is_none());
        if let (Some(fixed), true) = (fixed, report.role != "send" && measured.is_some()) {
            write!(out, " (configured {})", Nanos(fixed))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn sent(out: &mut String, stream: &StreamReport) -> fmt::Result {
    write!(out, "{} packets", stream.counters.sent)?;
    if let Some(lost) = lost_there(stream) {
        // Over TCP, only this end loses packets.
        let dropped = stream.counters.send_timeouts.min(lost);
        if dropped < lost || dropped == 0 {
            write!(out, ", {} lost by the network", lost - dropped)?;
        }
        if dropped > 0 {
            write!(out, ", {dropped} dropped here: the TCP connection was too slow")?;
        }
    }
    let late = late_there(stream);
    if late > 0 {
        write!(out, ", {late} too late there")?;
    }
    match silent_ns(stream) {
        Some(silent) => write!(out, ", no report for the last {}", Nanos(silent)),
        None => Ok(()),
    }
}

/// Packets that the other machine misses.
fn lost_there(stream: &StreamReport) -> Option<u64> {
    let trusted = stream.receivers.iter().filter(|receiver| receiver.trusted);
    let lost = |receiver: &RemoteReceiver| {
        receiver.unrepaired.unwrap_or(u64::try_from(receiver.lost).unwrap_or(0))
    };
    trusted.map(lost).reduce(|one, other| one + other)
}

/// Packets that reach the other machine too late to be played.
fn late_there(stream: &StreamReport) -> u64 {
    let trusted = stream.receivers.iter().filter(|receiver| receiver.trusted);
    trusted.filter_map(|receiver| receiver.late).fold(0, u64::saturating_add)
}

/// Whether the call ended in an outage.
pub(super) fn is_interrupted(stream: &StreamReport) -> bool {
    stream.silent_ns.or(silent_ns(stream)).is_some()
}

/// Time without reports at the end, if the call ended in an outage.
fn silent_ns(stream: &StreamReport) -> Option<i64> {
    let lost = stream.receivers.iter().filter(|it| it.trusted && it.state == "lost");
    lost.map(|receiver| receiver.silent_ns).max()
}

/// Share of lost packets that users hear.
const AUDIBLE_LOSS: f64 = 0.01;

/// The fix for faults of the sent sound, which only the other machine's reports show.
pub(super) fn fix_of_sent(stream: &StreamReport) -> Option<String> {
    let of_sent = |packets: u64| packets as f64 / stream.counters.sent.max(1) as f64;
    let lost = lost_there(stream)?;
    let (share, late) = (of_sent(lost), of_sent(late_there(stream)));
    let cause = match stream.counters.send_timeouts >= lost {
        true => "the TCP connection was too slow for",
        false => "the network loses",
    };
    // Losses of an outage do not show a slow line.
    let interrupted = stream.receivers.iter().any(|receiver| receiver.times_lost > 0);
    if lost > stream.counters.sent / MANY && !is_coded(&stream.format) && !interrupted {
        let share = Percent(share);
        return Some(format!("fix: {cause} {share} of the sent sound: {FEWER_BITS}\n"));
    }
    if late >= AUDIBLE_LOSS && late > share {
        return Some(format!(
            "fix: {} of the sent packets are too late there: use a longer --latency; the report there has the causes\n",
            Percent(late)
        ));
    }
    let fix = match stream.redundancy {
        None if !is_tcp(stream) => "use --redundancy auto (repairs losses), or a cable",
        _ => LESS_TRAFFIC,
    };
    (share >= AUDIBLE_LOSS)
        .then(|| format!("fix: {cause} {} of the sent sound: {fix}\n", Percent(share)))
}

fn received(out: &mut String, stream: &StreamReport) -> fmt::Result {
    let c = &stream.counters;
    match (stream.missed(), stream.arrived()) {
        _ if stream.refused.is_some() && !stream.played => {
            write!(out, "{} packets, none played", c.received)
        }
        (_, 0) if c.received == 0 => write!(out, "no packet"),
        (0, due) => write!(out, "all {due} packets played"),
        (missed, _) => {
            let all = stream.needed();
            let share = Percent(missed as f64 / all as f64);
            write!(out, "{missed} of {all} packets missed ({share}")?;
            let gaps = stream.gaps.unwrap_or(GapReport { lost: c.lost, ..GapReport::default() });
            let unreadable = ("undecodable", c.undecodable);
            for (cause, count) in causes(&gaps, is_tcp(stream)).into_iter().chain([unreadable]) {
                if count > 0 {
                    write!(out, "; {count} {cause}")?;
                }
            }
            write!(out, ")")
        }
    }
}

/// Whether the stream used TCP, at least in the end.
pub(super) fn is_tcp(stream: &StreamReport) -> bool {
    stream.transport.as_deref() == Some("tcp") || stream.address.starts_with("rtp+tcp:")
}

/// Lost packets that the sender dropped. TCP loses none: a sender drops packets that the connection
/// does not accept in time. Before an outage, a call may have used UDP.
pub(super) const fn dropped_by_sender(gaps: &GapReport, is_tcp: bool) -> u64 {
    if is_tcp { gaps.lost.saturating_sub(gaps.lost_in_outages) } else { 0 }
}

fn causes(gaps: &GapReport, is_tcp: bool) -> [(&'static str, u64); 9] {
    let dropped = dropped_by_sender(gaps, is_tcp);
    [
        ("because the latency is too short", gaps.late_too_short),
        ("lost by the network", gaps.lost.saturating_sub(dropped)),
        ("dropped by the other machine: the TCP connection was too slow", dropped),
        ("delayed by the network", gaps.late_network),
        ("delayed by the other machine", gaps.late_sender),
        ("delayed by the other machine or the network", gaps.late_unattributed),
        ("not sent by the other machine", gaps.not_sent),
        ("delayed by this machine", gaps.late_receiver + gaps.discarded),
        ("in stalls of this machine", gaps.host_stalled),
    ]
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::super::{Detail, render_calls};
    use crate::distribution::Distribution;
    use crate::{
        Counters, GapReport, LatencyReport, RemoteReceiver, Report, SenderDeviceReport,
        StreamReport,
    };
    use tautline_proto::time::Span;

    fn call(counters: Counters, gaps: GapReport) -> [Report; 2] {
        let mut latency = Distribution::default();
        (0..20).for_each(|_| latency.record(Span::from_micros(8_003)));
        let received = StreamReport {
            address: "office=10.0.0.2:17240".to_owned(),
            format: "l24".into(),
            gaps: Some(gaps),
            counters,
            latency: LatencyReport {
                configured_ns: Some(8_000_000),
                measured: latency.summary(),
                ..LatencyReport::unmeasured()
            },
            ..StreamReport::default()
        };
        let receiver = RemoteReceiver {
            trusted: true,
            lost: 3,
            effective_ns: Some(8_010_000),
            ..RemoteReceiver::default()
        };
        let sent = StreamReport {
            address: received.address.clone(),
            counters: Counters { sent: 5_900, ..Counters::default() },
            receivers: vec![receiver],
            ..StreamReport::default()
        };
        [("recv", received), ("send", sent)].map(|(role, stream)| Report {
            role: role.into(),
            streams: vec![stream],
            notes: vec!["a note".to_owned()],
            ..Report::default()
        })
    }

    #[test]
    fn call_has_two_lines_and_one_fix() {
        let all = Counters { received: 5_886, ..Counters::default() };
        snapshot!(render_calls(&call(all, GapReport::default()), Detail::Summary));
        let mut late = call(all, GapReport::default());
        late[1].streams[0].receivers[0].late = Some(3_000);
        snapshot!("late there", render_calls(&late, Detail::Summary));
        let some = Counters { received: 5_800, late: 10, lost: 86, xruns: 1, ..all };
        let gaps = GapReport {
            late_sender: 1,
            late_network: 2,
            late_receiver: 3,
            late_too_short: 4,
            lost: 86,
            not_sent: 50,
            ..GapReport::default()
        };
        let mut both = call(some, gaps);
        both[1].streams[0].counters.xruns = 2;
        let report = render_calls(&both, Detail::Summary);
        snapshot!(report);
        assert_eq!(report.matches("fix: ").count(), 1, "{report}");
        assert!(report.contains("146 of 5936 packets missed"), "{report}");
        assert_eq!(report.matches("xrun").count(), 1, "{report}");
        let none = render_calls(&call(Counters::default(), GapReport::default()), Detail::Summary);
        assert!(none.contains("17240: no packet"), "{none}");
        let full = render_calls(&call(some, gaps), Detail::Full);
        assert!(full.contains("note: a note") && full.contains("packets: "), "{full}");
    }

    #[test]
    fn device_of_the_other_machine_has_its_faults() {
        let all = Counters { received: 5_886, ..Counters::default() };
        let mut both = call(all, GapReport { not_sent: 1_280, ..GapReport::default() });
        let device = SenderDeviceReport { xruns: 5, replaced_ns: 3_200_000_000 };
        let received = &mut both[0].streams[0];
        (received.sender_device, received.ptime_ns) = (Some(device), 2_500_000);
        snapshot!(render_calls(&both, Detail::Summary));
    }

    #[test]
    fn packets_lost_over_tcp_were_dropped_by_their_sender() {
        let some = Counters { received: 5_000, lost: 900, ..Counters::default() };
        let gaps = GapReport { lost: 900, lost_in_outages: 300, ..GapReport::default() };
        let mut both = call(some, gaps);
        let text = |both: &[Report]| render_calls(both, Detail::Summary);
        assert!(!text(&both).contains("TCP"), "{}", text(&both));
        both.iter_mut().for_each(|it| it.streams[0].transport = Some("tcp".into()));
        let sent = &mut both[1].streams[0];
        (sent.counters.send_timeouts, sent.receivers[0].lost) = (1_900, 1_800);
        let report = text(&both);
        assert!(report.contains("300 lost by the network; 600 dropped by the other"), "{report}");
        assert!(report.contains("5900 packets, 1800 dropped here"), "{report}");
        // Only the sent sound needs a fix.
        let received = &mut both[0].streams[0];
        (received.counters.lost, received.gaps) = (0, Some(GapReport::default()));
        let report = text(&both);
        assert!(report.contains("fix: the TCP connection was too slow for 31 %"), "{report}");
        // Some were lost before the call used TCP.
        both[1].streams[0].counters.send_timeouts = 1_000;
        let report = text(&both);
        assert!(report.contains("800 lost by the network, 1000 dropped here"), "{report}");
    }

    #[test]
    fn latency_of_a_call_is_that_after_the_last_change() {
        let all = Counters { received: 5_886, ..Counters::default() };
        let mut both = call(all, GapReport::default());
        let latency = &mut both[0].streams[0].latency;
        (latency.configured_ns, latency.changed_ns) = (Some(9_000_000), Some(8_997_000));
        let report = render_calls(&both, Detail::Summary);
        assert!(report.contains("latency 8.997ms (configured 9.000ms)"), "{report}");
    }

    #[test]
    fn fault_of_the_sent_sound_has_a_fix() {
        let all = Counters { received: 5_886, ..Counters::default() };
        let mut both = call(all, GapReport::default());
        let reports = |both: &[Report]| {
            let report = render_calls(both, Detail::Summary);
            assert_eq!(report.matches("fix: ").count(), 1, "{report}");
            report
        };
        both[1].streams[0].receivers[0].lost = 600;
        snapshot!(reports(&both));
        // A slow line loses many packets; an outage too.
        for (lost, times_lost, slow) in [(2_000, 0, true), (2_000, 1, false), (600, 0, false)] {
            let receiver = &mut both[1].streams[0].receivers[0];
            (receiver.lost, receiver.times_lost) = (lost, times_lost);
            assert_eq!(reports(&both).contains("--format auto"), slow, "{lost}");
        }
        both[0].streams[0].silent_ns = Some(10_000_000_000);
        let receiver = &mut both[1].streams[0].receivers[0];
        (receiver.state, receiver.silent_ns) = ("lost".into(), 10_170_000_000);
        snapshot!(reports(&both));
    }
}
