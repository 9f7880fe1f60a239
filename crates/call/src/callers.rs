//! A user's calls: captured sound goes to all hosts, which are all played.

use std::sync::Arc;

use tautline_api::trust::TrustStore;
use tautline_dsp::gain::Gain;
use tautline_engine::control::{Answer, CannotChange, Changed, Fader};
use tautline_io::clock::{self, sleep_until};
use tautline_io::control::wait;
use tautline_proto::device::{Direction, Stop};
use tautline_proto::time::Span;

use crate::caller::{Caller, Common};
use crate::devices::OnDemand;
use crate::endpoint::Endpoint;
use crate::microphone::Microphone;
use crate::terms::offer;
use crate::{
    BEAT, CallEvent, CallView, CallerConfig, Command, DeviceChoice, Ended, Error, Event, Side,
};

const DIAL_BEAT: Span = Span::from_millis(2);

/// Calls on their owner's thread.
pub struct Callers {
    callers: Vec<Caller>,
    common: Common,
    failed: Option<Error>,
}

impl Callers {
    /// Calls all hosts. Shared devices open immediately, unless on hold.
    pub fn new(
        config: CallerConfig,
        trust: &Arc<TrustStore>,
        choice: &DeviceChoice,
        stop: Stop,
    ) -> Result<Self, Error> {
        let config = Arc::new(config);
        let mut shared = match &config.hosts[..] {
            [_] => None,
            _ => {
                let offer = offer(&config.end, choice, Side::Caller, config.paths);
                let usual =
                    offer.choose(&offer).map_err(|error| Error::Usage(error.to_string()))?;
                let format = |way| Side::Caller.terms(&usual, way).coding.sample;
                let formats = [Direction::Capture, Direction::Playback].map(format);
                let calls = (config.hosts.len(), config.bridged);
                Some(OnDemand::new(choice.first, calls, formats))
            }
        };
        if let (Some(shared), false) = (&mut shared, config.held) {
            shared.opened(&config.end)?;
        }
        let hosts = config.hosts.iter().cloned();
        let now = clock::now();
        let new = |host| Caller::new(&config, host, trust, choice.clone(), now);
        let callers = hosts.map(new).collect();
        let microphone = Microphone::new(config.muted);
        let (index, others_sound) = (0, false);
        let common = Common { config, stop, microphone, shared, now, index, others_sound };
        Ok(Self { callers, common, failed: None })
    }

    /// Does all due work; blocks for at most a beat. Returns `false` after the last call.
    pub fn turn(&mut self) -> bool {
        let several = self.callers.len() > 1;
        self.common.now = clock::now();
        if self.common.stop.is_requested() {
            self.fade();
        }
        for index in 0..self.callers.len() {
            self.common.index = index;
            let mut others = (0..).zip(&self.callers).filter(|(other, _)| *other != index);
            self.common.others_sound = others.any(|(_, caller)| caller.endpoint.is_some());
            let Some(caller) = self.callers.get_mut(index) else { continue };
            let was_over = caller.over.is_some();
            caller.turn(&mut self.common);
            let failed = match &caller.over {
                Some(Ok((_, Err(error))) | Err(error)) if several && !was_over => error.to_string(),
                _ => continue,
            };
            self.common.config.end.notify(Event::Note(failed));
        }
        let is_used = self.has_sound();
        if let Some(shared) = &mut self.common.shared
            && let Err(error) = shared.turn(&self.common.config.end, is_used)
        {
            self.common.stop.request();
            self.failed.get_or_insert(error);
        }
        let under_way = || self.callers.iter().filter(|caller| caller.over.is_none());
        let Some(deadline) = under_way().map(|caller| caller.session.control.deadline()).min()
        else {
            return false;
        };
        let is_dialling = under_way().any(Caller::is_dialling);
        let until = (self.common.now + if is_dialling { DIAL_BEAT } else { BEAT }).min(deadline);
        let connections: Vec<_> = under_way().filter_map(Caller::connection).collect();
        match &connections[..] {
            [] => sleep_until(until),
            connections => {
                wait(connections, until);
            }
        }
        true
    }

    fn fade(&mut self) {
        let sounding = self.callers.iter_mut().filter_map(|caller| caller.endpoint.as_mut());
        sounding.for_each(Endpoint::stop);
    }

    fn has_sound(&self) -> bool {
        self.callers.iter().any(|caller| caller.endpoint.is_some())
    }

    /// Changes all calls or the given one; returns the first acceptance, otherwise the first
    /// refusal.
    pub fn change(&mut self, command: Command) -> Answer {
        let (microphone, now) = (&mut self.common.microphone, clock::now());
        match command {
            Command::Mute(muted) => microphone.mute(muted),
            Command::ToggleMute => microphone.mute(!microphone.muted),
            Command::Talk => microphone.talk(now),
            _ => {}
        }
        let open = microphone.is_open(now);
        if let [only] = &mut self.callers[..] {
            return only.change(command, open);
        }
        if let Command::Mute(_) | Command::ToggleMute | Command::Talk = command {
            return Ok(Changed::Volume(Fader { gain: Gain::UNITY, muted: !open }));
        }
        let mut answers = Vec::new();
        for (index, caller) in self.callers.iter_mut().enumerate() {
            if matches!(command, Command::Hold(_, Some(only)) if only != index) {
                continue;
            }
            let answer = match caller.over {
                Some(_) => Err(CannotChange::Over),
                None => caller.change(command, open),
            };
            let is_enough = matches!(command, Command::Status) && answer.is_ok();
            answers.push((index, answer));
            if is_enough {
                break;
            }
        }
        let Some(made) = answers.iter().position(|(_, answer)| answer.is_ok()) else {
            return answers.pop().map_or(Err(CannotChange::Busy), |(_, answer)| answer);
        };
        let (_, first) = answers.remove(made);
        for (index, answer) in answers {
            if let (Command::Hold(..), Err(why), Some(caller)) =
                (command, answer, self.callers.get(index))
                && caller.over.is_none()
            {
                caller.notify(CallEvent::CannotChange(why));
            }
        }
        first
    }

    /// Microphone: `open`, `muted`, or `talk` (push-to-talk).
    pub fn microphone(&self) -> &'static str {
        self.common.microphone.word(self.common.now)
    }

    /// All calls, in host order.
    pub fn views(&self) -> impl Iterator<Item = CallView<'_>> {
        self.callers.iter().map(|caller| caller.watched.view(&caller.host, caller.standing()))
    }

    /// Reports of all calls, and the first failure. Failed calls have no report.
    pub fn finish(self) -> Result<Ended, Error> {
        let Self { callers, mut common, failed } = self;
        common.shared.as_mut().map_or(Ok(()), OnDemand::close)?;
        failed.map_or(Ok(()), Err)?;
        let several = callers.len() > 1;
        let (mut reports, mut done) = (Vec::new(), Ok(()));
        for over in callers.into_iter().filter_map(|caller| caller.over) {
            let over = match over {
                Ok((more, over)) => {
                    reports.extend(more);
                    over
                }
                Err(error) if several => Err(error),
                Err(error) => return Err(error),
            };
            done = done.and(over);
        }
        Ok((reports, done))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tautline_engine::control::RecvChange;

    use super::*;
    use crate::Server;
    use crate::ends::{caller, devices, server};

    #[test]
    fn volume_is_kept_during_hold() {
        let folder = tempfile::tempdir().unwrap();
        let trust = TrustStore::open(folder.path()).unwrap();
        let mut called = Server::open(server(1), Arc::clone(&trust), devices(), |_| ()).unwrap();
        let host = called.address().to_string();
        let (stop, choice) = (Stop::default(), DeviceChoice::alone(devices()));
        let config = caller(&[&host], None);
        let mut callers = Callers::new(config, &trust, &choice, stop.clone()).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let mut turn_until = |callers: &mut Callers, sounds: bool| {
            while callers.has_sound() != sounds {
                assert!(Instant::now() < until, "it never becomes so");
                assert!(called.turn().unwrap() && callers.turn());
            }
        };
        turn_until(&mut callers, true);
        let quieter = Gain::from_db(-6.0).unwrap();
        callers.change(Command::Volume(quieter)).unwrap();
        for held in [true, false] {
            callers.change(Command::Hold(held, None)).unwrap();
            turn_until(&mut callers, !held);
        }
        let endpoint = callers.callers[0].endpoint.as_ref().unwrap();
        let Ok(Changed::Receiving(status)) = endpoint.recv.request(RecvChange::Status) else {
            panic!("no status");
        };
        assert_eq!(status.volume.gain, quieter);
        stop.request();
        while callers.turn() {}
        callers.finish().unwrap().1.unwrap();
    }

    #[test]
    fn calls_that_end_together_fade_together() {
        let folder = tempfile::tempdir().unwrap();
        let trust = TrustStore::open(folder.path()).unwrap();
        let mut called = Server::open(server(2), Arc::clone(&trust), devices(), |_| ()).unwrap();
        let host = called.address().to_string();
        let (stop, choice) = (Stop::default(), DeviceChoice::alone(devices()));
        let config = caller(&[&host, &host], None);
        let mut callers = Callers::new(config, &trust, &choice, stop.clone()).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        let wait = |is_so: bool| {
            assert!(Instant::now() < until, "it never becomes so");
            is_so
        };
        while !wait(callers.callers.iter().all(|caller| caller.endpoint.is_some())) {
            assert!(called.turn().unwrap() && callers.turn());
        }
        callers.fade();
        let has_ended = |caller: &Caller| caller.endpoint.as_ref().is_some_and(Endpoint::has_ended);
        while !wait(callers.callers.iter().all(has_ended)) {
            std::thread::yield_now();
        }
        stop.request();
        while callers.turn() {}
        callers.finish().unwrap().1.unwrap();
    }
}
