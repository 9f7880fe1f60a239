//! An ALSA PCM, `type tautline`: any ALSA program can play to the network or record from it.
//!
//! ```text
//! application ──snd_pcm_writei──▶ buffer ─▶ card ──▶ the engine's transmitter ──▶ network
//!               plug, pcm                   card: a thread with its own pace
//! ```
//!
//! Recording runs the other way round. The card's thread never waits for the application: both
//! share only samples and a few words (`tautline_io::programs`). With the key `serve`, the card
//! belongs to a running `taut serve` (`way`).

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
