//! What a clerk does for one instance: a stream at one worker, opened, watched, opened anew.

use std::sync::Arc;

use tautline_api::v1::StreamRequest;
use tautline_engine::offload::offloaded::Which;
use tautline_engine::offload::sound_set::SoundSet;
use tautline_proto::time::{LocalTime, Span};

use super::calls::{Alive, Opening, WorkerCalls};
use super::standing::ClerkStanding;

/// What a clerk does for one instance.
pub(crate) struct StreamErrand {
    pub(crate) which: Which,
    request: StreamRequest,
    /// What the plugin has, as the catalogue says.
    set: SoundSet,
    pub(crate) standing: Arc<ClerkStanding>,
    state: ErrandState,
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrandState {
    /// Without a stream, until the next attempt.
    Apart { until: LocalTime },
    /// With this one.
    Open { id: u32, quiet: Quiet },
}

/// Since when nothing was heard of a worker that had something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quiet {
    since: LocalTime,
    /// Runs of the host, and answers, as they were then.
    begun: u64,
    answers: u64,
    /// Runs, as they were at the last look.
    looked: u64,
}

/// A worker that is not there is asked again after this: see [`super::LOOK`].
const AWAY: Span = Span::from_millis(40);
/// One that refuses has a reason, which does not pass as quickly.
const REFUSED: Span = Span::from_secs(1);
/// A worker that answered nothing for so long and so many runs is asked whether it has the stream.
const UNHEARD: (Span, u64) = (Span::from_millis(30), 3);

impl Quiet {
    fn is_long(&self, begun: u64, now: LocalTime) -> bool {
        let waits = begun == self.looked;
        now - self.since > UNHEARD.0 && (waits || begun - self.begun > UNHEARD.1)
    }
}

impl StreamErrand {
    pub(crate) fn new(
        which: Which,
        request: StreamRequest,
        set: SoundSet,
        standing: Arc<ClerkStanding>,
    ) -> Self {
        Self { which, request, set, standing, state: ErrandState::Apart { until: LocalTime::ZERO } }
    }

    /// Does what is due; false when all is done. `is_away` is set as soon as the worker is found
    /// absent: the other errands need not find out each for itself.
    pub(crate) fn see_to(
        &mut self,
        calls: &mut dyn WorkerCalls,
        now: LocalTime,
        is_away: &mut bool,
    ) -> bool {
        let answers = self.hear();
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
                    if !self.is_there(id, calls, is_away) {
                        self.part(now);
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

    /// Takes what the host's thread told: how many answers of this worker it saw.
    fn hear(&self) -> u64 {
        let mut watch = self.standing.watch();
        watch.hear();
        let standing = watch.attendant.standing();
        standing.ends[self.which as usize].map_or(0, |end| end.machine.back.blocks)
    }

    fn open(&mut self, calls: &mut dyn WorkerCalls, now: LocalTime, is_away: &mut bool) {
        let until = match calls.open(&self.request, self.set) {
            Opening::Opened { id, far } => {
                if self.standing.watch().attendant.attach(self.which, far).is_ok() {
                    self.standing.set_open(self.which, true);
                    let begun = self.standing.running().begun;
                    let quiet = Quiet { since: now, begun, answers: 0, looked: begun };
                    self.state = ErrandState::Open { id, quiet };
                    return;
                }
                // The host has not run for long: nobody hears it anyway.
                calls.close(id);
                now + REFUSED
            }
            Opening::Refused(why) => {
                self.standing.say(why);
                now + REFUSED
            }
            Opening::Away(why) => {
                *is_away = true;
                self.standing.say(why);
                now + AWAY
            }
        };
        self.standing.set_open(self.which, false);
        self.state = ErrandState::Apart { until };
    }

    /// Whether the stream is still there, as far as can be told.
    fn is_there(&self, id: u32, calls: &mut dyn WorkerCalls, is_away: &mut bool) -> bool {
        match calls.look(id) {
            // Stopped for a while, or its plugin begins anew: the stream goes on by itself.
            Alive::Yes | Alive::Unknown => true,
            Alive::No => false,
            Alive::Away(why) => {
                *is_away = true;
                self.standing.say(why);
                false
            }
        }
    }

    fn part(&mut self, until: LocalTime) {
        // Where there is no room, what is attached next takes its place anyway.
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

#[cfg(test)]
mod tests;
