//! Experiments that measure tautline.
//!
//! May depend on everything; only the program and the tests depend on it.
#![forbid(unsafe_code)]

pub mod align;
pub mod all;
mod answer;
pub mod callback_jitter;
pub mod capacity;
mod capture;
mod cases;
mod command;
pub mod compare;
mod compare_reports;
pub mod delay;
mod devices;
mod experiments;
pub mod hosts;
mod if_inet6;
pub mod impair;
pub mod interval;
mod kept;
pub mod kernel;
pub mod latency_sweep;
pub mod limits;
pub mod load;
pub mod loadgen;
pub mod min_latency;
pub mod mouth_to_ear;
pub mod network;
pub mod overhead;
pub mod page;
pub mod quality;
pub mod recording;
pub mod report;
pub mod resources;
pub mod run_report;
mod runner;
pub mod schedule;
pub mod schedulers;
mod signals;
pub mod stages;
pub mod stalls;
pub mod statistics;
pub mod streams;
pub mod traffic;

pub use answer::command_line;
pub use command::Lab;
