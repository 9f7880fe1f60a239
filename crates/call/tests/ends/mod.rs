//! Both ends of a call in one process, on devices that only keep time.

use std::sync::Arc;

use tautline_call::{CallerConfig, Config, DevicePair, ServerConfig};
use tautline_engine::plan::probes::Probes;
use tautline_io::thread::Scheduler;
use tautline_proto::call::terms::CallPath;
use tautline_proto::device::Settings;
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::{Channels, Rate};

fn end(duration: Option<Span>) -> Config {
    Config {
        input: "null:".parse().expect("a device"),
        output: "null:".parse().expect("a device"),
        looped: false,
        format: None,
        ptime: Span::from_millis(5),
        latency: None,
        scheduler: Scheduler::Other,
        record: None,
        duration,
        probes: Probes::All,
        redundancy: None,
        stall_monitor: false,
        cancel_echo: None,
        note_words: |_| None,
        change_words: |_| String::new(),
        refusal_words: |_| String::new(),
        events: Arc::new(|_| ()),
    }
}

pub(crate) fn devices() -> DevicePair {
    let one = Settings {
        rate: Rate::HZ_48000,
        channels: Channels::STEREO,
        period: Frames::new(240),
        periods: 2,
    };
    DevicePair { capture: one, playback: one }
}

pub(crate) fn caller(hosts: &[&str], duration: Option<Span>) -> CallerConfig {
    CallerConfig {
        end: end(duration),
        hosts: hosts.iter().map(|host| host.parse().expect("an address")).collect(),
        bridged: false,
        auto_format: false,
        bitrate: None,
        paths: &[CallPath::Udp],
        muted: false,
        held: false,
    }
}

pub(crate) fn server(callers: u16) -> ServerConfig {
    ServerConfig {
        end: end(None),
        listen: "127.0.0.1:0".parse().expect("an address"),
        callers,
        max_calls_per_host: None,
        bridged: true,
        auto_format: false,
        seen: true,
    }
}
