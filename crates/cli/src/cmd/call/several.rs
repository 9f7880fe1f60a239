//! Several hosts, called at once: what is captured here goes to each, and all are heard.
//!
//! Each call is made on a thread of its own, on its part of two devices; whoever sees to all of them has the terminal, and
//! the one microphone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use tautline_api::call::CallAddress;
use tautline_api::trust::TrustStore;
use tautline_dsp::gain::Gain;
use tautline_engine::control::{Answer, Asker, CannotChange, Changed, Fader, Requests, requests};
use tautline_engine::watching::observers::Onlooker;
use tautline_engine::watching::report::Report;
use tautline_io::clock::{now, sleep_until};
use tautline_proto::device::Stop;

use super::asks::CallAsk;
use super::keys::PressedKey;
use super::share::{CallSeen, CallShare};
use super::talk::Microphone;
use super::{BEAT, Calling};
use crate::cmd::call_end::{
    CallSide, CallStatus, EndDevices, FarStatus, PressedKeys, SharedSound, SoundSharing,
    directions, offer, tell_reports, without_echo,
};
use crate::failure::Failure;
use crate::flags::CallFlags;
use crate::report_file::ReportFiles;

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
        let flags = self.flags;
        let offer = offer(&flags.end, &self.devices, CallSide::Caller, flags.transport.paths());
        let usual = offer.choose(&offer).map_err(|error| Failure::usage(error.to_string()))?;
        let (sent, heard) = directions(&usual, CallSide::Caller);
        let sharing = SoundSharing {
            devices: self.devices,
            calls: flags.hosts.len(),
            bridged: flags.bridge,
            formats: [sent.coding.sample, heard.coding.sample],
        };
        let specs = (&flags.input, &flags.output);
        let echo = without_echo(flags.echo, specs, &self.devices, flags.end.running.voice())?;
        let mut sound = SharedSound::open(&flags.end, specs, &sharing, echo)?;
        let mut microphone = Microphone::new(flags.mute);
        let open = Arc::new(AtomicBool::new(!flags.mute));
        let hosts = flags.hosts.iter();
        let mut fars: Vec<_> = hosts.map(|host| FarStatus::of(Some(host.to_string()))).collect();
        // The devices end after the calls, whatever comes.
        let sounds = Stop::default();
        let (reports, done) = std::thread::scope(|scope| {
            let mut calls = Vec::new();
            for index in 0..flags.hosts.len() {
                let onlookers = fars.get(index).filter(|_| status.are_seen());
                let onlookers = onlookers.map(FarStatus::onlookers);
                let call = self.call(scope, index, &mut sound, (&open, onlookers));
                // Those that were begun are ended, and not waited for.
                calls.push(call.inspect_err(|_| self.stop.request())?);
            }
            while !calls.iter().all(|call| call.thread.is_finished()) {
                // What is captured is heard from its first frame on by whoever answers first.
                if calls.iter().any(|call| call.seen.has_begun()) {
                    sound.run(&sounds).inspect_err(|_| self.stop.request())?;
                }
                let pressed = keys.iter().flat_map(PressedKeys::pressed);
                for key in pressed {
                    microphone.take(key, now());
                    if let PressedKey::Change(ask) = key
                        && let Err(why) = change(&calls, &mut microphone, ask)
                    {
                        flags.end.running.voice().tell(&crate::words::cannot_change(&why));
                    }
                }
                asked.iter().for_each(|asked| {
                    asked.serve(|ask| change(&calls, &mut microphone, ask));
                });
                open.store(microphone.is_open(now()), Ordering::Relaxed);
                let word = microphone.word(now());
                let pages = fars.iter_mut().zip(&calls);
                let pages = pages.filter_map(|(far, call)| Some(far.page(word, call.seen.path()?)));
                status.show(pages.flatten().collect());
                sound.turn();
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
        sounds.request();
        sound.end()?;
        status.end();
        tell_reports(&reports, files, &flags.end.running)?;
        done
    }

    /// Begins a call on a thread of its own.
    fn call<'s, 'e: 's>(
        &'e self,
        scope: &'s Scope<'s, 'e>,
        index: usize,
        sound: &mut SharedSound,
        (open, onlookers): (&Arc<AtomicBool>, Option<[Onlooker; 2]>),
    ) -> Result<CallUnderWay<'s>, Failure> {
        let host = self.flags.hosts.get(index);
        let (Some(host), Some(part)) = (host, sound.take()) else {
            return Err(Failure::usage("so many hosts cannot be called at once; call fewer"));
        };
        let (share, seen) = CallShare::new(u32::try_from(index).unwrap_or(0), part, open);
        let (asker, asked) = requests();
        let (flags, trust, stop) = (self.flags, Arc::clone(self.trust), self.stop);
        let devices = self.devices;
        let run = move || {
            let mut calling = Calling::new((flags, host), trust, devices, onlookers, None);
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

/// Makes a change that was asked for in every call: the answer of the first that makes it, or why none does.
fn change(calls: &[CallUnderWay<'_>], microphone: &mut Microphone, ask: CallAsk) -> Answer {
    if let CallAsk::Mute(muted) = ask {
        microphone.mute(muted);
        return Ok(Changed::Volume(Fader { gain: Gain::UNITY, muted }));
    }
    let is_status = matches!(ask, CallAsk::Status);
    let mut first = Err(CannotChange::Busy);
    for call in calls {
        let answer = call.asker.ask(ask);
        if first.is_err() {
            first = answer;
        }
        if is_status && first.is_ok() {
            break;
        }
    }
    first
}
