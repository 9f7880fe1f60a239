//! An ALSA PCM, `type tautline`: any ALSA program plays to the network or records from it.
//!
//! ```text
//! application ──snd_pcm_writei──▶ buffer ─▶ card ──▶ the engine's transmitter ──▶ network
//!               plug, pcm                   card: a thread with its own pace
//! ```
//!
//! and the other way round for recording. The application's threads never touch the wire and the card's thread never
//! waits for the application: between them are samples and a few words (`tautline_io::programs`). With the key `serve`
//! the card is that of a `taut serve` that runs, and the buffer lies in memory shared with it: `way`. `keys` reads the configuration, `wire` lays out what the engine
//! is to do, `stream` runs it, `offers` says what the PCM can do.

mod areas;
mod card;
mod complaint;
mod conf;
mod ffi;
mod forked;
mod keys;
mod messages;
mod offers;
pub mod open;
mod pcm;
mod plug;
mod samples;
mod stream;
mod way;
mod wire;
