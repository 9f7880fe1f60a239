//! The phrases that tests look for in the output of programs. A new wording of a message that a test waits
//! for changes one line here.

use core::fmt::Display;

/// A receiver takes packets.
pub(crate) const LISTENING: &str = "taut: listening at ";
/// The callee takes calls; its address follows.
pub(crate) const AWAITS_CALLS: &str = "listening for calls at ";
/// A worker does not answer the library at the desk.
pub(crate) const WORKER_SILENT: &str = "has not answered for ";
/// It does again; the duration follows.
pub(crate) const WORKER_BACK: &str = " answers again after ";
pub(crate) const IN_A_CALL: &str = "in a call with ";
/// What was called closed the connection before the handshake was done.
pub(crate) const CLOSED_EARLY: &str = " closed the connection before the handshake was done";
/// A call ended; the reason follows.
pub(crate) const CALL_OVER: &str = "the call is over";
/// A caller or visitor was rejected; the reason follows.
pub(crate) const TURNED_AWAY: &str = "is turned away: ";
/// A call was resumed.
pub(crate) const CALL_SOUNDS: &str = "the call has sound";
/// A call was put on hold.
pub(crate) const CALL_SILENT: &str = "the call is without sound";
/// A caller that has no device for sound yet.
pub(crate) const CALLS_SILENTLY: &str = "calls: without sound";
/// The ends did not agree on other terms.
pub(crate) const CALL_KEEPS: &str = "keeps to what was: ";
/// The call goes on without its control connection.
pub(crate) const CONTROL_LOST: &str = "control connection is lost";
/// The control connection is there again.
pub(crate) const CALL_GOES_ON: &str = "the call goes on";
/// A call changed its transport.
pub(crate) const BY_TCP: &str = "the sound goes by TCP";
/// A call changed its transport.
pub(crate) const BY_UDP: &str = "the sound goes by UDP";
/// UDP is blocked in this direction.
pub(crate) const NO_DATAGRAM_TO: &str = "no datagram passes to ";
/// UDP is blocked in this direction.
pub(crate) const NO_DATAGRAM_FROM: &str = "no datagram passes from ";
/// UDP is blocked in one of both directions.
pub(crate) const NO_DATAGRAM: &str = "no datagram passes ";
/// The key of the other end is unknown.
pub(crate) const UNTRUSTED: &str = "is not trusted here";
/// The key of a peer was removed during a call.
pub(crate) const NO_LONGER_TRUSTED: &str = "is trusted here no more";
/// A host or server does not respond.
pub(crate) const NO_ANSWER: &str = "did not answer within";
pub(crate) const SERVER_ENDED: &str = "taut serve ended there";
/// The device stopped calling.
pub(crate) const TIMER_GOES_ON: &str = "a timer goes on in its place";
pub(crate) const GROUP_CLAIMED: &str = "claimed a group via MAAP";
pub(crate) const GROUP_LOST: &str = "has claimed this address too";
pub(crate) const GROUP_CHANGED: &str = "claimed another group";
/// `taut lab delay` measures.
pub(crate) const MARKS_PLAYED: &str = "marks are played";
pub(crate) const NOTHING_RECEIVED: &str = "nothing was received at";
/// The operating system reports ENODEV.
pub(crate) const NO_DEVICE: &str = "No such device";
pub(crate) const WRONG_KEY: &str = "not sealed with the key given here";
pub(crate) const FIREWALL_DROPS: &str = "the firewall here keeps it out";
/// The sender is late by its own measure.
pub(crate) const TOO_OLD_WHEN_SENT: &str = "old when they leave";
pub(crate) const NOT_READABLE: &str = "nothing can be read of those that come";
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
pub(crate) const AT_THE_LEVEL_OF_THE_NETWORK: &str = "as the network carries it: ";
/// The AVTP address belongs to another machine.
pub(crate) const OWN_ADDRESS_DIFFERS: &str = "is neither a group nor";
/// The row of all loads together.
pub(crate) const ALL_LOADS: &str = "all at once";
pub(crate) const RED_TIME: &str = "the time of 64 packets";
pub(crate) const CALLS_QUIT_KEY: &str = "q: hang up";
pub(crate) const STAGES: &str = "stages: ";
pub(crate) const PACKETS_OF_5_MS: &str = "in packets of 5.000ms";
pub(crate) const NO_LOSS: &str = "loss 0.00 % 0, headroom ";
pub(crate) const MAKES_A_NETWORK: &str = "making a network";
/// The report names a stall of this length.
pub(crate) const STOPPED_FOR_2: &str = "was stopped for 2.";
pub(crate) const UNTIL_MEASURED: &str = "until they were measured";
pub(crate) const SAME_PAYLOAD_TYPE: &str = "have the payload type 96";
pub(crate) const CHANGE_IS_LATE: &str = "heard when its sound is there";
pub(crate) const ECHO_OFF: &str =
    "what the loudspeaker plays is taken out of what the microphone hears";

/// The operating system reports EFBIG.
pub(crate) const FILE_TOO_LARGE: &str = "File too large";
/// A ledger has no room.
pub(crate) const LEDGER_BROKEN: &str = "is incomplete";
/// The receiver starts again with the format that the sender announces.
pub(crate) const BEGUN_AGAIN: &str = "begun anew with that";

/// The latency of a call that was asked for is raised.
pub(crate) const LESS_LEAVES_NO_TIME: &str = "leave no time for less than";
/// The latency is that of the device.
pub(crate) const DEVICE_TAKES: &str = "the device here takes";

/// The server does not call this client; it may be stopped.
pub(crate) const JACK_STALLED: &str = "the JACK server stalled";
/// The seconds until the end follow.
pub(crate) const ENDING: &str = "ending after this stream, in ";
pub(crate) const RUN_OVER: &str = "the run is over";
/// The reasons for which a call ended.
pub(crate) const CALLER_UNTRUSTED: &str = "the caller is trusted no more";
pub(crate) const CALLEE_UNTRUSTED: &str = "the host that was called is trusted no more";
/// The address that a talker claimed follows.
pub(crate) const GOES_TO: &str = "the stream goes to ";
/// A recording has no sound.
pub(crate) const NOT_KEPT: &str = "so heard.wav was not kept";
pub(crate) const CONVERT: &str = "convert it first: ";

pub(crate) fn is_over(who: &str, why: &str) -> String {
    format!("{who}: {CALL_OVER}: {why}")
}

pub(crate) fn is_silent(who: &str) -> String {
    format!("{who}: {CALL_SILENT}")
}

/// A worker that is kept under a name has another address.
pub(crate) fn moved(from: impl Display, to: impl Display) -> String {
    format!("studio was at {from} and is at {to} now")
}

/// The devices of a call that names none.
pub(crate) fn devices(microphone: &str, loudspeaker: &str) -> String {
    format!("the microphone is {microphone}, {}", self::loudspeaker(loudspeaker))
}

pub(crate) fn loudspeaker(device: &str) -> String {
    format!("the loudspeaker is {device}; ")
}

/// The calls of a server.
pub(crate) fn with_sound(with: usize, without: usize) -> String {
    format!("{with} with sound, {without} without")
}

/// The ends agreed on other terms.
pub(crate) fn call_is_now(terms: &str) -> String {
    format!("the call is now {terms}")
}

/// Stereo at 48 kHz, as the ends of a call name it.
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
