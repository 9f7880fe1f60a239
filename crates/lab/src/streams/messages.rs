use std::net::{IpAddr, SocketAddr};

use tautline_io::udp::any;
use tautline_proto::time::Span;

use super::{LabStream, READY, TAIL};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LabWire {
    #[default]
    Rtp,
    /// From the sender's interface to the receiver's.
    Avtp([String; 2]),
}

/// Group that may be used locally without allocation (IEEE 1722 table B.10).
const GROUP: &str = "91:E0:F0:00:FE:01";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamPath {
    to: Vec<String>,
    from: Vec<String>,
}

impl StreamPath {
    /// Uses every second port from `port` on.
    pub(super) fn by_udp(address: IpAddr, port: u16, copies: u16) -> Self {
        let at = |address: IpAddr| {
            let ports = (0..copies).map(|copy| port + 2 * copy);
            ports.map(|port| format!("rtp://{}", SocketAddr::from((address, port)))).collect()
        };
        Self { to: at(address), from: at(any(address.is_ipv6())) }
    }

    pub(super) fn by_ethernet(interfaces: &[String; 2]) -> Self {
        let [to, from] = interfaces.each_ref().map(|name| vec![format!("avtp://{name}/{GROUP}")]);
        Self { to, from }
    }
}

fn words<const COUNT: usize>(words: [&str; COUNT]) -> impl Iterator<Item = String> {
    words.map(str::to_owned).into_iter()
}

impl LabStream {
    fn common(&self, end: usize, lasts: Span) -> Vec<String> {
        let Self { ptime, latency, period, periods, rate, .. } = self;
        let all = format!(
            "--ptime {ptime} --latency {latency} --period {period} --periods {periods} --rate {rate} \
             --duration {lasts} --report json --quiet"
        );
        let mut all: Vec<String> = all.split(' ').map(str::to_owned).collect();
        if let Some(scheduler) = &self.schedulers[end] {
            all.extend(words(["--scheduler", scheduler]));
        }
        if self.ledgers {
            all.extend(words(["--packet-log", ["{dir}/sent.csv", "{dir}/heard.csv"][end]]));
        }
        all
    }

    pub(super) fn send_words(&self, lasts: Span, path: &StreamPath) -> Vec<String> {
        if let Some(instead) = &self.instead {
            let lasts = lasts.to_string();
            let rest =
                ["--to", &path.to[0], "--duration", &lasts, "--packet-log", "{dir}/sent.csv"];
            return instead.iter().cloned().chain(words(rest)).collect();
        }
        let input = self.input.as_deref().unwrap_or("virtual:?source={dir}/noise.wav");
        let mut all: Vec<String> = words(["send", "--input", input]).collect();
        all.extend(path.to.iter().flat_map(|to| words(["--to", to])));
        all.extend(self.common(0, lasts));
        all.extend(self.send.clone());
        all
    }

    pub(super) fn recv_words(&self, lasts: Span, path: &StreamPath) -> Vec<String> {
        let output = self.output.as_deref().unwrap_or("virtual:");
        let mut all: Vec<String> = words(["recv", "--output", output]).collect();
        all.extend(path.from.iter().flat_map(|from| words(["--from", from])));
        // The receiver starts first and ends last.
        all.extend(self.common(1, lasts + READY + TAIL));
        if self.wire == LabWire::Rtp {
            all.push("--exit-on-bye".to_owned());
        }
        all.extend(self.recv.clone());
        all
    }
}
