//! Text in, a stream out.

use std::net::{IpAddr, Ipv4Addr};

use sdp_types::{
    Connection, ExtMap, Media, ParserError, Rtcp, RtpMap, Session, SourceFilter,
    SourceFilterAddress, SourceFilterDestination, SourceFilterMode, TypedAttribute,
};
use tautline_dsp::format::SampleFormat;

use super::decimal;
use super::{
    Description, DescriptionError, FLOAT_ENCODING, LINK_OFFSET, LOSSLESS_16_ENCODING,
    LOSSLESS_24_ENCODING, MOST_BYTES, MOST_LINES, MOST_MEDIA, Reference, SdpCrypto, SdpFault,
    SdpOrigin,
};
use crate::coder::Coder;
use crate::stream::LONGEST_LINK_OFFSET;
use crate::time::Frames;
use crate::units::{Channels, Rate};
use crate::wire::rtp::{CAPTURE_URI, ExtensionIds, INSTANTS_URI, REDUNDANCY_URI};

/// The longest packet that a description may announce, in frames.
const LONGEST_PACKET: i64 = u16::MAX as i64;

impl Description {
    /// Reads the first audio stream over RTP, sealed or not; of streams that are sent twice
    /// (`a=group:DUP`) this is the first leg.
    pub fn read(bytes: &[u8]) -> Result<Self, DescriptionError> {
        let session = parse(bytes)?;
        let section = Section::of(bytes, &session)?;
        let (destination, ttl) = section.destination()?;
        let coding = section.coding()?;
        let rtp_port = section.media.port;
        let packet = section.packet(coding.rate)?;
        Ok(Self {
            name: session.session_name.clone(),
            origin: origin_of(&session.origin),
            destination,
            rtp_port,
            rtcp_port: section.rtcp_port()?,
            ttl,
            sources: section.sources(destination)?,
            rate: coding.rate,
            channels: coding.channels,
            sample: coding.sample,
            coder: coding.coder,
            payload_type: coding.payload_type,
            packet,
            link_offset: section
                .value(LINK_OFFSET)
                .map(|text| {
                    let offset = decimal::millis(text).filter(|o| *o <= LONGEST_LINK_OFFSET);
                    offset.ok_or(section.nonsense(LINK_OFFSET, text))
                })
                .transpose()?,
            mediaclk_offset: section.mediaclk_offset()?,
            reference: section.reference(),
            extensions: section.extensions()?,
            sealed: section.is_sealed(),
            crypto: section.crypto()?,
        })
    }
}

fn parse(bytes: &[u8]) -> Result<Session, DescriptionError> {
    let whole = |fault| DescriptionError { line: None, fault };
    if bytes.len() > MOST_BYTES {
        return Err(whole(SdpFault::Bytes(bytes.len())));
    }
    let lines = bytes.split(|&byte| byte == b'\n').count();
    if lines > MOST_LINES {
        return Err(whole(SdpFault::Lines(lines)));
    }
    let session = Session::parse(bytes).map_err(|error| DescriptionError {
        line: line_of_error(&error),
        fault: SdpFault::Syntax(error.to_string()),
    })?;
    if session.medias.len() > MOST_MEDIA {
        return Err(whole(SdpFault::Media(session.medias.len())));
    }
    Ok(session)
}

fn line_of_error(error: &ParserError) -> Option<usize> {
    use ParserError as E;
    match *error {
        E::InvalidLineFormat(line, _)
        | E::InvalidFieldEncoding(line, _)
        | E::InvalidFieldFormat(line, _)
        | E::MissingField(line, _)
        | E::FieldTrailingData(line, _)
        | E::InvalidVersion(line, _)
        | E::MultipleVersions(line)
        | E::MultipleOrigins(line)
        | E::MultipleSessionNames(line)
        | E::MultipleSessionDescription(line)
        | E::MultipleUris(line)
        | E::MultipleConnections(line)
        | E::MultipleTimeZones(line)
        | E::MultipleMediaTitles(line)
        | E::MultipleKeys(line)
        | E::RepeatWithoutTime(line) => Some(line),
        _ => None,
    }
}

fn origin_of(origin: &sdp_types::Origin) -> SdpOrigin {
    SdpOrigin {
        session: origin.sess_id.parse().unwrap_or_default(),
        version: origin.sess_version,
        address: origin.try_parse_unicast_ip_address().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    }
}

/// What the payload type stands for.
struct SdpCoding {
    rate: Rate,
    channels: Channels,
    sample: SampleFormat,
    coder: Option<Coder>,
    payload_type: u8,
}

/// The media section that is read, what stands above it for all, and the text for line numbers.
struct Section<'a> {
    bytes: &'a [u8],
    session: &'a Session,
    media: &'a Media,
}

impl<'a> Section<'a> {
    fn of(bytes: &'a [u8], session: &'a Session) -> Result<Self, DescriptionError> {
        let is_audio = |media: &&Media| media.media.eq_ignore_ascii_case("audio");
        let is_read =
            |media: &&Media| media.proto.eq_ignore_ascii_case("RTP/AVP") || is_savp(media);
        let mut audio = session.medias.iter().filter(is_audio);
        let Some(first) = audio.clone().next() else {
            return Err(DescriptionError { line: None, fault: SdpFault::NoAudio });
        };
        let is_open = |media: &&Media| {
            is_read(media)
                && (!is_savp(media) || media.attributes.iter().any(|a| a.attribute == "crypto"))
        };
        // What can be read by this description alone, or else what can by a key.
        let media = audio.clone().find(is_open).or_else(|| audio.find(is_read)).unwrap_or(first);
        let section = Self { bytes, session, media };
        if !is_read(&media) {
            return Err(section.fault_at("m=audio", SdpFault::Transport(media.proto.clone())));
        }
        if media.port == 0 {
            return Err(section.fault_at("m=audio", SdpFault::UdpPort(0)));
        }
        Ok(section)
    }

    /// A fault at the first line that begins with `start`.
    fn fault_at(&self, start: &str, fault: SdpFault) -> DescriptionError {
        let found = self
            .bytes
            .split(|&byte| byte == b'\n')
            .position(|line| line.starts_with(start.as_bytes()));
        DescriptionError { line: found.map(|index| index + 1), fault }
    }

    fn nonsense(&self, attribute: &'static str, value: &str) -> DescriptionError {
        let fault = SdpFault::Value { attribute, value: value.to_owned() };
        self.fault_at(&format!("a={attribute}:{value}"), fault)
    }

    /// All values of an attribute; those of the section come first, as they override.
    fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a str> + 's {
        self.media
            .attributes
            .iter()
            .chain(&self.session.attributes)
            .filter(move |attribute| attribute.attribute.eq_ignore_ascii_case(name))
            .map(|attribute| attribute.value.as_deref().unwrap_or_default().trim())
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.values(name).next()
    }

    fn typed<T: TypedAttribute>(&self) -> Result<Vec<T>, DescriptionError> {
        self.values(T::NAME)
            .map(|text| text.parse().map_err(|_| self.nonsense(T::NAME, text)))
            .collect()
    }

    fn destination(&self) -> Result<(IpAddr, Option<u8>), DescriptionError> {
        let connection: Option<&Connection> =
            self.media.connections.first().or(self.session.connection.as_ref());
        let Some(connection) = connection else {
            return Err(self.fault_at("m=audio", SdpFault::NoDestination));
        };
        let address = connection.try_address().map_err(|_| {
            let text = &connection.connection_address;
            self.fault_at("c=", SdpFault::Destination(text.clone()))
        })?;
        Ok((address.ip, address.ttl))
    }

    fn rtcp_port(&self) -> Result<u16, DescriptionError> {
        let rtp_port = self.media.port;
        if self.value("rtcp-mux").is_some() {
            return Ok(rtp_port);
        }
        match self.typed::<Rtcp>()?.first() {
            Some(rtcp) if rtcp.port == 0 => Err(self.fault_at("a=rtcp:", SdpFault::UdpPort(0))),
            Some(rtcp) => Ok(rtcp.port),
            None => rtp_port
                .checked_add(1)
                .ok_or_else(|| self.fault_at("m=audio", SdpFault::UdpPort(rtp_port))),
        }
    }

    /// The senders that a filter for this destination lets in.
    fn sources(&self, destination: IpAddr) -> Result<Vec<IpAddr>, DescriptionError> {
        let applies = |filter: &SourceFilter| {
            let wanted = match &filter.destination {
                SourceFilterDestination::Wildcard => true,
                SourceFilterDestination::Address(address) => {
                    *address == SourceFilterAddress::IpAddr(destination)
                }
            };
            wanted && filter.mode == SourceFilterMode::Incl
        };
        let filters = self.typed::<SourceFilter>()?;
        let sources = filters.into_iter().find(applies).map(|filter| filter.sources);
        let address = |source| match source {
            SourceFilterAddress::IpAddr(address) => Some(address),
            SourceFilterAddress::FQDN(_) => None,
        };
        Ok(sources.into_iter().flatten().filter_map(address).collect())
    }

    /// The first payload type that can be decoded, or what is wrong with the very first.
    fn coding(&self) -> Result<SdpCoding, DescriptionError> {
        let mut codings = self.media.fmt.split_whitespace().map(|format| self.coding_of(format));
        let first = codings
            .next()
            .unwrap_or_else(|| Err(self.fault_at("m=audio", SdpFault::PayloadType(String::new()))));
        match first {
            Ok(coding) => Ok(coding),
            Err(error) => codings.find_map(Result::ok).ok_or(error),
        }
    }

    fn coding_of(&self, format: &str) -> Result<SdpCoding, DescriptionError> {
        let unexplained = || self.fault_at("m=audio", SdpFault::PayloadType(format.to_owned()));
        let payload_type = format.parse().map_err(|_| unexplained())?;
        let maps = self.typed::<RtpMap>()?;
        let map = maps
            .into_iter()
            .find(|map| map.payload_type == payload_type)
            .or_else(|| static_map(payload_type))
            .ok_or_else(unexplained)?;
        let fault = |fault| self.fault_at(&format!("a=rtpmap:{format} "), fault);
        let channels = match map.encoding_params.as_deref() {
            None | Some("") => 1,
            Some(text) => text.parse().map_err(|_| {
                fault(SdpFault::Value { attribute: "rtpmap", value: map.to_string() })
            })?,
        };
        let (sample, coder) = coding_named(&map.encoding_name)
            .ok_or_else(|| fault(SdpFault::Coding(map.encoding_name.clone())))?;
        // A map of Opus has two channels whatever is in it (RFC 7587 §7): the sender's own word makes it one.
        let mono = matches!(coder, Some(Coder::Opus(_))) && self.says_mono(format);
        let channels = if mono { 1 } else { channels };
        Ok(SdpCoding {
            sample,
            coder,
            rate: Rate::new(map.clock_rate).map_err(|error| fault(error.into()))?,
            channels: Channels::new(channels).map_err(|error| fault(error.into()))?,
            payload_type,
        })
    }

    /// Whether the sender says that its Opus is mono (RFC 7587 §6.1).
    fn says_mono(&self, format: &str) -> bool {
        let parameters = self.values("fmtp").filter_map(|text| text.split_once(' '));
        parameters
            .filter(|(of, _)| *of == format)
            .flat_map(|(_, parameters)| parameters.split(';'))
            .any(|parameter| parameter.trim().eq_ignore_ascii_case("sprop-stereo=0"))
    }

    /// `framecount` is exact; `ptime` is rounded text, and may be wrong by 4 % (0.12 for 0.125).
    fn packet(&self, rate: Rate) -> Result<Option<Frames>, DescriptionError> {
        let (name, text, frames) = if let Some(text) = self.value("framecount") {
            ("framecount", text, text.parse().ok().map(Frames::new))
        } else if let Some(text) = self.value("ptime") {
            ("ptime", text, decimal::millis(text).map(|span| rate.frames_nearest(span)))
        } else {
            return Ok(None);
        };
        frames
            .filter(|frames| (1..=LONGEST_PACKET).contains(&frames.count()))
            .map(Some)
            .ok_or_else(|| self.nonsense(name, text))
    }

    /// Only `direct` ties the media clock to the reference (RFC 7273 §5.2); a rate may follow.
    fn mediaclk_offset(&self) -> Result<Option<u32>, DescriptionError> {
        let Some(text) = self.value("mediaclk") else { return Ok(None) };
        let Some(direct) = text.strip_prefix("direct=") else { return Ok(None) };
        let digits = direct.split_whitespace().next().unwrap_or_default();
        digits.parse().map(Some).map_err(|_| self.nonsense("mediaclk", text))
    }

    fn reference(&self) -> Reference {
        match self.value("ts-refclk") {
            None | Some("" | "local") => Reference::Local,
            Some(text) => match text.strip_prefix("ptp=") {
                Some(clock) => Reference::Ptp(clock.to_owned()),
                None => Reference::Other(text.to_owned()),
            },
        }
    }

    fn is_sealed(&self) -> bool {
        is_savp(self.media)
    }

    /// What follows the tags; none of what it says is told back where it is wrong.
    fn crypto(&self) -> Result<Vec<SdpCrypto>, DescriptionError> {
        let all = self.values("crypto").filter(|_| self.is_sealed());
        all.map(|text| {
            let tagged = text.split_once(' ').filter(|(tag, _)| tag.parse::<u32>().is_ok());
            let value = || "(kept back)".to_owned();
            tagged.map(|(_, rest)| SdpCrypto(rest.trim().to_owned())).ok_or_else(|| {
                self.fault_at("a=crypto:", SdpFault::Value { attribute: "crypto", value: value() })
            })
        })
        .collect()
    }

    fn extensions(&self) -> Result<ExtensionIds, DescriptionError> {
        // Identifiers from 15 on need the two-byte form (RFC 8285 §4.3), which is not read.
        let maps = self.typed::<ExtMap>()?;
        let id_of = |uri| {
            maps.iter().find(|map| map.uri == uri && (1..=14).contains(&map.id)).map(|map| map.id)
        };
        Ok(ExtensionIds {
            capture: id_of(CAPTURE_URI),
            instants: id_of(INSTANTS_URI),
            redundancy: id_of(REDUNDANCY_URI),
        })
    }
}

fn is_savp(media: &Media) -> bool {
    ["RTP/SAVP", "RTP/SAVPF"].iter().any(|sealed| media.proto.eq_ignore_ascii_case(sealed))
}

/// Payload types that need no `rtpmap` (RFC 3551 table 4).
fn static_map(payload_type: u8) -> Option<RtpMap> {
    match payload_type {
        10 => Some(RtpMap::with_encoding_params(10, "L16", 44_100, "2")),
        11 => Some(RtpMap::new(11, "L16", 44_100)),
        _ => None,
    }
}

fn coding_named(encoding: &str) -> Option<(SampleFormat, Option<Coder>)> {
    let names = [
        ("L16", (SampleFormat::L16, None)),
        ("L24", (SampleFormat::L24, None)),
        ("L32", (SampleFormat::L32, None)),
        (FLOAT_ENCODING, (SampleFormat::F32, None)),
        ("opus", (SampleFormat::L24, Some(Coder::OPUS))),
        (LOSSLESS_16_ENCODING, (SampleFormat::L16, Some(Coder::Lossless))),
        (LOSSLESS_24_ENCODING, (SampleFormat::L24, Some(Coder::Lossless))),
    ];
    names
        .into_iter()
        .find(|(name, _)| encoding.eq_ignore_ascii_case(name))
        .map(|(_, coding)| coding)
}
