//! The end of a call.

use tautline_api::call::DialError;
use tautline_engine::watching::report::Report;
use tautline_proto::call::caller::{CallOver, CallerStep};
use tautline_proto::call::message::CallReason;

use super::Calling;
use crate::cmd::call_end::CallEnd;
use crate::failure::Failure;

impl Calling<'_> {
    /// Something failed here: the other end is told, so that its place is free for others.
    pub(super) fn abandon(&mut self) {
        self.caller.hang_up(CallReason::new("it failed at the caller"));
        while let Some(step) = self.caller.step() {
            if let CallerStep::Say(message) = step {
                self.say(&message);
            }
        }
        if let Some(line) = self.line.take() {
            line.close();
        }
        // What failed first is what is told.
        let _ = self.end.take().map(CallEnd::end);
    }

    /// Its reports, and whether it went well.
    pub(super) fn finish(
        &mut self,
        over: CallOver,
    ) -> Result<(Vec<Report>, Result<(), Failure>), Failure> {
        let host = self.host;
        // What was said last leaves before the line goes.
        if let Some(line) = self.line.take() {
            line.close();
        }
        // A call without sound is one all the same.
        let has_sounded = match &self.end {
            Some(end) => end.link.heard() > 0,
            None => self.made.is_some(),
        };
        let ended = self.end.take().map(CallEnd::end).transpose()?;
        let (last, recorded) = ended.unwrap_or((Vec::new(), Ok(())));
        let (mut reports, before) = core::mem::take(&mut self.ended).finish();
        reports.extend(last);
        let recorded = before.and(recorded);
        let over = match over {
            CallOver::HungUp => recorded,
            CallOver::Ended(why) if !has_sounded => {
                Err(Failure::open(format!("{host} hung up: {}", why.as_str())))
            }
            CallOver::Ended(why) => {
                self.voice.tell(&format!("{host} hung up: {}", why.as_str()));
                recorded
            }
            CallOver::Refused(why) => Err(Failure::open(format!("{host}: {}", why.as_str()))),
            CallOver::NotReached => Err(match self.failed.take() {
                Some(DialError::Trust(error)) => error.into(),
                Some(error) => Failure::open(error.to_string()),
                None => {
                    Failure::open(format!("{host} closed the connection; see what it says there"))
                }
            }),
        };
        Ok((reports, over))
    }
}
