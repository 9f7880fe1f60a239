//! Wire formats of streams.

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
    /// RTP (RFC 3550): packets count frames.
    #[default]
    Rtp,
    /// AVTP AAF (IEEE 1722): packets carry presentation times.
    Avtp(avtp::Encapsulation),
}

/// Header type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeads {
    /// Wire format.
    pub form: WireForm,
    /// Whether headers carry sender instants, if possible.
    pub stamps: bool,
}

impl PacketHeads {
    /// Headers of RTP.
    pub const fn rtp(stamps: bool) -> Self {
        Self { form: WireForm::Rtp, stamps }
    }

    /// Packet length.
    pub fn datagram_bytes(self, format: &StreamFormat) -> usize {
        self.form.pack().head_bytes(self.stamps, 0) + format.payload_bytes()
    }
}

/// Stream that the wire format does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCarried {
    /// Unsupported rate.
    #[error("AVTP does not support {0}\nhint: use {all}", all = Rate::listed(avtp::carries))]
    Rate(Rate),
    /// AAF has no compressed formats (IEEE 1722-2016 table 23).
    #[error(
        "AVTP does not support compressed formats such as {0}\nhint: use --format l24, or rtp://"
    )]
    Codec(&'static str),
    /// Too long for the length field.
    #[error(
        "packets of {ptime} have {bytes} bytes of audio: must be at most 65535 for AVTP\nhint: use a shorter --ptime"
    )]
    Length {
        /// Packet duration.
        ptime: Span,
        /// Bytes of audio.
        bytes: usize,
    },
}

impl WireForm {
    /// Packet writer.
    pub fn pack(self) -> &'static dyn Pack {
        match self {
            Self::Rtp => rtp::PACK,
            Self::Avtp(avtp::Encapsulation::Ethernet) => avtp::ETHERNET_PACK,
            Self::Avtp(avtp::Encapsulation::Udp) => avtp::UDP_PACK,
        }
    }

    /// Packet reader; `only` limits AVTP to one stream.
    pub fn unpack(self, only: Option<StreamId>) -> Arc<dyn Unpack> {
        match self {
            Self::Rtp => rtp::RtpUnpack::usual(),
            Self::Avtp(encapsulation) => avtp::AafUnpack::of(encapsulation, only),
        }
    }

    /// Default code of a sample format.
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

    /// Checks support for a stream.
    pub fn check(self, format: &StreamFormat) -> Result<(), NotCarried> {
        if self == Self::Rtp {
            return Ok(());
        }
        if format.codec.is_some() {
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
