//! Measures latency from the sound itself.
//!
//! A card that can listen to itself tells which samples met its DAC and when, by its own clock. The
//! packets tell which samples they brought. Finding the one in the other says when each packet was
//! really heard, whatever the playout believes: its arithmetic is only where the search begins.
//! Sound that could come from two places, as a tone can, says nothing rather than something wrong.
//!
//! Of sound that is mixed from several streams nothing could be told apart, so the mixer says whose
//! sound it is: that of one alone is searched, and for that one alone.

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
    /// What hid it where it was due.
    why: Why,
}

/// What was found of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundPacket {
    /// First frame of the packet.
    pub media: MediaTime,
    /// Its capture → the instant the card played that very sound.
    pub measured: Span,
    /// The latter less what the ledger says.
    pub error: Span,
}

/// What hid a packet where it was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Silence there: as much is found anywhere.
    Silent,
    /// Its sound is found at several places, as that of a tone.
    Repeats,
    /// Other sound than its own: a glitch, a hole beside it, another stream in the mix.
    Unlike,
    /// The card told of no sound of that time.
    Untold,
}

/// Packets that were played and not found in the sound, in the order of [`Why`].
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

/// Finds one stream's packets in what a card played.
pub struct Measurement {
    rate: Rate,
    /// Which of the mixer's voices the stream is.
    place: usize,
    packets: Reader<MediaTime>,
    brought: RecentFrames,
    search: Search,
    /// Where in the sound the next window begins.
    next: usize,
    /// Whether the one before was found.
    follows: bool,
    /// Where the last began that was searched wherever its sound may be, if nothing was found since.
    failed: Option<usize>,
    expected: VecDeque<Expected>,
    pub(crate) unfound: Unfound,
    /// Of how many packets.
    pub(crate) probes: Probes,
    /// How far from its word in the ledger the last was heard. Of few packets the next are looked for there,
    /// too: else the ledger would be checked only where it is right.
    stray: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowOutcome {
    Found,
    Hidden(Why),
    Unsearched,
}

/// Windows begin so many frames apart where one was found nowhere. Whole windows would lose a window or
/// two to each hole, however short: a host that stands still for a millisecond in thirty hid three
/// quarters of the packets.
const HOP: usize = WINDOW / 8;

/// How far from where the ledger puts a packet it is searched.
const REACH: Span = Span::from_millis(60);
/// What the rings of a stream hold: the ordinary thread may be away that long.
const HELD: Span = Span::from_millis(500);
/// Packets brought are remembered for this long and the latency.
const REMEMBERED: Span = Span::from_millis(500);
/// Packets are told together up to this length, a small part of [`REACH`].
const TOGETHER: Span = Span::from_millis(8);

/// The two ends of a measurement of the stream at `place`.
///
/// `channel` of the stream is what the card's first channel plays; no latency is longer than
/// `longest`, and packets hold `ptime` as a rule.
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

    /// Takes what the ledger says of a packet; whether it may be found: not where others sound at its turn.
    pub(crate) fn expect(&mut self, passage: &PacketTrace, hearing: &Hearing) -> bool {
        let Some(origin) = passage.origin else { return false };
        let (media, dac) = (passage.media, passage.dac);
        if !hearing.voices.only(self.place, dac, dac) {
            self.unfound.count(Why::Unlike);
            return false;
        }
        let capture = origin.capture;
        self.expected.push_back(Expected { media, capture, dac, why: Why::Untold });
        // Where no card listens nothing is ever found.
        self.give_up_before(dac - hearing::HELD);
        true
    }

    fn give_up_before(&mut self, dac: LocalTime) {
        while let Some(packet) = self.expected.front().filter(|packet| packet.dac < dac) {
            self.unfound.count(packet.why);
            self.expected.pop_front();
        }
    }

    /// Searches all but the newest: packets heard before their turn may have no line yet.
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

    /// Searches for the last window heard as it came: the one before `start` is, and that from there on is not.
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

    /// Searches one window, `anywhere` or near the last, and tells of the packets that begin in it.
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
        // Packets that the ledger puts before this window were not found in any.
        self.give_up_before(first - REACH);
        if !hearing.voices.only(self.place, first, last) {
            return WindowOutcome::Unsearched;
        }
        // What is hardly beside it may be in it, as instants are rounded.
        let frame = self.rate.span_of(Frames::new(1));
        let is_here = |at: LocalTime| (first - frame..=last + frame).contains(&at);
        let stray = self.stray;
        let near = match self.probes {
            Probes::All => self.expected.iter().find(|e| e.dac >= first),
            // Of few packets, the windows between them hold none.
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
        // A ledger that is wrong is seen by what is heard where it has a packet.
        if let Some(packet) = expected.iter().find(|e| (first..=last).contains(&e.dac)) {
            let index = Frames::new(origin.index_of(packet.media).round() as i64);
            self.stray = first + self.rate.span_of(index) - packet.dac;
        }
        expected.retain(|packet| {
            let index = origin.index_of(packet.media);
            let here = (0.0..WINDOW as f64).contains(&index) && packet.dac <= last + REACH;
            // Most are of other windows: of those no time is asked for.
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
