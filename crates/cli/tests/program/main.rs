//! The whole program: processes, sockets, files and exit statuses.
//!
//! Streams play in real time. Tests that hold for any buffers ([`common::alongside`]) run two at a
//! time; those that measure ([`common::host::timed`]) run alone, in modules `exclusive` (decision
//! 25). [`common::lab`] provides impaired networks.

#![expect(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod addresses;
mod agents;
mod all;
mod announcements;
mod apart;
mod arrivals;
mod avtp;
mod avtp_begins;
mod avtp_peer;
mod between;
mod bit_exact;
mod building;
mod building_faults;
mod building_service;
mod cables;
mod calls;
mod calls_agreed;
mod calls_changed;
mod calls_devices;
mod calls_held;
mod calls_latency;
mod calls_of_several;
mod calls_on_a_thin_link;
mod calls_over_a_lossy_network;
mod calls_programs;
mod calls_shown;
mod calls_through_nat;
mod calls_trusted;
mod calls_usual;
mod capacity;
mod change;
mod claims;
mod clock_followed;
mod codecs;
mod common;
mod demo;
mod demo_building;
mod dissected;
mod doctor;
mod doctor_network;
mod drift;
mod duplex;
mod errors;
mod faults;
mod files;
mod foreign;
mod impaired;
mod in_step;
mod interop;
mod jack;
mod known_delays;
mod lab_machine;
mod labels;
mod ladspa_hosts;
mod lost;
mod minimum;
mod mouth_to_ear;
mod namespaces;
mod noisy;
mod offload;
mod one_clock;
mod over_tcp;
mod pcm;
mod pipes;
#[cfg(feature = "pipewire")]
mod pipewire;
mod probes;
mod pulseaudio;
mod quality;
mod refused;
mod repair_budget;
mod repaired;
mod scripts;
mod secure_shell;
mod several;
mod silence;
mod site;
mod srtp;
mod srtp_reports;
mod strangers;
mod taps;
mod top;
mod trust;
mod tutorials;
mod units;
mod verdicts;
mod voice;
mod work_log;
