//! Writes a description.

use std::net::IpAddr;

use sdp_types::{Attribute, Connection, Media, MediaType, Session, Time, TransportProto};

use super::decimal;
use super::{Description, LINK_OFFSET, Reference, SdpCrypto};
use crate::codec::{Codec, Coding};
use crate::time::Frames;
use crate::wire::rtp::{CAPTURE_URI, ExtensionIds, INSTANTS_URI, REDUNDANCY_URI};

/// Default TTL, as of sockets: the local network.
const DEFAULT_TTL: u8 = 1;

impl Description {
    /// Text with CRLF line ends (RFC 8866 §5).
    pub fn write(&self) -> Vec<u8> {
        let origin = sdp_types::Origin::with_ip_addr(
            self.origin.session,
            self.origin.version,
            self.origin.address,
        );
        let name = if self.name.is_empty() { "-" } else { &self.name };
        let mut session = Session::new(origin, name);
        session.set_connection(Connection::from_ip_addr_ttl(self.destination, self.written_ttl()));
        session.add_time(Time::new(0, 0));
        session.add_media(self.media());
        let mut text = Vec::new();
        session.write(&mut text).expect("a Vec takes every write");
        text
    }

    fn written_ttl(&self) -> Option<u8> {
        self.destination.is_multicast().then(|| self.ttl.unwrap_or(DEFAULT_TTL))
    }

    fn media(&self) -> Media {
        let transport = if self.sealed { TransportProto::RtpSavp } else { TransportProto::RtpAvp };
        let mut media = Media::new(MediaType::Audio, self.rtp_port, transport, self.payload_type);
        let mut add =
            |name: &str, value: String| media.add_attribute(Attribute::with_value(name, value));
        if !self.sources.is_empty() {
            add("source-filter", self.source_filter());
        }
        for (index, SdpCrypto(key)) in self.crypto.iter().enumerate() {
            add("crypto", format!("{} {key}", index + 1));
        }
        add("rtpmap", self.rtpmap());
        if let Some(fmtp) = self.codec.and_then(|codec| codec.rules().fmtp(self.channels)) {
            add("fmtp", format!("{} {fmtp}", self.payload_type));
        }
        if let Some(packet) = self.packet {
            add("ptime", self.ptime(packet));
            add("framecount", packet.to_string());
        }
        if let Some(offset) = self.mediaclk_offset {
            add("mediaclk", format!("direct={offset}"));
        }
        add("ts-refclk", self.reference_clock());
        let ExtensionIds { capture, instants, redundancy } = self.extensions;
        for (id, uri) in
            [(capture, CAPTURE_URI), (instants, INSTANTS_URI), (redundancy, REDUNDANCY_URI)]
        {
            id.into_iter().for_each(|id| add("extmap", format!("{id} {uri}")));
        }
        if Some(self.rtcp_port) != self.rtp_port.checked_add(1) {
            add("rtcp", self.rtcp_port.to_string());
        }
        if let Some(offset) = self.link_offset {
            add(LINK_OFFSET, decimal::text(offset, 6));
        }
        if redundancy.is_some() {
            // The two-byte form, for repair data (RFC 8285 §6).
            media.add_attribute(Attribute::new("extmap-allow-mixed"));
            if self.sealed {
                // Repair data is encrypted too (RFC 9335 §4).
                media.add_attribute(Attribute::new("cryptex"));
            }
        }
        media.add_attribute(Attribute::new("recvonly"));
        media
    }

    fn source_filter(&self) -> String {
        let family = match self.destination {
            IpAddr::V4(_) => "IP4",
            IpAddr::V6(_) => "IP6",
        };
        // RFC 4570 §3 has a space before the mode.
        let mut value = format!(" incl IN {family} {}", self.destination);
        for source in &self.sources {
            value.push_str(&format!(" {source}"));
        }
        value
    }

    fn rtpmap(&self) -> String {
        let coding = Coding { sample: self.sample, codec: self.codec }.row().encoding;
        let as_it_is = (self.rate, self.channels.count());
        let mapped = |codec: Codec| codec.rules().rtpmap(self.rate, self.channels);
        let (rate, channels) = self.codec.map_or(as_it_is, mapped);
        format!("{} {coding}/{}/{channels}", self.payload_type, rate.hertz())
    }

    /// Two decimals as in AES67, or more to identify the frames.
    fn ptime(&self, packet: Frames) -> String {
        let span = self.rate.span_of(packet);
        let says_packet = |text: &String| {
            decimal::millis(text).is_some_and(|read| self.rate.frames_nearest(read) == packet)
        };
        (2..6)
            .map(|decimals| decimal::text(span, decimals))
            .find(says_packet)
            .unwrap_or_else(|| decimal::text(span, 6))
    }

    fn reference_clock(&self) -> String {
        match &self.reference {
            Reference::Local => "local".to_owned(),
            Reference::Ptp(clock) => format!("ptp={clock}"),
            Reference::Other(clock) => clock.clone(),
        }
    }
}
