//! The end of a call.

use tautline_api::call::DialError;
use tautline_io::clock::now;
use tautline_proto::call::caller::{CallOver, CallerStep};
use tautline_proto::call::message::CallReason;
use tautline_proto::time::Span;
use tautline_report::Report;

use super::transports::Transports;
use super::{Calling, LAST_WORDS};
use crate::cmd::call_end::CallEnd;
use crate::failure::Failure;

impl Calling<'_> {
    /// Whether this call has sound for so long, and nothing of it was ever heard.
    pub(super) fn is_unheard_for(&self, span: Span) -> bool {
        let (Some(transports), Some(end)) = (&self.transports, &self.end) else { return false };
        !self.heard && end.link.heard() == 0 && now() >= transports.began + span
    }

    /// Why nothing was ever heard.
    fn unheard(&self) -> Failure {
        let host = self.host;
        let by_udp = self.transports.as_ref().is_some_and(Transports::is_by_udp_alone);
        let mend = match by_udp {
            true => "let UDP pass between here and there, or leave --transport out",
            false => "see what taut serve says there",
        };
        Failure::running(format!("nothing was heard of {host}; {mend}"))
    }

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
        // Who hangs up before that gave the sound no time to come.
        let unheard = self.is_unheard_for(LAST_WORDS).then(|| self.unheard());
        let ended = self.end.take().map(CallEnd::end).transpose()?;
        let (last, recorded) = ended.unwrap_or((Vec::new(), Ok(())));
        let (mut reports, before) = core::mem::take(&mut self.ended).finish();
        reports.extend(last);
        let recorded = before.and(recorded);
        let over = match over {
            CallOver::HungUp => recorded.and(unheard.map_or(Ok(()), Err)),
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
