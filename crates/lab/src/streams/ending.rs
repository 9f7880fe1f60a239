//! What is told where somebody asks to stop while a stream runs that is one of several: it runs on to its end.

use core::time::Duration;
use std::time::Instant;

/// Who is told, once, and how long the stream still takes.
type TellEnding = Box<dyn FnOnce(Duration)>;

/// Whether somebody is to be told, or was.
#[derive(Default)]
pub(super) struct StreamEnding {
    tell: Option<TellEnding>,
}

impl StreamEnding {
    pub(super) fn told_to(tell: impl FnOnce(Duration) + 'static) -> Self {
        Self { tell: Some(Box::new(tell)) }
    }

    /// Tells, if nobody was told yet.
    pub(super) fn tell(&mut self, ends: Instant) {
        if let Some(tell) = self.tell.take() {
            tell(ends.saturating_duration_since(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn how_long_a_stream_still_takes_is_told_once() {
        let told = Rc::<RefCell<Vec<Duration>>>::default();
        let all = Rc::clone(&told);
        let mut ending = StreamEnding::told_to(move |left| all.borrow_mut().push(left));
        let ends = Instant::now() + Duration::from_secs(60);
        ending.tell(ends);
        ending.tell(ends);
        let told = told.borrow();
        assert!(told.len() == 1 && told[0] <= Duration::from_secs(60), "{told:?}");
        StreamEnding::default().tell(ends);
    }
}
