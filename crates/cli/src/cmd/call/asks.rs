//! What a line on standard input may change of a call.

use clap::ValueEnum;
use tautline_engine::control::RecvChange;
use tautline_proto::latency::LatencyRule;
use tautline_proto::stream::{Coding, PTIME_RANGE};
use tautline_proto::time::Span;

use crate::control::nothing;
use crate::flags::{CodingName, latency, parse, span};

/// What is asked for.
pub(super) enum CallAsk {
    /// Whether silence is sent, which is nobody else's concern.
    Mute(bool),
    /// Of what is heard.
    Hear(RecvChange),
    /// Sound in one packet, both ways.
    Ptime(Span),
    /// Coding, both ways.
    Format(Coding),
    /// From capture to loudspeaker, both ways; `None` is as the packets ask for.
    Latency(Option<Span>),
}

/// Reads lines.
pub(super) struct CallLines;

impl CallLines {
    pub(super) fn read(&self, verb: &str, rest: &str) -> Result<CallAsk, String> {
        match verb {
            "mute" => nothing(verb, rest, CallAsk::Mute(true)),
            "unmute" => nothing(verb, rest, CallAsk::Mute(false)),
            "volume" => Ok(CallAsk::Hear(RecvChange::Volume(None, parse(rest)?))),
            "ptime" => match span(rest)? {
                ptime if ptime < PTIME_RANGE.0 || ptime > PTIME_RANGE.1 => Err(format!(
                    "packets carry {} to {}; write ptime 5ms or the like", PTIME_RANGE.0, PTIME_RANGE.1
                )),
                ptime => Ok(CallAsk::Ptime(ptime)),
            },
            "format" => match CodingName::from_str(rest, true) {
                Ok(coding) => Ok(CallAsk::Format(coding.into())),
                Err(_) => Err(format!("`{rest}` is no coding; write {}", CodingName::ALL)),
            },
            "latency" => match latency(rest)? {
                LatencyRule::Chosen(latency) => Ok(CallAsk::Latency(Some(latency))),
                LatencyRule::Auto | LatencyRule::Usual => Ok(CallAsk::Latency(None)),
            },
            "status" => nothing(verb, rest, CallAsk::Hear(RecvChange::Status)),
            _ => Err("this cannot be changed in a call; write mute, unmute, volume, latency, ptime, format, status or quit"
                .into()),
        }
    }
}
