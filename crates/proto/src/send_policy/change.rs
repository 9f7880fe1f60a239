//! Changes of a running stream. They are checked, announced to receivers, and passed to the device
//! thread, which applies them at the next suitable packet.

use super::{NoRepair, PRELUDE, SendCommand, SendContext, SendNote, SendPolicy};
use crate::codec::NotCoded;
use crate::endpoint::Host;
use crate::latency::LatencyRule;
use crate::rtcp_session::Session;
use crate::send_policy::TrustLevel;
use crate::stream::{Coding, PtimeError, StreamFormat, packet_frames};
use crate::time::{Frames, LocalTime, Span};

/// Time from the announcement of longer packets to the first of them: two reports, one of which may
/// be lost, plus the path delay.
const NOTICE: Span = Span::from_nanos(Session::INTERVAL.as_nanos() * 6 / 5);

/// Duration of the fast reports to new receivers, which may still be opening their devices.
const GREETING: Span = Span::from_millis(300);

/// Reason for rejecting a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRefused {
    /// The latency is shorter than the age of the packets at departure.
    TooShort {
        /// Requested latency.
        asked: Span,
        /// Minimum latency for these packets.
        least: Span,
        /// Packet time.
        ptime: Span,
        /// Device period.
        period: Frames,
    },
    /// The packet time is invalid.
    Ptime(PtimeError),
    /// Packets would be older than the latency at departure.
    TooOld {
        /// Packet time.
        ptime: Span,
        /// Their maximum age.
        packing_age: Span,
        /// Promised latency.
        promised: Span,
    },
    /// Packets would be longer than the maximum of this run.
    TooLarge {
        /// Their length.
        bytes: usize,
        /// Maximum length.
        most: usize,
        /// Longest packet time that fits this coding.
        fits: Span,
        /// Coding.
        coding: Coding,
    },
    /// There is no encoder for this coding.
    NoCoder(Coding),
    /// The codec does not support these packets.
    NotCoded(NotCoded),
    /// Redundancy needs the sender's timestamps, but packets do not carry them.
    NoStamps,
    /// Repairs are impossible.
    NoRepair(NoRepair),
    /// The device thread has not applied the previous command yet.
    Busy,
}

impl SendPolicy {
    /// Sets the rule for the promised latency.
    pub fn set_latency(
        &mut self,
        rule: LatencyRule,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        let (format, period) = (self.config.format, self.config.device.period);
        let promised = match rule {
            LatencyRule::Auto { .. } => {
                self.config.latency = rule;
                return Ok(());
            }
            LatencyRule::Usual => self.config.usual,
            LatencyRule::Chosen(latency) => latency,
        };
        let least = self.packing_age;
        if promised < least {
            let ptime = format.ptime();
            return Err(SendRefused::TooShort { asked: promised, least, ptime, period });
        }
        (self.config.link_offset, self.config.latency) = (promised, rule);
        self.note_latency();
        self.note_repair();
        context.hasten();
        Ok(())
    }

    /// Sets the packet time and returns it in whole frames. Packets stay shorter as long as the
    /// path does not carry longer ones.
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
        let Coding { sample, coder } = coding;
        let payload_type = StreamFormat::usual_payload_type(sample, coder);
        let format = StreamFormat { sample, coder, payload_type, ..self.config.format };
        let before = self.config.format.payload_type;
        self.set_format(format, true, context)?;
        if payload_type != before {
            self.notes.note(SendNote::NewPayloadType { coding, payload_type });
        }
        Ok(())
    }

    /// Sets packet time and coding together. With `notice`, longer packets are announced in
    /// advance.
    pub(super) fn set_format(
        &mut self,
        format: StreamFormat,
        notice: bool,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        if let Some(coder) = format.coder {
            coder.check(format.shape(), format.packet).map_err(SendRefused::NotCoded)?;
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
            // Receivers with their own device need time to make room.
            (true, _) => Some((context.now + NOTICE, format)),
            // Apply the coding together with the packets that are announced: it may support no
            // others.
            (false, Some(at)) if stays && notice => Some((at, format)),
            _ => {
                if !self.tell_format(&format, context) {
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

    /// Sets the destinations. Reports are sent there at once, packets from
    /// [`Self::destinations_due`] on.
    pub fn set_destinations(&mut self, destinations: Vec<Host>, now: LocalTime) {
        self.config.destinations = destinations;
        let destinations = &self.config.destinations;
        let is_destination =
            |host| TrustLevel::of(host, destinations.iter().copied()) > TrustLevel::Stranger;
        self.receivers.end_others(is_destination);
        // As at the start, receivers must know our clock before the first packet.
        self.coming.destinations = Some(now + PRELUDE);
        self.coming.greets_until = Some(now + GREETING);
    }

    /// Whether it is time to send packets to the new destinations.
    pub fn destinations_due(&self, now: LocalTime) -> bool {
        self.coming.destinations.is_some_and(|at| at <= now)
    }

    /// Confirms that packets are sent to the new destinations.
    pub fn destinations_taken(&mut self) {
        self.coming.destinations = None;
    }

    /// Applies changes announced long enough ago.
    pub(super) fn take_up(&mut self, context: &mut SendContext<'_>) {
        let now = context.now;
        self.coming.greets_until = self.coming.greets_until.filter(|until| now < *until);
        if self.coming.greets_until.is_some() {
            context.hasten();
        }
        if let Some((_, format)) = self.coming.format.filter(|(at, _)| *at <= now)
            && self.tell_format(&format, context)
        {
            self.coming.format = None;
        }
    }

    /// Commands this format, with packets as long as the path carries. Returns `false` if the
    /// command queue is full.
    pub(super) fn tell_format(
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

    /// Returns the age of such packets at departure, and the promised latency. An automatic latency
    /// rises with the age.
    fn aged(&self, format: &StreamFormat) -> Result<(Span, Span), SendRefused> {
        let packing_age = format.packing_age(self.config.device.period) + self.config.held;
        let mut promised = self.config.link_offset;
        if self.is_as_needed() {
            promised += (packing_age - self.packing_age).max(Span::ZERO);
            let most = self.config.latency.most().map(|most| most.max(packing_age));
            promised = promised.min(most.unwrap_or(promised));
        }
        if packing_age > promised {
            let ptime = format.ptime();
            return Err(SendRefused::TooOld { ptime, packing_age, promised });
        }
        Ok((packing_age, promised))
    }

    fn check_size(&self, format: &StreamFormat) -> Result<(), SendRefused> {
        let overhead = self.config.form.pack().head_bytes(self.config.stamps, 0);
        let (bytes, most) = (overhead + format.payload_bytes(), self.config.max_bytes);
        if bytes <= most {
            return Ok(());
        }
        // For compressed packets, assume the current ratio.
        let room = most.saturating_sub(overhead);
        let fits = format.packet.as_len() * room / format.payload_bytes().max(1);
        let fits = format.rate.span_of(Frames::from_len(fits));
        Err(SendRefused::TooLarge { bytes, most, fits, coding: format.coding() })
    }
}
