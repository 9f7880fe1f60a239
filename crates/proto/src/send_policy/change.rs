//! Changes of a stream while it is sent: checked here, told to the receivers, and handed to the
//! device's thread, which makes them at the next packet that may have them.

use super::{NoRepair, PRELUDE, SendCommand, SendContext, SendNote, SendPolicy};
use crate::codec::NotCoded;
use crate::endpoint::Host;
use crate::latency::LatencyRule;
use crate::rtcp_session::Session;
use crate::send_policy::TrustLevel;
use crate::stream::{Coding, PtimeError, StreamFormat, packet_frames};
use crate::time::{Frames, LocalTime, Span};

/// From telling the receivers of longer packets to the first of them: two reports, one of which may
/// be lost, and a path's delay.
const NOTICE: Span = Span::from_nanos(Session::INTERVAL.as_nanos() * 6 / 5);

/// Reports to new receivers follow each other at every beat for this long: some open their devices
/// meanwhile.
const GREETING: Span = Span::from_millis(300);

/// Why a stream stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendRefused {
    /// Packets are older than the latency when they leave.
    TooShort {
        /// The latency that was asked for.
        asked: Span,
        /// What packets take.
        least: Span,
        /// Sound in one packet.
        ptime: Span,
        /// The device's.
        period: Frames,
    },
    /// There are no such packets.
    Ptime(PtimeError),
    /// Such packets are older than the latency when they leave.
    TooOld {
        /// Sound in one packet.
        ptime: Span,
        /// How old they are at most.
        packing_age: Span,
        /// What is promised.
        promised: Span,
    },
    /// Such packets are longer than the run was set up for.
    TooLarge {
        /// How long they are,
        bytes: usize,
        /// and may be.
        most: usize,
        /// The longest that fit, in this coding.
        fits: Span,
        /// The coding.
        coding: Coding,
    },
    /// Nothing that the run was set up with codes so.
    NoCoder(Coding),
    /// The coder does not take such packets.
    NotCoded(NotCoded),
    /// Redundancy travels beside the sender's instants, which packets do not carry.
    NoStamps,
    /// Nothing could be repaired.
    NoRepair(NoRepair),
    /// The device's thread has not taken what was said before.
    Busy,
}

impl SendPolicy {
    /// Another rule for the latency that is promised.
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

    /// Another packet time.
    pub fn set_ptime(
        &mut self,
        ptime: Span,
        context: &mut SendContext<'_>,
    ) -> Result<(), SendRefused> {
        let packet = packet_frames(self.config.format.rate, ptime).map_err(SendRefused::Ptime)?;
        let format = StreamFormat { packet, ..self.config.format };
        self.set_format(format, true, context)?;
        if !self.config.spaced && self.config.device.period > packet {
            self.notes.note(SendNote::SentAtOnce(format.ptime()));
        }
        Ok(())
    }

    /// Another coding.
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

    /// Another packet time and coding at once. Longer packets are announced before the first of them, if there is `notice`.
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
            // Receivers that give their own device room make it before the first such packet.
            (true, _) => Some((context.now + NOTICE, format)),
            // A coding for packets that come later comes with them: it may have no others.
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

    /// Other destinations: reports go there at once, packets when [`Self::destinations_due`].
    pub fn set_destinations(&mut self, destinations: Vec<Host>, now: LocalTime) {
        self.config.destinations = destinations;
        let destinations = &self.config.destinations;
        let is_destination =
            |host| TrustLevel::of(host, destinations.iter().copied()) > TrustLevel::Stranger;
        self.receivers.end_others(is_destination);
        // As at the beginning: receivers then know our clock when the first packet comes.
        self.coming.destinations = Some(now + PRELUDE);
        self.coming.greets_until = Some(now + GREETING);
    }

    /// Whether packets are to go to the destinations that were set last, and do not yet.
    pub fn destinations_due(&self, now: LocalTime) -> bool {
        self.coming.destinations.is_some_and(|at| at <= now)
    }

    /// Packets go there now.
    pub fn destinations_taken(&mut self) {
        self.coming.destinations = None;
    }

    /// Takes up what the receivers have been told of for long enough.
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

    /// Has the device's thread send this, in packets as long as they may be. False if it has no room for that.
    pub(super) fn tell_format(
        &mut self,
        format: &StreamFormat,
        context: &mut SendContext<'_>,
    ) -> bool {
        let packet = self.passing(format);
        let command = SendCommand::Format(packet, format.coding(), format.payload_type);
        let is_told = (context.command)(command);
        if is_told {
            self.packet = packet;
        }
        is_told
    }

    /// How old such packets are when they leave, and the latency at which they may be. Where that follows what receivers
    /// need, it is raised by as much as they are older.
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
        let (bytes, most) = (overhead + format.payload_bytes(), self.config.most_bytes);
        if bytes <= most {
            return Ok(());
        }
        // Of what is compressed as many as now take these bytes.
        let room = most.saturating_sub(overhead);
        let fits = format.packet.as_len() * room / format.payload_bytes().max(1);
        let fits = format.rate.span_of(Frames::from_len(fits));
        Err(SendRefused::TooLarge { bytes, most, fits, coding: format.coding() })
    }
}
