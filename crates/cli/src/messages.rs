//! Text for the engine's notes: the state, and the option that fixes it.

mod changes;
mod receiving;
mod sending;

use tautline_audio::DeviceSpec;
use tautline_engine::monitor::note::Note;
use tautline_engine::monitor::note::messages::alike;
use tautline_engine::plan::address::MAX_SENDERS;
use tautline_engine::plan::too_long::TooLong;
use tautline_io::link::{is_of_a_queue, is_of_an_interface};
use tautline_proto::coding_time::LongCoding;
use tautline_proto::device::Direction;
use tautline_proto::send_policy::SendNote;
use tautline_proto::stream::StreamFormat;
use tautline_proto::target_delay::Journal;
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_report::text::Nanos;

pub(crate) use changes::{cannot_change, changed};

fn refusal(errno: i32) -> &'static str {
    if is_of_a_queue(errno) {
        "the interface's queue was full, or is an etf, which takes packets with launch times alone (--pacing etf)"
    } else if is_of_an_interface(errno) {
        "bring the interface up (ip link set dev NAME up), and see that its cable is in"
    } else {
        "is the address right, and a way to it?"
    }
}

pub(crate) fn counted(channels: Channels) -> String {
    let plural = if channels == Channels::MONO { "" } else { "s" };
    format!("{channels} channel{plural}")
}

/// Text about datagrams that could not be decrypted; never contains the key.
pub(crate) fn auth_failed(address: &str, datagrams: u64) -> String {
    let not_read = not_read(datagrams, "the key given here");
    format!("{address}: {not_read}; give both ends the same --srtp-key-file")
}

fn not_read(datagrams: u64, key: &str) -> String {
    let (were, they) =
        if datagrams == 1 { ("datagram was", "it was") } else { ("datagrams were", "they were") };
    format!("{datagrams} {were} not sealed with {key}, or replayed, and {they} not read")
}

/// Warning about coding that takes too much of the device's period, with the fix.
pub(crate) fn long_coding(
    long: &LongCoding,
    (spec, direction): (&DeviceSpec, Direction),
    streams: usize,
    format: &StreamFormat,
) -> String {
    let LongCoding { takes, period, enough } = *long;
    let (does, ptime) = match direction {
        Direction::Capture => ("coding", "a shorter --ptime or another --format"),
        Direction::Playback => {
            ("decoding", "or have the sender use a shorter --ptime or another --format")
        }
    };
    let longer = enough.map(|enough| match spec {
        DeviceSpec::Jack(_) => format!("a period of {enough} frames of the JACK server (jackd -p)"),
        _ => format!("--period {enough}"),
    });
    let hint = match (longer, direction) {
        (Some(longer), _) => format!("use {longer}, {ptime}"),
        (None, Direction::Capture) => format!("use {ptime}"),
        (None, Direction::Playback) => {
            "have the sender use a shorter --ptime or another --format".to_owned()
        }
    };
    let of = match streams {
        0 | 1 => String::new(),
        several => format!(" for {several} streams"),
    };
    format!(
        "{does} packets of {}{of} takes {takes} at a time on this machine, more than half of a period of {period} of {spec}, \
         whose thread does it: expect xruns; {hint}",
        format.coding_name()
    )
}

/// Text of a note in a call. There, both ends have agreed on payload types and device latency, so
/// some notes do not apply.
pub(crate) fn in_a_call(note: &Note<'_>) -> Option<String> {
    match note {
        // A call reports a missing peer itself.
        Note::Sending {
            note:
                SendNote::NewPayloadType { .. }
                | SendNote::TooShort { .. }
                | SendNote::MoreSymbols { .. }
                | SendNote::ReceiverLost { .. }
                | SendNote::ReceiverBack { .. },
            ..
        } => None,
        Note::NoAnswer { address, .. } => Some(format!(
            "nothing was said from {address} of what is heard there: no sound of this end may have come; see whether UDP \
             passes both ways, or call with --transport auto"
        )),
        Note::Sending { note: SendNote::AsksBeyond { host, limit }, .. } => Some(format!(
            "the receiver at {host} asks for more latency than the {limit} of this call; use --latency auto:TIME with a \
             longer one if it is to have it"
        )),
        Note::Sending { note: SendNote::SentAtOnce(ptime), .. } => Some(format!(
            "the packets of a period leave at once; call with --ptime {ptime} for packets that are spaced evenly"
        )),
        Note::AuthFailed { address, datagrams } => Some(format!(
            "{address}: {}; hang up and call again if there are ever more",
            not_read(*datagrams, "the keys of this call")
        )),
        note => words(note),
    }
}

pub(crate) fn words(note: &Note<'_>) -> Option<String> {
    Some(match note {
        Note::Sending { address, networks, note } => sending::words(address, *networks, note),
        Note::Receiving { address, note } => receiving::words(address, note),
        Note::Clock { .. } | Note::AddressTaken { .. } | Note::AddressMoved { .. } => {
            return alike(note);
        }
        Note::Fragments { too_long, ptime } => fragments(too_long, *ptime),
        Note::SystemRefused { network, refused, of, errno } => {
            let answer = std::io::Error::from_raw_os_error(*errno);
            match network {
                Some(network) => format!(
                    "the system refused {refused} of {of} packets by {network}: {answer}; is there a \
                     way to the address from there?"
                ),
                None => format!(
                    "the system refused {refused} of {of} packets: {answer}; {}",
                    refusal(*errno)
                ),
            }
        }
        Note::DroppedByQueue { address, dropped, of, unnamed } => format!(
            "{address}: the interface's queue dropped {dropped} of {of} packets, which came to it too late for their \
             launch times{}; give the threads a higher --scheduler, or a longer --period (taut doctor says what holds \
             them up)",
            unmarked(*unnamed)
        ),
        Note::LinkFound { address, place } => format!("{address}: {place} is connected again"),
        Note::LinkLost { address, place } => format!(
            "{address}: {place} is not connected any more; does the other end run, and is the way to \
             it whole?"
        ),
        Note::LinkError { address, errno } => {
            let answer = std::io::Error::from_raw_os_error(*errno);
            format!("{address}: the system answered {answer}; is the network there?")
        }
        Note::NoAnswer { address, stamps } => {
            let hint = match stamps {
                true => {
                    "; PipeWire's rtp-source is silent then unless --no-header-extensions is given here"
                }
                false => "",
            };
            format!(
                "no receiver has answered from {address}: either nobody listens there, or it is no \
                 taut and sends no RTCP back{hint}"
            )
        }
        Note::Stopped(length) => {
            let seconds = length.as_nanos() as f64 / 1e9;
            format!(
                "this program was stopped for {seconds:.2} s (SIGSTOP, Ctrl-Z): what it missed then is \
                 counted as this machine's fault"
            )
        }
        Note::Unwritten(flaw) => (*flaw).to_owned(),
        Note::AuthFailed { address, datagrams } => auth_failed(address, *datagrams),
        Note::AnotherSender { address, packets, host } => format!(
            "{address}: {packets} packets of another sender, at {host}, came to the same UDP port \
             and were not played; hear all by ?senders=all, give each sender a --from of its own, or \
             name the one to hear by ?source="
        ),
        Note::NoPlace { address, most, from } => {
            let more = most.saturating_mul(2).min(MAX_SENDERS);
            let hint = match more > *most {
                true => format!("write ?senders={more} for more"),
                false => "give some of them a port of their own".to_owned(),
            };
            format!(
                "{address}: a sender at {from} found no place beside the {most} that are heard at \
                 once; {hint}"
            )
        }
        Note::Followed { address, journal, first, last } => {
            followed(address, journal, [*first, *last])
        }
        Note::MostlyLate { address, presented: true } => format!(
            "{address}: most packets arrived after their presentation time; raise --max-transit-time or --latency of the talker"
        ),
        Note::MostlyLate { address, presented: false } => format!(
            "{address}: most packets came after their turn; use a longer --latency (the worst \
             packets above are late by what their device stage is below zero)"
        ),
        Note::PlacedByArrival { address } => format!(
            "{address}: the sender's clock is not known (no RTCP answer), so the sound was placed by \
             the fastest arrivals and its latency is not measured"
        ),
        Note::NotFound { packets, of } => format!(
            "{packets} of {of} packets were not found in what the card played, so the latency is \
             that of the others: silence, a glitch, or a mix"
        ),
    })
}

fn unmarked(unnamed: u64) -> String {
    match unnamed {
        0 => String::new(),
        _ => format!(
            "; {unnamed} of those have no mark in the ledger, as nobody could say any more which packets they were"
        ),
    }
}

pub(crate) fn fragments(too_long: &TooLong, ptime: Span) -> String {
    let TooLong { fragments, shorter, .. } = too_long;
    format!(
        "{}: each goes as {fragments} IP fragments, one lost fragment loses {ptime}, and some \
         switches drop them; --ptime {shorter} or less avoids it",
        longer(too_long)
    )
}

pub(crate) fn longer(TooLong { bytes, mtu, to, .. }: &TooLong) -> String {
    format!(
        "packets of {bytes} bytes are longer than the {mtu} that the path to {to} carries whole"
    )
}

fn followed(address: &str, journal: &Journal, span: [Span; 2]) -> String {
    let nanos = |span: Span| Nanos(span.as_nanos());
    let Journal { before, least, greatest, rises, falls, .. } = *journal;
    let [before, least, greatest] = [before, least, greatest].map(nanos);
    let [first, last] = span.map(nanos);
    format!(
        "{address}: the latency followed the packets: {before} until they were measured, {first} \
         then and {last} at the end, since then between {least} and {greatest}; it rose {} and \
         fell {}",
        times(rises),
        times(falls)
    )
}

fn times(count: u64) -> String {
    match count {
        0 => "not once".into(),
        1 => "once".into(),
        2 => "twice".into(),
        more => format!("{more} times"),
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::stream::Coding;
    use tautline_proto::time::Frames;
    use tautline_proto::units::Rate;
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn what_a_ledger_leaves_out_of_dropped_packets_is_told_and_nothing_else_of_it() {
        let address = "avtp://eth0/91:E0:F0:00:FE:01";
        let reported = |unnamed| {
            words(&Note::DroppedByQueue { address, dropped: 9, of: 90, unnamed }).unwrap()
        };
        snapshot!(reported(2));
        assert!(
            !reported(0).contains("ledger") && reported(0).contains("9 of 90"),
            "{}",
            reported(0)
        );
    }

    #[test]
    fn notes_of_calls_name_options_of_calls_alone() {
        let call =
            <crate::flags::CallFlags as clap::Args>::augment_args(clap::Command::new("call"));
        let has = |option: &str| call.get_arguments().any(|one| one.get_long() == Some(option));
        let host = tautline_proto::endpoint::Host::from(std::net::IpAddr::from([10, 0, 0, 2]));
        let beyond = SendNote::AsksBeyond { host, limit: Span::from_millis(250) };
        let at_once = SendNote::SentAtOnce(Span::from_millis(1));
        let address = "studio";
        let sending = |note| Note::Sending { address, networks: None, note };
        for note in [
            sending(&beyond),
            sending(&at_once),
            Note::NoAnswer { address, stamps: true },
            Note::AuthFailed { address, datagrams: 2 },
        ] {
            let reported = in_a_call(&note).unwrap();
            let words = reported.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            let lacked = words.filter_map(|word| word.strip_prefix("--")).find(|one| !has(one));
            assert_eq!(lacked, None, "{reported}");
        }
    }

    #[test]
    fn long_coding_is_told_in_one_sentence_with_the_mend() {
        let long = LongCoding {
            takes: Span::from_micros(400),
            period: Span::from_micros(500),
            enough: Some(Frames::new(48)),
        };
        let card: DeviceSpec = "alsa:hw:1".parse().unwrap();
        let voice = StreamFormat {
            rate: Rate::HZ_48000,
            channels: Channels::STEREO,
            sample: Coding::OPUS_VOICE.sample,
            coder: Coding::OPUS_VOICE.coder,
            packet: Frames::new(960),
            payload_type: 97,
        };
        assert_eq!(
            long_coding(&long, (&card, Direction::Capture), 1, &voice),
            "coding packets of opus-voice takes 400us at a time on this machine, more than half of a period of 500us of \
             alsa:hw:1, whose thread does it: expect xruns; use --period 48, a shorter --ptime or another --format"
        );
        let reported =
            long_coding(&long, (&"jack:taut".parse().unwrap(), Direction::Playback), 8, &voice);
        snapshot!(reported);
        let never = LongCoding { enough: None, ..long };
        let reported = long_coding(&never, (&card, Direction::Playback), 1, &voice);
        assert!(
            reported.ends_with("; have the sender use a shorter --ptime or another --format"),
            "{reported}"
        );
    }
}
