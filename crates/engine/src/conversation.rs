//! A stream's RTCP session and control channel.

use tautline_io::clock::disciplined::kept_clock;
use tautline_io::clock::now;
use tautline_io::control::{Control, wait};
use tautline_io::link::Datagram;
use tautline_proto::endpoint::{Endpoint, Host};
use tautline_proto::rtcp_session::{Event, MAX_DATAGRAM, ReportArrival, Session};
use tautline_proto::time::{LocalTime, Span};

pub(crate) enum Audience {
    Everyone(Vec<Endpoint>),
    /// Receiver: source of the last valid report.
    Whoever(Option<Endpoint>),
}

/// Without a channel, it neither sends nor receives reports.
pub(crate) struct Conversation {
    pub(crate) session: Session,
    pub(crate) control: Option<Box<dyn Control>>,
    pub(crate) audience: Audience,
    pub(crate) invalid: u64,
    ask_kernel: LocalTime,
}

/// Interval between reads of the kernel's clock state. Its uncertainty grows by 500 ppm in between.
const KERNEL: Span = Span::from_secs(1);

impl Conversation {
    pub(crate) fn new(
        session: Session,
        control: Option<Box<dyn Control>>,
        audience: Audience,
    ) -> Self {
        Self { session, control, audience, invalid: 0, ask_kernel: LocalTime::ZERO }
    }

    /// Passes each event with its host to `notify`. With `heard`, only reports about that SSRC
    /// change the peer.
    pub(crate) fn handle(&mut self, heard: Option<u32>, mut notify: impl FnMut(Host, Event)) {
        self.ask_kernel();
        let Some(mut control) = self.control.take() else { return };
        control.receive(&mut |datagram| self.listen(heard, &datagram, &mut notify));
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
        notify: &mut impl FnMut(Host, Event),
    ) {
        let Self { session, audience, invalid, .. } = self;
        let stamp_uncertainty =
            datagram.arrival.uncertainty.min(datagram.arrival.read - datagram.arrival.at);
        let from = datagram.arrival.from.host();
        let mut concerns = heard.is_none();
        let listen = |event: Event| {
            concerns |= heard == Some(event.ssrc());
            notify(from, event);
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
        let mut buffer = [0; MAX_DATAGRAM];
        if let Some(bytes) = self.session.leave(now(), &mut buffer).filter(|_| !gone.is_empty()) {
            send(self.control.as_deref_mut(), &buffer[..bytes], gone);
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut Session, LocalTime, &mut [u8]) -> Option<usize>) {
        let mut buffer = [0; MAX_DATAGRAM];
        let Some(bytes) = write(&mut self.session, now(), &mut buffer) else { return };
        let reported = match &self.audience {
            Audience::Everyone(all) => all.as_slice(),
            Audience::Whoever(peer) => peer.as_slice(),
        };
        send(self.control.as_deref_mut(), &buffer[..bytes], reported);
    }
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
