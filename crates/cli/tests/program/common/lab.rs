//! A sender, an impaired network and a receiver, on real sockets.
//!
//! ```ignore
//! // Or timed(|| …), if time is measured.
//! shared(|| {
//!     let mut lab = Lab::start("--loss 5% --seed 7 --back ideal");
//!     let carried = lab.carry("--input tone:997 --duration 10s --latency 20ms", "--period 48");
//!     assert_eq!(carried.heard.count("lost"), carried.relayed.there("lost"), "{carried}");
//!     assert_eq!(carried.heard.missed(), 0, "{carried}");
//! });
//! ```
//!
//! [`Lab::start`] uses `taut lab impair` on loopback, without privileges. [`Lab::on_cable`] uses a
//! cable between namespaces, whose kernel drops packets with
//! [`Namespace::loses`](super::network::Namespace::loses). [`Lab::recv`] and [`Lab::send`] start
//! one end each. A simulated scenario with the same preset, flags and seed is its twin.

use core::fmt;

use serde_json::Value;

use super::network::{Cable, Namespace};
use super::program::{Call, Running, taut, words};
use super::report::Report;
use super::sound::Sound;
use super::{Folder, free_udp_ports};

pub(crate) struct Lab {
    pub(crate) folder: Folder,
    pub(crate) cable: Option<Cable>,
    relay: Option<Running>,
    from: String,
    to: String,
}

pub(crate) struct Carried {
    pub(crate) sent: Report,
    pub(crate) received: Report,
    pub(crate) relayed: Relayed,
}

/// Null without a relay.
pub(crate) struct Relayed(pub(crate) Value);

impl Lab {
    pub(crate) fn start(impair: &str) -> Self {
        Self::straight().relayed(impair)
    }

    pub(crate) fn with_file(impair: &str, name: &str, text: &str) -> Self {
        let lab = Self::straight();
        std::fs::write(lab.folder.file(name), text).unwrap();
        lab.relayed(impair)
    }

    fn relayed(self, impair: &str) -> Self {
        let (listen, to) = (free_udp_ports(), free_udp_ports());
        let mut lab = self;
        lab.from = format!("rtp://127.0.0.1:{to}");
        lab.to = format!("rtp://127.0.0.1:{listen}");
        lab.impaired(impair)
    }

    pub(crate) fn straight() -> Self {
        let address = super::loopback();
        let (folder, to) = (Folder::new(), address.clone());
        Self { folder, cable: None, relay: None, from: address, to }
    }

    /// Sender left, receiver right, relay with the flags `impair` at the sender. `None`, with a
    /// message, without namespaces.
    pub(crate) fn on_cable(impair: Option<&str>) -> Option<Self> {
        let cable = Cable::lay()?;
        let from = format!("rtp://{}:5004", cable.right.address);
        let to = impair.map_or(from.clone(), |_| "rtp://127.0.0.1:6004".into());
        let lab = Self { folder: Folder::new(), cable: Some(cable), relay: None, from, to };
        Some(match impair {
            Some(flags) => lab.impaired(flags),
            None => lab,
        })
    }

    fn impaired(mut self, flags: &str) -> Self {
        let line = format!("lab impair --listen {} --to {} --report json", self.to, self.from);
        let call = self.here(taut(words(&line)).and(words(flags)), |cable| &cable.left);
        self.relay = Some(call.start().wait_for("taut: relaying "));
        self
    }

    fn here(&self, call: Call, side: impl Fn(&Cable) -> &Namespace) -> Call {
        let call = call.in_folder(self.folder.path());
        match &self.cable {
            Some(cable) => call.within(side(cable)),
            None => call,
        }
    }

    pub(crate) fn recv(&self, options: &str) -> Running {
        self.recv_to("file:heard.wav", options)
    }

    pub(crate) fn recv_to(&self, output: &str, options: &str) -> Running {
        self.listen(output, &format!("--exit-on-bye {options}"))
    }

    /// Runs until interrupted, despite a silent sender.
    pub(crate) fn listen(&self, output: &str, options: &str) -> Running {
        let line = format!(
            "recv --from {} --output {output} --report json --overwrite {options}",
            self.from
        );
        self.here(taut(words(&line)), |cable| &cable.right).start().listening()
    }

    pub(crate) fn send(&self, options: &str) -> Running {
        self.send_call(options).start()
    }

    pub(crate) fn send_call(&self, options: &str) -> Call {
        let line = format!("send --to {} --report json {options}", self.to);
        self.here(taut(words(&line)), |cable| &cable.left)
    }

    #[track_caller]
    pub(crate) fn carry(&mut self, send: &str, recv: &str) -> Carried {
        let recv = self.recv(recv);
        let sent = self.send(send).end().report();
        let received = recv.end().report();
        Carried { sent, received, relayed: self.end() }
    }

    #[track_caller]
    pub(crate) fn end(&mut self) -> Relayed {
        let Some(relay) = self.relay.take() else { return Relayed(Value::Null) };
        relay.signal("-INT");
        Relayed(relay.end().report().0)
    }

    #[track_caller]
    pub(crate) fn received(&self) -> Sound {
        Sound::read(&self.folder.file("heard.wav"))
    }
}

impl Relayed {
    /// A counter of the sender's packets: `received`, `released`, `lost`, `duplicated`.
    #[track_caller]
    pub(crate) fn there(&self, name: &str) -> u64 {
        self.0["there"]["media"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name} in {:#}", self.0))
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, received, relayed) = (&self.sent.0, &self.received.0, &self.relayed.0);
        write!(f, "sent {sent:#}\nheard {received:#}\nrelayed {relayed:#}")
    }
}
