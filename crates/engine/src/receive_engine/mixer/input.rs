//! One input of the mix: reads packets, renders frames.

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_io::udp::interface_label;
use tautline_proto::counters::Counters;
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::jitter_buffer::{
    JitterBuffer, Playable, PullTimes, ReceiveCommand, Received, StreamStatus,
};
use tautline_proto::ledger::PacketTrace;
use tautline_proto::stream::Outgoing;
use tautline_proto::time::{LocalTime, Span, WallTime};
use tautline_proto::zone::Programs;
use tautline_report::PathReport;

use super::marks::{AffectedFrames, LabelMark, LabelMarks};
use super::{Passages, lost_traces};
use crate::control::VOLUME_RAMP;
use crate::monitor::levels::{LevelTap, levels};
use crate::monitor::sound::PacketTap;
use crate::receive_engine::repairers::Spares;

const MAX_NETWORKS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NetworkTally {
    interface: u32,
    received: u64,
    first: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Paths([NetworkTally; MAX_NETWORKS]);

impl Paths {
    pub(crate) fn count(&mut self, interface: u32, received: &Received<'_>) {
        let first = match received {
            Received::Placed(_) | Received::Partly(..) | Received::Late(_) => 1,
            Received::Duplicate => 0,
            _ => return,
        };
        let known = |path: &&mut NetworkTally| path.interface == interface || path.interface == 0;
        if let Some(path) = self.0.iter_mut().find(known).filter(|_| interface != 0) {
            path.interface = interface;
            path.received += 1;
            path.first += first;
        }
    }

    pub(crate) fn report(&self, expected: u64) -> Vec<PathReport> {
        let seen = self.0.iter().filter(|path| path.interface != 0);
        let reported = seen.map(|path| PathReport {
            interface: interface_label(path.interface),
            received: path.received,
            first: path.first,
            lost: expected.saturating_sub(path.received),
        });
        let reported: Vec<PathReport> = reported.collect();
        if reported.len() > 1 { reported } else { Vec::new() }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum MixerCommand {
    Receive(ReceiveCommand),
    Gain(Gain),
    Levels(bool),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RxStatus {
    pub(crate) stream: StreamStatus,
    pub(crate) link: LinkCounters,
    pub(crate) paths: Paths,
    pub(crate) unmarked: u64,
}

pub(crate) struct MixerInput {
    pub(crate) receiver: JitterBuffer,
    pub(crate) link: Box<dyn Link>,
    pub(crate) shares: bool,
    pub(crate) number: usize,
    /// At an announcement port: time up to which sound was reported.
    pub(crate) announces: Option<WallTime>,
    pub(crate) gain: Gain,
    pub(crate) volume: Volume,
    pub(crate) tap: Option<PacketTap>,
    pub(crate) levels: LevelTap,
    pub(crate) marks: Option<LabelMarks>,
    pub(crate) commands: Consumer<MixerCommand>,
    pub(crate) passages: Producer<PacketTrace>,
    pub(crate) status: Producer<RxStatus>,
    /// Time since which no frames have arrived; `NEVER` before the first.
    pub(crate) silent_since: LocalTime,
    pub(crate) loud: LocalTime,
    /// The newest block has frames.
    pub(crate) sounds: bool,
    pub(crate) alive: bool,
    pub(crate) faults: Faults,
    /// Last block.
    pub(crate) looked: LocalTime,
    pub(crate) trace_overflow: u64,
    pub(crate) paths: Paths,
}

/// Placeholder link of an input that reads through another input's link.
pub(crate) struct Fed;

impl Link for Fed {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, _: &mut dyn FnMut(Datagram<'_>)) {}

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

/// Maximum sample of a pause: -60 dB of full scale.
const PAUSE: f32 = 0.001;
/// Minimum reported pause: a jump in it takes 30 ms.
pub(super) const PAUSE_LENGTH: Span = Span::from_millis(50);

impl MixerInput {
    pub(crate) fn new(
        number: usize,
        receiver: JitterBuffer,
        link: Box<dyn Link>,
        gain: Gain,
        commands: Consumer<MixerCommand>,
        passages: Producer<PacketTrace>,
        status: Producer<RxStatus>,
    ) -> Self {
        Self {
            receiver,
            link,
            shares: false,
            number,
            announces: None,
            gain,
            volume: Volume::over(gain, VOLUME_RAMP),
            tap: None,
            levels: levels(0).0,
            marks: None,
            commands,
            passages,
            status,
            silent_since: LocalTime::NEVER,
            loud: LocalTime::ZERO,
            sounds: false,
            alive: false,
            faults: Faults::NONE,
            looked: LocalTime::ZERO,
            trace_overflow: 0,
            paths: Paths::default(),
        }
    }

    fn apply_commands(&mut self) {
        while let Ok(command) = self.commands.pop() {
            match command {
                MixerCommand::Receive(command) => self.receiver.apply(command),
                MixerCommand::Gain(gain) => self.gain = gain,
                MixerCommand::Levels(wanted) => self.levels.set(wanted),
            }
        }
    }

    #[inline(always)]
    pub(super) fn read_lent(
        &mut self,
        woke: LocalTime,
        listens: bool,
        spares: &mut Spares,
    ) -> LocalTime {
        self.apply_commands();
        spares.lend(&mut self.receiver);
        let latest = self.read(woke, listens);
        spares.take_back(&mut self.receiver);
        latest
    }

    fn read(&mut self, woke: LocalTime, listens: bool) -> LocalTime {
        if self.shares {
            self.update_tap();
            return woke;
        }
        let (mut latest, mut goes_on) = (woke, false);
        let before = self.missed();
        // This does not allocate: the type has no size.
        let mut link = core::mem::replace(&mut self.link, Box::new(Fed));
        link.receive(&mut |datagram| {
            latest = latest.max(datagram.arrival.read);
            goes_on |= self.take(&datagram, listens);
        });
        self.link = link;
        if !goes_on {
            self.update_tap();
        }
        self.miss(before, latest);
        latest
    }

    // With two callers, a call would cost 16 instructions.
    #[inline(always)]
    pub(super) fn take(&mut self, datagram: &Datagram<'_>, listens: bool) -> bool {
        let Self { receiver, tap, marks, passages, faults, trace_overflow, paths, .. } = self;
        let channels = receiver.format().channels.count();
        let (mut tap, mut goes_on) = (tap.as_mut().filter(|_| listens), false);
        let mut bring = |packet: Playable<'_>| {
            if let Some(tap) = &mut tap {
                goes_on = true;
                tap.brought(&packet.frames, channels, |frames| packet.sound.samples(frames));
            }
        };
        let missing = receiver.counters().missing_frames;
        let received = receiver.handle_with(datagram.bytes, &datagram.arrival, &mut bring);
        if let Some(marks) = marks {
            marks.took(receiver, missing);
            if let Some(passage) = received.late() {
                let (meets, frames) = (passage.dac, receiver.format().packet);
                marks.notify(LabelMark::Late(AffectedFrames { meets, frames }));
            }
        }
        paths.count(datagram.arrival.from.network(), &received);
        if let Some(passage) = received.late() {
            let age = receiver.placement().link_offset();
            let captured = passage.origin.map_or(passage.arrival - age, |o| o.capture);
            faults.add(captured, passage.read, Harm { late: 1, ..Harm::default() });
            *trace_overflow += u64::from(passages.push(passage).is_err());
        }
        goes_on
    }

    pub(crate) fn update_tap(&mut self) {
        let Some(tap) = &mut self.tap else { return };
        let channels = self.receiver.format().channels.count();
        tap.notify(channels, |frames| self.receiver.sound().samples(frames));
    }

    /// Passes decoded frames to the measurement: compressed packets have no samples earlier.
    #[inline]
    fn update_decoded(&mut self) {
        let Some(frames) = self.receiver.take_decoded() else { return };
        let Some(tap) = &mut self.tap else { return };
        let channels = self.receiver.format().channels.count();
        tap.brought(&frames, channels, |frames| self.receiver.sound().samples(frames));
        tap.notify(channels, |frames| self.receiver.sound().samples(frames));
    }

    pub(super) const fn missed(&self) -> [u64; 2] {
        let counters = self.receiver.counters();
        [counters.lost, counters.underrun_discarded]
    }

    #[inline]
    pub(super) fn miss(&mut self, before: [u64; 2], now: LocalTime) {
        if self.missed() != before {
            self.note_missed(before, now);
        }
    }

    #[cold]
    fn note_missed(&mut self, [lost, underrun_discarded]: [u64; 2], now: LocalTime) {
        let before = Counters { lost, underrun_discarded, ..Counters::default() };
        let missed = Harm::missed(&before, self.receiver.counters());
        if missed != Harm::default() {
            let age = self.receiver.placement().link_offset();
            let ptime = self.receiver.format().ptime();
            self.faults.add_missed((self.looked, now), age, ptime, missed);
        }
    }

    pub(super) fn pull(
        &mut self,
        out: &mut [f32],
        times: PullTimes,
        passages: &mut Passages,
        index: usize,
    ) {
        let before = self.missed();
        let Self { receiver, trace_overflow, .. } = self;
        let pulled = receiver.pull(out, times, |passage| {
            let is_stored = passages.push(index, passage);
            *trace_overflow += lost_traces(&passage, is_stored);
        });
        self.update_decoded();
        if let Some(marks) = &mut self.marks {
            marks.pulled(&self.receiver, &times, &pulled);
        }
        self.miss(before, times.now);
        self.looked = times.now;
        if out.iter().any(|sample| sample.abs() > PAUSE) {
            self.loud = times.now;
        }
        self.sounds = pulled.missing < pulled.taken;
        if self.sounds {
            self.silent_since = times.now;
        }
        let silent = times.now - self.silent_since;
        self.alive = !self.silent_since.is_never() && silent < Programs::TIMEOUT;
    }

    pub(super) fn is_quiet(&self, at: LocalTime) -> bool {
        at - self.loud >= PAUSE_LENGTH
    }

    pub(crate) fn notify(&mut self, at: LocalTime, xruns: u64, lead: Option<Span>) {
        self.levels.notify();
        let link = self.link.counters();
        let mut stream = self.receiver.status(at);
        stream.counters.xruns = xruns;
        stream.counters.socket_drops = link.kernel_drops + link.ring_drops;
        stream.counters.auth_failed = link.auth_failed;
        stream.counters.trace_overflow += self.trace_overflow;
        stream.faults = self.faults;
        stream.quiet = self.is_quiet(at);
        stream.lead = lead;
        let unmarked = self.marks.as_ref().map_or(0, |marks| marks.unreported);
        let status = RxStatus { stream, link, paths: self.paths, unmarked };
        // A full ring loses nothing: totals and faults go with the next status.
        if self.status.push(status).is_ok() {
            self.faults = Faults::NONE;
        }
    }

    /// Silent until the input replaces another, then at `gain`.
    pub(crate) fn await_turn(&mut self, gain: Gain) {
        self.gain = gain;
        self.volume = Volume::over(Gain::SILENCE, VOLUME_RAMP);
    }

    pub(super) fn target(&self) -> Gain {
        if self.receiver.is_muted() { Gain::SILENCE } else { self.gain }
    }

    pub(super) fn is_audible(&self, gain: Gain) -> bool {
        self.volume.current() != Gain::SILENCE || gain != Gain::SILENCE
    }

    pub(super) fn shape(&mut self, block: &mut [f32], gain: Gain) {
        let channels = self.receiver.format().channels.count();
        self.volume.apply(gain, channels, block);
        self.levels.handle(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_per_network_if_there_are_several() {
        let mut paths = Paths::default();
        paths.count(1, &Received::Duplicate);
        assert!(paths.report(10).is_empty());
        paths.count(7, &Received::Duplicate);
        paths.count(7, &Received::Foreign);
        paths.count(0, &Received::Duplicate);
        let reported: Vec<_> =
            paths.report(10).iter().map(|p| (p.received, p.first, p.lost)).collect();
        assert_eq!(reported, [(1, 0, 9), (1, 0, 9)]);
    }
}
