//! A device's sending side: volume, channel map, packetizer, link, once per period.

#[cfg(test)]
mod tests;

use rtrb::{Consumer, Producer};
use tautline_dsp::gain::{Gain, Volume};
use tautline_dsp::map::ChannelMap;
use tautline_io::clock::now;
use tautline_io::link::destinations::Destinations;
use tautline_io::link::{Link, LinkCounters, TransmitStamp};
use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::faults::{Faults, Harm};
use tautline_proto::packetizer::{BlockTimes, Packetizer, PacketizerState};
use tautline_proto::send_policy::SendCommand;
use tautline_proto::time::{Frames, LocalTime, Span};

use crate::monitor::levels::LevelTap;

#[derive(Debug, Clone, Copy)]
#[expect(clippy::large_enum_variant, reason = "a box could not be freed on the device's thread")]
pub(crate) enum TransmitterCommand {
    Gain(Gain),
    Levels(bool),
    Send(SendCommand),
    Destinations(Destinations),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TxStatus {
    pub(crate) state: PacketizerState,
    pub(crate) link: LinkCounters,
    pub(crate) xruns: u64,
    pub(crate) faults: Faults,
    pub(crate) clock: Option<ClockId>,
    /// Capture time of the first frame.
    pub(crate) first: Option<LocalTime>,
}

pub(crate) struct Transmitter {
    pub(crate) sender: Packetizer,
    pub(crate) link: Box<dyn Link>,
    pub(crate) volume: Volume,
    pub(crate) gain: Gain,
    pub(crate) map: ChannelMap,
    pub(crate) channels: usize,
    pub(crate) mapped: Box<[f32]>,
    pub(crate) commands: Consumer<TransmitterCommand>,
    pub(crate) status: Producer<TxStatus>,
    pub(crate) stamps: Producer<TransmitStamp>,
    pub(crate) levels: LevelTap,
    pub(crate) xruns: u64,
    pub(crate) faults: Faults,
    pub(crate) woke: LocalTime,
    pub(crate) clock: Option<ClockId>,
    pub(crate) first: Option<LocalTime>,
    pub(crate) reported: LocalTime,
}

const TELL_EVERY: Span = Span::from_millis(10);

impl Transmitter {
    fn apply_commands(&mut self) {
        while let Ok(command) = self.commands.pop() {
            match command {
                TransmitterCommand::Gain(gain) => self.gain = gain,
                TransmitterCommand::Levels(wanted) => self.levels.set(wanted),
                TransmitterCommand::Send(command) => self.sender.apply(command),
                TransmitterCommand::Destinations(destinations) => {
                    self.link.set_destinations(&destinations);
                }
            }
        }
    }

    fn push(&mut self, samples: &mut [f32], times: BlockTimes) {
        self.volume.apply(self.gain, self.channels, samples);
        let (link, sender, levels) = (&mut self.link, &mut self.sender, &mut self.levels);
        let emit = |packet: tautline_proto::stream::Outgoing<'_>| {
            link.queue(&packet);
        };
        if self.map.is_identity(self.channels) {
            levels.handle(samples);
            return sender.push(samples, times, emit);
        }
        let outputs = self.map.outputs();
        let frames = (samples.len() / self.channels).min(self.mapped.len() / outputs);
        let mapped = &mut self.mapped[..frames * outputs];
        self.map.apply(self.channels, samples, mapped);
        levels.handle(mapped);
        sender.push(mapped, times, emit);
    }

    fn skip(&mut self, skipped: Frames) {
        if skipped <= Frames::ZERO {
            return;
        }
        let link = &mut self.link;
        self.sender.skip(skipped, now(), |packet| {
            link.queue(&packet);
        });
    }

    fn notify(&mut self) {
        self.levels.notify();
        let status = TxStatus {
            state: self.sender.state(),
            link: self.link.counters(),
            xruns: self.xruns,
            faults: self.faults,
            clock: self.clock,
            first: self.first,
        };
        // A full ring loses nothing: totals and faults go with the next status.
        if self.status.push(status).is_ok() {
            self.faults = Faults::NONE;
        }
    }
}

impl Drop for Transmitter {
    /// Sends the final status, as the ring may have been full.
    fn drop(&mut self) {
        self.notify();
    }
}

impl Process for Transmitter {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let _realtime = realtime::scope();
        self.apply_commands();
        self.xruns += u64::from(cycle.xruns);
        if cycle.xruns > 0 {
            let harm = Harm { xruns: cycle.xruns, ..Harm::default() };
            self.faults.add(self.woke, cycle.now, harm);
        }
        self.woke = cycle.now;
        self.clock = cycle.clock;
        self.first.get_or_insert(cycle.capture.meets);
        self.skip(cycle.capture.skipped);
        let times = BlockTimes { capture: cycle.capture.meets, taken: cycle.now, now: now() };
        self.push(cycle.capture.samples, times);
        self.link.flush();
        let stamps = &mut self.stamps;
        self.link.transmit_stamps(&mut |stamp| {
            // A full ring loses only a sampled timestamp.
            let _ = stamps.push(stamp);
        });
        if times.now - self.reported >= TELL_EVERY {
            self.reported = times.now;
            self.notify();
        }
        Flow::Continue
    }

    /// Pads and sends the last packet, so no frame is lost.
    fn finish(&mut self) {
        let rest = self.sender.until_packet();
        self.skip(rest);
        self.link.flush();
    }
}
