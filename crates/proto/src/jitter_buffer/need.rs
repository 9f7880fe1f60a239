//! What is done about packets that need more than the latency while their sender does not say what
//! it promises.

use super::JitterBuffer;
use crate::ledger::PacketTrace;
use crate::time::{Frames, Span};
use crate::unannounced::{Need, Unannounced};

#[derive(Debug)]
pub(super) struct Measuring {
    packets: Unannounced,
    need: Option<Need>,
    /// Whose packets need no measuring.
    announced: Option<u32>,
    /// Whether the latency follows, upwards.
    raises: bool,
}

impl JitterBuffer {
    /// Measures packets whose sender announces nothing, for a device with a ring of this length. With
    /// `raises` the latency becomes what they need, up to [`JitterBuffer::longest_link_offset`].
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

    /// No stranger's card has the clock of ours: its sound is resampled sooner or later.
    fn look_ahead(&self) -> Span {
        self.format.rate.span_of(Frames::from_len(self.config.resampler.half()))
    }

    pub(crate) fn set_raises(&mut self, raises: bool) {
        if let Some(measuring) = &mut self.measuring {
            measuring.raises = raises;
        }
    }

    /// The sender `ssrc`, heard or not yet, announced its stream: nothing of it needs measuring.
    pub(crate) fn hear_announcement(&mut self, ssrc: u32) {
        if let Some(measuring) = &mut self.measuring {
            measuring.announced = Some(ssrc);
        }
    }

    /// Whether the sender that is heard is measured and announced nothing.
    fn is_measured(&self) -> bool {
        let ssrc = self.source.as_ref().map(|source| source.stream().ssrc());
        let measuring = self.measuring.as_ref().filter(|_| ssrc.is_some());
        measuring.is_some_and(|measuring| measuring.announced != ssrc)
    }

    /// Whether the format of the sender that is heard follows from its packets alone.
    pub(super) fn is_unannounced(&self) -> bool {
        self.is_measured() && !self.config.wire.presents()
    }

    /// What the packets of the sender heard need, where that was more than the latency and nobody
    /// announced it.
    pub fn need(&self) -> Option<Need> {
        self.measuring.as_ref()?.need
    }

    pub(super) fn forget_need(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget();
            measuring.need = None;
        }
    }

    /// What was late was late by a step of the sender, not by the network.
    pub(super) const fn forget_late(&mut self) {
        if let Some(measuring) = &mut self.measuring {
            measuring.packets.forget_late();
        }
    }

    /// Before a packet is placed. Of packets that tell their presentation nothing follows from their length: their
    /// latency is the talker's, and not known here.
    pub(super) fn measure_length(&mut self, frames: Frames) {
        if self.config.wire.presents() {
            return;
        }
        let rate = self.format.rate;
        self.ask(|packets, kept| packets.observe_length(rate.span_of(frames), kept));
    }

    /// After a packet was placed too late.
    pub(super) fn measure_late(&mut self, passage: &PacketTrace) {
        let Some(transit) = passage.transit() else { return };
        self.ask(|packets, kept| packets.observe_late(passage.arrival, transit, kept));
    }

    fn ask(&mut self, observe: impl FnOnce(&mut Unannounced, Span) -> Option<Need>) {
        if !self.is_measured() {
            return;
        }
        let Some(measuring) = &mut self.measuring else { return };
        let told = measuring.need.map_or(Span::ZERO, |need| need.latency);
        let Some(need) = observe(&mut measuring.packets, self.placement.link_offset().max(told))
        else {
            return;
        };
        measuring.need = Some(need);
        // Presentation times stay where the talker put them.
        if measuring.raises && !self.config.wire.presents() {
            self.set_link_offset(need.latency);
        }
    }
}
