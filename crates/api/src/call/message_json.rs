//! JSON encoding of [`CallMessage`].
//!
//! Unknown fields are rejected, so that no message is understood in part.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tautline_proto::call::CallId;
use tautline_proto::call::message::{CallMessage, CallReason, MAX_REASON};
use tautline_proto::call::terms::{
    CallAdaptation, CallLatency, CallOffer, CallPath, CallTerms, MAX_LISTED, StreamAbilities,
    StreamTerms,
};
use tautline_proto::redundancy::Redundancy;
use tautline_proto::stream::Coding;
use tautline_proto::text::printable;
use tautline_proto::time::Span;
use tautline_proto::units::{Channels, Rate, UnitError};
use thiserror::Error;

/// Why a line is invalid, with the fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid call message: {0}\nhint: update taut on both machines")]
pub struct InvalidCallMessage(String);

const MAX_PTIME: Span = Span::from_secs(1);

/// Encodes a line with its terminator.
pub fn written(message: &CallMessage) -> Vec<u8> {
    let mut line = serde_json::to_vec(&MessageJson::from(message)).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses a line.
pub fn read(line: &[u8]) -> Result<CallMessage, InvalidCallMessage> {
    let json: MessageJson = serde_json::from_slice(line).map_err(|error| {
        // The error quotes the peer.
        InvalidCallMessage(printable(&error.to_string(), MAX_REASON))
    })?;
    json.try_into()
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum MessageJson {
    Call {
        version: u32,
        offer: OfferJson,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resumes: Option<String>,
    },
    Accepted {
        call: String,
        terms: TermsJson,
        udp_port: u16,
    },
    Resumed {},
    Refused {
        reason: String,
    },
    Change(TermsJson),
    Changed(TermsJson),
    Kept {
        reason: String,
    },
    Path {
        path: String,
        transport: u32,
    },
    /// Since version 4.
    NotReceived {
        transport: u32,
    },
    Ping {},
    Pong {},
    Bye {
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferJson {
    there: AbilitiesJson,
    back: AbilitiesJson,
    paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_max_ns: Option<i64>,
    /// Since version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapts: Option<AdaptationJson>,
    /// From version 6 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redundancy: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdaptationJson {
    codings: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bitrate_max: Option<u32>,
    /// From version 7 on.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    after_loss: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AbilitiesJson {
    rates: Vec<u32>,
    channels: Vec<u32>,
    codings: Vec<String>,
    ptimes_ns: (i64, i64),
    /// Since version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    takes_ns: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsJson {
    there: StreamJson,
    back: StreamJson,
    paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_ns: Option<i64>,
    /// Omitted by default: older versions do not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency_max_ns: Option<i64>,
    /// Since version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adapts: Option<AdaptationJson>,
    /// From version 6 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redundancy: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamJson {
    rate: u32,
    channels: u32,
    coding: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bitrate: Option<u32>,
    ptime_ns: i64,
}

impl From<&CallMessage> for MessageJson {
    fn from(message: &CallMessage) -> Self {
        let text = |reason: &CallReason| reason.as_str().to_owned();
        match message {
            CallMessage::Call { version, offer, resumes } => Self::Call {
                version: *version,
                offer: offer.into(),
                resumes: resumes.as_ref().map(written_id),
            },
            CallMessage::Accepted { call, terms, udp_port } => {
                Self::Accepted { call: written_id(call), terms: terms.into(), udp_port: *udp_port }
            }
            CallMessage::Resumed => Self::Resumed {},
            CallMessage::Refused(reason) => Self::Refused { reason: text(reason) },
            CallMessage::Change(terms) => Self::Change(terms.into()),
            CallMessage::Changed(terms) => Self::Changed(terms.into()),
            CallMessage::Kept(reason) => Self::Kept { reason: text(reason) },
            CallMessage::Path { path, transport } => {
                Self::Path { path: path.name().to_owned(), transport: *transport }
            }
            CallMessage::NotReceived { transport } => Self::NotReceived { transport: *transport },
            CallMessage::Ping => Self::Ping {},
            CallMessage::Pong => Self::Pong {},
            CallMessage::Bye(reason) => Self::Bye { reason: text(reason) },
        }
    }
}

impl TryFrom<MessageJson> for CallMessage {
    type Error = InvalidCallMessage;

    fn try_from(json: MessageJson) -> Result<Self, InvalidCallMessage> {
        Ok(match json {
            MessageJson::Call { version, offer, resumes } => {
                let resumes = resumes.map(read_id).transpose()?;
                Self::Call { version, offer: offer.try_into()?, resumes }
            }
            MessageJson::Accepted { call, terms, udp_port } => {
                Self::Accepted { call: read_id(call)?, terms: terms.try_into()?, udp_port }
            }
            MessageJson::Resumed {} => Self::Resumed,
            MessageJson::Refused { reason } => Self::Refused(CallReason::new(reason)),
            MessageJson::Change(terms) => Self::Change(terms.try_into()?),
            MessageJson::Changed(terms) => Self::Changed(terms.try_into()?),
            MessageJson::Kept { reason } => Self::Kept(CallReason::new(reason)),
            MessageJson::Path { path, transport } => {
                let path = CallPath::named(&path);
                let path =
                    path.ok_or_else(|| InvalidCallMessage("paths are udp and tcp".to_owned()))?;
                Self::Path { path, transport }
            }
            MessageJson::NotReceived { transport } => Self::NotReceived { transport },
            MessageJson::Ping {} => Self::Ping,
            MessageJson::Pong {} => Self::Pong,
            MessageJson::Bye { reason } => Self::Bye(CallReason::new(reason)),
        })
    }
}

fn written_id(call: &CallId) -> String {
    STANDARD.encode(call.0)
}

fn read_id(json: String) -> Result<CallId, InvalidCallMessage> {
    let bytes = STANDARD.decode(json).ok().and_then(|bytes| bytes.try_into().ok());
    bytes
        .map(CallId)
        .ok_or_else(|| InvalidCallMessage("a call's id has 16 bytes in base64".to_owned()))
}

fn written_paths(paths: &[CallPath]) -> Vec<String> {
    paths.iter().map(|path| path.name().to_owned()).collect()
}

/// Ignores unknown paths.
fn read_paths(json: &[String]) -> Vec<CallPath> {
    json.iter().filter_map(|name| CallPath::named(name)).collect()
}

fn read_redundancy(json: Option<String>) -> Result<Option<Redundancy>, InvalidCallMessage> {
    let known = json.map(|requested| requested.parse()).transpose();
    known.map_err(|_| InvalidCallMessage("no redundancy that is known".to_owned()))
}

impl From<&CallOffer> for OfferJson {
    fn from(offer: &CallOffer) -> Self {
        let paths = written_paths(&offer.paths);
        let [latency_ns, latency_max_ns] = offer.latency.map(spans).unwrap_or_default();
        let (there, back) = ((&offer.there).into(), (&offer.back).into());
        let adapts = offer.adapts.as_ref().map(Into::into);
        let redundancy = offer.redundancy.map(|requested| requested.to_string());
        Self { there, back, paths, latency_ns, latency_max_ns, adapts, redundancy }
    }
}

impl TryFrom<OfferJson> for CallOffer {
    type Error = InvalidCallMessage;

    fn try_from(json: OfferJson) -> Result<Self, InvalidCallMessage> {
        let (there, back) = (json.there.try_into()?, json.back.try_into()?);
        let latency = latency([json.latency_ns, json.latency_max_ns])?;
        let adapts = json.adapts.map(TryInto::try_into).transpose()?;
        let (paths, redundancy) = (read_paths(&json.paths), read_redundancy(json.redundancy)?);
        Ok(Self { there, back, paths, latency, adapts, redundancy })
    }
}

impl From<&StreamAbilities> for AbilitiesJson {
    fn from(abilities: &StreamAbilities) -> Self {
        let StreamAbilities { rates, channels, codings, ptimes, takes } = abilities;
        Self {
            rates: rates.iter().map(|rate| rate.hertz()).collect(),
            channels: channels.iter().map(|channels| channels.count() as u32).collect(),
            codings: codings.iter().map(|coding| coding.name().to_owned()).collect(),
            ptimes_ns: (ptimes.0.as_nanos(), ptimes.1.as_nanos()),
            takes_ns: takes.map(Span::as_nanos),
        }
    }
}

impl TryFrom<AbilitiesJson> for StreamAbilities {
    type Error = InvalidCallMessage;

    /// Omits unknown values: the peer may be newer.
    fn try_from(json: AbilitiesJson) -> Result<Self, InvalidCallMessage> {
        let AbilitiesJson { rates, channels, codings, ptimes_ns: (minimum, maximum), takes_ns } =
            json;
        if [rates.len(), channels.len(), codings.len()].iter().any(|count| *count > MAX_LISTED) {
            return Err(InvalidCallMessage(format!(
                "the offer has more than {MAX_LISTED} entries"
            )));
        }
        if minimum < 0 || maximum < minimum {
            return Err(InvalidCallMessage("an invalid range of packet times".to_owned()));
        }
        if takes_ns.is_some_and(|takes| takes < 0) {
            return Err(InvalidCallMessage("a negative device latency".to_owned()));
        }
        Ok(Self {
            rates: rates.into_iter().filter_map(|hertz| Rate::new(hertz).ok()).collect(),
            channels: channels.into_iter().filter_map(|count| Channels::new(count).ok()).collect(),
            codings: codings.iter().filter_map(|name| Coding::named(name)).collect(),
            ptimes: (Span::from_nanos(minimum), Span::from_nanos(maximum)),
            takes: takes_ns.map(Span::from_nanos),
        })
    }
}

impl From<&CallTerms> for TermsJson {
    fn from(terms: &CallTerms) -> Self {
        let paths = written_paths(&terms.paths);
        let usual = terms.latency == CallLatency::AUTO;
        let [latency_ns, latency_max_ns] = if usual { [None; 2] } else { spans(terms.latency) };
        let (there, back) = ((&terms.there).into(), (&terms.back).into());
        let adapts = terms.adapts.as_ref().map(Into::into);
        let redundancy = terms.redundancy.map(|requested| requested.to_string());
        Self { there, back, paths, latency_ns, latency_max_ns, adapts, redundancy }
    }
}

impl TryFrom<TermsJson> for CallTerms {
    type Error = InvalidCallMessage;

    fn try_from(json: TermsJson) -> Result<Self, InvalidCallMessage> {
        let (there, back) = (json.there.try_into()?, json.back.try_into()?);
        let latency = latency([json.latency_ns, json.latency_max_ns])?;
        let latency = latency.unwrap_or(CallLatency::AUTO);
        let adapts = json.adapts.map(TryInto::try_into).transpose()?;
        let (paths, redundancy) = (read_paths(&json.paths), read_redundancy(json.redundancy)?);
        Ok(Self { there, back, paths, latency, adapts, redundancy })
    }
}

impl From<&CallAdaptation> for AdaptationJson {
    fn from(adapts: &CallAdaptation) -> Self {
        let codings = adapts.codings.iter().map(|coding| coding.name().to_owned()).collect();
        Self { codings, bitrate_max: adapts.max_bitrate, after_loss: adapts.after_loss }
    }
}

impl TryFrom<AdaptationJson> for CallAdaptation {
    type Error = InvalidCallMessage;

    fn try_from(json: AdaptationJson) -> Result<Self, InvalidCallMessage> {
        if json.codings.len() > MAX_LISTED {
            return Err(InvalidCallMessage(format!("more than {MAX_LISTED} codings")));
        }
        let codings = json.codings.iter().filter_map(|name| Coding::named(name)).collect();
        Ok(Self { codings, max_bitrate: json.bitrate_max, after_loss: json.after_loss })
    }
}

fn spans(latency: CallLatency) -> [Option<i64>; 2] {
    match latency {
        CallLatency::Kept(latency) => [Some(latency.as_nanos()), None],
        CallLatency::Auto { maximum } => [None, Some(maximum.as_nanos())],
    }
}

fn latency(json: [Option<i64>; 2]) -> Result<Option<CallLatency>, InvalidCallMessage> {
    match json.map(|nanos| nanos.map(Span::from_nanos)) {
        [None, None] => Ok(None),
        [Some(latency), None] => Ok(Some(CallLatency::Kept(latency))),
        [None, Some(maximum)] => Ok(Some(CallLatency::Auto { maximum })),
        [Some(_), Some(_)] => {
            Err(InvalidCallMessage("both a fixed and an adaptive latency".to_owned()))
        }
    }
}

impl From<&StreamTerms> for StreamJson {
    fn from(terms: &StreamTerms) -> Self {
        let usual = terms.coding.usual_for(terms.channels);
        Self {
            rate: terms.rate.hertz(),
            channels: terms.channels.count() as u32,
            coding: terms.coding.name().to_owned(),
            bitrate: terms.coding.bitrate().filter(|_| terms.coding != usual),
            ptime_ns: terms.ptime.as_nanos(),
        }
    }
}

impl TryFrom<StreamJson> for StreamTerms {
    type Error = InvalidCallMessage;

    fn try_from(json: StreamJson) -> Result<Self, InvalidCallMessage> {
        let unsupported = |error: UnitError| {
            InvalidCallMessage(error.to_string().lines().next().unwrap_or_default().to_owned())
        };
        let rate = Rate::new(json.rate).map_err(unsupported)?;
        let channels = Channels::new(json.channels).map_err(unsupported)?;
        let coding = Coding::named(&json.coding)
            .ok_or_else(|| InvalidCallMessage("no coding that is known".to_owned()))?
            .usual_for(channels);
        let coding = json.bitrate.map_or(coding, |bitrate| coding.at_bitrate(bitrate));
        let ptime = Span::from_nanos(json.ptime_ns);
        if !(Span::ZERO..=MAX_PTIME).contains(&ptime) {
            return Err(InvalidCallMessage("a packet time above 1 s".to_owned()));
        }
        // The receiver checks the format: refusing a request does not end the call.
        Ok(Self { rate, channels, coding, ptime })
    }
}
