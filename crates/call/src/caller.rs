//! The end that calls: dials, sounds by an endpoint while the call has sound, and reconnects.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tautline_api::call::{CallAddress, CallConnection, ConnectionEnd, DialError};
use tautline_api::trust::{HostKey, TrustStore};
use tautline_engine::control::Changed;
use tautline_io::clock;
use tautline_proto::call::adaptation::{Adaptation, begin_with_few_bits};
use tautline_proto::call::caller::{AgreedCall, CallOver, CallerEnd, CallerStep};
use tautline_proto::call::message::{CallMessage, CallReason};
use tautline_proto::call::terms::{CallOffer, CallPath, CallTerms};
use tautline_proto::call::transport::TransportNumbers;
use tautline_proto::device::Stop;
use tautline_proto::latency::LatencyRule;
use tautline_proto::time::{LocalTime, Span};

use crate::devices::{OnDemand, Sound, echo, taps};
use crate::endpoint::{Endpoint, Setup, no_thread};
use crate::microphone::Microphone;
use crate::terms::offer;
use crate::transport::{CallerSockets, TransportKeys, finished};
use crate::{
    CallEvent, Config, DeviceChoice, DevicePair, Ended, EndedSound, Error, Event, Side, Standing,
    Watched, running,
};

/// For a control connection and its handshake.
const DIAL_LIMIT: Duration = Duration::from_secs(5);
/// From the end of a file that was sent to that of the call: as long as the longest latency of a call that follows its
/// packets, and more.
const LAST_WORDS: Span = Span::from_secs(1);
/// A call in which nothing was received for so long lasts from then on as long as it is to (`--duration`).
const BEGUN_UNHEARD: Span = Span::from_secs(5);
/// From one look at the list of trusted hosts to the next: a look asks the system whether the file is another.
const LOOK_EVERY: Span = Span::from_secs(1);

/// How the end that calls is set up.
pub struct CallerConfig {
    /// As either end.
    pub end: Config,
    /// Each is called once.
    pub hosts: Vec<CallAddress>,
    /// Whether the hosts hear each other.
    pub bridged: bool,
    /// Whether the coding follows the network.
    pub auto_format: bool,
    /// The maximum bit rate of Opus.
    pub bitrate: Option<u32>,
    /// Allowed transports, the better first.
    pub paths: &'static [CallPath],
    /// Whether silence is sent at first.
    pub muted: bool,
    /// Whether calls begin without sound.
    pub held: bool,
}

/// What calls have in common.
pub(crate) struct Common {
    pub(crate) config: Arc<CallerConfig>,
    pub(crate) stop: Stop,
    pub(crate) microphone: Microphone,
    pub(crate) shared: Option<OnDemand>,
    /// The call whose turn it is, and whether any other has sound.
    pub(crate) index: usize,
    pub(crate) others_sound: bool,
}

impl Common {
    /// Devices for a call that is to sound: its own, or its part of the shared ones.
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

/// The control connection.
enum Connection {
    /// There is none: why the last one was lost or not made, if that is known.
    Down(Option<String>, Option<DialError>),
    /// The connection is made on a thread, as that takes seconds if the host does not answer. Dropped, it is closed as
    /// soon as it is made.
    Dialling(Option<JoinHandle<Result<CallConnection, DialError>>>),
    Up(Box<CallConnection>),
}

/// See the module.
pub(crate) struct Caller {
    pub(crate) config: Arc<CallerConfig>,
    address: CallAddress,
    pub(crate) host: String,
    pub(crate) decides: CallerEnd,
    trust: Arc<TrustStore>,
    /// The key of the host that answered, and when it is next looked up in the list of trusted hosts.
    key: Option<HostKey>,
    look_at: LocalTime,
    /// All settings of the devices while there is no sound, and those at which they run.
    choice: DeviceChoice,
    pub(crate) devices: DevicePair,
    connection: Connection,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) transport: Option<CallerSockets>,
    pub(crate) keys: Option<TransportKeys>,
    /// Whether anything was received, of sound that is over.
    heard: bool,
    ended: EndedSound,
    /// What the user asked for last, until it is answered.
    pub(crate) asked: Option<Changed>,
    /// Whether the call is to be held once it is made: asked for while its offer was not answered.
    pub(crate) held_next: Option<bool>,
    /// What was reported last of a connection that fails again and again.
    told: Option<String>,
    /// Whether the engine sends captured sound.
    pub(crate) open: bool,
    /// Follows what the network carries.
    pub(crate) adaptation: Option<Adaptation>,
    /// Whether the coding follows it, too, and not its bit rate alone.
    pub(crate) auto: bool,
    /// The maximum bit rate.
    pub(crate) bitrate: Option<u32>,
    /// The allowed transports.
    pub(crate) paths: &'static [CallPath],
    pub(crate) watched: Watched,
    /// When the call is over by the clock.
    ends: LocalTime,
    /// The result, once it is over.
    pub(crate) over: Option<Result<Ended, Error>>,
}

fn offer_of(config: &CallerConfig, choice: &DeviceChoice) -> CallOffer {
    let mut offer = offer(&config.end, choice, Side::Caller, config.paths);
    if config.auto_format {
        begin_with_few_bits(&mut offer);
    }
    offer
}

impl Caller {
    pub(crate) fn new(
        config: &Arc<CallerConfig>,
        address: CallAddress,
        trust: &Arc<TrustStore>,
        choice: DeviceChoice,
    ) -> Self {
        let offer = offer_of(config, &choice);
        Self {
            config: Arc::clone(config),
            host: address.to_string(),
            address,
            decides: CallerEnd::new(offer, clock::now()).held(config.held),
            trust: Arc::clone(trust),
            key: None,
            look_at: LocalTime::ZERO,
            devices: choice.first,
            choice,
            connection: Connection::Down(None, None),
            endpoint: None,
            transport: None,
            keys: None,
            heard: false,
            ended: EndedSound::default(),
            asked: None,
            held_next: None,
            told: None,
            open: !config.muted,
            adaptation: None,
            auto: config.auto_format,
            bitrate: config.bitrate,
            paths: config.paths,
            watched: Watched::default(),
            ends: LocalTime::NEVER,
            over: None,
        }
    }

    pub(crate) fn tell(&self, event: CallEvent) {
        self.config.end.tell(Event::Call(self.host.clone(), event));
    }

    fn tell_once(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            self.tell(CallEvent::Retrying(why.clone()));
            self.told = Some(why);
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

    /// Does everything that is due. Waits for nothing but devices that are opened or closed, and the first transport.
    pub(crate) fn turn(&mut self, common: &mut Common) {
        if self.over.is_some() {
            return;
        }
        let over = match self.go_on(common) {
            Ok(None) => return,
            Ok(Some(over)) => self.finish(over),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        };
        self.over = Some(over);
    }

    fn go_on(&mut self, common: &mut Common) -> Result<Option<CallOver>, Error> {
        let now = clock::now();
        self.receive(now);
        loop {
            self.decides.poll(now);
            if let Some(over) = self.take_steps(common)? {
                return Ok(Some(over));
            }
            if !self.is_done(&common.stop, clock::now()) {
                break;
            }
            self.decides.hang_up(CallReason::new("the caller hung up"));
        }
        // To open devices takes a while.
        let now = clock::now();
        self.watched.look();
        self.turn_transport(now)?;
        self.turn_trust(now);
        if let Err(why) = self.set_open(common.microphone.is_open(now)) {
            self.tell(CallEvent::CannotChange(why));
        }
        self.turn_coding(now);
        let recordings = self.endpoint.as_mut().and_then(|endpoint| endpoint.recordings.as_mut());
        if let Some(recordings) = recordings {
            recordings.turn();
        }
        Ok(None)
    }

    fn is_done(&mut self, stop: &Stop, now: LocalTime) -> bool {
        let sounds = self.endpoint.as_ref().is_some_and(|endpoint| endpoint.link.heard() > 0)
            || self.is_unheard_for(BEGUN_UNHEARD, now);
        if let (Some(duration), true, LocalTime::NEVER) =
            (self.config.end.duration, sounds, self.ends)
        {
            self.ends = now + duration;
        }
        let endpoint = self.endpoint.as_ref();
        if self.ends == LocalTime::NEVER && endpoint.is_some_and(Endpoint::has_sent_all) {
            // The last sound has yet to be played there.
            self.ends = now + LAST_WORDS;
        }
        stop.is_requested() || endpoint.is_some_and(Endpoint::is_over) || now >= self.ends
    }

    /// Takes a control connection that was made, and what it received.
    fn receive(&mut self, now: LocalTime) {
        let dialled = match &mut self.connection {
            Connection::Dialling(thread) => finished(thread),
            Connection::Down(..) | Connection::Up(_) => None,
        };
        match dialled {
            Some(Ok(line)) => {
                self.decides.connected(line.version(), now);
                self.key = Some(line.key());
                self.connection = Connection::Up(Box::new(line));
            }
            Some(Err(error)) => self.not_connected(error, now),
            None => {}
        }
        if let Connection::Up(line) = &mut self.connection {
            let decides = &mut self.decides;
            let received = line.hear(&mut |message| decides.said(message, now));
            if let Err(why) = received {
                self.lost(why, now);
            }
        }
    }

    fn lost(&mut self, why: ConnectionEnd, now: LocalTime) {
        let told = why.to_string();
        let error = match why {
            ConnectionEnd::Refused(error) => Some(error),
            _ => None,
        };
        self.connection = Connection::Down(Some(told), error);
        self.decides.line_lost(now);
    }

    /// No connection was made: a call that there is goes on, and the next is.
    fn not_connected(&mut self, error: DialError, now: LocalTime) {
        if self.decides.call().is_some() {
            self.tell_once(error.to_string());
        }
        self.connection = Connection::Down(None, Some(error));
        self.decides.line_lost(now);
    }

    fn dial(&mut self) -> Result<(), Error> {
        let (address, trust) = (self.address.clone(), Arc::clone(&self.trust));
        let dial = move || CallConnection::dial(&address, &trust, DIAL_LIMIT);
        match std::thread::Builder::new().name("taut-dial".into()).spawn(dial) {
            Ok(thread) => self.connection = Connection::Dialling(Some(thread)),
            // Its sound goes on.
            Err(error) if self.decides.call().is_some() => {
                self.tell_once(no_thread(error).to_string());
                self.decides.line_lost(clock::now());
            }
            Err(error) => return Err(no_thread(error)),
        }
        Ok(())
    }

    fn say(&mut self, message: &CallMessage) {
        if let Connection::Up(line) = &mut self.connection
            && let Err(why) = line.say(message)
        {
            self.lost(why, clock::now());
        }
    }

    /// The last message is still sent.
    fn close(&mut self) {
        if let Connection::Up(line) =
            core::mem::replace(&mut self.connection, Connection::Down(None, None))
        {
            line.close();
        }
    }

    /// Does what the machine decided; why the call is over, if it is.
    fn take_steps(&mut self, common: &mut Common) -> Result<Option<CallOver>, Error> {
        while let Some(step) = self.decides.step() {
            match step {
                CallerStep::Dial => self.dial()?,
                CallerStep::Say(message) => self.say(&message),
                CallerStep::Close if self.connection().is_some() => self.close(),
                CallerStep::Close => {}
                CallerStep::Away => {
                    let why = match &mut self.connection {
                        Connection::Down(why, _) => why.take(),
                        Connection::Dialling(_) | Connection::Up(_) => None,
                    };
                    self.tell(CallEvent::Away(why));
                }
                CallerStep::Begin(call) => {
                    self.begin(&call, common)?;
                    let held = self.held_next.take().filter(|held| *held == call.terms.sound());
                    if let Some(Err(why)) = held.map(|held| self.ask_to_hold(held)) {
                        self.tell(CallEvent::CannotChange(why));
                    }
                }
                CallerStep::Resumed => {
                    self.told = None;
                    self.tell(CallEvent::Resumed);
                    self.tell_path();
                }
                CallerStep::Again(terms) => self.counts(terms.sound()),
                CallerStep::Dropped(terms) => {
                    if !self.adaptation.as_mut().is_some_and(Adaptation::dropped) {
                        self.tell(CallEvent::Dropped(terms));
                    }
                }
                CallerStep::Change(terms) => {
                    if self.decides.asked().is_none() {
                        self.asked = None;
                    }
                    self.adopt(&terms, common)?;
                    if let Some(transport) = &mut self.transport {
                        transport.decides.allow(&terms.paths, clock::now());
                    }
                    self.adapt(&terms);
                    let adaptation = self.adaptation.as_mut();
                    if adaptation.is_some_and(|adaptation| adaptation.answered(&terms)) {
                        self.tell(CallEvent::Adapted(terms));
                    }
                }
                CallerStep::Kept(why) => {
                    // What is chosen here is tried until something is taken.
                    if !self.adaptation.as_mut().is_some_and(|one| one.refused(clock::now())) {
                        // A later request is still to be answered.
                        let asked = self.asked.take_if(|_| self.decides.asked().is_none());
                        self.tell(CallEvent::Refused(asked, why));
                    }
                    if let Some(call) = self.decides.call().cloned() {
                        self.adapt(&call.terms);
                    }
                }
                CallerStep::Unheard(number) => {
                    if let Some(transport) = &mut self.transport {
                        transport.decides.unheard(number, clock::now());
                    }
                }
                CallerStep::TurnedAway(why) => {
                    self.transport = None;
                    self.tell_once(format!("{}: {}", self.host, why.as_str()));
                }
                CallerStep::Over(over) => return Ok(Some(over)),
            }
        }
        Ok(None)
    }

    fn begin(&mut self, call: &AgreedCall, common: &mut Common) -> Result<(), Error> {
        let Some(line) = self.connection() else { return Ok(()) };
        let (secret, called) = (*line.secret(), line.peer());
        let keys = TransportKeys { secret, called, numbers: TransportNumbers::default() };
        self.keys = Some(keys);
        self.told = None;
        let (asked, kept) = (self.config.end.latency, call.terms.latency.kept());
        if let (Some(LatencyRule::Chosen(asked)), Some(kept)) = (asked, kept)
            && kept > asked
        {
            self.tell(CallEvent::LatencyRaised { asked, kept });
        }
        match &mut self.endpoint {
            Some(endpoint) if call.terms.sound() => {
                self.transport = Some(CallerSockets::begin(&mut endpoint.link, call, keys, false)?);
                self.adopt(&call.terms, common)?;
                self.adaptation.iter_mut().for_each(|adaptation| {
                    adaptation.answered(&call.terms);
                });
            }
            None if call.terms.sound() => self.sound(call, keys, common)?,
            _ => {
                self.adopt(&call.terms, common)?;
                self.tell(CallEvent::Begun(None));
                return Ok(());
            }
        }
        self.tell(CallEvent::Begun(Some(call.terms.clone())));
        let (asked, agreed) = (self.config.end.ptime, call.terms.there);
        if agreed.coding.coder.is_none() && agreed.ptime > asked {
            self.tell(CallEvent::PtimeRaised { asked, agreed: agreed.ptime });
        }
        self.tell_path();
        self.ask_for_bits(&call.terms);
        Ok(())
    }

    /// Opens the devices, with a transport that is there before the first packet: not a frame of a file is to be missed.
    fn sound(
        &mut self,
        call: &AgreedCall,
        keys: TransportKeys,
        common: &mut Common,
    ) -> Result<(), Error> {
        self.devices = self.choice.at(&call.terms.there, &call.terms.back)?;
        // As they run, so the call is taken up again.
        let choice = DeviceChoice::alone(self.devices);
        self.decides.offers(offer_of(&self.config, &choice));
        self.watched = Watched::default();
        self.adaptation = match self.auto {
            true => Adaptation::new(&call.terms, clock::now()),
            false => Adaptation::in_bits(&call.terms, self.bitrate, clock::now()),
        };
        let sound = common.sound(&self.devices)?;
        // A user who muted while there was no sound is not heard.
        self.open = common.microphone.is_open(clock::now());
        let setup = Setup {
            config: &self.config.end,
            side: Side::Caller,
            far: self.host.clone(),
            devices: self.devices,
            terms: &call.terms,
            muted: !self.open,
            sounding: common.index + 1,
            monitors_stalls: !common.others_sound,
            recorded_before: u32::try_from(common.index).unwrap_or(u32::MAX),
            watched: Some(&self.watched),
        };
        let (endpoint, mut transport) = Endpoint::begin(&setup, sound, &common.stop, |link| {
            CallerSockets::begin(link, call, keys, true)
        })?;
        transport.decides.begun(clock::now());
        (self.endpoint, self.transport) = (Some(endpoint), Some(transport));
        self.keys.iter_mut().for_each(|keys| keys.numbers.begin());
        common.begun();
        Ok(())
    }

    /// Sounds by these terms from now on, or not at all.
    fn adopt(&mut self, terms: &CallTerms, common: &mut Common) -> Result<(), Error> {
        match (&mut self.endpoint, terms.sound()) {
            (Some(endpoint), true) => {
                if let Err(why) = endpoint.adopt(terms, Side::Caller) {
                    self.tell(CallEvent::CannotChange(why));
                }
            }
            (Some(_), false) => {
                self.hold()?;
                self.tell(CallEvent::Held);
            }
            (None, true) => {
                let call = self.decides.call().cloned();
                if let (Some(call), Some(keys)) = (call, self.keys) {
                    self.sound(&call, keys, common)?;
                    self.tell(CallEvent::Sounds(terms.clone()));
                    self.tell_path();
                }
            }
            (None, false) => {}
        }
        Ok(())
    }

    /// Ends the sound, and closes the devices.
    fn hold(&mut self) -> Result<(), Error> {
        self.adaptation = None;
        if let (Some(transport), Some(keys)) = (self.transport.take(), &mut self.keys) {
            keys.numbers.end(&transport.decides);
        }
        let Some(endpoint) = self.endpoint.take() else { return Ok(()) };
        self.heard |= endpoint.link.heard() > 0;
        let left = endpoint.end();
        self.watched = Watched::default();
        self.decides.offers(offer_of(&self.config, &self.choice));
        if let Some(failed) = self.ended.keep(left?) {
            self.tell(CallEvent::Failed(failed));
        }
        Ok(())
    }

    /// Moves the sound to another transport, if the present one does not carry.
    fn turn_transport(&mut self, now: LocalTime) -> Result<(), Error> {
        let (Some(transport), Some(endpoint)) = (&mut self.transport, &mut self.endpoint) else {
            return Ok(());
        };
        let before = transport.decides.used();
        let silent = transport.turn(&mut endpoint.link, now)?;
        let (port, used) = (transport.port(), transport.decides.used());
        // If the control connection is lost, too, more is amiss than that UDP does not pass.
        if let Some(way) = silent.filter(|_| self.decides.has_line()) {
            self.tell(CallEvent::NoDatagrams(way, port));
        }
        if used != before {
            if used.0 != before.0 {
                self.tell(CallEvent::MovedTo(used.0));
            }
            self.adaptation.iter_mut().for_each(|adaptation| adaptation.moved(now));
            self.tell_path();
        }
        Ok(())
    }

    /// Tells the other end the transport. A connection is known by its ticket, too.
    fn tell_path(&mut self) {
        if let Some(transport) = &self.transport {
            let (path, number) = transport.decides.used();
            self.decides.go_by(path, number);
        }
    }

    /// Hangs up, with a control connection or without, if the host is no longer trusted: a handshake looks at the list once.
    fn turn_trust(&mut self, now: LocalTime) {
        let Some(key) = self.key.filter(|_| now >= self.look_at) else { return };
        self.look_at = now + LOOK_EVERY;
        let why = match self.trust.trusts_still(key, self.address.0.name.as_deref()) {
            Ok(true) => return,
            Ok(false) => None,
            Err(unreadable) => Some(unreadable.to_string()),
        };
        self.tell(CallEvent::Untrusted(why));
        self.decides.hang_up(CallReason::new("the host that was called is trusted no more"));
    }

    /// Asks for another coding, if the network carries more or less than the present one.
    fn turn_coding(&mut self, now: LocalTime) {
        let Some(call) = self.decides.call().filter(|_| self.decides.asked().is_none()) else {
            return;
        };
        // If the line is lost, or no sound comes, more is amiss than that reports find no room.
        let heard = self.endpoint.as_ref().map(|endpoint| endpoint.link.heard());
        let heard = heard.filter(|_| self.decides.has_line());
        let counts = || self.watched.counts();
        let adaptation = self.adaptation.as_mut();
        let wanted = adaptation.and_then(|one| one.poll(&call.terms, heard, counts, now));
        let Some(terms) = wanted else { return };
        if self.ask_for(terms).is_err()
            && let Some(adaptation) = &mut self.adaptation
        {
            adaptation.dropped();
        }
    }

    /// Has the bit rate follow the network if the coding does not.
    fn adapt(&mut self, terms: &CallTerms) {
        if self.adaptation.is_none() && terms.sound() && self.decides.asked().is_none() {
            self.adaptation = Adaptation::in_bits(terms, self.bitrate, clock::now());
        }
    }

    /// Asks for the chosen bit rate, which is no part of an offer.
    fn ask_for_bits(&mut self, terms: &CallTerms) {
        let Some(bits) = self.bitrate else { return };
        let (there, back) = (terms.there.at_bitrate(bits), terms.back.at_bitrate(bits));
        let wanted = CallTerms { there, back, ..terms.clone() };
        if wanted != *terms
            && let Err(why) = self.ask_for(wanted)
        {
            self.tell(CallEvent::CannotChange(why));
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match &self.transport {
            Some(transport) => Standing::By(transport.decides.used().0),
            None if self.endpoint.is_none() && self.decides.call().is_some() => Standing::Held,
            None => Standing::None,
        }
    }

    /// Whether this call has had sound for so long, and never received any.
    fn is_unheard_for(&self, span: Span, now: LocalTime) -> bool {
        let (Some(transport), Some(endpoint)) = (&self.transport, &self.endpoint) else {
            return false;
        };
        !self.heard && endpoint.link.heard() == 0 && now >= transport.decides.began() + span
    }

    fn unheard(&self) -> Error {
        let transport = self.transport.as_ref();
        let by_udp = transport.is_some_and(|transport| transport.decides.is_by_udp_alone());
        let fix = match by_udp {
            true => "let UDP pass between here and there, or leave --transport out",
            false => "see what taut serve says there",
        };
        running(format!("nothing was heard of {}; {fix}", self.host))
    }

    /// Something failed here: tells the other end, so that its seat is free for others.
    fn abandon(&mut self) {
        self.decides.hang_up(CallReason::new("it failed at the caller"));
        while let Some(step) = self.decides.step() {
            if let CallerStep::Say(message) = step {
                self.say(&message);
            }
        }
        self.close();
        // The first failure is reported.
        let _ = self.endpoint.take().map(Endpoint::end);
    }

    fn finish(&mut self, over: CallOver) -> Result<Ended, Error> {
        let failed = match &mut self.connection {
            Connection::Down(_, failed) => failed.take(),
            Connection::Dialling(_) | Connection::Up(_) => None,
        };
        // What was said last leaves before the line goes.
        self.close();
        // A call without sound is one all the same.
        let has_sounded = match &self.endpoint {
            Some(endpoint) => endpoint.link.heard() > 0,
            None => self.keys.is_some(),
        };
        // A user who hangs up before that gave the sound no time to come.
        let unheard = self.is_unheard_for(LAST_WORDS, clock::now()).then(|| self.unheard());
        let ended = self.endpoint.take().map(Endpoint::end).transpose()?;
        let (last, recorded) = ended.unwrap_or((Vec::new(), Ok(())));
        let (mut reports, before) = core::mem::take(&mut self.ended).finish();
        reports.extend(last);
        let recorded = before.and(recorded);
        let host = &self.host;
        let over = match over {
            CallOver::HungUp => recorded.and(unheard.map_or(Ok(()), Err)),
            CallOver::Ended(why) if !has_sounded => {
                Err(Error::Open(format!("{host} hung up: {}", why.as_str())))
            }
            CallOver::Ended(why) => {
                self.tell(CallEvent::Over(why));
                recorded
            }
            CallOver::Refused(why) => Err(Error::Open(format!("{host}: {}", why.as_str()))),
            CallOver::NotReached => Err(match failed {
                Some(DialError::Trust(error)) => error.into(),
                Some(error) => Error::Open(error.to_string()),
                None => {
                    Error::Open(format!("{host} closed the connection; see what it says there"))
                }
            }),
        };
        Ok((reports, over))
    }
}
