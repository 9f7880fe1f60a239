//! Reports on a control channel, if there is one: the session machine and where the peer's reports come from.

use tautline_io::clock::disciplined::kept_clock;
use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::Datagram;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::rtcp_session::{Event, ReportArrival, Session};
use tautline_proto::time::{LocalTime, Span};

pub(crate) enum Audience {
    /// All of these: a sender's destinations.
    Everyone(Vec<Endpoint>),
    /// Whoever the last valid report came from: a receiver's sender.
    Whoever(Option<Endpoint>),
}

/// One session on its control channel. Without one it hears nothing and nobody hears it.
pub(crate) struct Conversation {
    pub(crate) session: Session,
    pub(crate) control: Option<Box<dyn Control>>,
    pub(crate) audience: Audience,
    /// Datagrams that were no reports.
    pub(crate) invalid: u64,
    /// When the kernel is asked again how the system clock is kept.
    ask_kernel: LocalTime,
}

/// The kernel is asked this often: its word grows worse by 500 ppm until something sets it.
const KERNEL: Span = Span::from_secs(1);

/// The largest probe of a path: jumbo frames hold no more. Reports fit an Ethernet frame.
const REPORT_BYTES: usize = 9000;

impl Conversation {
    pub(crate) fn new(
        session: Session,
        control: Option<Box<dyn Control>>,
        audience: Audience,
    ) -> Self {
        Self { session, control, audience, invalid: 0, ask_kernel: LocalTime::ZERO }
    }

    /// Takes what arrived; `tell` gets it and its host. Once `heard` is heard, no other peer says whom to answer.
    pub(crate) fn hear(&mut self, heard: Option<u32>, mut tell: impl FnMut(Host, Event)) {
        self.ask_kernel();
        let Some(mut control) = self.control.take() else { return };
        control.receive(&mut |datagram| self.listen(heard, &datagram, &mut tell));
        self.control = Some(control);
    }

    pub(crate) fn ask_kernel(&mut self) {
        if now() >= self.ask_kernel {
            self.ask_kernel = now() + KERNEL;
            self.session.set_kept(kept_clock());
        }
    }

    pub(crate) fn listen(
        &mut self,
        heard: Option<u32>,
        datagram: &Datagram<'_>,
        tell: &mut impl FnMut(Host, Event),
    ) {
        let Self { session, audience, invalid, .. } = self;
        let stamp_uncertainty =
            datagram.arrival.uncertainty.min(datagram.arrival.read - datagram.arrival.at);
        let from = datagram.arrival.from.host();
        let mut concerns = heard.is_none();
        let listen = |event: Event| {
            concerns |= heard == Some(event.ssrc());
            tell(from, event);
        };
        let arrived = ReportArrival { from, at: datagram.arrival.at, stamp_uncertainty };
        match session.handle(datagram.bytes, arrived, listen) {
            Ok(()) => match audience {
                Audience::Whoever(peer) if concerns => *peer = Some(datagram.arrival.from),
                _ => {}
            },
            Err(_) => *invalid += 1,
        }
    }

    pub(crate) fn speak(&mut self) {
        self.send(Session::poll);
    }

    pub(crate) fn leave(&mut self) {
        self.send(Session::leave);
    }

    pub(crate) fn leave_those(&mut self, gone: &[Endpoint]) {
        let mut buffer = [0; REPORT_BYTES];
        if let Some(bytes) = self.session.leave(now(), &mut buffer).filter(|_| !gone.is_empty()) {
            send(self.control.as_deref_mut(), &buffer[..bytes], gone);
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut Session, LocalTime, &mut [u8]) -> Option<usize>) {
        let mut buffer = [0; REPORT_BYTES];
        let Some(bytes) = write(&mut self.session, now(), &mut buffer) else { return };
        let told = match &self.audience {
            Audience::Everyone(all) => all.as_slice(),
            Audience::Whoever(peer) => peer.as_slice(),
        };
        send(self.control.as_deref_mut(), &buffer[..bytes], told);
    }
}

fn send(control: Option<&mut (dyn Control + '_)>, report: &[u8], told: &[Endpoint]) {
    let Some(control) = control else { return };
    for destination in told {
        // Nobody may listen there: the channel counts it, the next report tries again.
        let _ = control.send(report, *destination);
    }
}

/// A canonical name that nobody else has (RFC 7022 §4.2, short-term persistent).
pub(crate) fn cname(random: &[u8; 16]) -> String {
    random[4..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until a report arrives, one is due, or `until`.
pub(crate) fn wait_for(conversation: &Conversation, until: LocalTime) {
    let channels: Vec<&dyn Control> = conversation.control.as_deref().into_iter().collect();
    wait(&channels, until.min(conversation.session.deadline()));
}
