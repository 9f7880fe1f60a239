use tautline_engine::monitor::note::Note;
use tautline_engine::monitor::note::messages::alike;
use tautline_io::link::is_of_a_queue;
use tautline_proto::evidence::Contradiction;
use tautline_proto::latency::{LatencyRule, enough_latency};
use tautline_proto::receive_policy::{ReceiveNote, Refusal, WrongType};

/// Text of a note; `None` for notes about a missing receiver (plain RTP) or missing real-time
/// priority.
pub(crate) fn words(note: &Note<'_>) -> Option<String> {
    match note {
        Note::SystemRefused { refused, of, errno, .. } => {
            let answer = std::io::Error::from_raw_os_error(*errno);
            let hint = refusal(*errno);
            Some(format!("the system refused {refused} of {of} packets: {answer}; {hint}"))
        }
        Note::DroppedByQueue { address, dropped, of, .. } => Some(format!(
            "the interface's queue dropped {dropped} of {of} packets to {address}, which came to it too late for their \
             launch times; run the application with real-time priority, or give pacing \"fq\" or \"sleep\""
        )),
        Note::Receiving { address, note } => Some(receiving(address, note)),
        note => alike(note),
    }
}

fn refusal(errno: i32) -> &'static str {
    if is_of_a_queue(errno) {
        "the interface's queue was full, or is an etf, which takes packets with launch times alone (pacing \"etf\")"
    } else {
        "is the address right, and a way to it?"
    }
}

fn receiving(address: &str, note: &ReceiveNote) -> String {
    match note {
        ReceiveNote::Refused(refusal) => refused(address, refusal),
        ReceiveNote::Contradicted { contradiction: Contradiction::FrameBytes(bytes), format } => {
            format!(
                "packets of {address} have {bytes} bytes per frame but are read as {} with {} channels: muted; give the PCM \
             the sender's .sdp as address",
                format.coding_name(),
                format.channels
            )
        }
        ReceiveNote::Contradicted { contradiction: Contradiction::Samples, format } => format!(
            "the samples of packets of {address} cannot be {}: muted; give the PCM the sender's .sdp as address",
            format.coding_name()
        ),
        ReceiveNote::Contradicted { contradiction: Contradiction::Rate(rate), format } => format!(
            "packets of {address} come at {rate} but are played at {}: muted; write rate {}",
            format.rate,
            rate.hertz()
        ),
        ReceiveNote::WrongType(WrongType { came, .. }) => format!(
            "{} packets of payload type {} came from {address}, and the PCM does not take those for \
             its stream; give it the sender's .sdp as address",
            came.packets, came.payload_type
        ),
        ReceiveNote::Needs { need, device, latency, longest, rule } => {
            let why = format!(
                "the sender at {address} announces nothing; its packets hold {} and the PCM's card \
                 takes {device}",
                need.packet
            );
            match rule {
                LatencyRule::Chosen(_) => format!(
                    "{why}, so {latency} is too little and packets are late; write latency {} or \
                     more",
                    need.latency
                ),
                _ if need.latency > *longest => format!(
                    "{why}, which wants {}, and there is room for {longest}; write latency {} for \
                     more",
                    need.latency, need.latency
                ),
                _ => format!("{why}, so it runs at {}", need.latency),
            }
        }
        ReceiveNote::TooShort { packing_age, device, latency } => format!(
            "packets of {address} are up to {packing_age} old when they leave and the PCM's card \
             takes {device}, so {latency} is too little and packets will be late; write latency {} \
             or more, or a shorter period",
            enough_latency(*packing_age + *device)
        ),
        ReceiveNote::PresentedTooSoon(later) => format!(
            "packets of {address} arrive too late for the presentation time that they carry; raise mtt or latency of \
             the talker by {later}"
        ),
        ReceiveNote::Raised { promised, packing_age, device, kept } => format!(
            "{address} promises {promised} but packets are up to {packing_age} old when they leave \
             and the PCM's card takes {device}; it runs at {kept}"
        ),
        ReceiveNote::NoRoom { wanted, longest } => format!(
            "{address} wants {wanted} and there is room for {longest}, at which it runs; write \
             latency {wanted} for more"
        ),
        ReceiveNote::RepairShort { window, latency, enough } => format!(
            "packets of {address} repair others up to {window} after they left, and a latency of \
             {latency} has no time for all of that; write latency {enough} or more"
        ),
        ReceiveNote::OutOfReach => format!(
            "the application takes frames at a rate that is too far off that of the sender at \
             {address}: the sound jumps now and then; check the rates of both"
        ),
        ReceiveNote::Unsteady(resyncs) => format!(
            "the presentation times of packets from {address} jump again and again, {resyncs} times of late: \
             let the talker reckon them by the clock of its samples, and keep its clock by PTP"
        ),
        ReceiveNote::Restarting(restarts) => format!(
            "the media clock of the talker of {address} restarted, as after an xrun, {restarts} times of late by its own \
             word (mr): give it a longer period, or real-time priority"
        ),
        ReceiveNote::Uncertain => format!(
            "packets from {address} say that their talker's clock is not to be relied upon (tu): keep it by PTP"
        ),
        ReceiveNote::Posing { sender, other, .. } => format!(
            "packets under the name of the sender of {address}, at {sender}, come from {other} as well \
             and are not played: end what sends them there"
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
        "{address} sends {} and the PCM is set up for {}, so it is silent; write rate {}, channels {} \
         and format {}, or leave them out, and use plug: for another rate",
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
    use tautline_proto::packet::Codings;
    use tautline_proto::stream::StreamFormat;
    use tautline_proto::time::{Frames, Span};
    use tautline_proto::unannounced::Need;
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    #[test]
    fn nothing_is_told_in_words_of_the_command_line() {
        let format = StreamFormat {
            coder: None,
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
        let (packing_age, device) = (millis(2), millis(2));
        let notes = [
            ReceiveNote::Refused(refusal),
            needs(LatencyRule::Usual),
            needs(LatencyRule::Chosen(millis(5))),
            ReceiveNote::TooShort { packing_age, device, latency: millis(3) },
            ReceiveNote::Raised { promised: millis(3), packing_age, device, kept: millis(5) },
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
