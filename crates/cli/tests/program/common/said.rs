//! Phrases that tests expect in the output of programs, so that a new wording changes one line
//! here.

use core::fmt::Display;

/// A receiver listens.
pub(crate) const LISTENING: &str = "taut: listening at ";
/// A server accepts calls; its address follows.
pub(crate) const AWAITS_CALLS: &str = "listening for calls at ";
/// A worker does not answer the library.
pub(crate) const WORKER_SILENT: &str = ": no reply for ";
/// It replies again; the duration follows.
pub(crate) const WORKER_BACK: &str = " replies again after ";
pub(crate) const IN_A_CALL: &str = "in a call with ";
/// The called machine closed the connection during the handshake.
pub(crate) const CLOSED_EARLY: &str = " closed the connection during the handshake";
/// A call ended; the reason follows.
pub(crate) const CALL_OVER: &str = "the call is over";
/// A caller or visitor was rejected; the reason follows.
pub(crate) const TURNED_AWAY: &str = "is rejected: ";
/// A call was resumed.
pub(crate) const CALL_SOUNDS: &str = "the call has sound";
/// A call was put on hold.
pub(crate) const CALL_SILENT: &str = "the call is without sound";
/// A caller on hold, without a device.
pub(crate) const CALLS_SILENTLY: &str = "calls: without sound";
/// The peer rejected a change.
pub(crate) const CALL_KEEPS: &str = "rejects the change: ";
/// The control connection was lost.
pub(crate) const CONTROL_LOST: &str = "control connection is lost";
/// The control connection is restored.
pub(crate) const CALL_GOES_ON: &str = "the call continues";
/// A call changed its transport.
pub(crate) const BY_TCP: &str = "the sound now uses TCP";
/// A call changed its transport.
pub(crate) const BY_UDP: &str = "the sound now uses UDP";
/// UDP is blocked in this direction.
pub(crate) const NO_DATAGRAM_TO: &str = "no UDP packets pass to ";
/// UDP is blocked in this direction.
pub(crate) const NO_DATAGRAM_FROM: &str = "no UDP packets pass from ";
/// UDP is blocked in one of both directions.
pub(crate) const NO_DATAGRAM: &str = "no UDP packets pass ";
/// The key of the other end is unknown.
pub(crate) const UNTRUSTED: &str = "is not trusted here";
/// The key of a peer was removed during a call.
pub(crate) const NO_LONGER_TRUSTED: &str = "is no longer trusted here";
/// A host or server does not respond.
pub(crate) const NO_ANSWER: &str = "did not answer within";
pub(crate) const SERVER_ENDED: &str = "taut serve ended there";
/// The server stopped calling the device.
pub(crate) const TIMER_GOES_ON: &str = "a timer replaces it";
pub(crate) const GROUP_CLAIMED: &str = "claimed a group via MAAP";
pub(crate) const GROUP_LOST: &str = "has claimed this address too";
pub(crate) const GROUP_CHANGED: &str = "claimed another group";
/// `taut lab delay` measures.
pub(crate) const MARKS_PLAYED: &str = "playing marks on";
pub(crate) const NOTHING_RECEIVED: &str = "nothing was received at";
/// The operating system reports ENODEV.
pub(crate) const NO_DEVICE: &str = "No such device";
pub(crate) const WRONG_KEY: &str = "not encrypted with this key";
pub(crate) const FIREWALL_DROPS: &str = "the local firewall drops it";
/// The sender reports that it is late.
pub(crate) const TOO_OLD_WHEN_SENT: &str = "old when they leave";
pub(crate) const NOT_READABLE: &str = "the packets are unreadable";
pub(crate) const NOT_PLAYED: &str = "so it is not played";
/// `taut top` cannot see this program.
pub(crate) const WATCHED_BY_NONE: &str = "this run cannot be observed";
/// An experiment begins to measure.
pub(crate) const COUNTED_NOW: &str = "its packets count now";
/// Sender and receiver use the same clock.
pub(crate) const ONE_CLOCK: &str = "which both ends read";
pub(crate) const UNKNOWN_CLOCK: &str = "the sender's clock is not known";
pub(crate) const CLOCK_SILENT: &str = "the followed clock is silent";
pub(crate) const CLOCK_UNHEARD: &str = "no clock packets received yet";
/// PipeWire runs the stream; the period follows.
pub(crate) const GRAPH_PERIOD: &str = "the graph calls every";
/// The latency is lower than the packets need.
pub(crate) const TOO_LITTLE: &str = "is too little";
/// The sender adapts its bit rate.
pub(crate) const AT_THE_LEVEL_OF_THE_NETWORK: &str = "adapted to the network: ";
/// The AVTP address belongs to another machine.
pub(crate) const OWN_ADDRESS_DIFFERS: &str = "is neither a group nor";
/// The row of all loads together.
pub(crate) const ALL_LOADS: &str = "all at once";
pub(crate) const RED_TIME: &str = "the time of 64 packets";
pub(crate) const CALLS_QUIT_KEY: &str = "q: hang up";
pub(crate) const STAGES: &str = "stages: ";
pub(crate) const PACKETS_OF_5_MS: &str = "in packets of 5.000ms";
pub(crate) const NO_LOSS: &str = "loss 0.00 % 0, headroom ";
pub(crate) const MAKES_A_NETWORK: &str = "cannot create a network with";
/// The report contains a stall of this length.
pub(crate) const STOPPED_FOR_2: &str = "was stopped for 2.";
pub(crate) const LATENCY_AUTO: &str = ": latency auto";
pub(crate) const SAME_PAYLOAD_TYPE: &str = "have the payload type 96";
pub(crate) const CHANGE_IS_LATE: &str = "played when its packets arrive";
pub(crate) const ECHO_OFF: &str = "echo of the loudspeaker is cancelled in the microphone";

/// The operating system reports EFBIG.
pub(crate) const FILE_TOO_LARGE: &str = "File too large";
/// A ledger has no room.
pub(crate) const LEDGER_BROKEN: &str = "is incomplete";
/// The receiver restarts with the announced format.
pub(crate) const BEGUN_AGAIN: &str = "restarted with that";

/// The requested latency of a call is raised.
pub(crate) const LESS_LEAVES_NO_TIME: &str = "packets and devices of both ends need";
/// The latency that the device needs.
pub(crate) const DEVICE_TAKES: &str = "the device here takes";

/// The server does not call this client; it may be stopped.
pub(crate) const JACK_STALLED: &str = "the JACK server stalled";
/// The seconds until the end follow.
pub(crate) const ENDING: &str = "stopping after this stream, in at most ";
pub(crate) const RUN_OVER: &str = "the run is over";
/// Reasons for the end of a call.
pub(crate) const CALLER_UNTRUSTED: &str = "the caller is no longer trusted";
pub(crate) const CALLEE_UNTRUSTED: &str = "the called machine is no longer trusted";
/// A talker claimed an address, which follows.
pub(crate) const GOES_TO: &str = "the stream goes to ";
/// A recording without sound was removed.
pub(crate) const NOT_KEPT: &str = "so heard.wav was not kept";
pub(crate) const CONVERT: &str = "convert it first: ";

pub(crate) fn is_over(who: &str, why: &str) -> String {
    format!("{who}: {CALL_OVER}: {why}")
}

pub(crate) fn is_silent(who: &str) -> String {
    format!("{who}: {CALL_SILENT}")
}

/// A saved worker has a new address.
pub(crate) fn moved(from: impl Display, to: impl Display) -> String {
    format!("studio was at {from} and is at {to} now")
}

/// The default devices of a call.
pub(crate) fn devices(microphone: &str, loudspeaker: &str) -> String {
    format!("the microphone is {microphone}, {}", self::loudspeaker(loudspeaker))
}

pub(crate) fn loudspeaker(device: &str) -> String {
    format!("the loudspeaker is {device}; ")
}

/// Number of calls of a server.
pub(crate) fn with_sound(with: usize, without: usize) -> String {
    format!("{with} with sound, {without} without")
}

/// The ends agreed on new terms.
pub(crate) fn call_is_now(terms: &str) -> String {
    format!("the call is now {terms}")
}

/// Stereo at 48 kHz, as printed by calls.
pub(crate) fn coded(format: &str, ptime: &str) -> String {
    format!("{format} 48000 Hz, 2 channels, {ptime} per packet")
}

/// A device that was lost works again.
pub(crate) fn is_back(device: &str) -> String {
    format!("{device}: it is back")
}

// Other programs.
pub(crate) const GST_PLAYING: &str = "Setting pipeline to PLAYING";
pub(crate) const GST_PREROLLING: &str = "Pipeline is PREROLLING";
pub(crate) const PULSE_STARTED: &str = "Daemon startup complete";
pub(crate) const PULSE_STREAM: &str = "Stream successfully created";
pub(crate) const JACK_LATENCY: &str = "new capture latency";
pub(crate) const JACK_ROUNDTRIP: &str = " total roundtrip latency";
pub(crate) const JACK_WATCHED: &str = "Client sends registered";
