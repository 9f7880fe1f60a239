//! What the paper found: J. Morales, *pTHINC Audio Transport and Latency*, Columbia University, 2009, section
//! "Mouth-to-Ear Latency Measurements". The mouth was a Dell Axim X51v (ARM, 624 MHz) on wireless Ethernet, the ear a
//! laptop of 2 GHz; the sound went through a speaker and a microphone, and the figures are averages.

use super::transport::CallTransport;
use crate::report::{Published, Statistic};

const SOURCE: &str = "Morales 2009, Mouth-to-Ear Latency Measurements";

const fn paper(name: &'static str, millis: i64) -> Published {
    Published { source: SOURCE, name, statistic: Statistic::Mean, value_ns: millis * 1_000_000 }
}

/// With 64 slots for playback and 16 for recording of 1 KB: the mean of 16 kHz mono, by the softphone whose sound was the
/// more stable. Of other buffers it has no figure.
pub(super) const fn by(transport: CallTransport) -> Published {
    match transport {
        CallTransport::Udp => paper("pTHINC", 292),
        CallTransport::Tcp => paper("pTHINC", 321),
    }
}

/// What stands beside a call as it is usual here: by the same transport, and by the program that ran on the device
/// itself.
pub(super) fn of_usual(transport: CallTransport) -> Vec<Published> {
    vec![by(transport), paper("Skype on the device", 190)]
}
