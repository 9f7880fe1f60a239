//! Latency that packets of an unannounced sender need.

use super::JitterBuffer;
use crate::ledger::PacketTrace;
use crate::time::{Frames, Span};
use crate::unannounced::{Need, Unannounced};

#[derive(Debug)]
pub(super) struct Measuring {
    packets: Unannounced,
    need: Option<Need>,
    /// SSRC of a sender that needs no measurement.
    announced: Option<u32>,
    raises: bool,
}

impl JitterBuffer {
    /// Measures unannounced packets. With `raises`, the latency rises up to
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

    /// An unknown sender's card never shares our clock.
    fn look_ahead(&self) -> Span {
        self.format.rate.span_of(Frames::from_len(self.config.resampler.half()))
    }

    pub(crate) fn set_raises(&mut self, raises: bool) {
        if let Some(measuring) = &mut self.measuring {
            measuring.raises = raises;
        }
    }

    /// Stops measuring `ssrc`, even before it is the source.
    pub(crate) fn hear_announcement(&mut self, ssrc: u32) {
        if let Some(measuring) = &mut self.measuring {
            measuring.announced = Some(ssrc);
        }
    }

    fn is_measured(&self) -> bool {
        let ssrc = self.source.as_ref().map(|source| source.stream().ssrc());
        let measuring = self.measuring.as_ref().filter(|_| ssrc.is_some());
        measuring.is_some_and(|measuring| measuring.announced != ssrc)
    }

    pub(super) fn is_unannounced(&self) -> bool {
        self.is_measured() && !self.config.wire.presents()
    }

    /// Needed latency of an unannounced source, if above the configured latency.
    pub fn need(&self) -> Option<Need> {
        self.measuring.as_ref()?.need
    }

    pub(super) fn forget_need(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget();
            measuring.need = None;
        }
    }

    /// Late packets caused by a step of the sender do not count.
    pub(super) const fn forget_late(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget_late();
        }
    }

    /// The talker determines the latency of presentation times.
    pub(super) fn measure_length(&mut self, frames: Frames) {
        if self.config.wire.presents() {
            return;
        }
        let rate = self.format.rate;
        self.request(|packets, kept| packets.observe_length(rate.span_of(frames), kept));
    }

    pub(super) fn measure_late(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        self.request(|packets, kept| packets.observe_late(passage.arrival, transit, kept));
    }

    fn request(&mut self, observe: impl FnOnce(&mut Unannounced, Span) -> Option<Need>) {
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
