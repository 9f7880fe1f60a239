//! Shared parts of the tests of the whole program.

#[cfg(feature = "pipewire")]
pub(crate) mod desktop;
pub(crate) mod jack;
pub(crate) mod lab;
pub(crate) mod messages;
pub(crate) mod network;
pub(crate) mod program;
pub(crate) mod report;
pub(crate) mod sound;
#[cfg(feature = "pipewire")]
pub(crate) mod wireplumber;

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use tautline_trial::{self as host, Lack, shared, skipped};
use tempfile::TempDir;

use program::{Running, taut, words};

/// Survives stalls of 100 ms.
pub(crate) const PATIENT: [&str; 7] =
    ["--period", "240", "--periods", "32", "--latency", "400ms", "--no-stall-monitor"];

pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("taut-test-").unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// Uses another program: a concurrently started child would inherit the open file, and the kernel
/// does not execute a file open for writing.
pub(crate) fn executable(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = install.wait().unwrap();
    assert!(done.success(), "install {}: {done}", path.display());
}

pub(crate) fn numberless(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        let is_part = letter.is_ascii_digit() || (letter == '.' && out.ends_with('N'));
        match is_part {
            true if out.ends_with('N') => {}
            true => out.push('N'),
            false => out.push(letter),
        }
    }
    out
}

/// Takes the greater of two middle values.
pub(crate) fn median<T: Copy + PartialOrd>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(|one, other| one.partial_cmp(other).expect("figures can be compared"));
    values[values.len() / 2]
}

/// An even port whose successor is free too, for one test only. `taut lab` uses ports from 20000,
/// the PCM's tests from 30000.
pub(crate) fn free_udp_ports() -> u16 {
    tautline_trial::free_udp_ports(10_000..20_000)
}

#[track_caller]
pub(crate) fn until(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + program::TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{otherwise}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[track_caller]
pub(crate) fn grows(recording: &Path, millis: u64) {
    let bytes = || recording.metadata().map_or(0, |file| file.len());
    let enough = bytes() + millis * 48 * 6;
    until(&format!("{} does not grow", recording.display()), || bytes() >= enough);
}

pub(crate) fn bound(port: u16) -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap()
}

pub(crate) fn loopback() -> String {
    format!("rtp://127.0.0.1:{}", free_udp_ports())
}

pub(crate) fn sounding_at(address: &str) -> Running {
    let onlooker = Onlooker::new();
    let line = format!("send --input tone:440 --to {address} --to {}", onlooker.address());
    let send = taut(words(&format!("{line} --report none"))).start();
    onlooker.see(10);
    send
}

/// An additional destination, which shows a sender's progress.
pub(crate) struct Onlooker {
    socket: UdpSocket,
    port: u16,
}

impl Onlooker {
    pub(crate) fn new() -> Self {
        let port = free_udp_ports();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket.set_read_timeout(Some(program::TIMEOUT)).unwrap();
        Self { socket, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("rtp://127.0.0.1:{}", self.port)
    }

    /// Waits for this much more sound at 48 kHz, from the next packet on.
    pub(crate) fn handle(&self, millis: u32) {
        let mut datagram = [0; 65_536];
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut datagram).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
        let mut begun = None;
        loop {
            let bytes = self.socket.recv(&mut datagram).expect("another packet");
            // RTP timestamp and source (RFC 3550 §5.1): another sender has its own timestamps.
            let Some(words) = datagram[..bytes].get(4..12) else { continue };
            let word = |at: usize| u32::from_be_bytes(words[at..at + 4].try_into().unwrap());
            let (stamp, source) = (word(0), word(4));
            begun = begun.filter(|(from, _)| *from == source);
            let (_, first) = *begun.get_or_insert((source, stamp));
            if stamp.wrapping_sub(first) >= millis * 48 {
                return;
            }
        }
    }

    pub(crate) fn see(&self, packets: usize) {
        let mut datagram = [0; 2048];
        for seen in 0..packets {
            let arrived = self.socket.recv(&mut datagram);
            assert!(arrived.is_ok(), "only {seen} of {packets} packets came: {arrived:?}");
        }
    }
}
