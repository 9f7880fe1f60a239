//! An ALSA PCM, `type tautline`: any ALSA program plays to the network or records from it.
//!
//! ```text
//! application ──snd_pcm_writei──▶ track ──▶ card ──▶ the engine's transmitter ──▶ network
//!               plug, pcm                   card, ends: a thread with its own pace
//! ```
//!
//! and the other way round for recording, by a ring (`rtrb`) in the track's place. The application's threads never touch the wire and the
//! card's thread never waits for the application: between them are samples and a few words
//! (`shared`). `keys` reads the configuration, `wire` lays out what the engine
//! is to do, `stream` runs it, `offers` says what the PCM can do.

mod areas;
mod card;
mod complaint;
mod conf;
mod ends;
mod ffi;
mod forked;
mod keys;
mod offers;
pub mod open;
mod pcm;
mod plug;
mod samples;
mod shared;
mod stream;
mod track;
mod wire;
mod words;
