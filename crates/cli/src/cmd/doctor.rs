//! `taut doctor`

use std::io::IsTerminal;

use tautline_dsp::format::SampleFormat;
use tautline_proto::latency::{DEFAULT_LATENCY, LatencyRule};
use tautline_proto::stream::{StreamFormat, packet_frames};

use crate::doctor::show::{FindingCounts, json, lines, page};
use crate::doctor::{Requirements, examine};
use crate::failure::Failure;
use crate::flags::{Doctor, PlainKind};
use crate::screen;

pub(crate) fn run(flags: &Doctor) -> Result<(), Failure> {
    let latency = match flags.latency {
        LatencyRule::Chosen(span) => span,
        // As `taut send` promises where nobody says otherwise.
        LatencyRule::Auto { .. } | LatencyRule::Usual => DEFAULT_LATENCY,
    };
    let packet = packet_frames(flags.rate, flags.ptime)
        .map_err(|error| Failure::usage(error.to_string()))?;
    // The coding that is sent by default.
    let sample = SampleFormat::L24;
    let format = StreamFormat {
        coder: None,
        rate: flags.rate,
        channels: flags.channels,
        sample,
        packet,
        payload_type: StreamFormat::default_payload_type(sample),
    };
    let findings = examine(&Requirements { latency, format });
    let counts = FindingCounts::of(&findings);
    match flags.report {
        PlainKind::Text if std::io::stdout().is_terminal() => {
            screen::print(&(page(&findings) + &counts.sentence(latency)));
        }
        PlainKind::Text => screen::print(&(lines(&findings) + &counts.sentence(latency))),
        PlainKind::Json => {
            let text = json(&findings, latency);
            screen::print(&text.map_err(|error| Failure::running(error.to_string()))?);
        }
        PlainKind::None => {}
    }
    match counts.spoils {
        0 => Ok(()),
        1 => Err(Failure::running(format!(
            "one thing here would spoil sound at {latency}: see the line SPOILS"
        ))),
        many => Err(Failure::running(format!(
            "{many} things here would spoil sound at {latency}: see the lines SPOILS"
        ))),
    }
}
