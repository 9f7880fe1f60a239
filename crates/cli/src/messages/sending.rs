use tautline_proto::redundancy::MAX_WINDOW;
use tautline_proto::send_policy::{NoRepair, SendNote};

use crate::failure::on_one_line;

pub(super) fn words(address: &str, networks: Option<(&str, &str)>, note: &SendNote) -> String {
    match note {
        SendNote::TooShort { promised, needs } => format!(
            "a latency of {promised} is too short for a receiver with the same periods ({needs}); without its own \
             --latency it uses {}; use --latency {} or more, or shorter periods",
            needs.total(),
            needs.total()
        ),
        SendNote::ComesOnce(ssrc) => {
            let (one, other) = networks.unwrap_or((address, address));
            format!(
                "receiver {ssrc:08x} receives from only one of {one} and {other}, so losses of that \
                 network are not repaired; check that both networks reach it"
            )
        }
        SendNote::AsksBeyond { host, limit } => format!(
            "receiver {host} requests more latency than the maximum of {limit}\n\
             hint: --latency auto:TIME sets a longer maximum"
        ),
        SendNote::Stranger(host) => format!(
            "{host} reports on this stream but is not a destination, so its requests are ignored; \
             if it is a receiver with several addresses, send to this one"
        ),
        SendNote::ReceiverLost { ssrc, host, silence, times_lost } => format!(
            "{address}: receiver {ssrc:08x} at {host} is lost{}: no report for {:.1} s and no goodbye; check \
             there whether taut recv was killed or the network is down",
            again(*times_lost),
            silence.as_millis_f64() / 1e3
        ),
        SendNote::ReceiverBack { ssrc, host, silence, times_lost } => format!(
            "{address}: receiver {ssrc:08x} at {host} is back{} after {:.1} s without a report",
            again(*times_lost),
            silence.as_millis_f64() / 1e3
        ),
        SendNote::Loss(percent) => format!("{address}: {percent} % of the packets are lost"),
        SendNote::SentAtOnce(ptime) => format!(
            "the packets of a period leave back to back, as the device's thread sends them; \
             --io-thread yes spaces packets of {ptime} evenly"
        ),
        SendNote::Adapted { coding, ptime } => {
            format!("adapted to the network: {} in packets of {ptime}", coding.name())
        }
        SendNote::NewPayloadType { coding, payload_type } => format!(
            "packets of {} have the payload type {payload_type}: receivers with an .sdp file \
             or --payload-type reject them until they have the new one",
            coding.name()
        ),
        SendNote::ShortReach { reach, wanted } => format!(
            "repair time is {reach} ({MAX_WINDOW} packets), not {wanted} (--redundancy-budget); \
             use a longer --ptime"
        ),
        SendNote::LessRepair { budget, wanted, latency, enough } => format!(
            "repair time is {budget}, not {wanted} (--redundancy-budget), because latency {latency} \
             is too short; use --latency {enough} or more"
        ),
        SendNote::NoRepair(why) => on_one_line(&no_repair(why)),
        SendNote::MoreSymbols { wanted, got } => format!(
            "the reported losses need {wanted} symbols per packet, but the limit is {got}; \
             --redundancy-limit {wanted} allows all of them"
        ),
    }
}

fn again(times: u32) -> String {
    if times > 1 { format!(" again ({times} times so far)") } else { String::new() }
}

pub(super) fn no_repair(why: &NoRepair) -> String {
    match why {
        NoRepair::Budget { budget, ptime } => format!(
            "a budget of {budget} is less than a packet of {ptime}\nhint: restart taut with a longer \
             --redundancy-budget, or use a shorter ptime first"
        ),
        NoRepair::Latency { latency, requested, enough, ptime } => format!(
            "a latency of {latency} leaves no time for redundancy {requested}, which repairs packets with \
             later ones\nhint: use a latency of {enough} or more, or a ptime below {ptime}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::endpoint::Host;
    use tautline_proto::time::Span;
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn lost_receiver_is_named_with_its_silence() {
        let (host, silence) =
            (Host::from(std::net::IpAddr::from([10, 0, 0, 2])), Span::from_millis(3020));
        let reported = |note| words("rtp://10.0.0.2:5004", None, &note);
        snapshot!(reported(SendNote::ReceiverLost { ssrc: 0x1a2b, host, silence, times_lost: 1 }));
        snapshot!(reported(SendNote::ReceiverBack { ssrc: 0x1a2b, host, silence, times_lost: 2 }));
    }
}
