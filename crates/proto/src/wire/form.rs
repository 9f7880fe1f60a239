//! Wire formats of streams, and their properties.

use std::sync::Arc;

use tautline_dsp::format::SampleFormat;

use super::{avtp, rtp};
use crate::packet::{Pack, StreamId, Unpack};
use crate::stream::StreamFormat;
use crate::time::Span;
use crate::units::Rate;

/// Wire format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireForm {
    /// RTP (RFC 3550): packets count frames; reports carry the sender's clock.
    #[default]
    Rtp,
    /// AVTP AAF (IEEE 1722): packets carry presentation times.
    Avtp(avtp::Encapsulation),
}

/// Header type of a stream's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeads {
    /// Wire format.
    pub form: WireForm,
    /// Whether headers include the sender's instants, if the format has space.
    pub stamps: bool,
}

impl PacketHeads {
    /// Headers of RTP.
    pub const fn rtp(stamps: bool) -> Self {
        Self { form: WireForm::Rtp, stamps }
    }

    /// Bytes of a packet of `format`.
    pub fn datagram_bytes(self, format: &StreamFormat) -> usize {
        self.form.pack().head_bytes(self.stamps, 0) + format.payload_bytes()
    }
}

/// Stream not supported by the wire format; the message ends with a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCarried {
    /// Unsupported nominal rate.
    #[error("AVTP does not support {0}\nhint: use {all}", all = Rate::listed(avtp::carries))]
    Rate(Rate),
    /// AAF has only formats of single samples (IEEE 1722-2016 table 23).
    #[error(
        "AVTP does not support compressed formats such as {0}\nhint: use --format l24, or rtp://"
    )]
    Codec(&'static str),
    /// Too long for the length field.
    #[error(
        "packets of {ptime} have {bytes} bytes of audio: must be at most 65535 for AVTP\nhint: use a shorter --ptime"
    )]
    Length {
        /// Duration of a packet.
        ptime: Span,
        /// Bytes of sound in a packet.
        bytes: usize,
    },
}

impl WireForm {
    /// Writer of packets.
    pub fn pack(self) -> &'static dyn Pack {
        match self {
            Self::Rtp => rtp::PACK,
            Self::Avtp(avtp::Encapsulation::Ethernet) => avtp::ETHERNET_PACK,
            Self::Avtp(avtp::Encapsulation::Udp) => avtp::UDP_PACK,
        }
    }

    /// Reader of packets; for AVTP optionally those of a single stream.
    pub fn unpack(self, only: Option<StreamId>) -> Arc<dyn Unpack> {
        match self {
            Self::Rtp => rtp::RtpUnpack::usual(),
            Self::Avtp(encapsulation) => avtp::AafUnpack::of(encapsulation, only),
        }
    }

    /// Default code of a sample format in packets.
    pub fn coding(self, sample: SampleFormat) -> u8 {
        match self {
            Self::Rtp => StreamFormat::default_payload_type(sample),
            Self::Avtp(_) => avtp::format_of(sample),
        }
    }

    /// Whether packets carry presentation times.
    pub const fn presents(self) -> bool {
        matches!(self, Self::Avtp(_))
    }

    /// Checks whether the wire format supports a stream.
    pub fn check(self, format: &StreamFormat) -> Result<(), NotCarried> {
        if self == Self::Rtp {
            return Ok(());
        }
        if format.coder.is_some() {
            return Err(NotCarried::Codec(format.coding_name()));
        }
        if !avtp::carries(format.rate) {
            return Err(NotCarried::Rate(format.rate));
        }
        let bytes = format.payload_bytes();
        if bytes > usize::from(u16::MAX) {
            return Err(NotCarried::Length { ptime: format.ptime(), bytes });
        }
        Ok(())
    }
}
