//! Sound devices: cards by ALSA, clients of JACK and PipeWire, virtual cards and files.
//!
//! People name a device by a [`DeviceSpec`]; [`open`] gives a [`Device`](tautline_proto::device::Device) to be run on a thread of
//! the caller's, whose priority the caller has set. Each kind has a module with the same three
//! functions: `settle` says how the device would run, `open` opens it, `list` finds what is there.
//! The kinds know the contract ([`tautline_proto::device`]) and the `toolbox`, and not one another;
//! `opening` knows them all. One card serves everything that has no hardware; `file:` differs in one thing: it waits
//! up to a second for a late program, so that what is read or written is whole, where a `virtual:`
//! card overruns and starves. Files are decoded and written on ordinary threads of their own, which
//! end with the device.
#![deny(unsafe_code)]

pub mod alsa;
pub mod echo;
pub mod jack;
mod opening;
pub mod pipewire;
mod shared;
mod software;
mod spec;
mod toolbox;
mod usual;

#[cfg(test)]
mod tests;

pub use opening::{
    Opened, channels, list, offered, open, open_paced, open_supervised, probe, settle,
};
pub use shared::{MOST_PARTS, SharedPart, SharedParts, SharedProcesses, shared};
pub use software::cable::CableName;
pub use software::convert::Wanted;
pub use software::file::{FileCoding, FileFormat, FileReader, SoundFile, holds_nothing};
pub use software::recorded::{MOST_OF_A_PART, RecordedTime, Recording, recorded};
pub use software::recorder::check_take;
pub use software::spec::{CardOptions, SoftwareSpec};
pub use software::standard::StandardInput;
pub use software::{Extras, pace};
pub use spec::DeviceSpec;
pub use toolbox::description::{ChannelsOffered, DeviceDescription, DeviceSide, Offers};
pub use toolbox::notes::Notes;
pub use toolbox::stream_latency::StreamLatency;
pub use toolbox::supervise::Supervision;
pub use usual::{UsualDevice, UsualDevices};
