//! Opens, watches and reopens one instance's stream at one worker.

mod silence;

use std::sync::Arc;

use silence::{SilenceCounts, SilenceNews, SilenceWatch};
use tautline_engine::offload::offloaded::Which;
use tautline_proto::time::{LocalTime, Span};

use crate::client_thread::standing::{ClientStanding, RunningStream};
use crate::client_thread::{Alive, Opening, StreamOrder, WorkerCalls};
use crate::twin::TwinSpan;

pub(crate) struct StreamErrand {
    pub(crate) which: Which,
    order: StreamOrder,
    pub(crate) standing: Arc<ClientStanding>,
    state: ErrandState,
    silence: SilenceWatch,
    late: LateWatch,
    worker: String,
    crowded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrandState {
    Apart { until: LocalTime },
    Open { id: u32, quiet: Quiet },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quiet {
    since: LocalTime,
    begun: u64,
    answers: u64,
    looked: u64,
}

/// Time until the next attempt, slightly shorter than the [look](super::LOOK) interval.
pub(super) const AWAY: Span = Span::from_millis(15);
const REFUSED: Span = Span::from_secs(1);
/// Time and runs without a reply before a check.
const NOT_RECEIVED: (Span, u64) = (Span::from_millis(30), 3);

impl Quiet {
    fn is_long(&self, begun: u64, now: LocalTime) -> bool {
        let waits = begun == self.looked;
        now - self.since > NOT_RECEIVED.0 && (waits || begun - self.begun > NOT_RECEIVED.1)
    }
}

impl StreamErrand {
    pub(crate) fn new(which: Which, order: StreamOrder, standing: Arc<ClientStanding>) -> Self {
        Self {
            which,
            order,
            standing,
            state: ErrandState::Apart { until: LocalTime::ZERO },
            silence: SilenceWatch::new(),
            late: LateWatch::default(),
            worker: String::new(),
            crowded: false,
        }
    }

    #[must_use]
    pub(super) fn at(mut self, address: &str) -> Self {
        address.clone_into(&mut self.worker);
        self
    }

    pub(crate) fn plugin(&self) -> &str {
        &self.order.request.plugin
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, ErrandState::Open { .. })
    }

    /// Returns `false` when all is done.
    pub(crate) fn see_to(
        &mut self,
        calls: &mut dyn WorkerCalls,
        now: LocalTime,
        is_away: &mut bool,
    ) -> bool {
        let answers = self.handle(now);
        if self.standing.is_over() {
            self.end(calls, *is_away);
            return false;
        }
        match self.state {
            ErrandState::Apart { until } if now >= until && *is_away => {
                self.standing.set_open(self.which, false);
            }
            ErrandState::Apart { until } if now >= until => self.open(calls, now, is_away),
            ErrandState::Apart { .. } => {}
            ErrandState::Open { id, mut quiet } => {
                let running = self.standing.running();
                let begun = running.begun;
                let works = begun != quiet.looked || running.is_inside;
                if answers != quiet.answers || !works {
                    quiet = Quiet { since: now, begun, answers, looked: begun };
                } else if quiet.is_long(begun, now) && !*is_away {
                    quiet = Quiet { since: now, begun, answers, looked: begun };
                    if let Some(wait) = self.lost(id, calls, is_away) {
                        self.part(now + wait);
                        return true;
                    }
                } else {
                    quiet.looked = begun;
                }
                self.state = ErrandState::Open { id, quiet };
            }
        }
        true
    }

    fn handle(&mut self, now: LocalTime) -> u64 {
        let (standing, news, (answered, unanswered)) = {
            let mut watch = self.standing.watch();
            watch.handle();
            let record = &mut watch.record;
            let (news, runs) = (record.take_news(), (record.answered, record.unanswered));
            (*watch.attendant.standing(), news, runs)
        };
        // One per look.
        if let Some(TwinSpan { frames: (from, until), verdict }) = news {
            let seconds = |frames: u64| frames as f64 / f64::from(self.order.request.rate);
            self.standing.notify(&format!(
                "{}, from {:.1} s to {:.1} s: {}",
                self.plugin(),
                seconds(from),
                seconds(until),
                verdict.sentence()
            ));
        }
        // Only once: alternating with another sentence, it would repeat.
        if standing.counters.crowded > 0 && !core::mem::replace(&mut self.crowded, true) {
            self.standing.emit(format!(
                "blocks that did not return within {} runs were dropped before their turn; set a shorter delay, or a \
                 longer history",
                self.order.request.history
            ));
        }
        if let Some(frames) = self.standing.take_short() {
            self.standing.emit(format!(
                "the host's blocks have {frames} frames and the delay has {}, so no reply can be in time; set window = \
                 1, a delay of {frames} or more, or a wait",
                standing.delay
            ));
        }
        if let Some(frame) = self.standing.take_difference() {
            self.standing.emit(format!(
                "the returned sound differs from the local plugin's from frame {frame} on; check that both hosts have \
                 the same library"
            ));
        }
        let answers = standing.ends[self.which as usize].map_or(0, |end| end.machine.back.blocks);
        let RunningStream { begun: runs, is_inside } = self.standing.running();
        let replaced = standing.counters.concealed;
        let counts = SilenceCounts { runs, is_inside, answers, replaced };
        if let Some(news) = self.silence.look(counts, now) {
            self.standing.log(self.silence_sentence(news));
        }
        // Already reported.
        let is_long = standing.delay > 0 && !standing.offline && !self.standing.is_short();
        if self.late.look(LateCounts { answered, unanswered, answers }, now) && is_long {
            self.standing.emit(late_sentence(&self.worker, standing.delay));
        }
        answers
    }

    fn silence_sentence(&self, news: SilenceNews) -> String {
        let (worker, plugin) = (&self.worker, self.plugin());
        let seconds = |span: Span| span.as_nanos() as f64 / 1e9;
        match news {
            SilenceNews::Lost(silent) => {
                format!("{worker}: no reply for {:.1} s to blocks of {plugin}", seconds(silent))
            }
            SilenceNews::Back { silent, replaced } => format!(
                "{worker} replies again after {:.1} s; {replaced} frames of {plugin} were replaced",
                seconds(silent)
            ),
        }
    }

    fn open(&mut self, calls: &mut dyn WorkerCalls, now: LocalTime, is_away: &mut bool) {
        let until = match calls.open(&self.order) {
            Opening::Opened { id, far } => {
                if self.standing.watch().attendant.attach(self.which, far).is_ok() {
                    self.standing.set_open(self.which, true);
                    let begun = self.standing.running().begun;
                    let quiet = Quiet { since: now, begun, answers: 0, looked: begun };
                    self.state = ErrandState::Open { id, quiet };
                    return;
                }
                // Not long enough to lose sound.
                calls.close(id);
                now + REFUSED
            }
            Opening::Refused(why) => {
                self.standing.emit(why);
                now + REFUSED
            }
            Opening::Away(why) => {
                *is_away = true;
                self.standing.emit(why);
                now + AWAY
            }
        };
        self.standing.set_open(self.which, false);
        self.state = ErrandState::Apart { until };
    }

    fn lost(&self, id: u32, calls: &mut dyn WorkerCalls, is_away: &mut bool) -> Option<Span> {
        match calls.look(id) {
            // The stream continues by itself.
            Alive::Yes | Alive::Unknown => None,
            Alive::No => Some(Span::ZERO),
            Alive::Abandoned(why) => {
                self.standing.emit(why);
                calls.close(id);
                Some(REFUSED)
            }
            Alive::Away(why) => {
                *is_away = true;
                self.standing.emit(why);
                Some(Span::ZERO)
            }
        }
    }

    fn part(&mut self, until: LocalTime) {
        // The next attached stream replaces it anyway.
        self.standing.watch().attendant.detach(self.which);
        self.standing.set_open(self.which, false);
        self.state = ErrandState::Apart { until };
    }

    fn end(&mut self, calls: &mut dyn WorkerCalls, is_away: bool) {
        if let ErrandState::Open { id, .. } = self.state
            && !is_away
        {
            calls.close(id);
        }
        self.standing.close(self.which);
    }
}

fn late_sentence(worker: &str, delay: u32) -> String {
    format!(
        "replies of {worker} arrive later than the delay of {delay} frames allows; if the round trip takes N blocks, \
         set window = N + 1 (at most 64), or use longer blocks in the host"
    )
}

#[cfg(test)]
mod tests;

const SPAN: Span = Span::from_secs(2);
const MAX: u64 = 10;
const MIN_RUNS: u64 = 20;

#[derive(Debug, Clone, Copy, Default)]
struct LateCounts {
    answered: u64,
    unanswered: u64,
    answers: u64,
}

#[derive(Debug, Default)]
struct LateWatch {
    since: Option<(LocalTime, LateCounts)>,
    is_reported: bool,
}

impl LateWatch {
    fn look(&mut self, counts: LateCounts, now: LocalTime) -> bool {
        let (since, before) = *self.since.get_or_insert((now, counts));
        if self.is_reported || now - since < SPAN {
            return false;
        }
        self.since = Some((now, counts));
        let unanswered = counts.unanswered - before.unanswered;
        let runs = unanswered + counts.answered - before.answered;
        // A reopened stream counts from 0.
        let answers = counts.answers.saturating_sub(before.answers);
        self.is_reported =
            runs >= MIN_RUNS && unanswered * MAX >= runs * (MAX - 1) && answers * 2 >= runs;
        self.is_reported
    }
}

#[cfg(test)]
mod late_tests {
    use super::*;

    /// Ten runs per look.
    fn reported(looks: i64, answered: u64, answers: u64) -> Vec<i64> {
        let (mut watch, mut counts) = (LateWatch::default(), LateCounts::default());
        let is_reported = |look: &i64| {
            counts.answered += answered;
            counts.unanswered += 10 - answered;
            counts.answers += answers;
            watch.look(counts, LocalTime::ZERO + Span::from_millis(20 * look))
        };
        (0..looks).filter(is_reported).collect()
    }

    #[test]
    fn late_answers_are_reported_once_after_two_seconds() {
        assert_eq!(reported(1000, 0, 10), [100]);
        assert_eq!(reported(1000, 1, 10), [100]);
    }

    #[test]
    fn losses_and_few_late_answers_are_not_reported() {
        assert!(reported(1000, 2, 10).is_empty());
        assert!(reported(1000, 0, 0).is_empty());
        assert!(reported(1000, 10, 10).is_empty());
    }
}
