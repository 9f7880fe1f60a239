//! Finds frames that were recorded bit for bit.

use core::ops::Range;

use tautline_dsp::align::outwards;

use super::pieces::ChannelRouting;
use super::sound::{Sound, itself_first};

pub(super) const PROBE: usize = 256;
/// Frames of a run that must match: less than a packet of 1 ms.
pub(super) const RUN: usize = 32;

#[derive(Clone, Copy)]
pub(super) struct Both<'a> {
    pub(super) sent: &'a Sound,
    pub(super) received: &'a Sound,
}

impl Both<'_> {
    pub(super) fn agree(&self, sources: &[usize], received: Range<usize>, offset: i64) -> bool {
        let Ok(from) = usize::try_from(received.start as i64 + offset) else { return false };
        sources.iter().zip(&self.received.channels).all(|(source, channel)| {
            let there = self.sent.channels[*source].get(from..from + received.len());
            there.is_some_and(|there| channel.get(received.clone()) == Some(there))
        })
    }

    /// Extends `at` to adjacent equal frames.
    pub(super) fn grow(
        &self,
        sources: &[usize],
        at: usize,
        within: Range<usize>,
        offset: i64,
    ) -> Range<usize> {
        let same = |frame: &usize| self.agree(sources, *frame..frame + 1, offset);
        let before = (within.start..at).rev().take_while(same).count();
        let after = (at..within.end).take_while(same).count();
        at - before..at + after
    }

    /// First frame of an equal run, too long for chance.
    pub(super) fn resumes(
        &self,
        sources: &[usize],
        among: Range<usize>,
        offset: i64,
    ) -> Option<usize> {
        let end = self.received.frames();
        among.into_iter().find(|from| {
            let run = *from..from + RUN.min(end - from);
            self.agree(sources, run.clone(), offset) && self.received.notifies(run)
        })
    }

    /// Closest offset within `reach` that matches from `at` on.
    pub(super) fn near(
        &self,
        sources: &[usize],
        at: usize,
        offset: i64,
        reach: i64,
    ) -> Option<i64> {
        let probe = at..at + PROBE;
        if probe.end > self.received.frames() || !self.received.notifies(probe.clone()) {
            return None;
        }
        let (sent, first) = (&self.sent.channels[*sources.first()?], self.received.channels[0][at]);
        let is_there = |offset: &i64| {
            let place = usize::try_from(at as i64 + offset).ok();
            place.and_then(|place| sent.get(place)) == Some(&first)
                && self.agree(sources, probe.clone(), *offset)
        };
        outwards(reach).map(|away| offset + away).find(is_there)
    }

    fn sources(&self, received: Range<usize>, offset: i64) -> Option<ChannelRouting> {
        let count = self.received.channels.len();
        let from = usize::try_from(received.start as i64 + offset).ok()?;
        let source = |channel: usize| {
            let here = self.received.channels[channel].get(received.clone())?;
            itself_first(channel, count).find(|source| {
                self.sent.channels[*source].get(from..from + received.len()) == Some(here)
            })
        };
        let sources = (0..count).map(source).collect::<Option<Vec<_>>>()?;
        Some(ChannelRouting { sources, ..ChannelRouting::straight(count) })
    }

    pub(super) fn find_sent(&self, sent: Range<usize>) -> Option<(usize, ChannelRouting)> {
        let lead = self.sent.loudest(sent.clone());
        let probe = &self.sent.channels[lead][sent.clone()];
        itself_first(lead, self.received.channels.len()).find_map(|channel| {
            find(probe, &self.received.channels[channel]).find_map(|at| {
                let offset = sent.start as i64 - at as i64;
                Some((at, self.sources(at..at + sent.len(), offset)?))
            })
        })
    }

    pub(super) fn find_received(&self, at: usize) -> Option<(i64, ChannelRouting)> {
        let probe = at..at + PROBE;
        if probe.end > self.received.frames() || !self.received.notifies(probe.clone()) {
            return None;
        }
        let lead = self.received.loudest(probe.clone());
        let samples = &self.received.channels[lead][probe.clone()];
        itself_first(lead, self.sent.channels.len()).find_map(|channel| {
            find(samples, &self.sent.channels[channel]).find_map(|place| {
                let offset = place as i64 - at as i64;
                Some((offset, self.sources(probe.clone(), offset)?))
            })
        })
    }
}

pub(super) fn find<'a>(probe: &'a [f32], among: &'a [f32]) -> impl Iterator<Item = usize> + 'a {
    let first = probe.first().copied();
    let places = among.windows(probe.len().max(1)).enumerate();
    places
        .filter(move |(_, part)| part.first().copied() == first && *part == probe)
        .map(|(at, _)| at)
}
