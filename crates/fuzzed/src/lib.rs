//! Fuzz targets as ordinary functions.
//!
//! `fuzz/` runs them under libfuzzer and ASAN; `tests/kept_inputs.rs` replays `fuzz/seeds`. Targets
//! of private parts of `taut` are in `tautline_cli::fuzzing`. For tests only.
#![deny(unsafe_code)]
// Shared modules have unit tests that need their own crates.
#![cfg(not(test))]

mod aaf;
mod address;
mod calendar;
mod call;
mod capture;
mod codec;
mod crf;
mod device;
mod file;
mod firewall;
mod first_bytes;
mod frame;
mod framed;
mod lab_report;
mod maap;
mod netlink;
mod offload;
mod pcm;
mod ptp;
mod receiver;
mod rtcp;
mod rtp;
mod sdp;
mod session;
mod site;
mod srtp;
mod trace;
mod worker;

// The PCM plugin's key parser, in `pcm`, needs this at the crate root.
#[path = "../../../plugins/alsa-pcm/src/complaint.rs"]
#[expect(dead_code, reason = "the plugin has more errors than its key parser")]
mod complaint;

/// Calls the macro `$then` with the names of all targets.
#[macro_export]
macro_rules! targets {
    ($then:ident) => {
        $then! {
            aaf
            address
            calendar
            call
            capture
            codec
            crf
            device
            file
            firewall
            first_bytes
            frame
            framed
            lab_report
            maap
            netlink
            offload
            pcm
            ptp
            receiver
            rtcp
            rtp
            sdp
            session
            site
            srtp
            trace
            worker
        }
    };
}

macro_rules! export {
    ($($name:ident)*) => {
        $(pub use $name::$name;)*
    };
}
targets!(export);
