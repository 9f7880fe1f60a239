//! Measures latency in the sound itself.
//!
//! Some cards report the samples at their DAC, with times. Matching these samples with the packets
//! gives real playout times, independent of the jitter buffer. Ambiguous sound, such as a tone,
//! gives no result.
//!
//! A sum of streams matches no stream. So the mixer reports the sounding streams (voices), and the
//! search covers only times with one stream.

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

/// Result of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundPacket {
    /// First frame.
    pub media: MediaTime,
    /// From capture to playout.
    pub measured: Span,
    /// Measured minus ledger time.
    pub error: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Silent,
    Repeats,
    Unlike,
    Untold,
}

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

/// Finds a stream's packets in played sound.
pub struct Measurement {
    rate: Rate,
    place: usize,
    packets: Reader<MediaTime>,
    brought: RecentFrames,
    search: Search,
    next: usize,
    follows: bool,
    /// Start of the last window searched everywhere, if nothing was found since.
    failed: Option<usize>,
    expected: VecDeque<Expected>,
    pub(crate) unfound: Unfound,
    pub(crate) probes: Probes,
    /// Last found packet's distance from its ledger time. With few packets, the search includes
    /// that distance; otherwise it finds only correct ledgers.
    stray: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowOutcome {
    Found,
    Hidden(Why),
    Unsearched,
}

/// Step between windows after a failure. Whole windows hid three quarters of the packets when a
/// host stalled 1 ms in 30.
const HOP: usize = WINDOW / 8;

const REACH: Span = Span::from_millis(60);
/// Ring capacity, for the longest pause of the ordinary thread.
const HELD: Span = Span::from_millis(500);
const REMEMBERED: Span = Span::from_millis(500);
/// Sound sent to the measurement per transfer: a small part of [`REACH`].
const TOGETHER: Span = Span::from_millis(8);

/// Creates both ends of a measurement. The stream's `channel` goes to the card's first one;
/// `longest` is the maximum latency.
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

    /// Adds a packet at its ledger time. Returns `false` if other streams play then.
    pub(crate) fn expect(&mut self, passage: &PacketTrace, hearing: &Hearing) -> bool {
        let Some(origin) = passage.origin else { return false };
        let (media, dac) = (passage.media, passage.dac);
        if !hearing.voices.only(self.place, dac, dac) {
            self.unfound.count(Why::Unlike);
            return false;
        }
        let capture = origin.capture;
        self.expected.push_back(Expected { media, capture, dac, why: Why::Untold });
        self.give_up_before(dac - hearing::HELD);
        true
    }

    fn give_up_before(&mut self, dac: LocalTime) {
        while let Some(packet) = self.expected.front().filter(|packet| packet.dac < dac) {
            self.unfound.count(packet.why);
            self.expected.pop_front();
        }
    }

    /// Skips the newest sound, because early packets may lack a ledger line.
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
            let arrived = self.search_window(hearing, start, anywhere, found);
            if arrived != WindowOutcome::Hidden(Why::Unlike) {
                (self.next, self.failed) = (start + WINDOW, None);
                self.follows = arrived == WindowOutcome::Found;
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
        let unfound = &mut self.unfound;
        // The sound at this time reveals ledger errors.
        if let Some(packet) = expected.iter().find(|e| (first..=last).contains(&e.dac)) {
            let index = Frames::new(origin.index_of(packet.media).round() as i64);
            self.stray = first + self.rate.span_of(index) - packet.dac;
        }
        expected.retain(|packet| {
            let index = origin.index_of(packet.media);
            let here = (0.0..WINDOW as f64).contains(&index) && packet.dac <= last + REACH;
            // Skips the time lookup for packets of other windows.
            let at = here.then(|| hearing.time_between(start, index)).flatten();
            let Some(at) = at else { return true };
            let (measured, error) = (at - packet.capture, at - packet.dac);
            if measured < Span::ZERO {
                // No sound plays before its capture: this is an earlier repetition.
                unfound.count(Why::Repeats);
                return false;
            }
            found(FoundPacket { media: packet.media, measured, error });
            false
        });
        self.expected = expected;
        WindowOutcome::Found
    }
}
