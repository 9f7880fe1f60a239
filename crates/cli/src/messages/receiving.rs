use tautline_dsp::format::SampleFormat;
use tautline_proto::evidence::{Contradiction, Proof};
use tautline_proto::jitter_buffer::OtherType;
use tautline_proto::latency::LatencyRule;
use tautline_proto::packet::Codings;
use tautline_proto::receive_policy::{LATELY, ReceiveNote, Refusal, WrongType};
use tautline_proto::servo::Servo;
use tautline_proto::stream::StreamFormat;
use tautline_proto::time::Span;
use tautline_proto::unannounced::Need;
use tautline_proto::units::{Channels, Rate};

use super::counted;

pub(super) fn words(address: &str, note: &ReceiveNote) -> String {
    match note {
        ReceiveNote::Refused(refusal) => refused(address, refusal),
        ReceiveNote::Contradicted { contradiction, format } => {
            contradicted(address, *contradiction, format)
        }
        ReceiveNote::WrongType(wrong) => wrong_type(address, wrong),
        ReceiveNote::Needs { need, device, latency, longest, rule } => {
            let Need { latency: needed, packet, apart } = need;
            let apart = match *apart {
                Span::ZERO => String::new(),
                apart => format!(" and arrive up to {apart} late"),
            };
            let why = format!(
                "{address}: no announcement; the sender's packets have {packet}{apart} and the \
                 device here takes {device}"
            );
            match rule {
                LatencyRule::Chosen(_) => format!(
                    "{why}, so {latency} is too short and packets are late; use --latency {needed} \
                     or more"
                ),
                _ if needed > longest => format!(
                    "{why}, which needs {needed}, but the maximum here is {longest}, which is used; \
                     --latency {needed} allows more"
                ),
                _ => format!("{why}, so it runs at {needed}"),
            }
        }
        ReceiveNote::TooShort { needs, latency } => {
            let late = if *latency < needs.without_network() {
                "most packets will be late"
            } else if needs.is_beyond(*latency) {
                "packets will be late"
            } else {
                "packets may be late"
            };
            format!(
                "{address}: a latency of {latency} is too short ({needs}), so {late}; use --latency {} or more, or shorter periods at both ends",
                needs.total()
            )
        }
        ReceiveNote::PresentedTooSoon(later) => format!(
            "{address}: packets arrive after their presentation time; raise --max-transit-time or --latency at the \
             talker by {later} (--latency here does not change that time)"
        ),
        ReceiveNote::Raised { promised, needs } => format!(
            "{address} announces {promised}, which is too short ({needs}), so it runs at {}",
            needs.total()
        ),
        ReceiveNote::NoRoom { wanted, longest } => format!(
            "{address} needs {wanted}, but the maximum here is {longest}, which is used; \
             --latency {wanted} allows more"
        ),
        ReceiveNote::RepairShort { window, latency, enough } => {
            let short = repair_short(address, *window, *latency, *enough);
            format!("{short}, or a shorter --redundancy-budget at the sender")
        }
        ReceiveNote::OutOfReach => format!(
            "{address}: the card runs more than {:.0} ppm off the sender's, beyond the range of the \
             resampler, so the sound jumps; working cards do not differ as much: check the rates of both",
            Servo::reach().as_f64()
        ),
        ReceiveNote::Unsteady(resyncs) => format!(
            "{address}: the presentation times of its packets jump again and again: {resyncs} resyncs within \
             {:.0} s; the talker must derive them from its sample clock, not from its wake-ups, and keep its \
             clock with PTP (taut doctor checks this host's)",
            LATELY.as_millis_f64() / 1e3
        ),
        ReceiveNote::Restarting(restarts) => format!(
            "{address}: the talker reports {restarts} restarts of its media clock (mr) within {:.0} s, as after \
             xruns; use a longer period there, or real-time priority",
            LATELY.as_millis_f64() / 1e3
        ),
        ReceiveNote::Uncertain => format!(
            "{address}: the talker reports that its clock is uncertain (tu), so the error of its presentation times is \
             unknown; keep that clock with PTP (taut doctor there, if it is taut)"
        ),
        ReceiveNote::Loss(percent) => format!("{address}: {percent} % of the packets are lost"),
        ReceiveNote::HeavyLoss(percent) => format!(
            "{address}: {percent} % of the packets are lost: the network carries less than the stream needs; use a \
             codec (--format) or fewer channels at the sender"
        ),
        ReceiveNote::MostlyLate { percent, latency, needed } => format!(
            "{address}: {percent} % of the packets arrive too late for a latency of {latency}; so far they need \
             {needed}; use --latency auto, or the value that the report recommends at the end"
        ),
        ReceiveNote::Stopped => {
            format!("{address}: no packets for 3 s; check the sender and the network")
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
        ReceiveNote::Posing { ssrc, sender, other } => format!(
            "{address}: packets with the SSRC of its sender ({ssrc:08x}, at {sender}) come also from \
             {other}, and are not played; stop the program that sends them, or block it"
        ),
    }
}

pub(super) fn repair_short(address: &str, window: Span, latency: Span, enough: Span) -> String {
    format!(
        "{address}: packets can be repaired up to {window} after departure, which needs a latency of {enough} so far, \
         not {latency}; use --latency auto, or the value that the report recommends at the end"
    )
}

fn refused(address: &str, refusal: &Refusal) -> String {
    let Refusal { theirs, ours, coding, codings } = refusal;
    let (mut sends, mut expects, mut options) = (Vec::new(), Vec::new(), Vec::new());
    if refusal.is_of_another_shape() {
        let (hertz, channels) = (theirs.rate.hertz(), theirs.channels);
        sends.push(format!("{hertz} Hz with {}", counted(channels)));
        expects.push(format!("{} Hz with {}", ours.rate.hertz(), ours.channels));
        options.push(format!("--rate {hertz} --channels {channels}"));
    }
    if let Some(coding) = coding {
        let name = theirs.coding_name();
        sends.push(name.to_owned());
        expects.push(coding.name().to_owned());
        options.push(format!("--format {name}"));
    }
    // A description takes precedence over options.
    let described = match codings {
        Codings::Exactly if coding.is_some() => " (or the sender's new .sdp)",
        _ => "",
    };
    format!(
        "{address} sends {} and this end expects {}, so it is not played\nhint: use {}{described} here, or change the \
         sender",
        sends.join(" in "),
        expects.join(" in "),
        options.join(" ")
    )
}

fn contradicted(address: &str, contradiction: Contradiction, ours: &StreamFormat) -> String {
    match contradiction {
        Contradiction::Rate(rate) => format!(
            "{address}: packets come at {rate} but are played at {}: muted\nhint: use --rate {}, or leave --rate, \
             --channels and --format out",
            ours.rate,
            rate.hertz()
        ),
        Contradiction::Samples => {
            let sample = ours.sample;
            let hint = fitting_hint(ours.frame_bytes(), |fits| fits != sample);
            format!("{address}: the samples cannot be {}: muted{hint}", sample.name())
        }
        Contradiction::FrameBytes(bytes) => {
            let hint = fitting_hint(bytes, |_| true);
            format!(
                "{address}: packets have {bytes} bytes per frame but are read as {} with {} ({} bytes): \
                 muted{hint}",
                ours.coding_name(),
                counted(ours.channels),
                ours.frame_bytes()
            )
        }
    }
}

fn fitting_hint(frame_bytes: usize, allowed: impl Fn(SampleFormat) -> bool) -> String {
    let fitting: Vec<String> = Proof::fitting(frame_bytes)
        .into_iter()
        .filter(|(sample, _)| allowed(*sample))
        .map(|(sample, channels)| format!("--format {} --channels {channels}", sample.name()))
        .collect();
    match fitting.is_empty() {
        true => String::new(),
        false => format!(
            "\nhint: use {}, or leave --rate, --channels and --format out",
            fitting.join(" or ")
        ),
    }
}

fn wrong_type(address: &str, wrong: &WrongType) -> String {
    let WrongType { arrived: OtherType { payload_type: other, packets }, codings, format } = wrong;
    let waits = match codings {
        Codings::Exactly => format!("this end accepts {}", format.payload_type),
        Codings::Any => "this end accepts 96 to 127".to_owned(),
        Codings::ByConvention => "this end accepts 96 to 102".to_owned(),
    };
    format!(
        "{address}: {packets} packets of payload type {other} came and {waits}, so they are not \
         played\nhint: {}",
        hint(*other, format)
    )
}

fn hint(other: u8, here: &StreamFormat) -> String {
    // RFC 3551 table 4.
    let l16 = |channels: Channels| {
        let fits = (here.rate, here.channels) == (Rate::HZ_44100, channels);
        let rest = format!("--format l16 --rate 44100 --channels {channels}");
        match fits && here.sample == SampleFormat::L16 {
            true => format!("use --payload-type {other}"),
            false => format!("it is L16 at 44100 Hz: use --payload-type {other} {rest}"),
        }
    };
    match other {
        10 => l16(Channels::STEREO),
        11 => l16(Channels::MONO),
        0..96 => "taut does not support this codec; let the sender use L16 or L24".into(),
        _ => {
            let coding = here.coding_name();
            format!(
                "use --payload-type {other} (and --format, if it is not {coding}), or the \
                 sender's .sdp"
            )
        }
    }
}

#[cfg(test)]
mod tests;
