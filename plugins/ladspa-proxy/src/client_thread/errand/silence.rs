//! Detects a worker that stops answering.

use tautline_proto::time::{LocalTime, Span};

const LONG: Span = Span::from_secs(2);
/// Minimum time between runs that counts as a pause. Hosts' longest blocks take 0.2 s.
const PAUSED: Span = Span::from_secs(1);

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SilenceCounts {
    pub(super) runs: u64,
    pub(super) is_inside: bool,
    pub(super) answers: u64,
    pub(super) replaced: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SilenceNews {
    Lost(Span),
    Back { silent: Span, replaced: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    New,
    Live,
    Lost,
}

#[derive(Debug)]
pub(super) struct SilenceWatch {
    worker: Worker,
    received: (LocalTime, SilenceCounts),
    runs: u64,
    ran: LocalTime,
}

impl SilenceWatch {
    pub(super) fn new() -> Self {
        let received = (LocalTime::ZERO, SilenceCounts::default());
        Self { worker: Worker::New, received, runs: 0, ran: LocalTime::ZERO }
    }

    pub(super) fn look(&mut self, counts: SilenceCounts, now: LocalTime) -> Option<SilenceNews> {
        let was_paused = now - self.ran > PAUSED;
        if counts.runs != self.runs || counts.is_inside {
            (self.runs, self.ran) = (counts.runs, now);
            if was_paused && self.worker != Worker::Lost {
                // The pause does not count.
                self.received = (now, SilenceCounts { answers: self.received.1.answers, ..counts });
            }
        }
        // A reopened stream counts from 0.
        let answers = counts.answers != self.received.1.answers && counts.answers > 0;
        let (since, before) = self.received;
        if answers {
            self.received = (now, counts);
            let was_lost = core::mem::replace(&mut self.worker, Worker::Live) == Worker::Lost;
            let replaced = counts.replaced.saturating_sub(before.replaced);
            return was_lost.then_some(SilenceNews::Back { silent: now - since, replaced });
        }
        let is_lost =
            self.worker == Worker::Live && now - since >= LONG && now - self.ran <= PAUSED;
        is_lost.then(|| {
            self.worker = Worker::Lost;
            SilenceNews::Lost(now - since)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host {
        watch: SilenceWatch,
        counts: SilenceCounts,
        millis: i64,
    }

    impl Host {
        fn new() -> Self {
            Self { watch: SilenceWatch::new(), counts: SilenceCounts::default(), millis: 5000 }
        }

        fn goes_on(&mut self, millis: i64, runs: u64, answers: u64) -> Vec<SilenceNews> {
            let looks = (0..millis / 20).filter_map(|_| {
                self.millis += 20;
                self.counts.runs += runs;
                self.counts.answers += answers;
                self.counts.replaced += 480 * (runs - answers.min(runs));
                let now = LocalTime::ZERO + Span::from_millis(self.millis);
                self.watch.look(self.counts, now)
            });
            looks.collect()
        }
    }

    #[test]
    fn each_loss_is_reported_once_and_the_return_with_its_frames() {
        let mut host = Host::new();
        for _ in 0..2 {
            assert_eq!(host.goes_on(1000, 2, 2), []);
            assert_eq!(host.goes_on(30_000, 2, 0), [SilenceNews::Lost(Span::from_secs(2))]);
            host.counts.answers = 0;
            let (silent, replaced) = (Span::from_millis(30_020), 1500 * 960);
            assert_eq!(host.goes_on(40, 2, 2), [SilenceNews::Back { silent, replaced }]);
        }
    }

    #[test]
    fn short_or_initial_silence_is_not_reported() {
        let mut host = Host::new();
        assert_eq!(host.goes_on(10_000, 2, 0), []);
        host.goes_on(1000, 2, 2);
        assert_eq!(host.goes_on(1980, 2, 0), []);
        assert_eq!(host.goes_on(1000, 2, 2), []);
    }

    #[test]
    fn a_paused_host_is_no_loss() {
        let mut host = Host::new();
        host.goes_on(1000, 2, 2);
        assert_eq!(host.goes_on(60_000, 0, 0), []);
        assert_eq!(host.goes_on(1980, 2, 0), []);
        assert_eq!(host.goes_on(100, 2, 0), [SilenceNews::Lost(Span::from_secs(2))]);
    }

    #[test]
    fn a_render_that_waits_within_a_run_notices_the_loss() {
        let mut host = Host::new();
        host.goes_on(1000, 2, 2);
        host.counts.is_inside = true;
        assert_eq!(host.goes_on(4000, 0, 0), [SilenceNews::Lost(Span::from_secs(2))]);
    }
}
