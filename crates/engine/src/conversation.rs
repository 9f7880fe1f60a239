//! A stream's RTCP session and control channel.

use std::borrow::Cow;

use tautline_io::clock::disciplined::disciplined_clock;
use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::Datagram;
use tautline_proto::clock::ClockMapping;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::rtcp_session::{Event, MAX_DATAGRAM, ReportArrival, Session};
use tautline_proto::time::{LocalTime, Span};
use tautline_proto::wire::rtcp::{Compound, Item, MAX_CLAIM_BYTES, author_of, write_claim};
use tautline_proto::zone::{Claim, Targets};

pub(crate) enum Audience {
    /// Sender: all destinations.
    All(Vec<Endpoint>),
    /// Receiver: source of the last valid report.
    Peer(Option<Endpoint>),
    /// Announcement port: stations that reported lately, also before their first packet, so that
    /// their clocks are known then.
    Stations(Vec<Station>),
}

pub(crate) struct Station {
    ssrc: u32,
    from: Endpoint,
    at: LocalTime,
}

impl Audience {
    /// Maximum authors, which bounds the memory of a flood of reports.
    const MAX_STATIONS: usize = 64;
    /// Timeout, as for peers of a session.
    const FORGOTTEN: Span = Span::from_secs(5);

    /// Notes the source of a valid report.
    fn follow(&mut self, datagram: &Datagram<'_>, concerns: bool) {
        let (from, at) = (datagram.arrival.from, datagram.arrival.at);
        match self {
            Self::All(_) => {}
            Self::Peer(peer) if concerns => *peer = Some(from),
            Self::Peer(_) => {}
            Self::Stations(stations) => {
                let Some(ssrc) = author_of(datagram.bytes) else { return };
                stations.retain(|one| {
                    (one.ssrc, one.from) != (ssrc, from) && at - one.at < Self::FORGOTTEN
                });
                if stations.len() < Self::MAX_STATIONS {
                    stations.push(Station { ssrc, from, at });
                }
            }
        }
    }

    fn endpoints(&self) -> Cow<'_, [Endpoint]> {
        match self {
            Self::All(all) => all.into(),
            Self::Peer(peer) => peer.as_slice().into(),
            Self::Stations(stations) => stations.iter().map(|one| one.from).collect(),
        }
    }
}

/// A received claim.
#[derive(Clone)]
pub(crate) struct StoredClaim {
    pub(crate) ssrc: u32,
    pub(crate) claim: Claim,
    pub(crate) targets: Box<[[u8; 2]]>,
    /// Mapping of the station's clock at the arrival.
    pub(crate) clock: Option<ClockMapping>,
}

/// Control channel. Without a channel, the conversation neither sends nor receives reports.
pub(crate) struct Conversation {
    pub(crate) session: Session,
    pub(crate) control: Option<Box<dyn Control>>,
    pub(crate) audience: Audience,
    pub(crate) invalid: u64,
    /// At an announcement port: claims not taken yet, at most [`Self::MAX_CLAIMS`].
    pub(crate) claims: Option<Vec<StoredClaim>>,
    ask_kernel: LocalTime,
}

/// Interval between reads of the kernel's clock state. Its uncertainty grows by 500 ppm in between.
const KERNEL: Span = Span::from_secs(1);

impl Conversation {
    /// Maximum claims, which bounds the memory of a flood of claims.
    const MAX_CLAIMS: usize = 64;
    /// Stations repeat claims at this interval.
    const OLD_CLAIM: Span = Span::from_millis(500);

    pub(crate) fn new(
        session: Session,
        control: Option<Box<dyn Control>>,
        audience: Audience,
    ) -> Self {
        Self { session, control, audience, invalid: 0, claims: None, ask_kernel: LocalTime::ZERO }
    }

    /// Passes each event with its host to `notify`. With `received`, only reports about that SSRC
    /// change the peer.
    pub(crate) fn handle(&mut self, received: Option<u32>, mut notify: impl FnMut(Host, Event)) {
        self.ask_kernel();
        let Some(mut control) = self.control.take() else { return };
        control.receive(&mut |datagram| self.listen(received, &datagram, &mut notify));
        self.control = Some(control);
    }

    pub(crate) fn ask_kernel(&mut self) {
        if now() >= self.ask_kernel {
            self.ask_kernel = now() + KERNEL;
            self.session.set_disciplined(disciplined_clock());
        }
    }

    pub(crate) fn listen(
        &mut self,
        received: Option<u32>,
        datagram: &Datagram<'_>,
        notify: &mut impl FnMut(Host, Event),
    ) {
        let Self { session, audience, invalid, claims, .. } = self;
        let stamp_uncertainty =
            datagram.arrival.uncertainty.min(datagram.arrival.read - datagram.arrival.at);
        let from = datagram.arrival.from.host();
        let mut concerns = received.is_none();
        let listen = |event: Event| {
            concerns |= received == Some(event.ssrc());
            notify(from, event);
        };
        let arrived = ReportArrival { from, at: datagram.arrival.at, stamp_uncertainty };
        let foreign = session.foreign();
        match session.handle(datagram.bytes, arrived, listen) {
            Ok(()) => audience.follow(datagram, concerns),
            Err(_) => *invalid += 1,
        }
        if let Some(claims) = claims
            && session.foreign() == foreign
            && now() - datagram.arrival.at < Self::OLD_CLAIM
        {
            store_claims(datagram.bytes, session, claims);
        }
    }

    /// Sends a claim to all receivers of reports.
    pub(crate) fn claim(&mut self, claim: &Claim, targets: Targets<'_>) {
        let mut buffer = [0; MAX_CLAIM_BYTES];
        let written = write_claim(self.session.ssrc(), claim, targets, &mut buffer);
        if let (Some(bytes), Audience::All(all)) = (written, &self.audience) {
            send(self.control.as_deref_mut(), &buffer[..bytes], all);
        }
    }

    pub(crate) fn speak(&mut self) {
        self.send(Session::poll);
    }

    pub(crate) fn leave(&mut self) {
        self.send(Session::leave);
    }

    /// Says goodbye to a station that another stream of this port answers now.
    pub(crate) fn dismiss(&mut self, ssrc: u32) {
        let Audience::Stations(stations) = &mut self.audience else { return };
        let gone = stations.extract_if(.., |one| one.ssrc == ssrc);
        let gone: Vec<Endpoint> = gone.map(|one| one.from).collect();
        self.leave_those(&gone);
    }

    pub(crate) fn leave_those(&mut self, gone: &[Endpoint]) {
        let mut buffer = [0; MAX_DATAGRAM];
        if let Some(bytes) = self.session.leave(now(), &mut buffer).filter(|_| !gone.is_empty()) {
            send(self.control.as_deref_mut(), &buffer[..bytes], gone);
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut Session, LocalTime, &mut [u8]) -> Option<usize>) {
        let mut buffer = [0; MAX_DATAGRAM];
        let Some(bytes) = write(&mut self.session, now(), &mut buffer) else { return };
        send(self.control.as_deref_mut(), &buffer[..bytes], &self.audience.endpoints());
    }
}

fn store_claims(datagram: &[u8], session: &Session, claims: &mut Vec<StoredClaim>) {
    let Ok(compound) = Compound::parse(datagram) else { return };
    compound.visit(|ssrc, item| {
        if let Item::Claim(claim, targets) = item
            && author_of(datagram) == Some(ssrc)
            && claims.len() < Conversation::MAX_CLAIMS
        {
            let (targets, clock) = (targets.as_bytes().into(), session.mapping(ssrc));
            claims.push(StoredClaim { ssrc, claim, targets, clock });
        }
    });
}

fn send(control: Option<&mut (dyn Control + '_)>, report: &[u8], reported: &[Endpoint]) {
    let Some(control) = control else { return };
    for destination in reported {
        let _ = control.send(report, *destination);
    }
}

/// Canonical name, short-term persistent (RFC 7022 §4.2).
pub(crate) fn cname(random: &[u8; 16]) -> String {
    random[4..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn wait_for(conversation: &Conversation, until: LocalTime) {
    let channels: Vec<&dyn Control> = conversation.control.as_deref().into_iter().collect();
    wait(&channels, until.min(conversation.session.deadline()));
}
