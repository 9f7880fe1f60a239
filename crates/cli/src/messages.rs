//! Text for the engine's notes: the state, and the option that fixes it.

mod changes;
mod receiving;
mod sending;
mod zone;

use tautline_audio::DeviceSpec;
use tautline_engine::monitor::note::Note;
use tautline_engine::monitor::note::messages::alike;
use tautline_engine::plan::address::MAX_SENDERS;
use tautline_engine::plan::too_long::TooLong;
use tautline_io::link::{is_of_a_queue, is_of_an_interface};
use tautline_proto::coding_time::LongCoding;
use tautline_proto::device::Direction;
use tautline_proto::receive_policy::ReceiveNote;
use tautline_proto::send_policy::SendNote;
use tautline_proto::stream::StreamFormat;
use tautline_proto::target_delay::Journal;
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_report::text::Nanos;

pub(crate) use changes::{cannot_change, changed};
pub(crate) use zone::reason as claim_refused;

fn refusal(errno: i32) -> &'static str {
    if is_of_a_queue(errno) {
        "the interface's queue is full, or is an etf, which accepts only packets with launch times (--pacing etf)"
    } else if is_of_an_interface(errno) {
        "bring the interface up (ip link set dev NAME up), and check its cable"
    } else {
        "check the address and the route to it"
    }
}

pub(crate) fn counted(channels: Channels) -> String {
    let plural = if channels == Channels::MONO { "" } else { "s" };
    format!("{channels} channel{plural}")
}

/// Never contains the key.
pub(crate) fn auth_failed(address: &str, datagrams: u64) -> String {
    let not_read = not_read(datagrams, "this key");
    format!("{address}: {not_read}; use the same --srtp-key-file at both ends")
}

fn not_read(datagrams: u64, key: &str) -> String {
    let were = if datagrams == 1 { "datagram was" } else { "datagrams were" };
    format!("{datagrams} {were} discarded: not encrypted with {key}, or replayed")
}

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
            ("decoding", "or a shorter --ptime or another --format at the sender")
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
            "use a shorter --ptime or another --format at the sender".to_owned()
        }
    };
    let of = match streams {
        0 | 1 => String::new(),
        several => format!(" for {several} streams"),
    };
    format!(
        "{does} packets of {}{of} takes {takes} on this machine, more than half of the period of {period} of {spec}: \
         expect xruns; {hint}",
        format.coding_name()
    )
}

const LOSS_HINT: &str = "use a cable, or reduce other traffic";

/// Some notes do not apply, because both ends agreed on payload types and device latency.
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
        }
        | Note::Receiving { note: ReceiveNote::Stopped | ReceiveNote::Resumed(_), .. } => None,
        Note::Receiving { address, note: ReceiveNote::HeavyLoss(percent) } => Some(format!(
            "{address}: {percent} % of the received packets are lost; the call adapts within seconds, unless it has a fixed --format"
        )),
        Note::Receiving { address, note: ReceiveNote::Loss(percent) } => {
            Some(format!("{address}: {percent} % of the received packets are lost; {LOSS_HINT}"))
        }
        Note::Sending { address, note: SendNote::Loss(percent), .. } => {
            Some(format!("{address}: {percent} % of the sent packets are lost; {LOSS_HINT}"))
        }
        Note::Receiving { address, note: ReceiveNote::RepairShort { window, latency, enough } } => {
            Some(receiving::repair_short(address, *window, *latency, *enough))
        }
        Note::NoAnswer { address, .. } => Some(format!(
            "{address} reports no received packets; check that UDP passes in both directions, or call with \
             --transport auto"
        )),
        Note::Sending { note: SendNote::AsksBeyond { host, limit }, .. } => Some(format!(
            "the receiver at {host} requests more latency than the {limit} of this call; --latency auto:TIME sets a \
             longer maximum"
        )),
        // Once: the screen and `status` show each step.
        Note::Sending { note: SendNote::Adapted { .. }, .. } => {
            Some("the format adapts to the network".to_owned())
        }
        Note::Sending { note: SendNote::SentAtOnce(ptime), .. } => Some(format!(
            "the packets of a period leave back to back; --ptime {ptime} spaces them evenly"
        )),
        Note::AuthFailed { address, datagrams } => Some(format!(
            "{address}: {}; if the number grows, hang up and call again",
            not_read(*datagrams, "the keys of this call")
        )),
        note => words(note),
    }
}

/// Also reports each step of an adapted format.
pub(crate) fn in_a_call_in_detail(note: &Note<'_>) -> Option<String> {
    match note {
        Note::Sending { note: SendNote::Adapted { .. }, .. } => words(note),
        note => in_a_call(note),
    }
}

pub(crate) fn words(note: &Note<'_>) -> Option<String> {
    Some(match note {
        // The report names the losses.
        Note::Sending { note: SendNote::Loss(_), .. }
        | Note::Receiving { note: ReceiveNote::Loss(_), .. } => return None,
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
                    "the kernel rejected {refused} of {of} packets via {network}: {answer}; check its route to \
                     the address"
                ),
                None => format!(
                    "the kernel rejected {refused} of {of} packets: {answer}; {}",
                    refusal(*errno)
                ),
            }
        }
        Note::DroppedByQueue { address, dropped, of, unnamed } => format!(
            "{address}: the interface's queue dropped {dropped} of {of} packets, as they reached it after their launch \
             times{}; use a higher --scheduler or a longer device period (--period, or jackd -p); taut doctor shows causes",
            unmarked(*unnamed)
        ),
        Note::LinkFound { address, place } => format!("{address}: {place} is connected again"),
        Note::LinkLost { address, place } => format!(
            "{address}: {place} is no longer connected; check that the other end runs, and the network"
        ),
        Note::LinkError { address, errno } => {
            let answer = std::io::Error::from_raw_os_error(*errno);
            format!("{address}: the kernel reports {answer}; check the network")
        }
        Note::NoAnswer { address, stamps } => {
            let hint = match stamps {
                true => "; PipeWire's rtp-source needs --no-header-extensions here",
                false => "",
            };
            format!(
                "no receiver has answered from {address}: none runs there, it plays another sender, a firewall here drops its RTCP (UDP), or it sends none{hint}"
            )
        }
        Note::Stopped(length) => {
            let seconds = length.as_nanos() as f64 / 1e9;
            format!(
                "this program was stopped for {seconds:.2} s (SIGSTOP, Ctrl-Z): packets missed meanwhile \
                 count as this machine's fault"
            )
        }
        Note::Zone(event) => zone::event(event),
        Note::ClaimRefused { address, why } => zone::refused(address, *why),
        Note::Unwritten(flaw) => (*flaw).to_owned(),
        Note::AuthFailed { address, datagrams } => auth_failed(address, *datagrams),
        Note::AnotherSender { address, packets, host } => format!(
            "{address}: {packets} packets of another sender, at {host}, came to the same UDP port \
             and were not played; use ?senders=all, one --from per sender, or ?source= to select one"
        ),
        Note::NoPlace { address, maximum, from } => {
            let more = maximum.saturating_mul(2).min(MAX_SENDERS);
            let hint = match more > *maximum {
                true => format!("use ?senders={more} for more"),
                false => "use another port for some of them".to_owned(),
            };
            format!(
                "{address}: a sender at {from} is ignored: {maximum} are received already; {hint}"
            )
        }
        Note::Followed { address, journal, first, last } => {
            followed(address, journal, [*first, *last])
        }
        Note::PlacedByArrival { address } => format!(
            "{address}: the sender's clock is not known (no RTCP answer), so the fastest arrivals set the \
             playout time, and the latency is not measured"
        ),
        Note::NotFound { packets, of } => format!(
            "{packets} of {of} packets were not found in the sound that the card played (silence, a glitch \
             or a mix), so the latency is measured in the others"
        ),
    })
}

fn unmarked(unnamed: u64) -> String {
    match unnamed {
        0 => String::new(),
        _ => format!(
            "; the packet log does not show {unnamed} of these drops, as their packet numbers were forgotten"
        ),
    }
}

pub(crate) fn fragments(too_long: &TooLong, ptime: Span) -> String {
    let TooLong { fragments, shorter, .. } = too_long;
    format!(
        "{}: each is sent as {fragments} IP fragments, one lost fragment loses {ptime}, and some \
         switches drop them; --ptime {shorter} or less avoids this",
        longer(too_long)
    )
}

pub(crate) fn longer(TooLong { bytes, mtu, to, .. }: &TooLong) -> String {
    format!("packets of {bytes} bytes are longer than the MTU of {mtu} bytes to {to}")
}

fn followed(address: &str, journal: &Journal, span: [Span; 2]) -> String {
    let nanos = |span: Span| Nanos(span.as_nanos());
    if journal.increases + journal.decreases == 0 && span == [journal.before; 2] {
        return format!("{address}: latency auto stayed at {}", nanos(journal.before));
    }
    let Journal { before, minimum, greatest, increases, decreases, .. } = *journal;
    let [before, minimum, greatest] = [before, minimum, greatest].map(nanos);
    let [first, last] = span.map(nanos);
    format!(
        "{address}: latency auto: {before} until packets were measured, then {first}, {last} at the end \
         (min {minimum}, max {greatest}); raised {}, lowered {}",
        times(increases),
        times(decreases)
    )
}

pub(crate) fn times(count: u64) -> String {
    match count {
        1 => "once".into(),
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
    fn dropped_packets_missing_in_the_log_are_mentioned() {
        let address = "avtp://eth0/91:E0:F0:00:FE:01";
        let reported = |unnamed| {
            words(&Note::DroppedByQueue { address, dropped: 9, of: 90, unnamed }).unwrap()
        };
        snapshot!(reported(2));
        assert!(!reported(0).contains("log") && reported(0).contains("9 of 90"), "{}", reported(0));
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
    fn long_coding_time_is_reported_with_a_fix() {
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
            codec: Coding::OPUS_VOICE.codec,
            packet: Frames::new(960),
            payload_type: 97,
        };
        assert_eq!(
            long_coding(&long, (&card, Direction::Capture), 1, &voice),
            "coding packets of opus-voice takes 400us on this machine, more than half of the period of 500us of \
             alsa:hw:1: expect xruns; use --period 48, a shorter --ptime or another --format"
        );
        let reported =
            long_coding(&long, (&"jack:taut".parse().unwrap(), Direction::Playback), 8, &voice);
        snapshot!(reported);
        let never = LongCoding { enough: None, ..long };
        let reported = long_coding(&never, (&card, Direction::Playback), 1, &voice);
        assert!(
            reported.ends_with("; use a shorter --ptime or another --format at the sender"),
            "{reported}"
        );
    }
}
