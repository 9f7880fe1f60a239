//! Live status line of a run: the most important part first, as terminals truncate it.

use tautline_engine::monitor::run::{PeerState, Progress};
use tautline_proto::send_policy::ReceiverCounts;
use tautline_proto::time::Span;
use tautline_report::text;

/// Time within which a peer has mapped clocks.
pub const ANSWER: Span = Span::from_secs(2);

pub fn line(name: &str, progress: &Progress<'_>) -> String {
    let Progress { elapsed, packets, missed, gaps, repaired, xruns, peer, .. } = progress;
    let seconds = elapsed.as_millis_f64() / 1e3;
    let mut counted = format!("{packets} packets, {missed} missed");
    let faults = gaps.faults();
    if faults != [0; 5] {
        counted += &format!(" ({})", text::faults(faults));
    }
    if *repaired > 0 {
        counted += &format!(", {repaired} repaired");
    }
    counted += &format!(", {xruns} xruns");
    match peer {
        PeerState::Nobody => format!("no answer: {name} {seconds:.1} s, {counted}"),
        PeerState::Lost(ReceiverCounts { here: 0, .. }) => {
            format!("receiver lost: {name} {seconds:.1} s, {counted}")
        }
        PeerState::Lost(ReceiverCounts { here, lost }) => format!(
            "{lost} of {} receivers lost: {name} {seconds:.1} s, {counted}, {}",
            here + lost,
            latency(progress)
        ),
        PeerState::Awaited => format!("nothing received yet: {name} {seconds:.1} s, {xruns} xruns"),
        // Earlier figures are outdated.
        PeerState::Silent { since, silent, of } if silent == of => {
            format!("silent for {}: {name} {seconds:.1} s, {counted}", reported(*since))
        }
        PeerState::Silent { since, silent, of } => format!(
            "{silent} of {of} streams silent for {}: {name} {seconds:.1} s, {counted}, {}",
            reported(*since),
            latency(progress)
        ),
        PeerState::Unknown | PeerState::Here => {
            format!("{name} {seconds:.1} s, {counted}, {}", latency(progress))
        }
    }
}

fn reported(since: Span) -> String {
    format!("{} s", since.as_nanos() / 1_000_000_000)
}

fn latency(progress: &Progress<'_>) -> String {
    let auto = progress.auto;
    let auto = auto.map_or(String::new(), |kept| format!("auto {:.1} ms, ", kept.as_millis_f64()));
    let latency = match progress.latency {
        Some((latency, uncertainty)) => {
            let how = if progress.received { "latency" } else { "expected latency" };
            let by = progress.clock.map_or(String::new(), |clock| format!(" by {clock}"));
            let latency = latency.as_millis_f64();
            // Zero if both ends share one clock.
            match uncertainty {
                Span::ZERO => format!("{how} {latency:.3} ms{by}"),
                unsure => format!("{how} {latency:.3} ± {:.3} ms{by}", unsure.as_millis_f64()),
            }
        }
        None if progress.elapsed > ANSWER && progress.packets > 0 => {
            "latency not known: the peer answers no RTCP".into()
        }
        None => "latency not known yet".into(),
    };
    auto + &latency
}

#[cfg(test)]
mod tests {
    use tautline_report::GapReport;
    use tautline_trial::snapshot;

    use super::*;

    fn shown(name: &str, peer: PeerState) -> String {
        let latency = Some((Span::from_millis(5), Span::from_micros(10)));
        let (elapsed, packets) = (Span::from_secs(3600), 3_600_000);
        line(name, &Progress { elapsed, packets, peer, latency, ..Progress::default() })
    }

    fn cut(line: &str) -> String {
        line.chars().take(80).collect()
    }

    #[test]
    fn silent_stream_replaces_the_stale_latency() {
        let silent = |silent, of| PeerState::Silent { since: Span::from_secs(4), silent, of };
        let line = shown("recv", silent(1, 1));
        snapshot!(line);
        assert!(!line.contains("latency") && !line.contains("5.000"), "{line}");
        snapshot!(shown("recv", silent(2, 2)));
        let one = shown("recv", silent(1, 2));
        snapshot!(one);
        assert!(shown("recv", PeerState::Here).contains("expected latency 5.000 ± 0.010 ms"));
    }

    #[test]
    fn missed_packets_are_shown_with_their_faults_in_80_columns() {
        let progress = Progress {
            elapsed: Span::from_secs(40),
            packets: 51_865,
            missed: 1761,
            gaps: GapReport {
                late_receiver: 1060,
                not_sent: 461,
                lost: 240,
                ..GapReport::default()
            },
            repaired: 293,
            xruns: 4127,
            peer: PeerState::Here,
            ..Progress::default()
        };
        let reported = line("recv", &progress);
        snapshot!(reported);
        let seen = cut(&reported);
        assert!(seen.contains("1761 missed (1060 here, 461 sender, 240 network)"), "{seen}");
    }

    #[test]
    fn latency_on_one_clock_has_a_nonzero_uncertainty() {
        let latency = Some((Span::from_millis(5), Span::ZERO));
        let reported = line("send", &Progress { latency, ..Progress::default() });
        assert!(reported.contains("5.000 ms") && !reported.contains('±'), "{reported}");
    }

    #[test]
    fn missing_receiver_is_shown_first_in_80_columns() {
        let line = shown("send", PeerState::Nobody);
        assert!(line.starts_with("no answer: "), "{line}");
        assert_eq!(cut(&line), line);
    }

    #[test]
    fn sender_with_a_lost_receiver_shows_no_latency_of_it() {
        let line = |here, lost| shown("send", PeerState::Lost(ReceiverCounts { here, lost }));
        assert!(line(0, 1).starts_with("receiver lost: ") && !line(0, 1).contains("5.000"));
        assert_eq!(cut(&line(0, 1)), line(0, 1));
        snapshot!(line(2, 1));
    }

    #[test]
    fn waiting_receiver_says_so_first_within_80_columns() {
        let line = shown("recv", PeerState::Awaited);
        snapshot!(line);
        assert_eq!(cut(&line), line);
    }
}
