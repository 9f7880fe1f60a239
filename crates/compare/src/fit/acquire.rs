//! Fits a window with only an approximate position.

use core::ops::Range;
use std::rc::Rc;

use tautline_dsp::align::{AS_LIKELY, Similarity, likeliest, padded};

use super::{AS_GOOD, LEFT_OVER, NOISE_OF_BLOCK, NOISE_OF_WINDOW, QUIET, WINDOW, WindowFitter};
use crate::pieces::{BLOCK, ChannelRouting, FrameLine, RoutedLine};
use crate::seek::Likely;
use crate::sound::{itself_first, power};

/// Maximum power of noise: −23 dB of the loudest block.
const NOISE: f64 = LEFT_OVER / NOISE_OF_WINDOW;

impl WindowFitter<'_> {
    /// `expected` if the sound continues.
    pub(crate) fn acquire(
        &mut self,
        likely: &Likely,
        step: f64,
        expected: Option<(&FrameLine, f64)>,
    ) -> Option<RoutedLine> {
        let at = likely.received;
        let count = WINDOW.min(self.both.received.frames().checked_sub(at)?);
        let window = at..at + count;
        let received = &self.both.received.channels[likely.channel][window.clone()];
        if count < BLOCK || power(received) <= QUIET * count as f64 {
            return None;
        }
        let sent = padded(&self.both.sent.channels[likely.source]);
        let mut there = vec![0.0; count];
        let (away, mut like) = likeliest(|away| {
            sent(likely.sent as i64 + away, &mut there);
            Similarity::between(received, &there).correlation()
        })?;
        let place = (likely.sent as i64 + away) as f64;
        let mut guess = FrameLine { at: at as f64, place, step };
        if let Some((line, gain)) = expected {
            let there =
                self.similarity((likely.channel, likely.source), &window, line).correlation();
            if gain.signum() * there >= AS_LIKELY * like.abs() {
                (guess, like) = (*line, there);
            }
        }
        let mut routing = ChannelRouting::straight(self.both.received.channels.len());
        routing.sources[likely.channel] = likely.source;
        routing.gains[likely.channel] = like.signum();
        let line = self.best(&window, &guess, likely.channel, &routing)?;
        self.learn(&window, &line, likely, &mut routing)?;
        Some(RoutedLine { line, routing: Rc::new(routing) })
    }

    /// The same index, if that is as good.
    fn source(&mut self, window: &Range<usize>, line: &FrameLine, likely: &Likely) -> usize {
        let mut rest = |source: usize| {
            let alike = self.similarity((likely.channel, source), window, line);
            if alike.energy_of_other() > 0.0 { alike.rest(alike.gain()) } else { f64::INFINITY }
        };
        let is_itself = rest(likely.channel) <= AS_GOOD * rest(likely.source);
        if is_itself { likely.channel } else { likely.source }
    }

    /// `None` if nothing matches or a channel is damaged.
    fn learn(
        &mut self,
        window: &Range<usize>,
        line: &FrameLine,
        likely: &Likely,
        routing: &mut ChannelRouting,
    ) -> Option<()> {
        let count = window.len();
        let channels = routing.gains.len();
        let turn = routing.gains[likely.channel];
        self.noise = 0.0;
        for channel in core::iter::once(likely.channel)
            .chain((0..channels).filter(|channel| *channel != likely.channel))
        {
            let received = &self.both.received.channels[channel][window.clone()];
            let silent = power(received) <= QUIET * count as f64;
            let noise = NOISE_OF_BLOCK * self.noise;
            let own = match channel == likely.channel {
                true => self.source(window, line, likely),
                false => channel,
            };
            let found = itself_first(own, channels).find_map(|source| {
                let here = self.rendered(source, window, line);
                let sent_nothing = power(here) <= QUIET * count as f64;
                if silent || sent_nothing {
                    // Channels without information are assumed to match.
                    let received_nothing = silent || power(received) <= noise * count as f64;
                    return (received_nothing && sent_nothing).then_some((source, turn));
                }
                let alike = Similarity::between(received, here);
                let gain = alike.gain();
                (alike.rest(gain) <= LEFT_OVER * alike.energy() + self.floor * count as f64)
                    .then_some((source, gain))
            });
            (routing.sources[channel], routing.gains[channel]) = found.unwrap_or((channel, 0.0));
            if channel == likely.channel
                && let Some((source, gain)) = found
            {
                let noise =
                    self.similarity((channel, source), window, line).rest(gain) / count as f64;
                // The loudest block, as sound may be sparse.
                let loudest = received.chunks_exact(BLOCK).map(power).fold(0.0, f64::max);
                let is_noise = noise <= NOISE * loudest / BLOCK as f64;
                self.noise = if is_noise { noise } else { 0.0 };
            }
            let mut damaged = || self.sounds_again(window, line, channel, routing);
            if found.is_none() && (channel == likely.channel || damaged()) {
                return None;
            }
        }
        Some(())
    }
}
