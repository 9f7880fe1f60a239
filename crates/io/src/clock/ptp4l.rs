//! Queries linuxptp's `ptp4l` via its local sockets.

mod running;

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tautline_proto::time::Span;
use tautline_proto::wire::ptp::{
    Domain, MAX_BYTES, PtpAnswers, PtpState, Requested, answer, question,
};

use self::running::{RunningPtp4l, running};
use super::now;

/// Sockets since version 4.0: one for any user, one for root (ptp4l(8), `uds_ro_address`,
/// `uds_address`).
const SOCKETS: [&str; 2] = ["/var/run/ptp4lro", "/var/run/ptp4l"];

/// Domains to try: IEEE 1588 and AES67, 802.1AS, ST 2059.
const DOMAINS: [Domain; 3] = [
    Domain { number: 0, transport: 0 },
    Domain { number: 0, transport: 1 },
    Domain { number: 127, transport: 0 },
];

/// A `ptp4l` daemon to query.
#[derive(Debug)]
pub struct Ptp4l {
    socket: UnixDatagram,
    domains: Vec<Domain>,
    next: usize,
    domain: Option<Domain>,
    sequence: u16,
    answers: PtpAnswers,
}

impl Ptp4l {
    /// Finds the local daemon. Searches `/proc` only if `thorough`. Sends nothing.
    pub fn find(thorough: bool) -> Option<Self> {
        let usual = Self::at(&SOCKETS);
        if usual.is_none() && !thorough {
            return None;
        }
        Self::reported(&running(Path::new("/proc"))).or(usual)
    }

    fn reported(running: &[RunningPtp4l]) -> Option<Self> {
        running.iter().find_map(|reported| {
            let mut found = Self::at(&reported.sockets)?;
            // Another daemon may own this socket, so the usual domains follow.
            found.domains = reported.domain.into_iter().collect();
            found.domains.extend(DOMAINS.iter().filter(|usual| reported.domain != Some(**usual)));
            Some(found)
        })
    }

    fn at(sockets: &[impl AsRef<Path>]) -> Option<Self> {
        sockets.iter().find_map(|path| Self::open(path.as_ref()).ok())
    }

    /// Domain of the last answer.
    pub const fn domain(&self) -> Option<Domain> {
        self.domain
    }

    fn open(path: &Path) -> io::Result<Self> {
        // Answers need a return address. An abstract name leaves no file and needs no permission.
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let name = format!("tautline.ptp.{}.{number}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        // Now only the daemon can send to this socket.
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            domains: DOMAINS.to_vec(),
            next: 0,
            domain: None,
            sequence: 0,
            answers: PtpAnswers::default(),
        })
    }

    /// Sends all queries without waiting. Fails if the daemon has ended or does not read.
    pub fn request(&mut self) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.answers = PtpAnswers::default();
        // An unread socket queues at most 10 (net.unix.max_dgram_qlen).
        let tried = self.domains.iter().cycle().skip(self.next).take(DOMAINS.len());
        let requested = self.domain.as_ref().map_or_else(|| tried.collect(), |own| vec![own]);
        for domain in requested {
            for requested in Requested::ALL {
                self.socket.send(&question(requested, *domain, self.sequence))?;
            }
        }
        self.next = (self.next + DOMAINS.len()) % self.domains.len();
        Ok(())
    }

    /// Reads the answers so far. Returns the state when complete.
    pub fn handle(&mut self) -> Option<PtpState> {
        let mut room = [0; MAX_BYTES];
        for _ in 0..64 {
            let Ok(bytes) = self.socket.recv(&mut room) else { break };
            self.take(&room[..bytes]);
        }
        self.answers.state()
    }

    /// Waits up to `maximum` for the state.
    pub fn wait(&mut self, maximum: Span) -> Option<PtpState> {
        let until = now() + maximum;
        let mut room = [0; MAX_BYTES];
        while self.answers.state().is_none() {
            let left = u64::try_from((until - now()).as_nanos()).ok().filter(|left| *left > 0)?;
            self.socket.set_nonblocking(false).ok()?;
            let waits = self.socket.set_read_timeout(Some(Duration::from_nanos(left.max(1000))));
            let received = waits.and_then(|()| self.socket.recv(&mut room));
            self.socket.set_nonblocking(true).ok()?;
            self.take(&room[..received.ok()?]);
        }
        self.handle()
    }

    fn take(&mut self, datagram: &[u8]) {
        if let Some(answer) = answer(datagram).filter(|answer| answer.sequence == self.sequence) {
            self.domain = self.domains.iter().copied().find(|domain| *domain == answer.domain);
            self.answers.take(answer.reported);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tautline_proto::wire::ptp::{ClockIdentity, PortState, PtpAnswer, PtpData};

    use super::*;

    const GRANDMASTER: ClockIdentity = ClockIdentity([1, 2, 3, 0xFF, 0xFE, 4, 5, 6]);

    const GPTP: Domain = Domain { number: 0, transport: 1 };

    struct Daemon(UnixDatagram, PathBuf);

    impl Daemon {
        fn new(name: &str) -> Self {
            let name = format!("taut-ptp4l-{name}-{}.sock", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_file(&path);
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            Self(socket, path)
        }

        fn answer(&self, domain: Domain, more: u16) {
            let mut requested = [0; MAX_BYTES];
            while let Ok((bytes, from)) = self.0.recv_from(&mut requested) {
                if bytes != 54
                    || (requested[4], requested[0] >> 4) != (domain.number, domain.transport)
                {
                    continue;
                }
                let sequence =
                    u16::from_be_bytes([requested[30], requested[31]]).wrapping_add(more);
                for reported in reported(u16::from_be_bytes([requested[52], requested[53]])) {
                    let said = PtpAnswer { domain, clock: GRANDMASTER, sequence, reported };
                    let mut room = [0; MAX_BYTES];
                    let bytes = said.write(&mut room);
                    self.0.send_to_addr(&room[..bytes], &from).unwrap();
                }
            }
        }
    }

    impl Drop for Daemon {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.1);
        }
    }

    fn reported(id: u16) -> Vec<PtpData> {
        let offset = Span::from_nanos(-70);
        match id {
            0x2001 => {
                vec![PtpData::Current { steps: 1, offset, path_delay: Span::from_nanos(900) }]
            }
            0x2004 => vec![
                PtpData::Port { number: 1, state: PortState::Slave },
                PtpData::Port { number: 2, state: PortState::Master },
            ],
            _ => {
                let (ingress, grandmaster) = (1_800_000_000_000_000_000, GRANDMASTER);
                vec![PtpData::TimeStatus { offset, ingress, present: true, grandmaster }]
            }
        }
    }

    #[test]
    fn daemon_of_a_usual_domain_reports_its_state() {
        let daemon = Daemon::new("asked");
        let mut requests = Ptp4l::at(&[Path::new("/nowhere"), daemon.1.as_path()]).unwrap();
        requests.request().unwrap();
        assert_eq!(requests.handle(), None, "it has not answered yet");
        daemon.answer(GPTP, 0);
        let state = requests.handle().unwrap();
        assert!(state.is_locked() && state.grandmaster == GRANDMASTER);
        assert_eq!(state.uncertainty(), Span::from_nanos(970));
        requests.request().unwrap();
        assert_eq!(requests.handle(), None, "an earlier message is not an answer");
        let mut room = [0; 100];
        let first = (0..3).map(|_| (daemon.0.recv(&mut room).unwrap(), room[0]).1);
        assert!(first.collect::<Vec<_>>().iter().all(|byte| byte >> 4 == 1));
        assert!(daemon.0.recv(&mut room).is_err(), "three questions");
    }

    #[test]
    fn ptp4l_is_queried_in_its_domain_then_the_usual_ones() {
        let (reported, other) = (Domain { number: 44, transport: 1 }, DOMAINS[2]);
        for answers_in in [reported, other] {
            let daemon = Daemon::new(&format!("told-{}", answers_in.number));
            let sockets = ["/nowhere".into(), daemon.1.clone()];
            let mut requests =
                Ptp4l::reported(&[RunningPtp4l { domain: Some(reported), sockets }]).unwrap();
            let answered = (0..2).any(|_| {
                requests.request().unwrap();
                daemon.answer(answers_in, 0);
                requests.handle().is_some()
            });
            assert!(answered, "{answers_in:?}");
            assert_eq!(requests.domain(), Some(answers_in));
        }
        let nowhere =
            RunningPtp4l { domain: None, sockets: ["/nowhere", "/nor/here"].map(PathBuf::from) };
        assert!(Ptp4l::reported(&[nowhere]).is_none());
    }

    #[test]
    fn ptp4l_wait_ends_and_foreign_answers_are_ignored() {
        let daemon = Daemon::new("silent");
        let mut requests = Ptp4l::at(&[&daemon.1]).unwrap();
        requests.request().unwrap();
        assert_eq!(requests.wait(Span::from_millis(2)), None);
        daemon.answer(GPTP, 1);
        assert_eq!(requests.wait(Span::from_millis(2)), None);
        requests.request().unwrap();
        daemon.answer(GPTP, 0);
        assert!(requests.wait(Span::from_secs(10)).is_some());
        drop(daemon);
        assert!(requests.request().is_err(), "it is gone");
        assert!(Ptp4l::at(&["/nowhere"]).is_none());
    }
}
