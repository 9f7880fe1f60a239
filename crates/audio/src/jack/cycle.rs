//! One server cycle as a device's wake-up; without the library.

use tautline_io::thread::realtime;
use tautline_proto::clock::ClockId;
use tautline_proto::device::{Cycle, Direction, Directions, Flow, Process, Settings, Side};
use tautline_proto::time::{Frames, LocalTime, Span};

use super::cycle_clock::{CycleClock, CycleFault, CycleTimes};
use super::latency::PortLatency;
use crate::toolbox::Sides;
use crate::toolbox::callback::{Ports, interleave, lay_out, part};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Woken {
    pub(crate) now: LocalTime,
    pub(crate) reported: CycleTimes,
    pub(crate) uncertainty: Span,
    pub(crate) xruns: u32,
    pub(crate) latency: Sides<PortLatency>,
}

pub(crate) struct Adaptor {
    directions: Directions,
    settings: Settings,
    clock: CycleClock,
    pace: Option<ClockId>,
    to_converter: bool,
    blocks: Sides<Box<[f32]>>,
}

impl Adaptor {
    pub(crate) fn new(directions: impl Into<Directions>, settings: Settings) -> Self {
        let directions = directions.into();
        let samples = settings.channels.samples_in(settings.period);
        let room = |direction| if directions.has(direction) { samples } else { 0 };
        Self {
            directions,
            settings,
            clock: CycleClock::new(settings.rate),
            pace: None,
            to_converter: true,
            blocks: Sides::each(|direction| vec![0.0; room(direction)].into()),
        }
    }

    pub(crate) fn by(self, pace: Option<ClockId>) -> Self {
        Self { pace, ..self }
    }

    pub(crate) fn at_ports(self) -> Self {
        Self { to_converter: false, ..self }
    }

    /// Unplayed frames are silence. Real-time safe.
    pub(crate) fn cycle(
        &mut self,
        process: &mut dyn Process,
        woken: Woken,
        ports: &mut impl Ports,
    ) -> Flow {
        let _realtime = realtime::scope();
        let Settings { rate, channels, period, .. } = self.settings;
        let Woken { now, reported, .. } = woken;
        let begun = self.clock.begin(reported);
        let silent = begun.skipped > Frames::ZERO && reported.trouble == CycleFault::None;
        let (mut skipped, mut xruns) = (begun.skipped, woken.xruns.max(silent.into()));
        let met = Sides::each(|direction| self.met(&woken, begun.at, direction));
        let (frames, count) = (reported.frames.as_len(), channels.count());
        let mut from = 0;
        while from < frames {
            let to = frames.min(from + period.as_len());
            let samples = (to - from) * count;
            let skipped = std::mem::take(&mut skipped);
            let (directions, blocks) = (self.directions, &mut self.blocks);
            let side = |direction, samples| {
                if !directions.has(direction) {
                    return Side::absent();
                }
                let (meets, spread) = *met.of(direction);
                let meets = meets + rate.span_of(Frames::from_len(from));
                let uncertainty = woken.uncertainty + begun.uncertainty + spread;
                Side { samples, meets, uncertainty, skipped }
            };
            let received = part(&mut blocks.capture, samples);
            interleave(ports, count, from, received);
            let played = part(&mut blocks.playback, samples);
            played.fill(0.0);
            let mut cycle = Cycle {
                now,
                capture: side(Direction::Capture, received),
                playback: side(Direction::Playback, played),
                xruns: std::mem::take(&mut xruns),
                clock: self.pace,
            };
            let flow = process.process(&mut cycle);
            lay_out(part(&mut self.blocks.playback, samples), count, from, ports);
            from = to;
            if flow == Flow::Finished {
                self.silence(ports, from);
                return flow;
            }
        }
        Flow::Continue
    }

    fn met(&self, woken: &Woken, began: LocalTime, direction: Direction) -> (LocalTime, Span) {
        let Settings { rate, period, .. } = self.settings;
        let ports = PortLatency::of_card(Frames::ZERO);
        let latency = if self.to_converter { *woken.latency.of(direction) } else { ports };
        let meets = match direction {
            Direction::Capture => {
                // A program's sound has no past, which a block longer than a period needs.
                let away = latency.counted.max(woken.reported.frames - period);
                began.min(woken.now) - rate.span_of(away)
            }
            Direction::Playback => began + rate.span_of(latency.counted.max(Frames::ZERO)),
        };
        (meets, rate.span_of(latency.spread))
    }

    pub(crate) fn silence(&self, ports: &mut impl Ports, from: usize) {
        if self.directions.has(Direction::Playback) {
            for channel in 0..self.settings.channels.count() {
                if let Some(out) = ports.played(channel) {
                    out[from..].fill(0.0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tautline_proto::units::{Channels, Rate};

    use super::*;

    struct JackBuffers(Vec<Vec<f32>>);

    impl Ports for JackBuffers {
        fn received(&self, channel: usize) -> Option<&[f32]> {
            Some(&self.0[channel]).filter(|buffer| !buffer.is_empty()).map(Vec::as_slice)
        }

        fn played(&mut self, channel: usize) -> Option<&mut [f32]> {
            Some(&mut self.0[channel]).filter(|buffer| !buffer.is_empty()).map(Vec::as_mut_slice)
        }
    }

    fn buffers(frames: i64) -> JackBuffers {
        let channel = |c: i64| (0..frames).map(|n| (n + 1000 * c) as f32).collect();
        JackBuffers(vec![channel(0), channel(1)])
    }

    fn adaptor(direction: Direction) -> Adaptor {
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        Adaptor::new(direction, Settings { rate, channels, period: Frames::new(48), periods: 2 })
    }

    const START: LocalTime = LocalTime::from_nanos(1_000_000_000);

    fn woken(after: (Span, u32), frames: i64) -> Woken {
        let began = START + after.0;
        let (count, frames) = (after.1, Frames::new(frames));
        Woken {
            now: began + Span::from_micros(20),
            reported: CycleTimes { began, woke: began, count, frames, trouble: CycleFault::None },
            uncertainty: Span::from_micros(10),
            xruns: 0,
            latency: Sides::each(|_| PortLatency {
                counted: Frames::new(72),
                spread: Frames::new(24),
            }),
        }
    }

    const FIRST: (Span, u32) = (Span::ZERO, 0);

    struct Seen {
        calls: Vec<(LocalTime, Frames, u32)>,
        samples: Vec<f32>,
        finish_at: usize,
    }

    impl Seen {
        fn until(finish_at: usize) -> Self {
            let (calls, samples) = (Vec::with_capacity(64), Vec::with_capacity(65_536));
            Self { calls, samples, finish_at }
        }
    }

    impl Process for Seen {
        fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
            for side in [&mut cycle.capture, &mut cycle.playback] {
                if !side.samples.is_empty() {
                    self.calls.push((side.meets, side.skipped, cycle.xruns));
                    assert!(side.uncertainty >= Span::from_micros(510));
                }
            }
            self.samples.extend_from_slice(cycle.capture.samples);
            let number = self.calls.len();
            for (n, sample) in cycle.playback.samples.iter_mut().enumerate() {
                *sample = (number * 1000 + n) as f32;
            }
            if number >= self.finish_at { Flow::Finished } else { Flow::Continue }
        }
    }

    fn meets(seen: &Seen) -> Vec<Span> {
        seen.calls.iter().map(|call| call.0 - START).collect()
    }

    #[test]
    fn captured_frames_are_interleaved_with_their_adc_time() {
        let mut seen = Seen::until(9);
        adaptor(Direction::Capture).cycle(&mut seen, woken(FIRST, 48), &mut buffers(48));
        assert_eq!(seen.samples[..6], [0.0, 1000.0, 1.0, 1001.0, 2.0, 1002.0]);
        assert_eq!(seen.samples.len(), 96);
        assert_eq!(meets(&seen), [-Span::from_micros(1500)]);
    }

    #[test]
    fn played_frames_reach_the_ports_with_their_dac_time() {
        let (mut seen, mut ports) = (Seen::until(9), buffers(48));
        adaptor(Direction::Playback).cycle(&mut seen, woken(FIRST, 48), &mut ports);
        assert_eq!(ports.0[0][..3], [1000.0, 1002.0, 1004.0]);
        assert_eq!(ports.0[1][..3], [1001.0, 1003.0, 1005.0]);
        assert_eq!(meets(&seen), [Span::from_micros(1500)]);
    }

    #[test]
    fn a_client_of_both_directions_has_both_sides_in_one_cycle() {
        struct Doubles(Vec<[LocalTime; 2]>, Vec<Frames>);
        impl Process for Doubles {
            fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
                let (received, played) = (&cycle.capture, &mut cycle.playback);
                for (sample, received) in played.samples.iter_mut().zip(received.samples.iter()) {
                    *sample += 2.0 * received;
                }
                self.0.push([received.meets, played.meets]);
                self.1.push(received.skipped + played.skipped);
                Flow::Continue
            }
        }
        let (rate, channels) = (Rate::HZ_48000, Channels::STEREO);
        let settings = Settings { rate, channels, period: Frames::new(48), periods: 2 };
        let mut adaptor = Adaptor::new(Directions::Both, settings);
        let mut process = Doubles(Vec::with_capacity(8), Vec::with_capacity(8));
        let mut ports = buffers(128);
        let mut woken = woken(FIRST, 128);
        woken.latency.capture.counted = Frames::new(240);
        adaptor.cycle(&mut process, woken, &mut ports);
        for (channel, port) in (0..).zip(&ports.0) {
            let expected: Vec<f32> = (0..128).map(|n| (2 * (n + 1000 * channel)) as f32).collect();
            assert_eq!(*port, expected);
        }
        let met = |part: i64| START - Span::from_millis(5) + Span::from_millis(part);
        let meets = |part: i64| START + Span::from_micros(1500) + Span::from_millis(part);
        assert_eq!(process.0, [0, 1, 2].map(|part| [met(part), meets(part)]));
        assert_eq!(process.1, [Frames::ZERO; 3]);
    }

    #[test]
    fn a_port_without_a_buffer_is_silent_and_the_others_are_not() {
        let mut seen = Seen::until(9);
        let (mut received, mut adaptor) = (buffers(48), adaptor(Direction::Capture));
        adaptor.cycle(&mut seen, woken(FIRST, 48), &mut received);
        received.0[1].clear();
        let next = woken((Span::from_millis(1), 48), 48);
        adaptor.cycle(&mut seen, next, &mut received);
        let expected: Vec<f32> = (0..48).flat_map(|n| [n as f32, 0.0]).collect();
        assert_eq!(seen.samples[96..], expected);
        let (mut seen, mut played) = (Seen::until(1), buffers(128));
        played.0[0].clear();
        self::adaptor(Direction::Playback).cycle(&mut seen, woken(FIRST, 128), &mut played);
        assert_eq!((played.0[1][47], played.0[1][48]), (1095.0, 0.0));
    }

    #[test]
    fn several_periods_in_a_cycle_are_played_in_place() {
        let (mut seen, mut ports) = (Seen::until(9), buffers(128));
        adaptor(Direction::Playback).cycle(&mut seen, woken(FIRST, 128), &mut ports);
        let expected = |channel: usize| {
            (0..128).map(move |n| (1000 * (n / 48 + 1) + 2 * (n % 48) + channel) as f32)
        };
        for channel in [0, 1] {
            assert_eq!(ports.0[channel], expected(channel).collect::<Vec<_>>());
        }
    }

    #[test]
    fn at_the_ports_sound_is_there_when_the_cycle_begins() {
        for direction in [Direction::Capture, Direction::Playback] {
            let mut seen = Seen::until(9);
            let woken = Woken { uncertainty: Span::from_millis(1), ..woken(FIRST, 48) };
            adaptor(direction).at_ports().cycle(&mut seen, woken, &mut buffers(48));
            assert_eq!(meets(&seen), [Span::ZERO], "{direction:?}");
        }
    }

    #[test]
    fn a_longer_buffer_is_taken_in_periods_and_a_shorter_one_whole() {
        let mut seen = Seen::until(9);
        let mut adaptor = adaptor(Direction::Capture);
        adaptor.cycle(&mut seen, woken(FIRST, 128), &mut buffers(128));
        let frames = |count| Rate::HZ_48000.span_of(Frames::new(count));
        let first = -frames(80);
        assert_eq!(meets(&seen), [first, first + frames(48), first + frames(96)]);
        let whole: Vec<f32> = (0..128).flat_map(|n| [n as f32, 1000.0 + n as f32]).collect();
        assert_eq!(seen.samples, whole);
        let next = woken((frames(128), 128), 16);
        adaptor.cycle(&mut seen, next, &mut buffers(16));
        assert_eq!((seen.calls.len(), seen.samples.len()), (4, 288));
        assert!(seen.calls.iter().all(|call| call.1 == Frames::ZERO && call.2 == 0));
    }

    #[test]
    fn skipped_frames_are_reported_with_the_next_block() {
        let (mut seen, mut adaptor) = (Seen::until(9), adaptor(Direction::Playback));
        adaptor.cycle(&mut seen, woken(FIRST, 96), &mut buffers(96));
        let mut next = Woken { xruns: 2, ..woken((Span::from_millis(7), 96), 96) };
        next.reported.began = START + Span::from_millis(2);
        next.reported.trouble = CycleFault::Break;
        adaptor.cycle(&mut seen, next, &mut buffers(96));
        let reported: Vec<_> = seen.calls.iter().map(|call| (call.1.count(), call.2)).collect();
        assert_eq!(reported, [(0, 0), (0, 0), (240, 2), (0, 0)]);
    }

    #[test]
    fn a_freewheel_is_no_xrun_and_skips_the_time_that_it_took() {
        let (mut seen, mut adaptor) = (Seen::until(9), adaptor(Direction::Capture));
        adaptor.cycle(&mut seen, woken(FIRST, 48), &mut buffers(48));
        let mut next = woken((Span::from_millis(2001), 48), 48);
        next.reported.began = START + Span::from_millis(1);
        next.reported.trouble = CycleFault::Break;
        adaptor.cycle(&mut seen, next, &mut buffers(48));
        assert_eq!((seen.calls[1].1.count(), seen.calls[1].2), (96_000, 0));
    }

    #[test]
    fn cycles_that_were_left_out_without_a_word_are_an_xrun() {
        let (mut seen, mut adaptor) = (Seen::until(99), adaptor(Direction::Capture));
        for cycle in (0..10).chain(13..30) {
            let after = (Span::from_millis(cycle), 48 * cycle as u32);
            adaptor.cycle(&mut seen, woken(after, 48), &mut buffers(48));
        }
        let left_out: i64 = seen.calls.iter().map(|call| call.1.count()).sum();
        let xruns: u32 = seen.calls.iter().map(|call| call.2).sum();
        assert_eq!((left_out, xruns), (144, 1));
    }

    #[test]
    fn after_the_last_block_there_is_silence() {
        let (mut seen, mut ports) = (Seen::until(1), buffers(128));
        let flow = adaptor(Direction::Playback).cycle(&mut seen, woken(FIRST, 128), &mut ports);
        assert_eq!(flow, Flow::Finished);
        assert_eq!((ports.0[0][47], ports.0[0][48], ports.0[1][127]), (1094.0, 0.0, 0.0));
    }
}
