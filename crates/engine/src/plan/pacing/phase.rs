//! When packets are handed over and launched, so that neither disturbs the other.

use tautline_proto::time::Span;

/// The least that a thread is taken to be late by.
const LEAST_LATE: Span = Span::from_micros(100);
/// No more than this is kept for a thread that is late.
const MOST_LATE: Span = Span::from_millis(2);

/// Wake-ups until what a thread does is done: its timer's, another thread's that it wakes, and as much for the work.
pub(super) const WAKES: i64 = 3;
/// Nothing need keep farther away from what disturbs it than this.
const APART: Span = Span::from_micros(50);

/// What happens once for each packet and disturbs what is to be regular: from its begin to its end, after the packet
/// is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disturbance {
    pub(super) begin: Span,
    pub(super) end: Span,
}

impl Disturbance {
    /// The least time after a packet is due, no less than `needed`, that lies well between two of these, which come
    /// once in the time of a packet: in the middle, or [`APART`] from both.
    pub(super) fn avoided(self, needed: Span, packet: Span) -> Span {
        let free = (packet - (self.end - self.begin)).max(Span::ZERO);
        let apart = free.half().min(APART);
        let first = self.end + apart;
        let turns = (needed - first).as_nanos().div_euclid(packet.as_nanos().max(1));
        let inside = first + packet.times(turns);
        // From here to the last such time of this turn any will do.
        if needed <= inside + free - apart.times(2) { needed } else { inside + packet }
    }
}

/// The kernel's work after a tick: in the lab's guest of 500 MIPS the device's thread is done 50 µs after it, and
/// then its callbacks of RCU hold soft interrupts off, launches among them, until 105 µs after it.
const AFTER_TICK: Span = Span::from_micros(100);
/// Holding packets back by so many parts of the time of one is tried.
const SHIFTS: i64 = 16;

/// How much longer packets are held back, and their lead then, so that launches lie off the instants at which packets
/// are due: the kernel's tick is among them where the device begins with one ([`CardClock::start_at_tick`]), and puts
/// off what is to leave then or soon after. A launch is over `takes` after its time. Nothing where that cannot be had.
///
/// [`CardClock::start_at_tick`]: tautline_proto::card_clock::CardClock::start_at_tick
pub(super) fn off_ticks(packet: Span, takes: Span, lead: impl Fn(Span) -> Span) -> (Span, Span) {
    let until = packet - takes;
    let from = AFTER_TICK.min(packet.times(3).divided(4)).min(until);
    let shifts = (0..SHIFTS).map(|part| packet.times(part).divided(SHIFTS));
    let mut leads = shifts.map(|shift| (shift, lead(shift)));
    let after = |lead: Span| lead.as_nanos().rem_euclid(packet.as_nanos().max(1));
    leads
        .find(|(_, lead)| (from.as_nanos()..=until.as_nanos()).contains(&after(*lead)))
        .unwrap_or_else(|| (Span::ZERO, lead(Span::ZERO)))
}

/// What is kept for a thread that was so late.
pub(super) fn slept(late: Span) -> Span {
    late.clamp(LEAST_LATE, MOST_LATE)
}

/// An fq drops what it holds more than 100 packets of one stream for (`flow_limit`, tc-fq(8)).
pub(super) const MOST_AT_ONCE: usize = 64;

/// How many packets are handed over at once, of the `all` that a period holds, and how long that takes: no longer
/// than leaves launches, which take a queue until `latest` after their times, a third of their time undisturbed.
pub(super) fn together(
    cost: Span,
    wake: Span,
    (packet, latest): (Span, Span),
    all: usize,
) -> (usize, Span) {
    let room = packet - packet.divided(3) - latest - wake;
    let most = usize::try_from(room.as_nanos() / cost.as_nanos().max(1)).unwrap_or(1);
    let together = most.clamp(1, all.clamp(1, MOST_AT_ONCE));
    (together, wake + cost.times(together as i64))
}

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
        // 40 of 125 us are handed over in: 42.5 us from each.
        assert_eq!(lead((100, 140), 140, 125), 182);
        assert_eq!(lead((100, 140), 182, 125), 182);
        assert_eq!(lead((100, 140), 183, 125), 307);
        // In 1 ms there is room: as soon as can be, and 50 us from each.
        assert_eq!(lead((100, 140), 140, 1000), 190);
        assert_eq!(lead((100, 140), 600, 1000), 600);
        assert_eq!(lead((100, 140), 1050, 1000), 1050);
        assert_eq!(lead((100, 140), 1051, 1000), 1190);
        // What lasts longer than a packet cannot be avoided.
        assert_eq!(lead((-25, 200), 300, 125), 325);
        // A wire thread, around whose departures the device's thread wakes up.
        assert_eq!(lead((-24, 24), 100, 125), 187);
        assert_eq!(lead((-24, 24), 100, 1000), 100);
    }

    #[test]
    fn a_launch_is_over_before_the_next_packet_is_due_and_long_after_the_one_before() {
        let micros = Span::from_micros;
        let lead = |late: i64, takes: i64, packet: i64| {
            let (shift, lead) = off_ticks(micros(packet), micros(20), |shift| {
                let begin = micros(late) + shift;
                let end = begin + micros(takes);
                Disturbance { begin, end }.avoided(end, micros(packet))
            });
            (shift.as_nanos() / 1000, lead.as_nanos() / 1000)
        };
        assert_eq!(lead(100, 40, 125), (39, 221), "96 us after one is due");
        assert_eq!(lead(140, 40, 125), (0, 222));
        assert_eq!(lead(100, 40, 1000), (0, 190));
        assert_eq!(lead(930, 40, 1000), (125, 1145));
        assert_eq!(
            lead(100, 400, 125),
            (93, 593),
            "in the middle of a hand-over that takes longer"
        );
    }

    #[test]
    fn so_many_are_handed_over_at_once_that_launches_have_their_place_between_two() {
        let micros = Span::from_micros;
        let of = |cost, wake, latest, all| {
            let (count, takes) =
                together(micros(cost), micros(wake), (micros(125), micros(latest)), all);
            (count, takes.as_nanos() / 1000)
        };
        assert_eq!(of(2, 5, 3, 8), (8, 21));
        assert_eq!(of(12, 8, 25, 8), (4, 56));
        assert_eq!(of(12, 8, 70, 8), (1, 20));
        assert_eq!(of(400, 1, 0, 8), (1, 401));
    }
}
