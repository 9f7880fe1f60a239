//! Sound devices: ALSA, JACK, PipeWire, virtual cards and files.
//!
//! [`open`] turns a [`DeviceSpec`] into a [`Device`](tautline_proto::device::Device) for the
//! caller's thread. Each kind has `settle` (its settings), `open` and `list`, and uses only
//! [`tautline_proto::device`] and the `toolbox`; `opening` uses all kinds.
#![deny(unsafe_code)]

pub mod alsa;
mod conference;
pub mod echo;
pub mod jack;
mod opening;
mod outputs;
pub mod pipewire;
mod software;
mod spec;
mod toolbox;
mod usual;

#[cfg(test)]
mod tests;

pub use conference::{MAX_PARTS, SharedPart, SharedParts, SharedProcesses, shared};
pub use opening::{
    Opened, channels, list, offered, open, open_paced, open_supervised, probe, settings_now, settle,
};
pub use outputs::{MAX_OUTPUT_DELAY, Output, OutputConfig, OutputControl, OutputSettings, outputs};
pub use software::cable::CableName;
pub use software::convert::Wanted;
pub use software::file::{
    FileCoding, FileFormat, FileReader, SoundFile, StandardInput, holds_nothing,
};
pub use software::recorded::{MAX_OF_A_PART, OnlyRecorded, RecordedTime, Recording, recorded};
pub use software::recorder::check_take;
pub use software::spec::{CardOptions, SoftwareSpec};
pub use software::{Extras, pace};
pub use spec::DeviceSpec;
pub use toolbox::fading::{FADED_WITHIN, fading};
pub use toolbox::microphone::{MicrophoneOptions, microphone};
pub use toolbox::supervise::Supervision;
pub use toolbox::{ChannelsOffered, DeviceDescription, DeviceSide, Notes, Offers, StreamLatency};
pub use usual::{UsualDevice, UsualDevices};
