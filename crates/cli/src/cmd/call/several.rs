//! Several hosts, called at once: what is captured here goes to each, and all are heard.
//!
//! Each call is made on a thread of its own, on its part of two devices while it has sound; whoever sees to all of them
//! has the terminal, and the one microphone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use tautline_api::call::CallAddress;
use tautline_api::trust::TrustStore;
use tautline_dsp::gain::Gain;
use tautline_engine::control::{Answer, Asker, CannotChange, Changed, Fader, Requests, requests};
use tautline_engine::watching::observers::Onlooker;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;
use tautline_report::Report;

use super::asks::{CallAsk, is_of_files};
use super::keys::PressedKey;
use super::share::{CallSeen, CallShare, CallStanding};
use super::shared::CallDevices;
use super::talk::Microphone;
use super::{BEAT, Calling};
use crate::cmd::call_end::{
    CallStatus, DeviceChoice, EndDevices, FarStatus, PressedKeys, tell_reports,
};
use crate::failure::Failure;
use crate::flags::CallFlags;
use crate::report_file::ReportFiles;
use crate::words::cannot_change;

/// What all calls have in common.
pub(super) struct Several<'a> {
    pub(super) flags: &'a CallFlags,
    pub(super) trust: &'a Arc<TrustStore>,
    pub(super) devices: EndDevices,
    pub(super) stop: &'a Stop,
}

/// One call, to its reports and whether it went well.
type CallThread<'s> = ScopedJoinHandle<'s, Result<(Vec<Report>, Result<(), Failure>), Failure>>;

/// A call under way.
struct CallUnderWay<'s> {
    thread: CallThread<'s>,
    seen: CallSeen,
    asker: Asker<CallAsk>,
}

impl Several<'_> {
    pub(super) fn run(
        &self,
        (asked, keys): (Option<Requests<CallAsk>>, Option<PressedKeys<PressedKey>>),
        mut status: CallStatus,
        files: ReportFiles,
    ) -> Result<(), Failure> {
        let (flags, voice) = (self.flags, self.flags.end.running.voice());
        let shared = CallDevices::new(flags, self.devices, is_of_files(flags))?;
        if !flags.hold {
            shared.open()?;
        }
        let mut microphone = Microphone::new(flags.mute);
        let open = Arc::new(AtomicBool::new(!flags.mute));
        let hosts = flags.hosts.iter();
        let mut fars: Vec<_> = hosts.map(|host| FarStatus::of(Some(host.to_string()))).collect();
        // The devices end after the calls, whatever comes.
        let (reports, done) = std::thread::scope(|scope| {
            let mut calls = Vec::new();
            for (index, host) in flags.hosts.iter().enumerate() {
                let onlookers = fars.get(index).filter(|_| status.are_seen());
                let onlookers = onlookers.map(FarStatus::onlookers);
                let call = self.call(scope, (index, host), &shared, (&open, onlookers));
                // Those that were begun are ended, and not waited for.
                calls.push(call.inspect_err(|_| self.stop.request())?);
            }
            while !calls.iter().all(|call| call.thread.is_finished()) {
                shared.turn().inspect_err(|_| self.stop.request())?;
                let pressed = keys.iter().flat_map(PressedKeys::pressed);
                for key in pressed {
                    microphone.take(key, now());
                    if let PressedKey::Change(ask) = key
                        && let Err(why) = self.change(&calls, &mut microphone, ask)
                    {
                        voice.tell(&cannot_change(&why));
                    }
                }
                asked.iter().for_each(|asked| {
                    asked.serve(|ask| self.change(&calls, &mut microphone, ask));
                });
                open.store(microphone.is_open(now()), Ordering::Relaxed);
                let word = microphone.word(now());
                let page =
                    |(far, call): (&mut FarStatus, &CallUnderWay<'_>)| match call.seen.stands() {
                        CallStanding::None => Vec::new(),
                        CallStanding::By(path) => far.page(word, path),
                        CallStanding::Held => far.quiet(),
                    };
                status.show(fars.iter_mut().zip(&calls).flat_map(page).collect());
                sleep_until(now() + BEAT);
            }
            let (mut reports, mut done) = (Vec::new(), Ok(()));
            for call in calls {
                let ended = match call.thread.join() {
                    Ok(ended) => ended,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                let over = ended.and_then(|(more, over)| {
                    reports.extend(more);
                    over
                });
                done = done.and(over);
            }
            Ok::<_, Failure>((reports, done))
        })?;
        shared.end()?;
        status.end();
        tell_reports("call", &reports, files, &flags.end.running)?;
        done
    }

    /// Begins a call on a thread of its own.
    fn call<'s, 'e: 's>(
        &'e self,
        scope: &'s Scope<'s, 'e>,
        (index, host): (usize, &'e CallAddress),
        shared: &'e CallDevices<'e>,
        (open, onlookers): (&Arc<AtomicBool>, Option<[Onlooker; 2]>),
    ) -> Result<CallUnderWay<'s>, Failure> {
        let (share, seen) = CallShare::new(u32::try_from(index).unwrap_or(0), shared, open);
        let (asker, asked) = requests();
        let (flags, trust, stop) = (self.flags, Arc::clone(self.trust), self.stop);
        let choice = DeviceChoice::alone(self.devices);
        let run = move || {
            let mut calling = Calling::new((flags, host), trust, choice, onlookers, None);
            calling.share = Some(share);
            let done = calling.go_through(stop, Some(&asked));
            // The others go on, so it is told at once.
            let failed = done
                .as_ref()
                .err()
                .or(done.as_ref().ok().and_then(|(_, over)| over.as_ref().err()));
            failed.iter().for_each(|failure| calling.voice.tell(&failure.to_string()));
            done
        };
        let thread = std::thread::Builder::new().name(format!("taut-call-{index}"));
        let thread = thread.spawn_scoped(scope, run).map_err(|error| {
            Failure::running(format!(
                "starting a thread: {error}; end other programs, or raise ulimit -u"
            ))
        })?;
        Ok(CallUnderWay { thread, seen, asker })
    }

    /// Makes a change that was asked for, in every call or in the one that is meant: the answer of the first that makes
    /// it, or why none does.
    fn change(
        &self,
        calls: &[CallUnderWay<'_>],
        microphone: &mut Microphone,
        ask: CallAsk,
    ) -> Answer {
        if let CallAsk::Mute(muted) = ask {
            microphone.mute(muted);
            return Ok(Changed::Volume(Fader { gain: Gain::UNITY, muted }));
        }
        let (is_status, is_hold) =
            (matches!(ask, CallAsk::Status), matches!(ask, CallAsk::Hold(..)));
        let (mut first, mut unmade) = (Err(CannotChange::Busy), Vec::new());
        for (index, call) in calls.iter().enumerate().filter(|(index, _)| ask.is_for(*index)) {
            let answer = call.asker.ask(ask);
            // One that is over needs no holding.
            if let (true, Err(why)) = (is_hold && !call.thread.is_finished(), &answer) {
                unmade.extend(self.flags.hosts.get(index).map(|host| (host, cannot_change(why))));
            }
            if first.is_err() {
                first = answer;
            }
            if is_status && first.is_ok() {
                break;
            }
        }
        // Of those that sound though they were to be held somebody is to know.
        if first.is_ok() {
            let voice = self.flags.end.running.voice();
            unmade.iter().for_each(|(host, why)| voice.tell(&format!("{host}: {why}")));
        }
        first
    }
}

/// Each host is called once: of two calls the other end would hear the same twice.
pub(super) fn refuse_twice(hosts: &[CallAddress]) -> Result<(), Failure> {
    let place = |host: &CallAddress| (host.0.host.clone(), host.0.port);
    let mut seen = BTreeSet::new();
    match hosts.iter().find(|host| !seen.insert(place(host))) {
        Some(host) => Err(Failure::usage(format!("{host} is named twice; name each host once"))),
        None => Ok(()),
    }
}
