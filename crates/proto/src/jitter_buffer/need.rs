//! Handles packets that need more than the configured latency if their sender announces no latency.

use super::JitterBuffer;
use crate::ledger::PacketTrace;
use crate::time::{Frames, Span};
use crate::unannounced::{Need, Unannounced};

#[derive(Debug)]
pub(super) struct Measuring {
    packets: Unannounced,
    need: Option<Need>,
    /// SSRC of a sender whose packets need no measurement.
    announced: Option<u32>,
    raises: bool,
}

impl JitterBuffer {
    /// Measures packets of senders without an announcement, for a device with a ring of this
    /// length. With `raises`, the latency rises as needed, up to
    /// [`JitterBuffer::longest_link_offset`].
    pub fn measure_unannounced(&mut self, ring: Span, raises: bool) {
        let packets = Unannounced::new(ring + self.look_ahead());
        self.measuring = Some(Measuring { packets, need: None, announced: None, raises });
    }

    pub(crate) fn set_ring(&mut self, ring: Span) {
        let takes = ring + self.look_ahead();
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.set_takes(takes);
        }
    }

    /// Look-ahead of the resampler. The card of an unknown sender never shares our clock, so its
    /// sound is resampled eventually.
    fn look_ahead(&self) -> Span {
        self.format.rate.span_of(Frames::from_len(self.config.resampler.half()))
    }

    pub(crate) fn set_raises(&mut self, raises: bool) {
        if let Some(measuring) = &mut self.measuring {
            measuring.raises = raises;
        }
    }

    /// Stops measuring the sender `ssrc`, even if it is not the current source yet.
    pub(crate) fn hear_announcement(&mut self, ssrc: u32) {
        if let Some(measuring) = &mut self.measuring {
            measuring.announced = Some(ssrc);
        }
    }

    /// Whether the current source is measured because it sent no announcement.
    fn is_measured(&self) -> bool {
        let ssrc = self.source.as_ref().map(|source| source.stream().ssrc());
        let measuring = self.measuring.as_ref().filter(|_| ssrc.is_some());
        measuring.is_some_and(|measuring| measuring.announced != ssrc)
    }

    /// Whether the format of the current source is derived from its packets.
    pub(super) fn is_unannounced(&self) -> bool {
        self.is_measured() && !self.config.wire.presents()
    }

    /// Latency that the packets of the current source need. `None` unless it exceeds the configured
    /// latency and the sender announces none.
    pub fn need(&self) -> Option<Need> {
        self.measuring.as_ref()?.need
    }

    pub(super) fn forget_need(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget();
            measuring.need = None;
        }
    }

    /// Discards late packets that a step of the sender caused, not the network.
    pub(super) const fn forget_late(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget_late();
        }
    }

    /// Measures a packet before it is placed. Ignores packets with presentation times, because the
    /// talker determines their latency.
    pub(super) fn measure_length(&mut self, frames: Frames) {
        if self.config.wire.presents() {
            return;
        }
        let rate = self.format.rate;
        self.ask(|packets, kept| packets.observe_length(rate.span_of(frames), kept));
    }

    /// Measures a packet that was placed too late.
    pub(super) fn measure_late(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        self.ask(|packets, kept| packets.observe_late(passage.arrival, transit, kept));
    }

    fn ask(&mut self, observe: impl FnOnce(&mut Unannounced, Span) -> Option<Need>) {
        if !self.is_measured() {
            return;
        }
        let Some(measuring) = &mut self.measuring else { return };
        let reported = measuring.need.map_or(Span::ZERO, |need| need.latency);
        let Some(need) =
            observe(&mut measuring.packets, self.placement.link_offset().max(reported))
        else {
            return;
        };
        measuring.need = Some(need);
        if measuring.raises && !self.config.wire.presents() {
            self.set_link_offset(need.latency);
        }
    }
}
