//! Whoever looks at a run from within its own process.

use std::sync::{Arc, Mutex, PoisonError};

use tautline_proto::time::LocalTime;
use tautline_report::snapshot::Snapshot;

use super::EVERY;

/// The newest that was told of a run. Clones look at the same one.
#[derive(Debug, Clone, Default)]
pub struct Onlooker(Arc<Mutex<Sight>>);

#[derive(Debug, Default)]
struct Sight {
    newest: Option<Snapshot>,
    /// When the next is told.
    next: Option<LocalTime>,
}

impl Onlooker {
    fn sight<T>(&self, see: impl FnOnce(&mut Sight) -> T) -> T {
        see(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How the run stands, if that was told since this was asked last. For ordinary threads.
    pub fn newest(&self) -> Option<Snapshot> {
        self.sight(|sight| sight.newest.take())
    }

    pub(super) fn is_due(&self, now: LocalTime) -> bool {
        self.sight(|sight| sight.next.is_none_or(|next| now >= next))
    }

    pub(super) fn tell(&self, now: LocalTime, standing: &Snapshot) {
        self.sight(|sight| {
            (sight.newest, sight.next) = (Some(standing.clone()), Some(now + EVERY));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Observers;
    use super::*;

    #[test]
    fn an_onlooker_is_told_as_often_as_others_where_nobody_else_looks() {
        let onlooker = Onlooker::default();
        let observers = Observers::none().and(onlooker.clone());
        assert!(observers.are_here());
        let mut asked = 0;
        for _ in 0..2 {
            observers.tell(|| {
                asked += 1;
                Snapshot { elapsed_ns: asked, ..Snapshot::default() }
            });
        }
        assert_eq!(onlooker.newest().map(|newest| newest.elapsed_ns), Some(1));
        assert_eq!(onlooker.newest(), None, "it is told once");
        assert!(asked == 1 || !onlooker.is_due(tautline_io::clock::now()), "ten times a second");
    }
}
