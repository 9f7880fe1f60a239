//! How a receiver works.

use std::sync::Arc;

use tautline_dsp::resample::Quality;

use crate::codec::{Codec, Coding, Decode, MakeDecoder};
use crate::frame_count::FrameCounter;
use crate::packet::{Codings, Unpack};
use crate::stream::StreamFormat;
use crate::time::Span;

/// How a receiver works.
#[derive(Debug, Clone)]
pub struct JitterBufferConfig {
    /// What the stream is. The packet length is a hint: packets of any length are taken.
    pub format: StreamFormat,
    /// How its packets look, and which codings are taken.
    pub wire: Arc<dyn Unpack>,
    /// Capture to presentation.
    pub link_offset: Span,
    /// Capture to the presentation that packets tell, where they tell that and nobody announces this.
    pub presented_after: Span,
    /// Whether that is somebody's word: else it stands in for what nobody tells, and no capture is known by it.
    pub captures_told: bool,
    /// How far the presentation time of a packet of AVTP may be from where its sequence number places it: beyond that
    /// the talker has begun anew.
    pub presentation_tolerance: Span,
    /// How frames are resampled where the card's clock is not the sender's.
    pub resampler: Quality,
    /// What makes decoders, where compressed streams are read: of the stream's coder, or, where each packet says its own
    /// coding, of all.
    pub decoders: Option<MakeDecoder>,
}

impl JitterBufferConfig {
    /// Of a stream of which nothing else is said: the usual resampler.
    pub fn new(wire: Arc<dyn Unpack>, format: StreamFormat, link_offset: Span) -> Self {
        let (presented_after, resampler) = (link_offset, Quality::default());
        Self {
            format,
            wire,
            link_offset,
            presented_after,
            captures_told: true,
            presentation_tolerance: FrameCounter::TOLERANCE,
            resampler,
            decoders: None,
        }
    }

    /// What reads the packets of this stream that are compressed. Allocates.
    pub(super) fn make_decoders(&self) -> Vec<Box<dyn Decode>> {
        let Some(make) = self.decoders else { return Vec::new() };
        let mut coders: Vec<Codec> = match self.wire.codings() {
            Codings::ByConvention => Coding::ALL.into_iter().filter_map(|one| one.coder).collect(),
            Codings::Exactly | Codings::Any => self.format.coder.into_iter().collect(),
        };
        coders.dedup_by(|one, before| one.is_read_as(*before));
        coders.into_iter().filter_map(|coder| make(coder, self.format.shape())).collect()
    }
}
