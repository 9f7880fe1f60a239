//! Chooses hand-over and launch times that do not disturb each other.

use core::cmp::Reverse;

use tautline_proto::time::Span;

const MIN_LATE: Span = Span::from_micros(100);
const MAX_LATE: Span = Span::from_millis(2);

/// Wake-up delays until a thread is done: its timer, another thread that it wakes, and the work.
const WAKES: i64 = 3;
const APART: Span = Span::from_micros(50);

/// A disturbance once per packet; times are relative to the packet's due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disturbance {
    pub(super) begin: Span,
    pub(super) end: Span,
}

impl Disturbance {
    /// Returns the earliest time from `needed` that is [`APART`] from two successive disturbances,
    /// or midway if they are closer.
    pub(super) fn avoided(self, needed: Span, packet: Span) -> Span {
        let free = (packet - (self.end - self.begin)).max(Span::ZERO);
        let apart = free.half().min(APART);
        let first = self.end + apart;
        let turns = (needed - first).as_nanos().div_euclid(packet.as_nanos().max(1));
        let inside = first + packet.times(turns);
        if needed <= inside + free - apart.times(2) { needed } else { inside + packet }
    }
}

/// The kernel's work after a timer tick. In the lab's guest (500 MIPS) the device's thread ends 50
/// µs after the tick; RCU callbacks delay soft interrupts, and so launches, until 105 µs.
const AFTER_TICK: Span = Span::from_micros(100);
/// Returns the disturbance of a wire thread that hands over single packets. The device's thread
/// preempts it, and the work after a tick delays the next departure. Short packets avoid the tick
/// only as far as possible.
pub(super) fn woken(wake: Span, packet: Span) -> Disturbance {
    let device = wake.times(WAKES);
    let tick = AFTER_TICK.min(packet - device);
    Disturbance { begin: -device, end: tick.max(device) }
}

/// Returns how far a launch is from the times without a tick's disturbance. The launch is `lead`
/// after its packet's due time and lasts `takes`. If the device starts at a tick
/// ([`CardClock::start_at_tick`]), ticks coincide with due times.
///
/// [`CardClock::start_at_tick`]: tautline_proto::card_clock::CardClock::start_at_tick
fn near_tick(packet: Span, takes: Span, lead: Span) -> Span {
    let until = packet - takes;
    let from = AFTER_TICK.min(packet.times(3).divided(4)).min(until);
    let after = Span::from_nanos(lead.as_nanos().rem_euclid(packet.as_nanos().max(1)));
    (from - after).max(after - until).max(Span::ZERO)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct HandOvers {
    pub(super) packet: Span,
    pub(super) packets: usize,
    pub(super) maximum: usize,
    pub(super) cost: Span,
    pub(super) wake: Span,
    pub(super) late: Span,
    /// Maximum time that a queue works on a packet after its launch.
    pub(super) latest: Span,
    /// Minimum time before the launch at which the queue needs the packet.
    pub(super) minimum: Span,
    pub(super) by_wire_thread: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandOver {
    pub(super) together: usize,
    pub(super) begin: Span,
    pub(super) takes: Span,
    pub(super) lead: Span,
}

const SHIFTS: i64 = 16;

const GRAIN: Span = Span::from_micros(10);

fn grains(span: Span) -> i64 {
    (span.as_nanos() + GRAIN.as_nanos() - 1).div_euclid(GRAIN.as_nanos())
}

impl HandOvers {
    /// Returns the best plan, with a lead of at most `maximum` if possible. Criteria, in order: no
    /// hand-over during the device thread's work, launches away from the tick, few hand-overs,
    /// short lead. The first two are compared in units of `GRAIN`.
    pub(super) fn chosen(&self, maximum: Span) -> HandOver {
        let together = self.together();
        // The device's thread hands packets over once packed, so its hand-overs cannot be split.
        let minimum = if self.by_wire_thread { 1 } else { together };
        let shifted = |together: usize| {
            let turns = if self.by_wire_thread { together as i64 } else { 1 };
            (0..SHIFTS * turns).map(move |part| (together, part))
        };
        let tried = (minimum..=together).flat_map(shifted).map(|(together, part)| {
            let (way, held) = self.held_back(together, self.packet.times(part).divided(SHIFTS));
            let near = near_tick(self.packet, self.latest + self.wake, way.lead);
            let order =
                (way.lead > maximum, grains(held), grains(near), Reverse(together), way.lead);
            (order, way)
        });
        let best = tried.min_by_key(|(order, _)| *order);
        best.map_or_else(|| self.held_back(1, Span::ZERO).0, |(_, way)| way)
    }

    fn together(&self) -> usize {
        let room = self.packet - self.packet.divided(3) - self.latest - self.wake;
        let maximum = usize::try_from(room.as_nanos() / self.cost.as_nanos().max(1)).unwrap_or(1);
        maximum.clamp(1, self.maximum.clamp(1, MAX_AT_ONCE))
    }

    fn takes(&self, together: usize) -> Span {
        self.wake + self.cost.times(together as i64)
    }

    /// Returns a plan held back `shift` longer than necessary, and the maximum delay that the
    /// device's thread causes.
    fn held_back(&self, together: usize, shift: Span) -> (HandOver, Span) {
        let Self { packet, packets, cost, wake, late, latest, minimum, .. } = *self;
        let takes = self.takes(together);
        // A wire thread sleeps through the hold time, then waits until the device's thread has
        // packed the next period.
        let packing = packed(wake, cost, packets);
        let (begin, over, held) = if self.by_wire_thread {
            let begin = late.max(packing) + shift;
            let held = held_up((begin, takes), packing, (packet, packets, together));
            (begin, begin + takes + held, held)
        } else {
            (wake.times(WAKES), late + shift, Span::ZERO)
        };
        let lead = Disturbance { begin: begin - latest, end: begin + takes }
            .avoided(minimum + over, packet);
        (HandOver { together, begin, takes, lead }, held)
    }
}

/// Hand-over time divided by packing time: packing takes a quarter to a third, for two to eight
/// channels.
const PACKING: i64 = 3;

fn packed(wake: Span, cost: Span, packets: usize) -> Span {
    wake.times(WAKES) + cost.times(packets as i64).divided(PACKING)
}

/// Returns the maximum delay of a hand-over while the device's thread packs a period. A hand-over
/// of `together` packets begins `begin` after the due time of its first.
fn held_up(
    (begin, takes): (Span, Span),
    packing: Span,
    (packet, packets, together): (Span, usize, usize),
) -> Span {
    let firsts = (0..packets).step_by(together.max(1));
    let period = packet.times(packets as i64).as_nanos().max(1);
    let after = firsts.map(|first| {
        let begun = begin + packet.times(first as i64);
        Span::from_nanos(begun.as_nanos().rem_euclid(period))
    });
    let held = after.map(|after| match after + takes > Span::from_nanos(period) {
        true => packing,
        false => (packing - after).max(Span::ZERO),
    });
    held.max().unwrap_or(Span::ZERO)
}

pub(super) fn slept(late: Span) -> Span {
    late.clamp(MIN_LATE, MAX_LATE)
}

/// Maximum packets of a hand-over. An fq drops a stream's packets beyond 100 (`flow_limit`,
/// tc-fq(8)).
pub(super) const MAX_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_lies_well_between_two_hand_overs() {
        let micros = Span::from_micros;
        let lead = |(begin, end), needed, packet| {
            let handing = Disturbance { begin: micros(begin), end: micros(end) };
            handing.avoided(micros(needed), micros(packet)).as_nanos() / 1000
        };
        assert_eq!(lead((100, 140), 140, 125), 182);
        assert_eq!(lead((100, 140), 182, 125), 182);
        assert_eq!(lead((100, 140), 183, 125), 307);
        assert_eq!(lead((100, 140), 140, 1000), 190);
        assert_eq!(lead((100, 140), 600, 1000), 600);
        assert_eq!(lead((100, 140), 1050, 1000), 1050);
        assert_eq!(lead((100, 140), 1051, 1000), 1190);
        assert_eq!(lead((-25, 200), 300, 125), 325);
    }

    #[test]
    fn wire_thread_departs_between_tick_work_and_device_thread() {
        let micros = Span::from_micros;
        let lead = |wake, late, packet| {
            let packet = micros(packet);
            woken(micros(wake), packet).avoided(micros(late), packet).as_nanos()
        };
        assert_eq!(lead(8, 100, 125), 100_500, "between 100 and 101 us after one is due");
        assert_eq!(lead(8, 110, 125), 225_500);
        assert_eq!(lead(4, 100, 125), 106_500);
        assert_eq!(lead(8, 100, 1000), 150_000);
        assert_eq!(lead(8, 930, 1000), 1_150_000);
        assert_eq!(lead(12, 100, 125), 214_000);
        assert_eq!(lead(40, 100, 125), 120_000);
    }

    fn guest(packets: usize, latest: i64) -> HandOvers {
        let micros = Span::from_micros;
        HandOvers {
            packet: micros(125),
            packets,
            maximum: packets,
            cost: micros(16),
            wake: micros(5),
            late: micros(100),
            latest: micros(latest),
            minimum: Span::ZERO,
            by_wire_thread: true,
        }
    }

    #[test]
    fn hand_overs_avoid_the_packing_of_the_next_period() {
        let way = guest(40, 16).chosen(Span::MAX);
        assert_eq!(way.together, 3);
        let packing = packed(Span::from_micros(5), Span::from_micros(16), 40);
        assert!(way.begin - Span::from_micros(125) >= packing, "{way:?}");
        assert!(way.begin + way.takes <= Span::from_micros(500), "{way:?}");
        let maximum = way.lead - Span::from_micros(1);
        let short = guest(40, 16).chosen(maximum);
        assert!(short.lead <= maximum && short.lead >= short.begin + short.takes, "{short:?}");
        assert!(guest(40, 16).chosen(Span::ZERO).lead > Span::ZERO);
    }

    #[test]
    fn short_period_gets_large_hand_overs_launched_off_the_tick() {
        let way = guest(8, 16).chosen(Span::MAX);
        let after = way.lead.as_nanos() % 125_000;
        assert_eq!(way.together, 3);
        assert!((93_000..=104_000).contains(&after), "{way:?}");
        assert!(way.lead < Span::from_micros(500), "{way:?}");
        let late = guest(8, 27).chosen(Span::MAX);
        assert!((88_000..=96_000).contains(&(late.lead.as_nanos() % 125_000)), "{late:?}");
    }

    #[test]
    fn launch_ends_before_the_next_packet_is_due() {
        let near = |packet: i64, lead: i64| {
            let [packet, takes, lead] = [packet, 20, lead].map(Span::from_micros);
            near_tick(packet, takes, lead).as_nanos() / 1000
        };
        for (packet, lead, expected) in [
            (125, 93, 0),
            (125, 105, 0),
            (125, 230, 0),
            (125, 106, 1),
            (125, 50, 43),
            (125, 250, 93),
            (1000, 100, 0),
            (1000, 980, 0),
            (1000, 1050, 50),
            (1000, 990, 10),
        ] {
            assert_eq!(near(packet, lead), expected, "{lead} of {packet}");
        }
        assert_eq!(near(15, 0), 5);
    }

    #[test]
    fn hand_over_in_the_next_period_waits_for_its_packing() {
        let micros = Span::from_micros;
        let held = |begin, takes, packing, (packets, together)| {
            let shape = (micros(125), packets, together);
            held_up((micros(begin), micros(takes)), micros(packing), shape).as_nanos() / 1000
        };
        assert_eq!(held(139, 57, 55, (8, 4)), 0);
        assert_eq!(held(139, 57, 55, (8, 1)), 41);
        assert_eq!(held(100, 57, 55, (8, 1)), 55);
        assert_eq!(held(60, 57, 55, (8, 1)), 0);
        assert_eq!(held(264, 57, 280, (40, 1)), 266);
        assert_eq!(held(264, 57, 280, (40, 3)), 141, "the last of 39 alone");
        assert_eq!(held(1550, 57, 55, (8, 4)), 5);
    }

    #[test]
    fn a_period_of_more_packets_takes_longer_to_be_packed() {
        let micros = Span::from_micros;
        assert_eq!(packed(micros(5), micros(15), 8), micros(55));
        assert_eq!(packed(micros(5), micros(15), 40), micros(215));
    }

    #[test]
    fn hand_over_size_leaves_room_for_launches() {
        let micros = Span::from_micros;
        let of = |cost, wake, latest, all| {
            let hands = HandOvers { cost: micros(cost), wake: micros(wake), ..guest(all, latest) };
            let count = hands.together();
            (count, hands.takes(count).as_nanos() / 1000)
        };
        assert_eq!(of(2, 5, 3, 8), (8, 21));
        assert_eq!(of(12, 8, 25, 8), (4, 56));
        assert_eq!(of(12, 8, 70, 8), (1, 20));
        assert_eq!(of(400, 1, 0, 8), (1, 401));
    }
}
