//! Changes of a running stream: checked, announced, then applied.

use super::{NoRepair, PRELUDE, SendCommand, SendContext, SendNote, SendPolicy};
use crate::codec::NotCoded;
use crate::endpoint::Host;
use crate::latency::{LatencyRule, LatencySum};
use crate::rtcp_session::Session;
use crate::send_policy::TrustLevel;
use crate::stream::{Coding, PtimeError, StreamFormat, packet_frames};
use crate::time::{Frames, LocalTime, Span};

/// Notice of longer packets: two reports, one of which may be lost, plus the path delay.
const NOTICE: Span = Span::from_nanos(Session::INTERVAL.as_nanos() * 6 / 5);

const GREETING: Span = Span::from_millis(300);

/// Why a change is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRefused {
    /// Latency shorter than the packet age.
    TooShort {
        /// Requested latency.
        requested: Span,
        /// Latency that a device like ours keeps.
        needs: LatencySum,
    },
    /// Invalid packet time.
    Ptime(PtimeError),
    /// Packets older than the latency.
    TooOld {
        /// Packet time.
        ptime: Span,
        /// Maximum packet age.
        packing_age: Span,
        /// Promised latency.
        promised: Span,
    },
    /// Packets above the maximum length.
    TooLarge {
        /// Their length.
        bytes: usize,
        /// Maximum length.
        maximum: usize,
        /// Maximum packet time.
        fits: Span,
        /// Coding.
        coding: Coding,
    },
    /// No encoder.
    NoCoder(Coding),
    /// The codec does not support these packets.
    NotCoded(NotCoded),
    /// Packets carry no sender timestamps.
    NoStamps,
    /// Repairs are impossible.
    NoRepair(NoRepair),
    /// Previous commands are still queued.
    Busy,
}

impl SendPolicy {
    /// Sets the latency rule.
    pub fn set_latency(
        &mut self,
        rule: LatencyRule,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        let promised = match rule {
            LatencyRule::Auto { .. } => {
                self.config.latency = rule;
                return Ok(());
            }
            LatencyRule::Usual => self.config.usual,
            LatencyRule::Chosen(latency) => latency,
        };
        if promised < self.packing_age {
            return Err(SendRefused::TooShort { requested: promised, needs: self.likewise() });
        }
        (self.config.link_offset, self.config.latency) = (promised, rule);
        self.note_latency();
        self.note_repair();
        context.hasten();
        Ok(())
    }

    /// Sets the packet time and returns it in whole frames. The path may still require shorter
    /// packets.
    pub fn set_ptime(
        &mut self,
        ptime: Span,
        context: &mut SendContext<'_>,
    ) -> Result<Span, SendRefused> {
        let packet = packet_frames(self.config.format.rate, ptime).map_err(SendRefused::Ptime)?;
        let format = StreamFormat { packet, ..self.config.format };
        self.set_format(format, true, context)?;
        if !self.config.spaced && self.config.device.period > packet {
            self.notes.note(SendNote::SentAtOnce(format.ptime()));
        }
        Ok(format.ptime())
    }

    /// Sets the coding.
    pub fn set_coding(
        &mut self,
        coding: Coding,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        let Coding { sample, codec } = coding;
        let payload_type = StreamFormat::usual_payload_type(sample, codec);
        let format = StreamFormat { sample, codec, payload_type, ..self.config.format };
        let before = self.config.format.payload_type;
        self.set_format(format, true, context)?;
        if payload_type != before {
            self.notes.note(SendNote::NewPayloadType { coding, payload_type });
        }
        Ok(())
    }

    /// With `notice`, announces longer packets in advance.
    pub(super) fn set_format(
        &mut self,
        format: StreamFormat,
        notice: bool,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        if let Some(codec) = format.codec {
            codec.check(format.shape(), format.packet).map_err(SendRefused::NotCoded)?;
            if !self.config.compressed.iter().any(|one| one.is_coded_as(format.coding())) {
                return Err(SendRefused::NoCoder(format.coding()));
            }
        }
        let (packing_age, latency) = self.aged(&format)?;
        self.check_size(&format)?;
        let is_longer =
            format.packet != self.config.format.packet && packing_age > self.packing_age;
        let announced = self.coming.format.map(|(at, _)| at);
        let stays = format.packet == self.config.format.packet;
        self.coming.format = match (is_longer && notice, announced) {
            // Receivers need time to make room.
            (true, _) => Some((context.now + NOTICE, format)),
            // The coding may support no other packets.
            (false, Some(at)) if stays && notice => Some((at, format)),
            _ => {
                if !self.announce_format(&format, context) {
                    return Err(SendRefused::Busy);
                }
                None
            }
        };
        (self.config.format, self.packing_age) = (format, packing_age);
        self.config.link_offset = latency;
        self.note_latency();
        self.note_repair();
        context.hasten();
        Ok(())
    }

    /// Sets the destinations. Packets follow from [`Self::destinations_due`] on.
    pub fn set_destinations(&mut self, destinations: Vec<Host>, now: LocalTime) {
        self.config.destinations = destinations;
        let destinations = &self.config.destinations;
        let is_destination =
            |host| TrustLevel::of(host, destinations.iter().copied()) > TrustLevel::Stranger;
        self.receivers.end_others(is_destination);
        // Receivers must know our clock first.
        self.coming.destinations = Some(now + PRELUDE);
        self.coming.greets_until = Some(now + GREETING);
    }

    /// Whether to send packets to the new destinations.
    pub fn destinations_due(&self, now: LocalTime) -> bool {
        self.coming.destinations.is_some_and(|at| at <= now)
    }

    /// Confirms the new destinations.
    pub fn destinations_taken(&mut self) {
        self.coming.destinations = None;
    }

    /// Applies changes whose notice is over.
    pub(super) fn take_up(&mut self, context: &mut SendContext<'_>) {
        let now = context.now;
        self.coming.greets_until = self.coming.greets_until.filter(|until| now < *until);
        if self.coming.greets_until.is_some() {
            context.hasten();
        }
        if let Some((_, format)) = self.coming.format.filter(|(at, _)| *at <= now)
            && self.announce_format(&format, context)
        {
            self.coming.format = None;
        }
    }

    /// Packets are at most as long as the path carries. Returns `false` if the queue is full.
    pub(super) fn announce_format(
        &mut self,
        format: &StreamFormat,
        context: &mut SendContext<'_>,
    ) -> bool {
        let packet = self.passing(format);
        let command = SendCommand::Format(packet, format.coding(), format.payload_type);
        let is_reported = (context.command)(command);
        if is_reported {
            self.packet = packet;
        }
        is_reported
    }

    /// Packet age, and promised latency, which may rise with the age.
    fn aged(&self, format: &StreamFormat) -> Result<(Span, Span), SendRefused> {
        let packing_age = format.packing_age(self.config.device.period) + self.config.held;
        let mut promised = self.config.link_offset;
        if self.is_as_needed() {
            promised += (packing_age - self.packing_age).max(Span::ZERO);
            let maximum = self.config.latency.maximum().map(|maximum| maximum.max(packing_age));
            promised = promised.min(maximum.unwrap_or(promised));
        }
        if packing_age > promised {
            let ptime = format.ptime();
            return Err(SendRefused::TooOld { ptime, packing_age, promised });
        }
        Ok((packing_age, promised))
    }

    fn check_size(&self, format: &StreamFormat) -> Result<(), SendRefused> {
        let overhead = self.config.form.pack().head_bytes(self.config.stamps, 0);
        let (bytes, maximum) = (overhead + format.payload_bytes(), self.config.max_bytes);
        if bytes <= maximum {
            return Ok(());
        }
        // For compressed packets, assume the current ratio.
        let room = maximum.saturating_sub(overhead);
        let fits = format.packet.as_len() * room / format.payload_bytes().max(1);
        let fits = format.rate.span_of(Frames::from_len(fits));
        Err(SendRefused::TooLarge { bytes, maximum, fits, coding: format.coding() })
    }
}
