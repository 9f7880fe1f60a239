//! How far a host is ahead of time as it begins.

use tautline_proto::time::{LocalTime, Span};

/// Holds the sound of an activation's first runs against the time that went by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    rate: u32,
    first: Option<LocalTime>,
    /// Sound of the runs so far.
    sound: Span,
}

/// For so much sound it is looked at. A render is known by its pace after a quarter of a second of it; a
/// host in real time that is ahead fills its buffers, for no longer than this.
const LOOK: Span = Span::from_millis(500);

impl Ahead {
    pub(crate) const fn of(rate: u32) -> Self {
        Self { rate, first: None, sound: Span::ZERO }
    }

    /// A new activation.
    pub(crate) const fn begin(&mut self) {
        (self.first, self.sound) = (None, Span::ZERO);
    }

    /// A run of so many frames begins: how much earlier than in real time.
    pub(crate) fn observe(&mut self, frames: usize, now: LocalTime) -> Span {
        let first = *self.first.get_or_insert(now);
        let sound = self.sound;
        if sound > LOOK {
            return Span::ZERO;
        }
        let nanos = (frames as u64).saturating_mul(1_000_000_000) / u64::from(self.rate);
        self.sound = sound + Span::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX / 2));
        (sound - (now - first)).max(Span::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> LocalTime {
        LocalTime::ZERO + Span::from_secs(5) + Span::from_micros(micros)
    }

    #[test]
    fn a_render_is_ahead_by_nearly_all_that_it_has_run() {
        let mut ahead = Ahead::of(48_000);
        ahead.begin();
        assert_eq!(ahead.observe(480, at(0)), Span::ZERO);
        assert_eq!(ahead.observe(480, at(100)), Span::from_micros(9_900));
        assert_eq!(ahead.observe(480, at(300)), Span::from_micros(19_700));
    }

    #[test]
    fn a_host_in_real_time_is_never_ahead_for_long() {
        let mut ahead = Ahead::of(48_000);
        ahead.begin();
        for run in 0..1000 {
            // It wakes up to 300 us late.
            let late = (run * 7919) % 300;
            let by = ahead.observe(480, at(10_000 * run + late));
            assert!(by <= Span::ZERO, "{by} in run {run}");
        }
    }

    #[test]
    fn after_half_a_second_of_sound_nothing_is_ahead() {
        let mut ahead = Ahead::of(48_000);
        ahead.begin();
        let all: Vec<Span> = (0..60).map(|run| ahead.observe(480, at(run))).collect();
        assert!(all[50] > Span::from_millis(499) && all[51] == Span::ZERO, "{all:?}");
    }
}
