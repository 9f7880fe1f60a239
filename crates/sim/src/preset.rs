//! Networks named after places, with the sources of their values. Chosen values are marked as such.

use tautline_proto::time::Span;

use crate::link::{Bottleneck, Holds, Jitter, Loss, PathModel};

tautline_proto::named_enum! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Preset {
        /// One idle switch. Roc Toolkit measured a round trip of 0.46 ms and clock-offset jitter of
        /// 10 µs (p95), 38 µs maximum, on a direct cable (qa report 20241230, case 03).
        Wired = "wired",
        /// The same with other traffic on the sender's wire. A frame of 1500 bytes takes 120 µs at
        /// 100 Mbit/s. The usual queue of ten frames is chosen.
        SwitchUnderLoad = "switch-under-load",
        /// 5 GHz, short range, quiet channel: mean round trip 2.5 ms, offset jitter up to 376 µs
        /// (same report, case 01). Holds up to 12 ms every other second are chosen. Roc's receiver
        /// saw peaks of 60 to 140 ms on Wi-Fi (qa report 20241011, cases 01 and 02) and 12 ms on a
        /// cable (case 08), partly due to its sender.
        Wifi5Ghz = "wifi-5ghz",
        /// 2.4 GHz through a wall. Holds match Roc's peaks of 140 ms at 5 GHz (qa 20241011, case
        /// 02; 1.1 s at 2.4 GHz, called unusable, case 06). The Pareto distribution is JackTrip's
        /// (`slot distribution pareto 0.1ms 3.0ms` in `src/Regulator.cpp`). Its parameters and 2 %
        /// loss in bursts of 3 are chosen.
        WifiBad = "wifi-bad",
        /// Fibre between two cities: 5 ms per 1000 km of glass. Jitter and loss of a good path are
        /// chosen.
        Wan = "wan",
        /// Geostationary: 35 786 km up and down take 240 ms. The rest is chosen.
        Satellite = "satellite",
    }
    unknown: "invalid network '{}': must be wired, switch-under-load, wifi-5ghz, wifi-bad, wan or satellite"
}

impl Preset {
    /// Latency that covers the delay variation, with packets and periods of 1 ms.
    pub const fn suits(self) -> Span {
        Span::from_millis(match self {
            Self::Wired => 5,
            Self::SwitchUnderLoad => 8,
            Self::Wifi5Ghz => 40,
            Self::WifiBad => 300,
            Self::Wan => 30,
            Self::Satellite => 400,
        })
    }

    pub fn path(self) -> PathModel {
        let micros = Span::from_micros;
        match self {
            Self::Wired => PathModel {
                jitter: Jitter::HalfNormal(micros(5)),
                bottleneck: Some(Bottleneck { rate: 1_000_000_000, queue: 256 << 10 }),
                ..PathModel::ideal(micros(200))
            },
            Self::SwitchUnderLoad => PathModel {
                jitter: Jitter::Exponential(micros(120)),
                holds: Some(Holds {
                    every: Span::from_millis(200),
                    length: Jitter::Uniform(micros(1_200)),
                }),
                loss: Loss::random(1e-6),
                bottleneck: Some(Bottleneck { rate: 100_000_000, queue: 64 << 10 }),
                ..PathModel::ideal(micros(200))
            },
            Self::Wifi5Ghz => PathModel {
                jitter: Jitter::Exponential(micros(400)),
                holds: Some(Holds {
                    every: Span::from_secs(2),
                    length: Jitter::Uniform(micros(12_000)),
                }),
                loss: Loss::bursts(0.0005, 2.0),
                ..PathModel::ideal(micros(800))
            },
            Self::WifiBad => PathModel {
                jitter: Jitter::Pareto {
                    scale: micros(300),
                    shape: 1.2,
                    maximum: Span::from_millis(60),
                },
                holds: Some(Holds {
                    every: Span::from_secs(3),
                    length: Jitter::Uniform(Span::from_millis(140)),
                }),
                loss: Loss::bursts(0.02, 3.0),
                duplicates: 0.0005,
                ..PathModel::ideal(Span::from_millis(1))
            },
            Self::Wan => PathModel {
                jitter: Jitter::Exponential(micros(300)),
                loss: Loss::bursts(0.0002, 2.0),
                reorders: (0.0002, Span::from_millis(2)),
                ..PathModel::ideal(Span::from_millis(6))
            },
            Self::Satellite => PathModel {
                jitter: Jitter::Exponential(Span::from_millis(4)),
                loss: Loss::bursts(0.002, 4.0),
                bottleneck: Some(Bottleneck { rate: 10_000_000, queue: 512 << 10 }),
                ..PathModel::ideal(Span::from_millis(250))
            },
        }
    }
}
