//! Measures latency in the sound itself.
//!
//! A card that can listen to its output reports the samples at its DAC, with times by its own
//! clock. The packets report the samples that they carried. A match gives the real playout time of
//! each packet. It is independent of the jitter buffer, whose times are only the start of the
//! search. Sound that matches in two places, such as a tone, gives no result.
//!
//! In the sum of several streams, no single stream can be found. So the mixer reports which streams
//! sound (the voices), and the search covers only times with a single stream.

mod between;
mod hearing;
mod recent;
pub mod rings;
mod search;
mod tap;
#[cfg(test)]
mod tests;
mod voices;
mod window;

use std::collections::VecDeque;

use tautline_proto::ledger::PacketTrace;
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::Rate;

use crate::plan::packets_within;
use crate::plan::probes::Probes;
use between::WINDOW;
pub use hearing::CardEar;
pub(crate) use hearing::{Hearing, hearing};
use recent::RecentFrames;
use rings::{Reader, rings};
use search::Search;
pub(crate) use tap::PacketTap;
pub(crate) use voices::{OutputTap, Voices};
use window::longest_run;

#[derive(Debug, Clone, Copy)]
struct Expected {
    media: MediaTime,
    capture: LocalTime,
    dac: LocalTime,
    why: Why,
}

/// Result for one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundPacket {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Time from its capture to the playout of the sound.
    pub measured: Span,
    /// Measured time minus the time in the ledger.
    pub error: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Silence, which matches everywhere.
    Silent,
    /// The sound matches in several places, like a tone.
    Repeats,
    /// The sound differs: a glitch, a nearby hole, or another stream in the mix.
    Unlike,
    /// The card reported no sound for that time.
    Untold,
}

/// Counts of packets that were played but not found, in the order of [`Why`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unfound(pub(crate) [u64; 4]);

impl Unfound {
    fn count(&mut self, why: Why) {
        self.0[why as usize] += 1;
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0.iter_mut().zip(others.0).for_each(|(all, more)| *all += more);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Finds one stream's packets in the sound that a card played.
pub struct Measurement {
    rate: Rate,
    /// Index of the stream among the mixer's voices.
    place: usize,
    packets: Reader<MediaTime>,
    brought: RecentFrames,
    search: Search,
    /// Frame at which the next window begins.
    next: usize,
    follows: bool,
    /// Start of the last window that was searched everywhere, if nothing has been found since.
    failed: Option<usize>,
    expected: VecDeque<Expected>,
    pub(crate) unfound: Unfound,
    pub(crate) probes: Probes,
    /// Distance of the last found packet from its time in the ledger. With few packets, the next
    /// are searched there too. Otherwise only correct ledgers would be checked.
    stray: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowOutcome {
    Found,
    Hidden(Why),
    Unsearched,
}

/// Distance of windows after a failure. With whole windows, each short hole would hide one or two:
/// a host that stalled for one millisecond in thirty hid three quarters of the packets.
const HOP: usize = WINDOW / 8;

/// Maximum distance of the search from a packet's time in the ledger.
const REACH: Span = Span::from_millis(60);
/// Capacity of a stream's rings: the maximum pause of the ordinary thread.
const HELD: Span = Span::from_millis(500);
/// Time for which packets are kept, in addition to the latency.
const REMEMBERED: Span = Span::from_millis(500);
/// Maximum length of packets sent to the measurement together; a small part of [`REACH`].
const TOGETHER: Span = Span::from_millis(8);

/// Creates both ends of a measurement for the stream at `place`.
///
/// `channel` of the stream goes to the card's first channel. `longest` is the maximum latency and
/// `ptime` the usual packet duration.
pub(crate) fn measurement(
    rate: Rate,
    place: usize,
    channel: usize,
    longest: Span,
    ptime: Span,
) -> (Measurement, PacketTap) {
    let (writer, packets) = rings(rate.frames_within(HELD).as_len(), packets_within(HELD, ptime));
    let measurement = Measurement {
        rate,
        place,
        packets,
        brought: RecentFrames::new(
            rate.frames_within(longest + REMEMBERED),
            longest_run(rate.frames_within(REACH)),
        ),
        search: Search::new(rate.frames_within(REACH)),
        next: 0,
        follows: false,
        failed: None,
        expected: VecDeque::new(),
        unfound: Unfound::default(),
        probes: Probes::All,
        stray: Span::ZERO,
    };
    (measurement, PacketTap::new(writer, channel, rate.frames_within(TOGETHER)))
}

impl Measurement {
    pub(crate) fn listen(&mut self) {
        let brought = &mut self.brought;
        self.packets.read(|media, samples| brought.write(media, samples));
    }

    /// Adds a packet with its time in the ledger. Returns `false` if it cannot be found, because
    /// other streams play at that time.
    pub(crate) fn expect(&mut self, passage: &PacketTrace, hearing: &Hearing) -> bool {
        let Some(origin) = passage.origin else { return false };
        let (media, dac) = (passage.media, passage.dac);
        if !hearing.voices.only(self.place, dac, dac) {
            self.unfound.count(Why::Unlike);
            return false;
        }
        let capture = origin.capture;
        self.expected.push_back(Expected { media, capture, dac, why: Why::Untold });
        // Without a listening card, no packet is ever found.
        self.give_up_before(dac - hearing::HELD);
        true
    }

    fn give_up_before(&mut self, dac: LocalTime) {
        while let Some(packet) = self.expected.front().filter(|packet| packet.dac < dac) {
            self.unfound.count(packet.why);
            self.expected.pop_front();
        }
    }

    /// Searches all but the newest sound, because early packets may have no ledger line yet.
    pub(crate) fn search(&mut self, hearing: &Hearing, found: &mut impl FnMut(FoundPacket)) {
        self.search_until(hearing, hearing.settled(), found);
    }

    pub(crate) fn finish(&mut self, hearing: &Hearing, found: &mut impl FnMut(FoundPacket)) {
        self.search_until(hearing, hearing.end(), found);
        self.expected.drain(..).for_each(|packet| self.unfound.count(packet.why));
    }

    fn search_until(
        &mut self,
        hearing: &Hearing,
        until: usize,
        found: &mut impl FnMut(FoundPacket),
    ) {
        self.next = self.next.max(hearing.begin);
        while self.next + WINDOW <= until {
            let start = self.next;
            let anywhere = self.failed.is_none_or(|failed| start >= failed + WINDOW);
            let came = self.search_window(hearing, start, anywhere, found);
            if came != WindowOutcome::Hidden(Why::Unlike) {
                (self.next, self.failed) = (start + WINDOW, None);
                self.follows = came == WindowOutcome::Found;
                continue;
            }
            if anywhere {
                self.failed = Some(start);
            }
            if core::mem::take(&mut self.follows) {
                self.search_before(hearing, start, found);
            }
            self.next = start + HOP;
        }
    }

    /// Searches for the last matching window between the previous one, which matched, and `start`,
    /// which did not.
    fn search_before(
        &mut self,
        hearing: &Hearing,
        start: usize,
        found: &mut impl FnMut(FoundPacket),
    ) {
        let starts = (1..WINDOW / HOP).map(|hops| start.saturating_sub(hops * HOP));
        for start in starts.take_while(|start| *start >= hearing.begin) {
            if self.search_window(hearing, start, false, found) == WindowOutcome::Found {
                return;
            }
        }
    }

    /// Searches one window, `anywhere` or near the last match. Reports the packets that begin in
    /// it.
    fn search_window(
        &mut self,
        hearing: &Hearing,
        start: usize,
        anywhere: bool,
        found: &mut impl FnMut(FoundPacket),
    ) -> WindowOutcome {
        let (Some(first), Some(last)) =
            (hearing.time_of(start), hearing.time_of(start + WINDOW - 1))
        else {
            return WindowOutcome::Unsearched;
        };
        self.give_up_before(first - REACH);
        if !hearing.voices.only(self.place, first, last) {
            return WindowOutcome::Unsearched;
        }
        // Times are rounded, so a packet just outside may be inside.
        let frame = self.rate.span_of(Frames::new(1));
        let is_here = |at: LocalTime| (first - frame..=last + frame).contains(&at);
        let stray = self.stray;
        let near = match self.probes {
            Probes::All => self.expected.iter().find(|e| e.dac >= first),
            _ => self.expected.iter().find(|e| is_here(e.dac) || is_here(e.dac + stray)),
        };
        let Some(near) = near.copied() else { return WindowOutcome::Unsearched };
        let guess = near.media - self.rate.frames_nearest(near.dac - first);
        let window = hearing.window(start);
        let place = self.search.place(window, &self.brought, guess, anywhere);
        let due = self.expected.iter_mut().filter(|e| (first..=last).contains(&e.dac));
        due.for_each(|packet| packet.why = place.err().unwrap_or(Why::Unlike));
        let origin = match place {
            Ok(origin) => origin,
            Err(why) => return WindowOutcome::Hidden(why),
        };
        let mut expected = core::mem::take(&mut self.expected);
        // This uses the sound at the packet's time, which reveals errors of the ledger.
        if let Some(packet) = expected.iter().find(|e| (first..=last).contains(&e.dac)) {
            let index = Frames::new(origin.index_of(packet.media).round() as i64);
            self.stray = first + self.rate.span_of(index) - packet.dac;
        }
        expected.retain(|packet| {
            let index = origin.index_of(packet.media);
            let here = (0.0..WINDOW as f64).contains(&index) && packet.dac <= last + REACH;
            // Most packets belong to other windows, so this skips their time lookup.
            let at = here.then(|| hearing.time_between(start, index)).flatten();
            let Some(at) = at else { return true };
            let (measured, error) = (at - packet.capture, at - packet.dac);
            found(FoundPacket { media: packet.media, measured, error });
            false
        });
        self.expected = expected;
        WindowOutcome::Found
    }
}
