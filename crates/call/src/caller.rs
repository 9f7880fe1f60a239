//! The calling end: dials, runs an endpoint while the call has sound, and reconnects.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallAddress, CallConnection, ConnectionEnd, DialError};
use tautline_api::seal::SECRET_BYTES;
use tautline_api::trust::{HostKey, TrustStore};
use tautline_dsp::gain::Gain;
use tautline_engine::control::{Changed, RecvChange};
use tautline_proto::call::caller::{AgreedCall, CallOver, CallerEnd, CallerStep};
use tautline_proto::call::caller_session::{CallerAction, CallerSession};
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::path::SilentWay;
use tautline_proto::call::terms::{CallAdaptation, CallOffer, CallPath, CallTerms};
use tautline_proto::call::transport::{CallerTransport, SoundChange, TransportStep};
use tautline_proto::device::Stop;
use tautline_proto::latency::LatencyRule;
use tautline_proto::text::split_hint;
use tautline_proto::time::{LocalTime, Span};

use crate::commands::not_asked;
use crate::devices::{OnDemand, Sound, echo, taps};
use crate::endpoint::{Endpoint, Setup, no_thread};
use crate::microphone::Microphone;
use crate::received_format::ReceivedFormat;
use crate::terms::offer;
use crate::transport::{CallerSockets, TransportKeys, finished};
use crate::{
    CallEvent, CallerConfig, DeviceChoice, DevicePair, Ended, EndedSound, Error, Event, Side,
    Standing, Watched, running,
};

const DIAL_LIMIT: Duration = Duration::from_secs(5);
/// Time from the end of a sent file to the end of the call. It exceeds the maximum adaptive
/// latency.
const LAST_WORDS: Span = Span::from_secs(1);
/// `--duration` starts with the first packet, or after this time if no packet arrives.
const BEGUN_UNHEARD: Span = Span::from_secs(5);
const LOOK_EVERY: Span = Span::from_secs(1);

pub(crate) struct Common {
    pub(crate) config: Arc<CallerConfig>,
    pub(crate) stop: Stop,
    pub(crate) microphone: Microphone,
    pub(crate) shared: Option<OnDemand>,
    pub(crate) now: LocalTime,
    pub(crate) index: usize,
    pub(crate) others_sound: bool,
}

impl Common {
    pub(crate) fn sound(&mut self, devices: &DevicePair) -> Result<[Sound; 2], Error> {
        match &mut self.shared {
            Some(shared) => shared.opened(&self.config.end)?.take(),
            None => Ok(taps(echo(&self.config.end, devices)?).map(Sound::Own)),
        }
    }

    pub(crate) fn begun(&mut self) {
        self.shared.iter_mut().for_each(|shared| shared.begun = true);
    }
}

enum Connection {
    Down(Option<String>, Option<DialError>),
    /// A dial without an answer takes seconds. Dropping the value closes the connection once made.
    Dialling(Option<JoinHandle<Result<CallConnection, DialError>>>),
    Up(Box<CallConnection>),
}

pub(crate) struct Caller {
    pub(crate) config: Arc<CallerConfig>,
    address: CallAddress,
    pub(crate) host: String,
    pub(crate) session: CallerSession,
    trust: Arc<TrustStore>,
    key: Option<HostKey>,
    look_at: LocalTime,
    choice: DeviceChoice,
    pub(crate) devices: DevicePair,
    connection: Connection,
    pub(crate) endpoint: Option<Endpoint>,
    sockets: Option<CallerSockets>,
    /// Secret and address of the last control connection, and the last key derivation input.
    secret: Option<([u8; SECRET_BYTES], SocketAddr)>,
    keys: Option<TransportKeys>,
    received: bool,
    ended: EndedSound,
    pub(crate) requested: Option<Changed>,
    pub(crate) held_next: Option<bool>,
    reported: Option<String>,
    pub(crate) open: bool,
    /// Gain of received sound, kept during hold.
    pub(crate) volume: Gain,
    pub(crate) paths: &'static [CallPath],
    pub(crate) watched: Watched,
    received_format: ReceivedFormat,
    ends: LocalTime,
    pub(crate) over: Option<Result<Ended, Error>>,
}

fn offer_of(config: &CallerConfig, choice: &DeviceChoice) -> CallOffer {
    let mut offer = offer(&config.end, choice, Side::Caller, config.paths);
    if config.auto_format {
        offer.begin_with_few_bits();
    }
    // A format of the user's choice is fixed.
    let adapts = config.auto_format || config.end.format.is_none();
    let codings = if adapts { offer.there.codings.clone() } else { Vec::new() };
    let after_loss = adapts && !config.auto_format;
    offer.adapts = Some(CallAdaptation { codings, max_bitrate: config.bitrate, after_loss });
    offer
}

impl Caller {
    pub(crate) fn new(
        config: &Arc<CallerConfig>,
        address: CallAddress,
        trust: &Arc<TrustStore>,
        choice: DeviceChoice,
        now: LocalTime,
    ) -> Self {
        let control = CallerEnd::new(offer_of(config, &choice), now).held(config.held);
        Self {
            config: Arc::clone(config),
            host: address.to_string(),
            address,
            session: CallerSession::new(control),
            trust: Arc::clone(trust),
            key: None,
            look_at: LocalTime::ZERO,
            devices: choice.first,
            choice,
            connection: Connection::Down(None, None),
            endpoint: None,
            sockets: None,
            secret: None,
            keys: None,
            received: false,
            ended: EndedSound::default(),
            requested: None,
            held_next: None,
            reported: None,
            open: !config.muted,
            volume: Gain::UNITY,
            paths: config.paths,
            watched: Watched::default(),
            received_format: ReceivedFormat::default(),
            ends: LocalTime::NEVER,
            over: None,
        }
    }

    pub(crate) fn notify(&self, event: CallEvent) {
        self.config.end.notify(Event::Call(self.host.clone(), event));
    }

    fn report_once(&mut self, why: String) {
        if self.reported.as_ref() != Some(&why) {
            self.notify(CallEvent::Retrying(why.clone()));
            self.reported = Some(why);
        }
    }

    pub(crate) fn connection(&self) -> Option<&CallConnection> {
        match &self.connection {
            Connection::Up(up) => Some(up),
            Connection::Down(..) | Connection::Dialling(_) => None,
        }
    }

    pub(crate) const fn is_dialling(&self) -> bool {
        matches!(self.connection, Connection::Dialling(_))
    }

    pub(crate) fn turn(&mut self, common: &mut Common) {
        if self.over.is_some() {
            return;
        }
        let over = match self.go_on(common) {
            Ok(None) => return,
            Ok(Some(over)) => self.finish(over, common.now),
            Err(error) => {
                self.abandon(common.now);
                Err(error)
            }
        };
        self.over = Some(over);
    }

    fn go_on(&mut self, common: &mut Common) -> Result<Option<CallOver>, Error> {
        let now = common.now;
        self.receive(now);
        self.watched.look();
        self.follow_received_format(now);
        self.session.poll(now);
        loop {
            if let Some(over) = self.carry_out(common)? {
                return Ok(Some(over));
            }
            if !self.is_done(&common.stop, now) {
                break;
            }
            self.session.control.hang_up(CallReason::new("the caller hung up"));
        }
        self.turn_trust(now);
        if let Err(why) = self.set_open(common.microphone.is_open(now)) {
            self.notify(CallEvent::CannotChange(why));
        }
        let recordings = self.endpoint.as_mut().and_then(|endpoint| endpoint.recordings.as_mut());
        if let Some(recordings) = recordings {
            recordings.turn(now);
        }
        Ok(None)
    }

    fn follow_received_format(&mut self, now: LocalTime) {
        let [_, Some(stream)] = self.watched.newest() else { return };
        let Some(call) = self.session.control.call() else { return };
        // Without the peer's packets, the format is still the agreed one of the start.
        let agreed = call.terms.back.coding.name();
        if let Some(times) = self.received_format.follow(agreed, &stream.format, now) {
            let (format, ptime) = (stream.format.clone(), Span::from_nanos(stream.ptime_ns));
            self.notify(CallEvent::Adapted { format, ptime, times });
        }
    }

    fn is_done(&mut self, stop: &Stop, now: LocalTime) -> bool {
        let sounds = self.endpoint.as_ref().is_some_and(|endpoint| endpoint.link.received() > 0)
            || self.is_silent_for(BEGUN_UNHEARD, now);
        if let (Some(duration), true, LocalTime::NEVER) =
            (self.config.end.duration, sounds, self.ends)
        {
            self.ends = now + duration;
        }
        let endpoint = self.endpoint.as_ref();
        if self.ends == LocalTime::NEVER && endpoint.is_some_and(Endpoint::has_sent_all) {
            // The peer still plays the last packets.
            self.ends = now + LAST_WORDS;
        }
        stop.is_requested() || endpoint.is_some_and(Endpoint::is_over) || now >= self.ends
    }

    fn receive(&mut self, now: LocalTime) {
        let dialled = match &mut self.connection {
            Connection::Dialling(thread) => finished(thread),
            Connection::Down(..) | Connection::Up(_) => None,
        };
        match dialled {
            Some(Ok(line)) => {
                self.session.control.connected(line.version(), now);
                self.key = Some(line.key());
                self.secret = Some((*line.secret(), line.peer()));
                self.connection = Connection::Up(Box::new(line));
            }
            Some(Err(error)) => {
                // Through ssh, this means that nothing listens there.
                let is_cut = matches!(&error, DialError::Cut(whom) if whom.1.is_none());
                let why = error.to_string();
                let silent =
                    matches!(error, DialError::TimedOut { .. } | DialError::Unreachable { .. });
                match self.session.control.call() {
                    // Address and firewall were right when the call began.
                    Some(_) if silent => {
                        let (first, _) = why.split_once('\n').unwrap_or((&why, ""));
                        self.report_once(first.to_owned());
                    }
                    None if !is_cut => {}
                    _ => self.report_once(why),
                }
                self.connection = Connection::Down(None, Some(error));
                let control = &mut self.session.control;
                if is_cut { control.cut_off(now) } else { control.line_lost(now) }
            }
            None => {}
        }
        if let Connection::Up(line) = &mut self.connection {
            let control = &mut self.session.control;
            let received = line.handle(&mut |message| control.handle_message(message, now));
            if let Err(why) = received {
                self.lost(why, now);
            }
        }
        if let (Some(sockets), Some(endpoint), Some(decides)) =
            (&mut self.sockets, &mut self.endpoint, self.session.transport_mut())
        {
            sockets.receive(&mut endpoint.link, decides, now);
            endpoint.follow_transport();
        }
    }

    fn lost(&mut self, why: ConnectionEnd, now: LocalTime) {
        let reported = why.to_string();
        let is_cut = matches!(why, ConnectionEnd::Closed | ConnectionEnd::Lost(_));
        let error = match why {
            ConnectionEnd::Refused(error) => Some(error),
            _ => None,
        };
        if is_cut && self.session.control.call().is_none() {
            self.report_once(format!("{}: {reported}", self.host));
        }
        self.connection = Connection::Down(Some(reported), error);
        let control = &mut self.session.control;
        if is_cut { control.cut_off(now) } else { control.line_lost(now) }
    }

    fn dial(&mut self, now: LocalTime) -> Result<(), Error> {
        let (address, trust) = (self.address.clone(), Arc::clone(&self.trust));
        let dial = move || CallConnection::dial(&address, &trust, DIAL_LIMIT);
        match std::thread::Builder::new().name("taut-dial".into()).spawn(dial) {
            Ok(thread) => self.connection = Connection::Dialling(Some(thread)),
            Err(error) if self.session.control.call().is_some() => {
                self.report_once(no_thread(error).to_string());
                self.session.control.line_lost(now);
            }
            Err(error) => return Err(no_thread(error)),
        }
        Ok(())
    }

    fn emit(&mut self, message: &CallMessage) {
        if let Connection::Up(line) = &mut self.connection {
            line.emit(message);
        }
    }

    fn close(&mut self) {
        if let Connection::Up(line) =
            core::mem::replace(&mut self.connection, Connection::Down(None, None))
        {
            line.close();
        }
    }

    fn carry_out(&mut self, common: &mut Common) -> Result<Option<CallOver>, Error> {
        let now = common.now;
        while let Some(action) = self.session.action(now) {
            match action {
                CallerAction::Control(CallerStep::Over(over)) => return Ok(Some(over)),
                CallerAction::Control(step) => self.take(step, now)?,
                CallerAction::Begin(call, sound) => {
                    self.begin(&call);
                    self.adopt(&call.terms, sound, common)?;
                    self.begun(&call.terms);
                }
                CallerAction::Change(terms, sound) => {
                    self.adopt(&terms, sound, common)?;
                    if let SoundChange::Begins(_) = sound {
                        self.notify(CallEvent::Sounds(terms));
                    }
                }
                CallerAction::Transport(TransportStep::Report(way)) => {
                    let port = (!self.has_passed(way)).then(|| self.udp_port());
                    self.notify(CallEvent::NoDatagrams(way, port));
                }
                CallerAction::Transport(step) => self.go_by(step)?,
                CallerAction::Moved(path) => {
                    let call = self.session.control.call();
                    let by_udp = call.is_some_and(|call| call.terms.paths.contains(&CallPath::Udp));
                    let has_passed =
                        [SilentWay::There, SilentWay::Back].map(|w| self.has_passed(w));
                    let blocks = by_udp && has_passed != [true; 2];
                    self.notify(CallEvent::MovedTo(path, blocks.then(|| self.udp_port())));
                }
            }
        }
        if self.session.control.requested().is_none() {
            self.requested = None;
        }
        Ok(None)
    }

    fn has_passed(&self, way: SilentWay) -> bool {
        self.session.transport().is_some_and(|transport| transport.has_passed(way))
    }

    fn udp_port(&self) -> u16 {
        self.keys.map_or(0, |keys| keys.udp.port())
    }

    fn take(&mut self, step: CallerStep, now: LocalTime) -> Result<(), Error> {
        match step {
            CallerStep::Dial => return self.dial(now),
            CallerStep::Say(message) => self.emit(&message),
            CallerStep::Close if self.connection().is_some() => self.close(),
            CallerStep::Away => {
                let why = match &mut self.connection {
                    Connection::Down(why, _) => why.take(),
                    Connection::Dialling(_) | Connection::Up(_) => None,
                };
                self.notify(CallEvent::Away(why));
            }
            CallerStep::Resumed => {
                self.reported = None;
                self.notify(CallEvent::Resumed);
            }
            CallerStep::Kept(why) => {
                let requested =
                    self.requested.take_if(|_| self.session.control.requested().is_none());
                self.notify(CallEvent::Refused(requested, why));
            }
            CallerStep::Dropped(terms) => self.notify(CallEvent::Dropped(terms)),
            CallerStep::TurnedAway(why) => {
                self.sockets = None;
                self.report_once(format!("{}: {}", self.host, why.as_str()));
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, call: &AgreedCall) {
        self.keys = self.secret.map(|(secret, called)| TransportKeys::new(secret, called, call));
        self.reported = None;
        let (requested, kept) = (self.config.end.latency, call.terms.latency.kept());
        if let (Some(LatencyRule::Chosen(requested)), Some(kept)) = (requested, kept)
            && kept > requested
        {
            self.notify(CallEvent::LatencyRaised { requested, kept });
        }
    }

    fn begun(&mut self, terms: &CallTerms) {
        let sounds = terms.sound();
        self.notify(CallEvent::Begun(sounds.then(|| terms.clone())));
        if sounds {
            let (requested, agreed) = (self.config.end.ptime, terms.there);
            if agreed.coding.codec.is_none() && agreed.are_longer_than(requested) {
                self.notify(CallEvent::PtimeRaised { requested, agreed: agreed.ptime });
            }
        }
        // An older peer receives the bit rate only with a change.
        if let Some(bits) = self.config.bitrate.filter(|_| sounds && terms.adapts.is_none()) {
            let (there, back) = (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
            let wanted = CallTerms { there, back, ..terms.clone() };
            if wanted != *terms
                && let Err(why) = self.session.control.change(wanted)
            {
                self.notify(CallEvent::CannotChange(not_asked(why)));
            }
        }
        let held = self.held_next.take().filter(|held| *held == sounds);
        if let Some(Err(why)) = held.map(|held| self.ask_to_hold(held)) {
            self.notify(CallEvent::CannotChange(why));
        }
    }

    fn adopt(
        &mut self,
        terms: &CallTerms,
        sound: SoundChange,
        common: &mut Common,
    ) -> Result<(), Error> {
        match sound {
            SoundChange::Begins(first) => return self.sound(terms, first, common),
            SoundChange::Ends => return self.hold(),
            SoundChange::Restarts(first) => {
                self.sockets = self.keys.map(CallerSockets::new);
                self.go_by(first)?;
            }
            SoundChange::GoesOn => {}
        }
        let adopted = self.endpoint.as_mut().map(|endpoint| endpoint.adopt(terms, Side::Caller));
        if let Some(Err(why)) = adopted {
            self.notify(CallEvent::CannotChange(why));
        }
        Ok(())
    }

    fn go_by(&mut self, step: TransportStep) -> Result<(), Error> {
        let bytes = self.session.control.call().map_or(0, |call| call.terms.datagram_bytes());
        match (&mut self.sockets, &mut self.endpoint) {
            (Some(sockets), Some(endpoint)) => sockets.carry_out(step, &mut endpoint.link, bytes),
            _ => Ok(()),
        }
    }

    /// Opens the devices after the transport, so that no frame of a file is lost.
    fn sound(
        &mut self,
        terms: &CallTerms,
        first: TransportStep,
        common: &mut Common,
    ) -> Result<(), Error> {
        let Some(keys) = self.keys else { return Ok(()) };
        self.devices = self.choice.at(&terms.there, &terms.back)?;
        let choice = DeviceChoice::alone(self.devices);
        self.session.control.offers(offer_of(&self.config, &choice));
        self.watched = Watched::default();
        let (sound, now) = (common.sound(&self.devices)?, common.now);
        self.open = common.microphone.is_open(now);
        let setup = Setup {
            config: &self.config.end,
            side: Side::Caller,
            far: self.host.clone(),
            devices: self.devices,
            terms,
            muted: !self.open,
            sounding: common.index + 1,
            monitors_stalls: !common.others_sound,
            recorded_before: u32::try_from(common.index).unwrap_or(u32::MAX),
            watched: Some(&self.watched),
        };
        let decides = self.session.transport_mut();
        let (endpoint, sockets) = Endpoint::begin(&setup, sound, |link| {
            let mut sockets = CallerSockets::new(keys);
            sockets.carry_out(first, link, terms.datagram_bytes())?;
            if let Some(decides) = decides {
                sockets.wait(link, decides, now);
            }
            Ok(sockets)
        })?;
        if self.volume != Gain::UNITY
            && let Err(why) = endpoint.recv.request(RecvChange::Volume(None, self.volume))
        {
            self.notify(CallEvent::CannotChange(why));
        }
        (self.endpoint, self.sockets) = (Some(endpoint), Some(sockets));
        common.begun();
        Ok(())
    }

    fn hold(&mut self) -> Result<(), Error> {
        self.sockets = None;
        let Some(endpoint) = self.endpoint.take() else { return Ok(()) };
        self.received |= endpoint.link.received() > 0;
        let left = endpoint.end();
        self.watched = Watched::default();
        self.session.control.offers(offer_of(&self.config, &self.choice));
        if let Some(failed) = self.ended.keep(left?) {
            self.notify(CallEvent::Failed(failed));
        }
        self.notify(CallEvent::Held);
        Ok(())
    }

    /// Hangs up if the host lost its trust, as a handshake checks only once.
    fn turn_trust(&mut self, now: LocalTime) {
        let Some(key) = self.key.filter(|_| now >= self.look_at) else { return };
        self.look_at = now + LOOK_EVERY;
        let why = match self.trust.trusts_still(key, self.address.0.name.as_deref()) {
            Ok(true) => return,
            Ok(false) => None,
            Err(unreadable) => Some(unreadable.to_string()),
        };
        self.notify(CallEvent::Untrusted(why));
        let why = CallReason::new("the called machine is no longer trusted");
        self.session.control.hang_up(why);
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.session.transport() {
            Some(transport) => Standing::By(transport.used().0),
            None if self.endpoint.is_none() && self.session.control.call().is_some() => {
                Standing::Held
            }
            None => Standing::None,
        }
    }

    fn is_silent_for(&self, span: Span, now: LocalTime) -> bool {
        let (Some(transport), Some(endpoint)) = (self.session.transport(), &self.endpoint) else {
            return false;
        };
        !self.received && endpoint.link.received() == 0 && now >= transport.began() + span
    }

    fn not_received(&self) -> Error {
        let by_udp = self.session.transport().is_some_and(CallerTransport::is_by_udp_alone);
        let fix = match by_udp {
            true => &*format!("open UDP port {} there, or use --transport auto", self.udp_port()),
            false => "see the log of taut serve there",
        };
        running(format!("nothing was received from {}\nhint: {fix}", self.host))
    }

    fn abandon(&mut self, now: LocalTime) {
        self.session.control.hang_up(CallReason::new("it failed at the caller"));
        while let Some(action) = self.session.action(now) {
            if let CallerAction::Control(CallerStep::Say(message)) = action {
                self.emit(&message);
            }
        }
        self.close();
        let _ = self.endpoint.take().map(Endpoint::end);
    }

    fn finish(&mut self, over: CallOver, now: LocalTime) -> Result<Ended, Error> {
        let failed = match &mut self.connection {
            Connection::Down(_, failed) => failed.take(),
            Connection::Dialling(_) | Connection::Up(_) => None,
        };
        self.close();
        // A call on hold also counts.
        let has_sounded = match &self.endpoint {
            Some(endpoint) => endpoint.link.received() > 0,
            None => self.keys.is_some(),
        };
        let not_received = self.is_silent_for(LAST_WORDS, now).then(|| self.not_received());
        let ended = self.endpoint.take().map(Endpoint::end).transpose()?;
        let (last, recorded) = ended.unwrap_or((Vec::new(), Ok(())));
        let (mut reports, before) = core::mem::take(&mut self.ended).finish();
        reports.extend(last);
        let recorded = before.and(recorded);
        let host = &self.host;
        let over = match over {
            CallOver::HungUp => recorded.and(not_received.map_or(Ok(()), Err)),
            CallOver::Ended(why) if !has_sounded => {
                Err(Error::Open(format!("{host} hung up: {}", split_hint(why.as_str()))))
            }
            CallOver::Ended(why) => {
                self.notify(CallEvent::Over(why));
                recorded
            }
            CallOver::Refused(why) => {
                Err(Error::Open(format!("{host}: {}", split_hint(why.as_str()))))
            }
            CallOver::NotReached => Err(match failed {
                Some(DialError::Trust(error)) => error.into(),
                Some(error @ DialError::Cut(_)) if !error.to_string().contains("\nhint: ") => {
                    Error::Open(format!(
                        "{error}\nhint: see the log of taut serve there, and call again"
                    ))
                }
                Some(error) => Error::Open(error.to_string()),
                None => Error::Open(format!(
                    "{host} closed the connection\nhint: see the log of taut serve there"
                )),
            }),
        };
        Ok((reports, over))
    }
}
