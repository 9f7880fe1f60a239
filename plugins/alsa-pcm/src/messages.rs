use tautline_engine::monitor::note::Note;
use tautline_engine::monitor::note::messages::alike;
use tautline_io::link::is_of_a_queue;
use tautline_proto::evidence::Contradiction;
use tautline_proto::latency::LatencyRule;
use tautline_proto::receive_policy::{ReceiveNote, Refusal, WrongType};

/// `None` for notes about a missing receiver (plain RTP) or real-time priority.
pub(crate) fn words(note: &Note<'_>) -> Option<String> {
    match note {
        Note::SystemRefused { refused, of, errno, .. } => {
            let answer = std::io::Error::from_raw_os_error(*errno);
            let hint = refusal(*errno);
            Some(format!("the system refused {refused} of {of} packets: {answer}; {hint}"))
        }
        Note::DroppedByQueue { address, dropped, of, .. } => Some(format!(
            "the interface's queue dropped {dropped} of {of} packets to {address}: too late for their launch times; \
             run the application with real-time priority, or write pacing \"fq\" or \"sleep\""
        )),
        // An application has no option against losses that concealment hides.
        Note::Receiving { note: ReceiveNote::Loss(_), .. } => None,
        Note::Receiving { address, note } => Some(receiving(address, note)),
        note => alike(note),
    }
}

fn refusal(errno: i32) -> &'static str {
    if is_of_a_queue(errno) {
        "the interface's queue is full, or is an etf, which requires launch times (pacing \"etf\")"
    } else {
        "check the address and the route to it"
    }
}

fn receiving(address: &str, note: &ReceiveNote) -> String {
    match note {
        ReceiveNote::Refused(refusal) => refused(address, refusal),
        ReceiveNote::Contradicted { contradiction: Contradiction::FrameBytes(bytes), format } => {
            format!(
                "{address}: packets have {bytes} bytes per frame but are read as {} with {} channels: muted; use the \
                 sender's .sdp as address",
                format.coding_name(),
                format.channels
            )
        }
        ReceiveNote::Contradicted { contradiction: Contradiction::Samples, format } => format!(
            "{address}: the samples cannot be {}: muted; use the sender's .sdp as address",
            format.coding_name()
        ),
        ReceiveNote::Contradicted { contradiction: Contradiction::Rate(rate), format } => format!(
            "{address}: packets arrive at {rate} but are played at {}: muted; write rate {}",
            format.rate,
            rate.hertz()
        ),
        ReceiveNote::WrongType(WrongType { arrived, .. }) => format!(
            "{} packets with payload type {} arrived from {address}, which the PCM does not accept; use the sender's \
             .sdp as address",
            arrived.packets, arrived.payload_type
        ),
        ReceiveNote::Needs { need, device, latency, longest, rule } => {
            let why = format!(
                "{address}: no announcement; the sender's packets have {} and the PCM's card takes {device}",
                need.packet
            );
            match rule {
                LatencyRule::Chosen(_) => format!(
                    "{why}, so {latency} is too short and packets are late; write latency {} or \
                     more",
                    need.latency
                ),
                _ if need.latency > *longest => format!(
                    "{why}, which needs {}, but the maximum here is {longest}; write latency {} for more",
                    need.latency, need.latency
                ),
                _ => format!("{why}, so it runs at {}", need.latency),
            }
        }
        ReceiveNote::TooShort { needs, latency } => format!(
            "{address}: a latency of {latency} is too short ({needs}), so packets will be late; write latency {} or \
             more, or a shorter period",
            needs.total()
        ),
        ReceiveNote::PresentedTooSoon(later) => format!(
            "{address}: packets arrive after their presentation time; raise mtt or latency of the talker by {later}"
        ),
        ReceiveNote::Raised { promised, needs } => format!(
            "{address} announces {promised}, which is too short ({needs}), so it runs at {}",
            needs.total()
        ),
        ReceiveNote::NoRoom { wanted, longest } => format!(
            "{address} needs {wanted}, but the maximum here is {longest}, which is used; write latency {wanted} for \
             more"
        ),
        ReceiveNote::RepairShort { window, latency, enough } => format!(
            "{address}: packets can be repaired up to {window} after departure, but a latency of {latency} is too \
             short for that; write latency {enough} or more"
        ),
        ReceiveNote::OutOfReach => format!(
            "{address}: the rates of the application and the sender differ too much, so the sound jumps; check both \
             rates"
        ),
        ReceiveNote::Unsteady(resyncs) => format!(
            "{address}: the presentation times of its packets jump again and again ({resyncs} resyncs lately): the \
             talker must derive them from its sample clock, and keep its clock with PTP"
        ),
        ReceiveNote::Restarting(restarts) => format!(
            "{address}: the talker reports {restarts} recent restarts of its media clock (mr), as after xruns: use a \
             longer period there, or real-time priority"
        ),
        ReceiveNote::Uncertain => format!(
            "{address}: the talker reports that its clock is uncertain (tu): keep it with PTP"
        ),
        ReceiveNote::Loss(percent) => format!("{address}: {percent} % of the packets are lost"),
        ReceiveNote::HeavyLoss(percent) => format!(
            "{address}: {percent} % of the packets are lost: the network carries less than the stream needs"
        ),
        ReceiveNote::MostlyLate { percent, latency, needed } => format!(
            "{address}: {percent} % of the packets arrive too late for a latency of {latency}; write latency {needed} or \
             more"
        ),
        ReceiveNote::Stopped => {
            format!("{address}: no packets for 3 s: check the sender and the network")
        }
        ReceiveNote::Resumed(silence) => {
            format!("{address}: packets arrive again after {:.1} s", silence.as_millis_f64() / 1e3)
        }
        ReceiveNote::DeviceLost => {
            format!(
                "{address}: the sender's device stopped; the sender sends silence until it is back"
            )
        }
        ReceiveNote::DeviceBack(silence) => format!(
            "{address}: the sender's device is back after {:.1} s without sound",
            silence.as_millis_f64() / 1e3
        ),
        ReceiveNote::Posing { sender, other, .. } => format!(
            "{address}: packets with the SSRC of its sender ({sender}) come also from {other}, and are not played: \
             stop the program that sends them"
        ),
    }
}

fn refused(address: &str, refusal: &Refusal) -> String {
    let Refusal { theirs, ours, .. } = refusal;
    let shape = |format: &tautline_proto::stream::StreamFormat| {
        let (hertz, channels) = (format.rate.hertz(), format.channels);
        format!("{hertz} Hz with {channels} channels in {}", format.coding_name())
    };
    format!(
        "{address} sends {} and the PCM expects {}, so it is silent; write rate {}, channels {} and format {}, or \
         remove these keys, and use plug: for another rate",
        shape(theirs),
        shape(ours),
        theirs.rate.hertz(),
        theirs.channels,
        theirs.coding_name()
    )
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use tautline_dsp::format::SampleFormat;
    use tautline_proto::latency::LatencySum;
    use tautline_proto::packet::Codings;
    use tautline_proto::stream::StreamFormat;
    use tautline_proto::time::{Frames, Span};
    use tautline_proto::unannounced::Need;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    #[test]
    fn pcm_messages_name_no_command_line_options() {
        let format = StreamFormat {
            codec: None,
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: SampleFormat::L24,
            packet: Frames::new(48),
            payload_type: 97,
        };
        let millis = Span::from_millis;
        let need = Need { latency: millis(20), packet: millis(10), apart: Span::ZERO };
        let needs = |rule| ReceiveNote::Needs {
            need,
            device: millis(2),
            latency: millis(5),
            longest: millis(15),
            rule,
        };
        let theirs = StreamFormat { rate: Rate::HZ_44100, ..format };
        let refusal =
            Refusal { theirs, ours: format, coding: None, codings: Codings::ByConvention };
        let needs_sum = LatencySum { packing_age: millis(2), device: millis(2) };
        let notes = [
            ReceiveNote::Refused(refusal),
            needs(LatencyRule::Usual),
            needs(LatencyRule::Chosen(millis(5))),
            ReceiveNote::TooShort { needs: needs_sum, latency: millis(3) },
            ReceiveNote::Raised { promised: millis(3), needs: needs_sum },
            ReceiveNote::NoRoom { wanted: millis(900), longest: millis(400) },
            ReceiveNote::RepairShort { window: millis(8), latency: millis(5), enough: millis(13) },
            ReceiveNote::OutOfReach,
        ];
        for note in notes {
            let reported =
                words(&Note::Receiving { address: "rtp://h:5004", note: &note }).unwrap();
            assert!(reported.contains("rtp://h:5004"), "{reported}");
            assert!(!reported.contains(" --") && !reported.contains("taut "), "{reported}");
        }
        let refused = words(&Note::Receiving { address: "a", note: &notes[0] }).unwrap();
        snapshot!(refused);
    }
}
