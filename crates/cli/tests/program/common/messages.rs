//! Phrases that tests expect, so that a new wording changes one line.

use core::fmt::Display;

pub(crate) const LISTENING: &str = "taut: listening at ";
pub(crate) const AWAITS_CALLS: &str = "listening for calls at ";
pub(crate) const WORKER_SILENT: &str = ": no reply for ";
pub(crate) const WORKER_BACK: &str = " replies again after ";
pub(crate) const IN_A_CALL: &str = "in a call with ";
pub(crate) const CLOSED_EARLY: &str = " closed the connection during the handshake";
pub(crate) const CALL_OVER: &str = "the call is over";
pub(crate) const TURNED_AWAY: &str = "is rejected: ";
pub(crate) const CALL_SOUNDS: &str = "the call has sound";
pub(crate) const CALL_SILENT: &str = "the call is without sound";
/// A caller on hold, without a device.
pub(crate) const CALLS_SILENTLY: &str = ": without sound";
pub(crate) const CALL_KEEPS: &str = "rejects the change: ";
pub(crate) const CONTROL_LOST: &str = "control connection is lost";
pub(crate) const CALLER_SILENT: &str = "the sound to it stops until";
pub(crate) const CALLS_FOR_FEWER_BITS: &str = "the call adapts within seconds";
pub(crate) const CALL_GOES_ON: &str = "the call continues";
pub(crate) const BY_TCP: &str = "the sound now uses TCP";
pub(crate) const BY_UDP: &str = "the sound now uses UDP";
pub(crate) const NO_DATAGRAM_TO: &str = "no UDP packets pass to ";
pub(crate) const NO_DATAGRAM_FROM: &str = "no UDP packets pass from ";
pub(crate) const NO_DATAGRAM: &str = "no UDP packets pass ";
pub(crate) const UNTRUSTED: &str = "is not trusted here";
pub(crate) const NO_LONGER_TRUSTED: &str = "is no longer trusted here";
pub(crate) const NO_ANSWER: &str = "did not answer within";
pub(crate) const SERVER_ENDED: &str = "taut serve ended there";
/// The server stopped calling the device.
pub(crate) const TIMER_GOES_ON: &str = "a timer replaces it";
pub(crate) const GROUP_CLAIMED: &str = "claimed a group via MAAP";
pub(crate) const GROUP_LOST: &str = "has claimed this address too";
pub(crate) const GROUP_CHANGED: &str = "claimed another group";
pub(crate) const MARKS_PLAYED: &str = "playing marks on";
pub(crate) const NOTHING_RECEIVED: &str = "nothing was received at";
/// ENODEV.
pub(crate) const NO_DEVICE: &str = "No such device";
pub(crate) const WRONG_KEY: &str = "not encrypted with this key";
pub(crate) const FIREWALL_DROPS: &str = "the local firewall drops it";
pub(crate) const NOT_READABLE: &str = "the packets are unreadable";
pub(crate) const NOT_PLAYED: &str = "so it is not played";
pub(crate) const WATCHED_BY_NONE: &str = "this run cannot be observed";
pub(crate) const COUNTED_NOW: &str = "its packets count now";
pub(crate) const ONE_CLOCK: &str = "which both ends read";
pub(crate) const UNKNOWN_CLOCK: &str = "the sender's clock is not known";
pub(crate) const CLOCK_SILENT: &str = "the followed clock is silent";
pub(crate) const CLOCK_UNHEARD: &str = "no clock packets received yet";
#[cfg(feature = "pipewire")]
pub(crate) const GRAPH_PERIOD: &str = "the graph calls every";
/// A latency lower than the packets need.
pub(crate) const TOO_SHORT: &str = "is too short";
pub(crate) const SENT_LOST: &str = " % of the sent packets are lost";
pub(crate) const RECEIVED_LOST: &str = " % of the received packets are lost";
pub(crate) const FORMAT_ADAPTS: &str = "the format adapts to the network";
pub(crate) const AT_THE_LEVEL_OF_THE_NETWORK: &str = "adapted to the network: ";
/// An AVTP address of another machine.
pub(crate) const OWN_ADDRESS_DIFFERS: &str = "is neither a group nor";
pub(crate) const ALL_LOADS: &str = "all at once";
pub(crate) const RED_TIME: &str = "(64 packets)";
pub(crate) const CALLS_QUIT_KEY: &str = "q: hang up";
pub(crate) const STAGES: &str = "stages: ";
pub(crate) const PACKETS_OF_5_MS: &str = "in packets of 5.000ms";
pub(crate) const NO_LOSS: &str = "loss 0.00 % 0, headroom ";
pub(crate) const MAKES_A_NETWORK: &str = "cannot create a network with";
pub(crate) const STOPPED_FOR_2: &str = "was stopped for 2.";
pub(crate) const LATENCY_AUTO: &str = ": latency auto";
pub(crate) const SAME_PAYLOAD_TYPE: &str = "have the payload type 96";
pub(crate) const CHANGE_IS_LATE: &str = "played when its packets arrive";
pub(crate) const ECHO_OFF: &str = "echo of the loudspeaker is cancelled in the microphone";

pub(crate) const FILE_TOO_LARGE: &str = "File too large";
/// A ledger has no room.
pub(crate) const LEDGER_BROKEN: &str = "is incomplete";
pub(crate) const BEGUN_AGAIN: &str = "restarted with that";

pub(crate) const LESS_LEAVES_NO_TIME: &str = "packets, devices and network need";

pub(crate) const JACK_STALLED: &str = "the JACK server stalled";
pub(crate) const ENDING: &str = "stopping after this stream, in at most ";
pub(crate) const RUN_OVER: &str = "the run is over";
pub(crate) const CALLER_UNTRUSTED: &str = "the caller is no longer trusted";
pub(crate) const CALLEE_UNTRUSTED: &str = "the called machine is no longer trusted";
pub(crate) const GOES_TO: &str = "the stream goes to ";
pub(crate) const NOT_KEPT: &str = "so heard.wav was not kept";
pub(crate) const CONVERT: &str = "convert it first: ";

pub(crate) fn is_over(who: &str, why: &str) -> String {
    format!("{who}: {CALL_OVER}: {why}")
}

pub(crate) fn is_silent(who: &str) -> String {
    format!("{who}: {CALL_SILENT}")
}

pub(crate) fn moved(from: impl Display, to: impl Display) -> String {
    format!("studio was at {from} and is at {to} now")
}

pub(crate) fn devices(microphone: &str, loudspeaker: &str) -> String {
    format!("the microphone is {microphone}, {}", self::loudspeaker(loudspeaker))
}

pub(crate) fn loudspeaker(device: &str) -> String {
    format!("the loudspeaker is {device}; ")
}

pub(crate) fn with_sound(with: usize, without: usize) -> String {
    format!("{with} with sound, {without} without")
}

pub(crate) fn call_is_now(terms: &str) -> String {
    format!("the call is now {terms}")
}

/// Stereo at 48 kHz, as printed by calls.
pub(crate) fn coded(format: &str, ptime: &str) -> String {
    format!("{format} 48000 Hz, 2 channels, {ptime} per packet")
}

pub(crate) fn is_back(device: &str) -> String {
    format!("{device}: it is back")
}

pub(crate) const GST_PLAYING: &str = "Setting pipeline to PLAYING";
pub(crate) const GST_PREROLLING: &str = "Pipeline is PREROLLING";
pub(crate) const PULSE_STARTED: &str = "Daemon startup complete";
pub(crate) const PULSE_STREAM: &str = "Stream successfully created";
pub(crate) const JACK_LATENCY: &str = "new capture latency";
pub(crate) const JACK_ROUNDTRIP: &str = " total roundtrip latency";
pub(crate) const JACK_WATCHED: &str = "Client sends registered";
