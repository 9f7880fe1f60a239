//! Reads a description; warns about lines that are not needed.

use std::net::{IpAddr, Ipv4Addr};

use super::coding::SdpCoding;
use super::decimal;
use super::lines::{Line, Lines, Section, shown};
use super::{
    Description, DescriptionError, LINK_OFFSET, Reference, SdpCrypto, SdpFault, SdpOddity,
    SdpOrigin, SdpWarning,
};
use crate::stream::{LONGEST_LINK_OFFSET, MAX_DATAGRAM_BYTES, PTIME_RANGE};
use crate::time::{Frames, Span};
use crate::wire::rtp::{CAPTURE_URI, ExtensionIds, INSTANTS_URI, REDUNDANCY_URI};

/// RFC 3550 §5.1.
const RTP_HEADER: i64 = 12;
/// Maximum frames.
const LONGEST_PACKET: i64 = u16::MAX as i64;

pub(super) type Read<T> = Result<T, SdpOddity>;

impl Description {
    /// Reads the first receivable RTP audio stream, encrypted or not: for `a=group:DUP`, the first
    /// leg. Invalid lines become warnings, unless they are needed.
    pub fn read(bytes: &[u8]) -> Result<(Self, Vec<SdpWarning>), DescriptionError> {
        let Lines { session, sections, mut warnings } = Lines::of(bytes)?;
        let mut audio: Vec<(&Line, Result<ReadSection, DescriptionError>)> = sections
            .iter()
            .map(|(media, lines)| Section::of(&session, media, lines))
            .filter(Section::is_audio)
            .map(|section| (section.media, section.read()))
            .collect();
        let is_open = |(_, read): &(_, Result<ReadSection, _>)| matches!(read, Ok(r) if r.passed_over.is_none());
        let open = audio.iter().position(is_open);
        let Some(chosen) = open.or_else(|| audio.iter().position(|(_, read)| read.is_ok())) else {
            let mut errors = audio.into_iter().filter_map(|(_, read)| read.err()).peekable();
            let first = errors.peek().cloned();
            let enabled = errors.find(|error| error.fault != SdpFault::Disabled);
            let no_audio = DescriptionError { line: None, fault: SdpFault::NoAudio };
            return Err(enabled.or(first).unwrap_or(no_audio));
        };
        let read = audio.swap_remove(chosen).1?;
        audio.truncate(chosen);
        for (media, passed) in audio {
            let oddity = match passed {
                Ok(section) => section.passed_over,
                Err(error) => Some(SdpOddity::Refused(error.fault)),
            };
            warnings.extend(oddity.map(|oddity| media.warning(oddity)));
        }
        warnings.extend(read.warnings);
        warnings.sort_by_key(|warning| warning.line);
        Ok((read.description, warnings))
    }
}

struct ReadSection {
    description: Description,
    warnings: Vec<SdpWarning>,
    passed_over: Option<SdpOddity>,
}

impl<'a> Section<'a> {
    fn read(mut self) -> Result<ReadSection, DescriptionError> {
        let sealed = self.is_sealed()?;
        let rtp_port = self.rtp_port()?;
        let (destination, ttl) = self.destination()?;
        let SdpCoding { rate, channels, sample, codec, payload_type } = self.coding()?;
        let description = Description {
            name: self.line('s').map_or(String::new(), |line| line.value.clone()),
            origin: self.origin(),
            destination,
            rtp_port,
            rtcp_port: self.rtcp_port(rtp_port)?,
            ttl,
            sources: self.sources(destination),
            rate,
            channels,
            sample,
            codec,
            payload_type,
            packet: self.packet(
                |frames| {
                    let bytes = frames.count() * channels.count() as i64 * sample.bytes() as i64;
                    match rate.span_of(frames) {
                        long if long > PTIME_RANGE.1 => Err(SdpOddity::PacketTime(long)),
                        _ if codec.is_none() && bytes + RTP_HEADER > MAX_DATAGRAM_BYTES as i64 => {
                            Err(SdpOddity::PacketBytes(bytes))
                        }
                        _ => Ok(frames),
                    }
                },
                |span| rate.frames_nearest(span),
            ),
            link_offset: self.first(LINK_OFFSET, |text| {
                let offset = decimal::millis(text).filter(|offset| *offset <= LONGEST_LINK_OFFSET);
                offset.ok_or(SdpOddity::Expected("milliseconds, 0 to 5000"))
            }),
            mediaclk_offset: self.mediaclk_offset(),
            reference: self.reference(),
            extensions: self.extensions(),
            sealed,
            crypto: if sealed { self.crypto() } else { Vec::new() },
        };
        let inactive = self.values("inactive").next().map(|_| SdpOddity::Inactive);
        let locked = sealed && description.crypto.is_empty();
        let passed_over = inactive.or(locked.then_some(SdpOddity::NoKey));
        Ok(ReadSection { description, warnings: self.warnings, passed_over })
    }

    fn line(&self, letter: char) -> Option<&'a Line> {
        self.session.iter().find(|line| line.letter == letter)
    }

    /// Values of the section override and come first.
    pub(super) fn values<'s>(
        &self,
        name: &'s str,
    ) -> impl Iterator<Item = (&'a Line, &'a str)> + use<'a, 's> {
        self.lines.iter().chain(self.session).filter_map(move |line| {
            let (of, value) = line.attribute()?;
            of.eq_ignore_ascii_case(name).then_some((line, value))
        })
    }

    /// Warns about other lines, except overridden session values.
    fn first<T>(&mut self, name: &str, read: impl Fn(&str) -> Read<T>) -> Option<T> {
        let mut found: Option<(&Line, T)> = None;
        for (line, value) in self.values(name) {
            let oddity = match (&found, read(value)) {
                (Some((first, _)), _) if self.is_own(first) && !self.is_own(line) => continue,
                (Some(_), _) => SdpOddity::Another,
                (None, Err(oddity)) => oddity,
                (None, Ok(value)) => {
                    found = Some((line, value));
                    continue;
                }
            };
            self.warnings.push(line.warning(oddity));
        }
        found.map(|(_, value)| value)
    }

    pub(super) const fn is_own(&self, line: &Line) -> bool {
        line.number > self.media.number
    }

    /// Whether the profile is SRTP. Accepts AVPF: only RTCP timing differs, which receivers may
    /// ignore (RFC 4585 §3.6).
    fn is_sealed(&self) -> Result<bool, DescriptionError> {
        let transport = self.words().nth(2).unwrap_or_default();
        match transport.to_ascii_uppercase().as_str() {
            "RTP/AVP" | "RTP/AVPF" => Ok(false),
            "RTP/SAVP" | "RTP/SAVPF" => Ok(true),
            _ => Err(self.media.fault(SdpFault::Transport(shown(transport)))),
        }
    }

    /// Port 0 disables a stream (RFC 3264 §5.1). A count may follow.
    fn rtp_port(&self) -> Result<u16, DescriptionError> {
        let text = self.words().nth(1).unwrap_or_default();
        let port = text.split('/').next().unwrap_or_default();
        match port.parse() {
            Ok(0) => Err(self.media.fault(SdpFault::Disabled)),
            Ok(port) => Ok(port),
            Err(_) => Err(self.media.fault(SdpFault::UdpPort(shown(text)))),
        }
    }

    /// From `a=rtcp`, or the next port.
    fn rtcp_port(&mut self, rtp_port: u16) -> Result<u16, DescriptionError> {
        if self.values("rtcp-mux").next().is_some() {
            return Ok(rtp_port);
        }
        let named = self.first("rtcp", |text| {
            let port = text.split_whitespace().next().and_then(|port| port.parse().ok());
            port.filter(|port| *port != 0).ok_or(SdpOddity::Expected("a UDP port, 1 to 65535"))
        });
        let fault = SdpFault::UdpPort(rtp_port.to_string());
        named.or(rtp_port.checked_add(1)).ok_or_else(|| self.media.fault(fault))
    }

    /// Prefers the section.
    fn destination(&mut self) -> Result<(IpAddr, Option<u8>), DescriptionError> {
        let connection = |line: &&Line| line.letter == 'c';
        let own: Vec<&Line> = self.lines.iter().filter(connection).collect();
        let lines =
            if own.is_empty() { self.session.iter().filter(connection).collect() } else { own };
        let mut found = None;
        for line in &lines {
            match (address_of(&line.value), found) {
                (Some(_), Some(_)) => self.warnings.push(line.warning(SdpOddity::Another)),
                (None, _) => {
                    self.warnings.push(
                        line.warning(SdpOddity::Expected("IN IP4 ADDRESS or IN IP6 ADDRESS")),
                    );
                }
                (address, None) => found = address.map(|address| (*line, address)),
            }
        }
        let fault = |line: &&Line| line.fault(SdpFault::Destination(shown(&line.value)));
        let unfound = || lines.first().map_or(self.media.fault(SdpFault::NoDestination), fault);
        let (line, (address, suffix)) = found.ok_or_else(unfound)?;
        // IPv4 groups have a TTL, IPv6 groups a count.
        let ttl = suffix.filter(|_| address.is_ipv4()).map(|text| text.parse());
        if let Some(Err(_)) = ttl {
            self.warnings
                .push(line.warning(SdpOddity::Expected("a TTL of 0 to 255 after the slash")));
        }
        Ok((address, ttl.and_then(Result::ok)))
    }

    fn origin(&mut self) -> SdpOrigin {
        let mut words = self.line('o').into_iter().flat_map(|line| line.value.split_whitespace());
        let (session, version) = (words.nth(1), words.next());
        let address = words.nth(2).and_then(|text| text.parse().ok());
        let version = version.and_then(|text| text.parse().ok());
        if let Some(line) = self.line('o').filter(|_| version.is_none()) {
            self.warnings.push(line.warning(SdpOddity::Expected("a version below 2^64")));
        }
        SdpOrigin {
            session: session.and_then(|text| text.parse().ok()).unwrap_or_default(),
            version: version.unwrap_or_default(),
            address: address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        }
    }

    /// RFC 4570 §3.
    fn sources(&mut self, destination: IpAddr) -> Vec<IpAddr> {
        let included = |text: &str| -> Read<Option<Vec<IpAddr>>> {
            let form = || SdpOddity::Expected("incl IN IP4 DESTINATION SOURCE, with IP addresses");
            let mut words = text.split_whitespace();
            let (mode, group) = (words.next().unwrap_or_default(), words.nth(2).ok_or_else(form)?);
            let group = if group == "*" { Some(destination) } else { ip(group).map(|(ip, _)| ip) };
            let sources: Option<Vec<IpAddr>> = words.map(|word| Some(ip(word)?.0)).collect();
            let sources = sources.filter(|sources| {
                !sources.is_empty()
                    && sources.iter().all(|ip| ip.is_ipv4() == destination.is_ipv4())
            });
            match group.ok_or_else(form)? == destination {
                true if !mode.eq_ignore_ascii_case("incl") => Err(form()),
                true => sources.map(Some).ok_or_else(form),
                false => Ok(None),
            }
        };
        for (line, value) in self.values("source-filter") {
            match included(value) {
                Ok(Some(sources)) => return sources,
                Ok(None) => {}
                Err(oddity) => self.warnings.push(line.warning(oddity)),
            }
        }
        Vec::new()
    }

    /// `framecount` is exact, `ptime` within 4 % (0.12 for 0.125).
    fn packet(
        &mut self,
        fits: impl Fn(Frames) -> Read<Frames>,
        frames_of: impl Fn(Span) -> Frames,
    ) -> Option<Frames> {
        let whole = |frames: Option<Frames>, expected| {
            let frames = frames.filter(|frames| (1..=LONGEST_PACKET).contains(&frames.count()));
            fits(frames.ok_or(SdpOddity::Expected(expected))?)
        };
        let counted = self.first("framecount", |text| {
            whole(text.parse().ok().map(Frames::new), "frames, 1 to 65535")
        });
        counted.or_else(|| {
            self.first("ptime", |text| match decimal::millis(text) {
                Some(long) if long > PTIME_RANGE.1 => Err(SdpOddity::PacketTime(long)),
                time => whole(time.map(&frames_of), "milliseconds, such as 1 or 0.125"),
            })
        })
    }

    /// Only `direct` locks to the reference (RFC 7273 §5.2).
    fn mediaclk_offset(&mut self) -> Option<u32> {
        self.first("mediaclk", |text| {
            let Some(direct) = text.strip_prefix("direct=") else { return Ok(None) };
            let digits = direct.split_whitespace().next().unwrap_or_default();
            digits
                .parse()
                .map(Some)
                .map_err(|_| SdpOddity::Expected("direct=N, with N from 0 to 2^32 - 1"))
        })
        .flatten()
    }

    fn reference(&self) -> Reference {
        match self.values("ts-refclk").next() {
            None | Some((_, "" | "local")) => Reference::Local,
            Some((_, text)) => match text.strip_prefix("ptp=") {
                Some(clock) => Reference::Ptp(clock.to_owned()),
                None => Reference::Other(text.to_owned()),
            },
        }
    }

    fn crypto(&mut self) -> Vec<SdpCrypto> {
        let mut keys = Vec::new();
        for (line, value) in self.values("crypto") {
            let tagged = value.split_once(' ').filter(|(tag, _)| tag.parse::<u32>().is_ok());
            match tagged {
                Some((_, rest)) => keys.push(SdpCrypto(rest.trim().to_owned())),
                None => {
                    self.warnings.push(line.warning(SdpOddity::Expected("TAG SUITE inline:KEY")))
                }
            }
        }
        keys
    }

    fn extensions(&mut self) -> ExtensionIds {
        let mut ids = ExtensionIds::NONE;
        for (line, value) in self.values("extmap") {
            let mut words = value.split_whitespace();
            let id = words.next().and_then(|id| id.split('/').next()?.parse::<u8>().ok());
            let known = match words.next() {
                Some(CAPTURE_URI) => Some(&mut ids.capture),
                Some(INSTANTS_URI) => Some(&mut ids.instants),
                Some(REDUNDANCY_URI) => Some(&mut ids.redundancy),
                Some(_) | None => None,
            };
            // 15 and above need the two-byte form (RFC 8285 §4.3).
            match (id, known) {
                (Some(id @ 1..=14), Some(known)) => _ = known.get_or_insert(id),
                (Some(1..), None) => {}
                (_, Some(_)) => {
                    self.warnings
                        .push(line.warning(SdpOddity::Expected("an identifier from 1 to 14")));
                }
                (_, None) => {
                    self.warnings
                        .push(line.warning(SdpOddity::Expected("an identifier from 1 to 255")));
                }
            }
        }
        ids
    }
}

fn address_of(value: &str) -> Option<(IpAddr, Option<&str>)> {
    value.split_whitespace().find_map(ip)
}

/// With optional TTL or count.
fn ip(word: &str) -> Option<(IpAddr, Option<&str>)> {
    let (address, rest) = word.split_once('/').map_or((word, None), |(ip, rest)| (ip, Some(rest)));
    let first = rest.and_then(|rest| rest.split('/').next());
    Some((address.parse().ok()?, first))
}
