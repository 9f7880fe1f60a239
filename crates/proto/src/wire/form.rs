//! The wire forms that streams may have, and what each needs to be known of it beforehand.

use std::sync::Arc;

use tautline_dsp::format::SampleFormat;

use super::{avtp, rtp};
use crate::packet::{Pack, StreamId, Unpack};
use crate::stream::StreamFormat;
use crate::time::Span;
use crate::units::Rate;

/// How the packets of a stream look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WireForm {
    /// RTP (RFC 3550): frames are counted, and the sender's clock is told beside them.
    #[default]
    Rtp,
    /// AAF of AVTP (IEEE 1722): packets say when they are to be presented.
    Avtp(avtp::Encapsulation),
}

/// What stands before the sound of a stream's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketHeads {
    /// How they look.
    pub form: WireForm,
    /// Whether they have the sender's instants, where the form has room for them.
    pub stamps: bool,
}

impl PacketHeads {
    /// Of RTP.
    pub const fn rtp(stamps: bool) -> Self {
        Self { form: WireForm::Rtp, stamps }
    }

    /// Bytes of a packet of `format`.
    pub fn datagram_bytes(self, format: &StreamFormat) -> usize {
        self.form.pack().head_bytes(self.stamps, 0) + format.payload_bytes()
    }
}

/// What a wire form does not carry: one sentence that ends with the mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotCarried {
    /// The rate is none of its nominal ones.
    #[error("AVTP has no rate of {0}; use {all}", all = Rate::listed(avtp::carries))]
    Rate(Rate),
    /// Its formats are of single samples (IEEE 1722-2016 table 23).
    #[error(
        "AVTP carries single samples, and nothing compressed such as {0}; use --format l24, or rtp://"
    )]
    Codec(&'static str),
    /// The length field has too few bits.
    #[error(
        "packets of {ptime} hold {bytes} bytes of sound, and AVTP counts up to 65535; use a shorter --ptime"
    )]
    Length {
        /// Of one packet.
        ptime: Span,
        /// Of its sound.
        bytes: usize,
    },
}

impl WireForm {
    /// What writes its packets.
    pub fn pack(self) -> &'static dyn Pack {
        match self {
            Self::Rtp => rtp::PACK,
            Self::Avtp(avtp::Encapsulation::Ethernet) => avtp::ETHERNET_PACK,
            Self::Avtp(avtp::Encapsulation::Udp) => avtp::UDP_PACK,
        }
    }

    /// What reads them: of AVTP those of one stream alone, where that is settled.
    pub fn unpack(self, only: Option<StreamId>) -> Arc<dyn Unpack> {
        match self {
            Self::Rtp => rtp::RtpUnpack::usual(),
            Self::Avtp(encapsulation) => avtp::AafUnpack::of(encapsulation, only),
        }
    }

    /// What stands for a coding in a packet where nobody says otherwise.
    pub fn coding(self, sample: SampleFormat) -> u8 {
        match self {
            Self::Rtp => StreamFormat::default_payload_type(sample),
            Self::Avtp(_) => avtp::format_of(sample),
        }
    }

    /// Whether packets say when they are to be presented.
    pub const fn presents(self) -> bool {
        matches!(self, Self::Avtp(_))
    }

    /// Whether it carries such a stream.
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
