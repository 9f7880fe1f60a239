//! Changes of a stream while it is sent: checked here, told to the receivers, and handed to the
//! device's thread, which makes them at the next packet that may have them.

use tautline_dsp::format::SampleFormat;
use tautline_dsp::gain::Gain;
use tautline_io::clock::now;
use tautline_proto::endpoint::Endpoint;
use tautline_proto::session::Session;
use tautline_proto::stream::{StreamFormat, packet_frames};
use tautline_proto::time::{Frames, Span};

use crate::control::{Answer, Destined, SendChange};
use crate::run::Watch;
use crate::send::PRELUDE;
use crate::send_desk::Desk;
use crate::session::Audience;
use crate::too_long::{datagram_bytes, fragmented, too_long};
use crate::tx::Command;

/// From telling the receivers of longer packets to the first of them: two reports, one of which may
/// be lost, and a path's delay.
const NOTICE: Span = Span::from_nanos(Session::INTERVAL.as_nanos() * 6 / 5);

/// Reports to new receivers follow each other at every beat for this long: some open their devices
/// meanwhile.
const GREETING: Span = Span::from_millis(300);

impl Desk {
    /// Makes one change, or says why it cannot be made.
    pub(crate) fn change(&mut self, change: SendChange, watch: &mut Watch) -> Answer {
        match change {
            SendChange::Latency(Some(latency)) => self.set_latency(latency, watch),
            SendChange::Latency(None) => {
                self.plan.as_needed = true;
                Ok("latency auto".into())
            }
            SendChange::Ptime(ptime) => self.set_ptime(ptime, watch),
            SendChange::Format(sample) => self.set_format(sample, watch),
            SendChange::Volume(gain) => self.set_gain(gain, self.plan.muted),
            SendChange::Mute(muted) => self.set_gain(self.plan.gain, muted),
            SendChange::Redundancy(asked) => self.set_redundancy(asked, watch),
            SendChange::To(destined) => self.set_destinations(*destined, watch),
            SendChange::Status => Ok(self.status_line()),
        }
    }

    fn set_latency(&mut self, latency: Span, watch: &mut Watch) -> Answer {
        let least = self.plan.packing_age;
        if latency < least {
            return Err(format!(
                "{latency} is less than the {least} that packets of {} take at a period of {} \
                 frames; use {least} or more, or a shorter ptime first",
                self.plan.format.ptime(),
                self.plan.device.period
            ));
        }
        (self.plan.link_offset, self.plan.as_needed) = (latency, false);
        self.note_latency(watch);
        self.note_repair(watch);
        self.talk.session.hasten();
        Ok(format!("latency {latency}"))
    }

    fn set_ptime(&mut self, ptime: Span, watch: &mut Watch) -> Answer {
        let rate = self.plan.format.rate;
        let packet = packet_frames(rate, ptime).map_err(|error| error.to_string())?;
        let format = StreamFormat { packet, ..self.plan.format };
        self.check_size(&format)?;
        let age = format.packing_age(self.plan.device.period);
        if age > self.plan.link_offset {
            return Err(format!(
                "packets of {} are up to {age} old when they leave and {} is promised; raise the \
                 latency first",
                format.ptime(),
                self.plan.link_offset
            ));
        }
        if age > self.plan.packing_age {
            // Receivers that give their own device room make it before the first such packet.
            self.coming.packet = Some((now() + NOTICE, packet));
        } else {
            self.command(Command::Packet(packet))?;
            self.coming.packet = None;
        }
        (self.plan.format, self.plan.packing_age) = (format, age);
        if !self.plan.outbound.ringed && self.plan.device.period > packet {
            watch.note(format!(
                "the packets of a period leave at once, as the device's thread sends them: start \
                 with --link ringed for packets of {} that are spaced evenly",
                format.ptime()
            ));
        }
        self.note_latency(watch);
        self.note_repair(watch);
        self.note_fragments(watch);
        self.talk.session.hasten();
        Ok(format!("ptime {}", format.ptime()))
    }

    /// Takes up what the receivers have been told of for long enough.
    pub(crate) fn take_up(&mut self) {
        self.coming.greets_until = self.coming.greets_until.filter(|until| now() < *until);
        if self.coming.greets_until.is_some() {
            self.talk.session.hasten();
        }
        if let Some((at, packet)) = self.coming.packet.filter(|(at, _)| *at <= now()) {
            // Where the ring is full, at the next turn.
            let waits = self.command(Command::Packet(packet)).is_err();
            self.coming.packet = waits.then_some((at, packet));
        }
        if let Some((at, destined)) = self.coming.destined.take_if(|(at, _)| *at <= now()) {
            if self.command(Command::Destinations(destined.destinations)).is_err() {
                self.coming.destined = Some((at, destined));
            } else if let Audience::Everyone(told) = &mut self.talk.audience {
                let before = core::mem::replace(told, destined.reports_to);
                let gone = before.into_iter().filter(|one| !told.contains(one));
                let gone: Vec<Endpoint> = gone.collect();
                self.talk.leave_those(&gone);
            }
        }
    }

    fn set_format(&mut self, sample: SampleFormat, watch: &mut Watch) -> Answer {
        let payload_type = StreamFormat::default_payload_type(sample);
        let format = StreamFormat { sample, payload_type, ..self.plan.format };
        self.check_size(&format)?;
        if format.payload_type != self.plan.format.payload_type {
            watch.note(format!(
                "packets of {} have the payload type {payload_type}: receivers that were given a \
                 .sdp or a --payload-type refuse them until they are given the new one",
                sample.name()
            ));
        }
        self.command(Command::Sample(sample, payload_type))?;
        self.plan.format = format;
        self.note_fragments(watch);
        self.talk.session.hasten();
        Ok(format!("format {}", sample.name()))
    }

    fn set_gain(&mut self, gain: Gain, muted: bool) -> Answer {
        self.command(Command::Gain(if muted { Gain::SILENCE } else { gain }))?;
        (self.plan.gain, self.plan.muted) = (gain, muted);
        Ok(format!("volume {}", self.volume()))
    }

    fn set_destinations(&mut self, destined: Destined, watch: &mut Watch) -> Answer {
        self.plan.outbound.destinations = destined.destinations.iter().collect();
        self.plan.address = destined.address.clone();
        if let Audience::Everyone(told) = &mut self.talk.audience {
            let new = destined.reports_to.iter().filter(|one| !told.contains(one));
            let new: Vec<Endpoint> = new.copied().collect();
            told.extend(new);
        }
        // As at the beginning: receivers then know our clock when the first packet comes.
        let now = now();
        self.coming.destined = Some((now + PRELUDE, destined));
        self.coming.greets_until = Some(now + GREETING);
        self.note_fragments(watch);
        Ok(format!("to {}", self.plan.address))
    }

    /// How it stands, in the words that change it.
    fn status_line(&self) -> String {
        let plan = &self.plan;
        format!(
            "status latency {}{}, ptime {}, format {}, redundancy {}, volume {}, to {}",
            if plan.as_needed { "auto, now " } else { "" },
            plan.link_offset,
            plan.format.ptime(),
            plan.format.sample.name(),
            self.redundancy_line(),
            self.volume(),
            plan.address
        )
    }

    fn volume(&self) -> String {
        let muted = if self.plan.muted { " muted" } else { "" };
        format!("{}{muted}", self.plan.gain)
    }

    fn check_size(&self, format: &StreamFormat) -> Result<(), String> {
        let (bytes, most) =
            (datagram_bytes(format, self.plan.stamps), self.plan.outbound.datagram_bytes);
        if bytes <= most {
            return Ok(());
        }
        let overhead = bytes - format.payload_bytes();
        let fits = Frames::from_len(most.saturating_sub(overhead) / format.frame_bytes());
        Err(format!(
            "packets of {bytes} bytes are longer than the {most} that this run was set up for; use a \
             ptime of {} or less with {}",
            format.rate.span_of(fits),
            format.sample.name()
        ))
    }

    fn note_fragments(&self, watch: &mut Watch) {
        let format = &self.plan.format;
        let bytes = datagram_bytes(format, self.plan.stamps);
        let to = self.plan.outbound.destinations.iter().filter_map(Endpoint::socket_address);
        for long in too_long(to, bytes, format) {
            watch.note(fragmented(&long, format.ptime()));
        }
    }

    fn command(&mut self, command: Command) -> Result<(), String> {
        self.commands.push(command).map_err(|_| {
            "the device takes no changes at the moment; say it again once it runs".to_owned()
        })
    }
}
