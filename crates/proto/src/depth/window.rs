//! What was counted in the newest stretch of time, and nothing older.

use super::histogram::Histogram;
use crate::time::{LocalTime, Span};

/// A histogram that forgets: of as many parts as it remembers at a time, the oldest goes when a new
/// one begins.
#[derive(Debug, Clone)]
pub(super) struct SlidingHistogram {
    parts: Box<[Histogram]>,
    all: Histogram,
    newest: usize,
    opened: Option<LocalTime>,
    /// Time in one part.
    length: Span,
}

impl SlidingHistogram {
    /// Remembers `parts` of `length`, and the one that is being filled. Allocates; nothing later
    /// does.
    pub(super) fn new(parts: usize, length: Span) -> Self {
        Self {
            parts: (0..=parts).map(|_| Histogram::new()).collect(),
            all: Histogram::new(),
            newest: 0,
            opened: None,
            length,
        }
    }

    pub(super) fn record(&mut self, span: Span) {
        self.parts[self.newest].record(span);
        self.all.record(span);
    }

    /// Forgets what is too old at `now`.
    pub(super) fn roll(&mut self, now: LocalTime) {
        let opened = *self.opened.get_or_insert(now);
        let passed = (now - opened).as_nanos() / self.length.as_nanos();
        for _ in 0..passed.clamp(0, self.parts.len() as i64) {
            self.newest = (self.newest + 1) % self.parts.len();
            self.all.take_back(&self.parts[self.newest]);
            self.parts[self.newest].clear();
        }
        self.opened = Some(opened + self.length.times(passed));
    }

    pub(super) fn clear(&mut self) {
        self.parts.iter_mut().for_each(Histogram::clear);
        self.all.clear();
    }

    /// All that is remembered.
    pub(super) const fn all(&self) -> &Histogram {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_remembers_its_parts_and_forgets_what_is_older() {
        let at = |seconds| LocalTime::ZERO + Span::from_secs(seconds);
        let mut window = SlidingHistogram::new(3, Span::from_secs(1));
        for second in 0..20 {
            window.roll(at(second));
            window.record(Span::from_millis(second));
            assert_eq!(window.all().count(), 4.min(second as u64 + 1));
        }
        assert_eq!(window.all().beyond(Span::from_millis(16)), 4);
        window.roll(at(100));
        assert_eq!(window.all().count(), 0);
    }
}
