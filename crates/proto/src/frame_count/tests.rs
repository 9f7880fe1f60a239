use super::*;
use crate::wrap::Wrapped;

const RATE: Rate = Rate::HZ_48000;
const PDU: Frames = Frames::new(6);

/// Class A talker and its listener.
struct Scene {
    counter: FrameCounter,
    number: i64,
    frame: i64,
    /// Talker's clock minus sound clock.
    offset: Span,
    restarts: bool,
    bits: u32,
    /// Carried number from the own number.
    carried: fn(i64) -> i64,
    reported_by: Wrapped,
    sequel: Sequel,
}

impl Scene {
    fn new(bits: u32) -> Self {
        let offset = Span::from_nanos((1 << 32) - 3_000_000);
        Self {
            counter: FrameCounter::new(FrameCounter::TOLERANCE),
            number: 250,
            frame: 0,
            offset,
            restarts: false,
            bits,
            carried: |number| number,
            reported_by: Wrapped::of(250, bits),
            sequel: Sequel::GoesOn,
        }
    }

    /// UDP talker with other carried numbers.
    fn carried_by(carried: fn(i64) -> i64) -> Self {
        Self { carried, ..Self::new(32) }
    }

    fn send(&mut self, arrives: bool, timed: bool) -> Option<i64> {
        let at = RATE.span_of(Frames::new(self.frame));
        let head = PacketHead {
            stream: StreamId(7),
            number: Wrapped::of((self.carried)(self.number), self.bits),
            media: Wrapped::of(0, 32),
            begins: false,
            coding: 4,
            capture: None,
            instants: None,
        };
        let time = timed.then(|| PresentationTime((self.offset + at).as_nanos() as u32));
        let number = Wrapped::of(self.number, 8).value as u8;
        let presented = Presented { time, uncertain: false, restarts: self.restarts, number };
        self.number += 1;
        self.frame += PDU.count();
        arrives.then(|| {
            let counted = self.counter.count(&head, &presented, PDU, RATE, LocalTime::ZERO + at);
            self.counter.follow(counted);
            (self.sequel, self.reported_by) = (counted.sequel(), counted.number());
            i64::from(counted.media().value.cast_signed())
        })
    }

    fn play(&mut self, packets: i64, arrives: impl Fn(i64) -> bool) {
        let (mut before, mut number) = (self.reported_by, self.number);
        for index in 0..packets {
            let (frame, this) = (self.frame, self.number);
            if let Some(counted) = self.send(arrives(index), true) {
                assert_eq!(counted, frame, "packet {index}");
                assert_eq!(self.sequel, Sequel::GoesOn, "packet {index}");
                assert!(index == 0 || self.reported_by == before.plus(this - number), "{index}");
                (before, number) = (self.reported_by, this);
            }
        }
    }

    /// Pauses, then continues with `number`. Returns the sequel.
    fn pause(&mut self, frames: i64, number: i64) -> Sequel {
        (self.frame, self.number) = (self.frame + frames, number);
        let frame = self.frame;
        assert_eq!(self.send(true, true), Some(frame), "after {frames} frames, from {number}");
        let first = self.sequel;
        self.play(100, |_| true);
        first
    }
}

#[test]
fn frames_are_counted_through_wraps_of_numbers_and_of_times() {
    for bits in [8, 32] {
        // Times wrap after 3 ms and several times later.
        Scene::new(bits).play(8000 * 5, |_| true);
    }
}

#[test]
fn losses_of_1_packet_to_3_s_are_counted() {
    for bits in [8, 32] {
        for lost in [1, 2, 127, 128, 255, 256, 257, 1000, 24_000] {
            let mut scene = Scene::new(bits);
            scene.play(100, |_| true);
            scene.play(lost, |_| false);
            scene.play(100, |_| true);
        }
    }
    // 32 bits resolve any outage.
    let mut scene = Scene::new(32);
    scene.play(100, |_| true);
    scene.play(160_000, |_| false);
    scene.play(100, |_| true);
}

/// Always 0, counting three listeners, every second packet, or backwards.
const OTHERS: [fn(i64) -> i64; 4] =
    [|_| 0, |number| 3 * number, |number| number / 2, |number| 1000 - number];

#[test]
fn carried_number_out_of_step_is_ignored() {
    for carried in OTHERS {
        for lost in [0, 1, 2, 127, 128, 255, 256, 257, 1000, 24_000] {
            let mut scene = Scene::carried_by(carried);
            scene.play(100, |_| true);
            scene.play(1 + lost + 100, |index| index == 0 || index > lost);
        }
        let mut scene = Scene::carried_by(carried);
        scene.play(2, |index| index == 0);
        scene.play(1000, |index| index % 7 != 3);
        let next = scene.number;
        assert_eq!(scene.pause(4800 * 6 + 3, next), Sequel::Anew);
        assert_eq!(scene.pause(100 * 6 + 3, next + 140), Sequel::Anew);
    }
}

#[test]
fn restarted_talker_is_followed_by_its_new_numbering() {
    let mut scene = Scene::carried_by(|number| if number < 10_000 { 0 } else { number });
    scene.play(1000, |_| true);
    assert_eq!(scene.pause(4800 * 6 + 3, 20_000), Sequel::Anew);
    // Longer than 8 bits resolve.
    scene.play(160_000, |index| index == 0);
    scene.play(100, |_| true);
}

#[test]
fn a_pause_is_no_loss_whatever_number_the_talker_goes_on_with() {
    // 46 ms, 600 ms and a minute, not whole packets. Only these few numbers match an outage.
    for (frames, maximum) in [(368 * 6 + 3, 0), (4800 * 6 + 3, 6), (2_880_001, 0)] {
        let taken_for_loss = (0..256).filter(|&number| {
            let mut scene = Scene::new(8);
            scene.play(100, |_| true);
            (scene.frame, scene.number) = (scene.frame + frames, number);
            let (frame, counted) = (scene.frame, scene.send(true, true));
            let anew = scene.sequel == Sequel::Anew;
            assert!(!anew || counted == Some(frame), "{frames} frames, {number}: {counted:?}");
            !anew
        });
        let taken_for_loss: Vec<i64> = taken_for_loss.collect();
        assert!(taken_for_loss.len() <= maximum, "{frames} frames: {taken_for_loss:?}");
    }
}

#[test]
fn a_talker_that_goes_on_numbering_after_a_pause_lost_nothing() {
    for bits in [8, 32] {
        let mut scene = Scene::new(bits);
        scene.play(100, |_| true);
        let next = scene.number;
        assert_eq!(scene.pause(4800 * 6 + 3, next), Sequel::Anew, "{bits} bits");
        // Restarted before the numbers wrap.
        let anew = if bits == 8 { scene.number + 40 } else { 0 };
        assert_eq!(scene.pause(100 * 6 + 3, anew), Sequel::Anew, "{bits} bits");
    }
}

#[test]
fn a_clock_that_is_stepped_while_packets_are_lost_is_no_pause() {
    for step in [-10, 10] {
        let mut scene = Scene::new(8);
        scene.play(100, |_| true);
        scene.offset += Span::from_millis(step);
        scene.play(5, |_| false);
        scene.play(100, |_| true);
    }
}

#[test]
fn uneven_times_still_identify_an_outage() {
    let mut scene = Scene::new(8);
    for index in 0..2000 {
        // Up to 0.4 ms late.
        scene.offset += Span::from_micros([0, 100, 300, -400][index % 4]);
        let arrives = !(1000..1300).contains(&index);
        let frame = scene.frame;
        assert_eq!(scene.send(arrives, true), arrives.then_some(frame), "{index}");
        assert_eq!(scene.sequel, Sequel::GoesOn, "{index}");
    }
}

#[test]
fn packets_that_overtake_each_other_keep_their_frames() {
    let mut scene = Scene::new(8);
    scene.play(10, |_| true);
    let early = scene.frame + PDU.count();
    let (number, frame) = (scene.number, scene.frame);
    (scene.number, scene.frame) = (number + 1, early);
    assert_eq!(scene.send(true, true), Some(early));
    (scene.number, scene.frame) = (number, frame);
    assert_eq!(scene.send(true, true), Some(frame));
    (scene.number, scene.frame) = (number + 2, early + PDU.count());
    scene.play(10, |_| true);
}

#[test]
fn a_clock_that_is_stepped_moves_no_frame() {
    for step in [-10, -1, 1, 10] {
        let mut scene = Scene::new(8);
        scene.play(100, |_| true);
        scene.offset += Span::from_millis(step);
        scene.play(1000, |index| index % 7 != 3);
    }
}

#[test]
fn skipped_sound_counts_as_absent_if_the_talker_says_so() {
    let mut scene = Scene::new(8);
    scene.play(100, |_| true);
    // The card lost 480 frames.
    scene.restarts = true;
    let next = scene.number;
    assert_eq!(scene.pause(480, next), Sequel::SaidAnew);
}

#[test]
fn times_in_every_eighth_packet_are_enough() {
    let mut scene = Scene::new(8);
    for index in 0..2000 {
        let frame = scene.frame;
        let counted = scene.send(index % 11 != 5, scene.number % 8 == 0);
        assert!(counted.is_none_or(|counted| counted == frame), "{index}: {counted:?}");
    }
}

#[test]
fn rejected_packet_changes_no_state() {
    let mut scene = Scene::new(8);
    scene.play(100, |_| true);
    for stray in 1..20 {
        let head = PacketHead {
            stream: StreamId(7),
            number: Wrapped::of(scene.number + 40 * stray, 8),
            media: Wrapped::of(0, 32),
            begins: false,
            coding: 4,
            capture: None,
            instants: None,
        };
        let time = Some(PresentationTime((stray as u32).wrapping_mul(900_000_000)));
        let number = head.number.value as u8;
        let presented = Presented { time, uncertain: false, restarts: false, number };
        let arrived = LocalTime::ZERO + RATE.span_of(Frames::new(scene.frame));
        scene.counter.count(&head, &presented, PDU, RATE, arrived);
        scene.play(3, |_| true);
    }
}

#[test]
fn a_step_beyond_the_tolerance_is_a_restart() {
    // A frame is the resolution.
    for (tolerance, step, sequel) in [
        (100, 50, Sequel::GoesOn),
        (100, 200, Sequel::Anew),
        (1000, 200, Sequel::GoesOn),
        (1000, 5000, Sequel::Anew),
        (50_000, 10_000, Sequel::GoesOn),
    ] {
        let mut scene = Scene::new(8);
        scene.counter = FrameCounter::new(Span::from_micros(tolerance));
        scene.play(100, |_| true);
        scene.offset += Span::from_micros(step);
        scene.send(true, true);
        assert_eq!(scene.sequel, sequel, "{step} us, {tolerance} us are tolerated");
        // Kept across streams.
        scene.counter.forget();
        scene.send(true, true);
        scene.offset += Span::from_micros(step);
        scene.send(true, true);
        assert_eq!(scene.sequel, sequel, "{step} us, {tolerance} us are tolerated");
    }
}
