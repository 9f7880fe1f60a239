use core::fmt;
use core::str::FromStr;

use tautline_proto::time::Span;

use crate::loadgen::{Noise, TcpRate};
use crate::streams::LabStream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPart {
    Ambient,
    Alongside(Noise),
    Overhead,
}

/// Parts of the measurement: traffic without a stream, a row per noise, and overhead.
pub const PARTS: [&str; 7] =
    ["ambient", "silent", "multicast", "chatter", "tcp", "all", "overhead"];

impl FromStr for NetworkPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let tcp = Some(TcpRate::Full);
        let silent = Noise::SILENT;
        Ok(match text {
            "ambient" => Self::Ambient,
            "silent" => Self::Alongside(silent),
            "multicast" => Self::Alongside(Noise { multicast: true, ..silent }),
            "chatter" => Self::Alongside(Noise { chatter: true, ..silent }),
            "tcp" => Self::Alongside(Noise { tcp, ..silent }),
            "all" => Self::Alongside(Noise { tcp, ..Noise::NOISY }),
            "overhead" => Self::Overhead,
            _ => {
                let names = PARTS.join(", ");
                return Err(format!("unknown part '{text}'\nhint: the parts are {names}"));
            }
        })
    }
}

impl fmt::Display for NetworkPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ambient => f.write_str("ambient"),
            Self::Alongside(noise) => noise.fmt(f),
            Self::Overhead => f.write_str("overhead"),
        }
    }
}

impl NetworkPart {
    pub fn cases(&self) -> usize {
        match self {
            Self::Ambient | Self::Alongside(_) => 1,
            Self::Overhead => PACKETS.len(),
        }
    }

    #[must_use]
    pub fn with_tcp(self, rate: TcpRate) -> Self {
        match self {
            Self::Alongside(noise) => Self::Alongside(noise.with_tcp(Some(rate))),
            Self::Ambient | Self::Overhead => self,
        }
    }
}

/// Mbit/s in and out at sender and receiver (table 3.1 of the thesis). Most noise was unwanted
/// multicast.
pub(super) fn listed(noise: Noise) -> Option<[[f64; 2]; 2]> {
    match noise {
        Noise::SILENT => Some([[0.0, 1.6], [1.6, 0.0]]),
        Noise { multicast: true, chatter: false, tcp: None } => Some([[4.0, 1.6], [5.6, 0.0]]),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Packets {
    pub(super) ptime: Span,
    latency: Span,
    pub(super) listed: [usize; 2],
}

const fn packets(ptime: i64, latency: i64, listed: [usize; 2]) -> Packets {
    Packets { ptime: Span::from_millis(ptime), latency: Span::from_millis(latency), listed }
}

pub(super) const PACKETS: [Packets; 4] = [
    packets(20, 100, [3974, 3840]),
    packets(10, 60, [2016, 1920]),
    packets(5, 40, [1018, 960]),
    packets(1, 5, [250, 192]),
];

impl Packets {
    /// 16 bits, as in the thesis.
    pub(super) fn plan(&self, base: &LabStream) -> LabStream {
        let coding = ["--format", "l16"].map(str::to_owned);
        LabStream {
            ptime: self.ptime,
            latency: self.latency,
            period: (self.ptime.as_nanos() * i64::from(base.rate) / 1_000_000_000) as u32,
            send: base.send.iter().cloned().chain(coding.clone()).collect(),
            recv: base.recv.iter().cloned().chain(coding).collect(),
            ..base.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_by_their_names() {
        let reported: Vec<String> =
            PARTS.iter().map(|name| name.parse::<NetworkPart>().unwrap().to_string()).collect();
        let all = [
            "ambient",
            "silent",
            "unhandled multicast",
            "handled chatter",
            "bulk TCP",
            "all at once",
        ];
        assert_eq!(reported[..6], all);
        assert!("none".parse::<NetworkPart>().unwrap_err().contains("silent, multicast"));
    }

    #[test]
    fn thesis_figure_is_shown_for_the_same_measurement() {
        assert_eq!(listed(Noise::SILENT), Some([[0.0, 1.6], [1.6, 0.0]]));
        let Ok(NetworkPart::Alongside(multicast)) = "multicast".parse() else { panic!() };
        assert_eq!(listed(multicast), Some([[4.0, 1.6], [5.6, 0.0]]));
        assert_eq!(listed(Noise::NOISY), None);
    }
}
