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
    /// Format of the stream. Its packet length is only a hint: packets of any length are accepted.
    pub format: StreamFormat,
    /// Wire format of the packets, and the accepted codings.
    pub wire: Arc<dyn Unpack>,
    /// Delay from capture to presentation.
    pub link_offset: Span,
    /// Delay from capture to the presentation time in packets, if the sender announces none.
    pub presented_after: Span,
    /// Whether `presented_after` was announced or configured. If it is a default, capture times
    /// that are derived from it do not count as known.
    pub captures_reported: bool,
    /// Maximum deviation of an AVTP presentation time from the time expected from the sequence
    /// number. Beyond it the talker has restarted.
    pub presentation_tolerance: Span,
    /// Quality of the resampler, for a card whose clock differs from the sender's.
    pub resampler: Quality,
    /// Creates the decoders of compressed streams: that of the stream's codec, or those of all
    /// codecs if each packet carries its coding.
    pub decoders: Option<MakeDecoder>,
}

impl JitterBufferConfig {
    /// Creates a configuration with default values and the default resampler.
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
        let mut coders: Vec<Codec> = match self.wire.codings() {
            Codings::ByConvention => Coding::ALL.into_iter().filter_map(|one| one.coder).collect(),
            Codings::Exactly | Codings::Any => self.format.coder.into_iter().collect(),
        };
        coders.dedup_by(|one, before| one.is_read_as(*before));
        coders.into_iter().filter_map(|coder| make(coder, self.format.shape())).collect()
    }
}
