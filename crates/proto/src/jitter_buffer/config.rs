//! Configuration of a jitter buffer.

use std::sync::Arc;

use tautline_dsp::resample::Quality;

use crate::codec::{Codec, Coding, Decode, MakeDecoder};
use crate::frame_count::FrameCounter;
use crate::packet::{Codings, Unpack};
use crate::stream::StreamFormat;
use crate::time::Span;

/// Configuration of a jitter buffer.
#[derive(Debug, Clone)]
pub struct JitterBufferConfig {
    /// Format; packets of any length are accepted.
    pub format: StreamFormat,
    /// Wire format and accepted codings.
    pub wire: Arc<dyn Unpack>,
    /// Delay from capture to presentation.
    pub link_offset: Span,
    /// Default delay from capture to presentation time.
    pub presented_after: Span,
    /// Whether `presented_after` is certain. Otherwise capture times are unknown.
    pub captures_reported: bool,
    /// Larger deviations of an AVTP presentation time mean a restarted talker.
    pub presentation_tolerance: Span,
    /// Quality of the resampler.
    pub resampler: Quality,
    /// Creates the decoders: the stream's decoder, or all decoders.
    pub decoders: Option<MakeDecoder>,
}

impl JitterBufferConfig {
    /// Creates a default configuration.
    pub fn new(wire: Arc<dyn Unpack>, format: StreamFormat, link_offset: Span) -> Self {
        let (presented_after, resampler) = (link_offset, Quality::default());
        Self {
            format,
            wire,
            link_offset,
            presented_after,
            captures_reported: true,
            presentation_tolerance: FrameCounter::TOLERANCE,
            resampler,
            decoders: None,
        }
    }

    pub(super) fn make_decoders(&self) -> Vec<Box<dyn Decode>> {
        let Some(make) = self.decoders else { return Vec::new() };
        let mut codecs: Vec<Codec> = match self.wire.codings() {
            Codings::ByConvention => Coding::ALL.into_iter().filter_map(|one| one.codec).collect(),
            Codings::Exactly | Codings::Any => self.format.codec.into_iter().collect(),
        };
        codecs.dedup_by(|one, before| one.is_read_as(*before));
        codecs.into_iter().filter_map(|codec| make(codec, self.format.shape())).collect()
    }
}
