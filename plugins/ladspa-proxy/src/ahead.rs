use tautline_proto::time::{LocalTime, Span};

/// Detects a render. The pace is certain only after 0.25 s. Until then, early requests may just
/// fill buffers, so the total wait is bounded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    rate: u32,
    first: Option<LocalTime>,
    sound: Span,
    last: Span,
    held_up: Span,
    left: Span,
    in_time: u32,
}

const LOOK: Span = Span::from_secs(2);
/// Runs in time that indicate a card.
const PACED: u32 = 3;
/// Maximum wait in total. A worker's first block takes less.
const MAX: Span = Span::from_secs(1);

impl Ahead {
    pub(crate) const fn of(rate: u32) -> Self {
        let nothing = Span::ZERO;
        Self {
            rate,
            first: None,
            sound: nothing,
            last: nothing,
            held_up: nothing,
            left: MAX,
            in_time: 0,
        }
    }

    pub(crate) const fn begin(&mut self) {
        *self = Self::of(self.rate);
    }

    /// Returns the maximum wait. With `is_due`, the first answer is due in the first run.
    pub(crate) fn observe(&mut self, frames: usize, is_due: bool, now: LocalTime) -> Span {
        let first = *self.first.get_or_insert(now);
        let (sound, last) = (self.sound, self.last);
        if sound > LOOK || self.in_time >= PACED {
            return Span::ZERO;
        }
        let nanos = (frames as u64).saturating_mul(1_000_000_000) / u64::from(self.rate);
        self.last = Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX / 2));
        self.sound = sound + self.last;
        let passed = now - first - self.held_up;
        let is_first = last == Span::ZERO;
        let seems = if is_first { is_due } else { sound - passed > last.half() };
        self.in_time += u32::from(!seems && !is_first);
        if seems { self.left } else { Span::ZERO }
    }

    /// A run that took longer than its sound has waited. Real-time hosts have no such runs.
    pub(crate) fn took(&mut self, span: Span) {
        if span > self.last {
            self.held_up += span;
            self.left = (self.left - span).max(Span::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_secs(5) + Span::from_micros(micros)
    }

    #[test]
    fn render_is_detected_at_its_second_run() {
        let mut ahead = Ahead::of(48_000);
        assert_eq!(ahead.observe(480, false, at(0)), Span::ZERO);
        ahead.took(Span::from_micros(50));
        assert_eq!(ahead.observe(480, false, at(100)), MAX);
        ahead.took(Span::from_millis(150));
        assert_eq!(ahead.observe(480, false, at(150_200)), MAX - Span::from_millis(150));
        ahead.took(Span::from_secs(2));
        assert_eq!(ahead.observe(480, false, at(2_150_300)), Span::ZERO);
    }

    #[test]
    fn a_host_in_real_time_never_seems_to_render() {
        let mut ahead = Ahead::of(48_000);
        for run in 0..1000 {
            let late = (run * 7919) % 3000;
            let may = ahead.observe(480, false, at(10_000 * run + late));
            assert_eq!(may, Span::ZERO, "in run {run}");
            ahead.took(Span::from_micros(4000));
        }
    }

    #[test]
    fn a_host_that_was_in_time_at_first_never_seems_to_render_later() {
        let mut ahead = Ahead::of(48_000);
        // Its first run is 5 ms late.
        let mut time = 5_000;
        for run in 1..200 {
            assert_eq!(ahead.observe(64, false, at(time)), Span::ZERO, "in run {run}");
            ahead.took(Span::from_micros(100));
            time = if run < 5 { time + 1_334 } else { 1_333 * run };
        }
    }

    #[test]
    fn two_seconds_of_sound_show_no_offline_render() {
        let mut ahead = Ahead::of(48_000);
        let all: Vec<Span> = (0..210).map(|run| ahead.observe(480, false, at(run))).collect();
        assert_eq!((all[200], all[201]), (MAX, Span::ZERO));
        ahead.begin();
        assert_eq!(ahead.observe(480, false, at(300)), Span::ZERO);
        assert_eq!(ahead.observe(480, false, at(400)), MAX);
    }

    #[test]
    fn the_first_run_is_held_up_where_its_own_answer_is_due_in_it() {
        let mut ahead = Ahead::of(48_000);
        assert_eq!(ahead.observe(480, true, at(0)), MAX);
        // Paced by a card.
        assert_eq!(ahead.observe(480, true, at(10_000)), Span::ZERO);
    }
}
