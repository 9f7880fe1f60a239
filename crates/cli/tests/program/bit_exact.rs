//! Received sound is the sent sound, bit for bit, to the last frame.

use std::net::{Ipv6Addr, UdpSocket};

use crate::common::program::{taut, words};
use crate::common::report::Report;
use crate::common::sound::{FileCoding, Shape, Sound};
use crate::common::{Folder, Lack, PATIENT, free_udp_ports, loopback, shared, skipped};

struct Way {
    shape: Shape,
    ptime: &'static str,
    options: &'static str,
    address: &'static str,
}

impl Way {
    fn of(coding: FileCoding, rate: u32, ptime: &'static str) -> Self {
        let shape = Shape { rate, channels: 2, coding };
        Self { shape, ptime, options: "", address: "127.0.0.1" }
    }

    fn carry(&self) -> (Sound, Sound, Report) {
        let folder = Folder::new();
        let sent = Sound::noise(self.shape, 300, u64::from(self.shape.rate));
        sent.write(&folder.file("sent.wav"));
        let address = format!("rtp://{}:{}", self.address, free_udp_ports());
        let Shape { rate, channels, coding } = self.shape;
        let coding = coding.word();
        let recv = format!(
            "recv --from {address} --output file:heard.wav --exit-on-bye --report json \
             --rate {rate} --channels {channels} --format {coding}"
        );
        let send = format!(
            "send --input file:sent.wav --to {address} --format {coding} --ptime {}",
            self.ptime
        );
        let mut patient = PATIENT.map(str::to_owned);
        patient[1] = (rate / 200).to_string();
        let both = |line: &str| taut(words(line)).and(&patient).and(words(self.options));
        let recv = both(&recv).in_folder(folder.path()).start().listening();
        both(&send).in_folder(folder.path()).run().well();
        let report = recv.end().report();
        (sent, Sound::read(&folder.file("heard.wav")), report)
    }

    #[track_caller]
    fn is_exact(&self) {
        shared(|| {
            let (sent, received, report) = self.carry();
            report.missed_nothing();
            received.is_exactly(&sent);
        });
    }
}

/// Tests each pair once of format and rate, and of rate and packet time.
#[test]
fn l16_and_l24_are_bit_exact_at_every_packet_time() {
    for (coding, rate, ptime) in [
        (FileCoding::L16, 48_000, "5ms"),
        (FileCoding::L24, 48_000, "1ms"),
        (FileCoding::L24, 48_000, "20ms"),
        (FileCoding::L16, 44_100, "1ms"),
        (FileCoding::L16, 44_100, "20ms"),
        (FileCoding::L24, 44_100, "5ms"),
    ] {
        Way::of(coding, rate, ptime).is_exact();
    }
}

#[test]
fn every_rate_format_and_channel_count_is_bit_exact() {
    // At 11025 Hz, 1 ms is not a whole number of frames.
    for (coding, rate, channels, ptime) in [
        (FileCoding::L16, 8_000, 2, "125us"),
        (FileCoding::L16, 8_000, 2, "1ms"),
        (FileCoding::L16, 8_000, 2, "20ms"),
        (FileCoding::L16, 11_025, 2, "125us"),
        (FileCoding::L16, 11_025, 2, "1ms"),
        (FileCoding::L16, 11_025, 2, "20ms"),
        (FileCoding::L16, 16_000, 2, "5ms"),
        (FileCoding::L16, 22_050, 2, "5ms"),
        (FileCoding::L16, 24_000, 2, "5ms"),
        (FileCoding::L16, 32_000, 2, "5ms"),
        (FileCoding::F32, 48_000, 2, "1ms"),
        (FileCoding::L24, 48_000, 8, "1ms"),
        (FileCoding::L24, 192_000, 2, "1ms"),
        (FileCoding::L24, 48_000, 2, "125us"),
    ] {
        let shape = Shape { rate, channels, coding };
        Way { shape, ..Way::of(coding, rate, ptime) }.is_exact();
    }
}

#[test]
fn a_direct_and_a_ringed_link_are_both_bit_exact() {
    for options in ["--io-thread no", "--io-thread yes"] {
        Way { options, ..Way::of(FileCoding::L24, 48_000, "1ms") }.is_exact();
    }
}

#[test]
fn sound_over_ipv6_is_bit_exact() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skipped(Lack::Device, "this host has no IPv6");
    }
    Way { address: "[::1]", ..Way::of(FileCoding::L24, 48_000, "1ms") }.is_exact();
}

fn received_as_l16(sent: &Sound) -> Sound {
    let folder = Folder::new();
    sent.write(&folder.file("sent.wav"));
    let address = loopback();
    let recv = format!("recv --from {address} --output file:heard.wav --exit-on-bye");
    let recv = taut(words(&recv)).and(PATIENT).in_folder(folder.path()).start().listening();
    let send = format!("send --input file:sent.wav --to {address} --format l16 --report none");
    taut(words(&send)).and(PATIENT).in_folder(folder.path()).run().well();
    recv.end().well();
    Sound::read(&folder.file("heard.wav"))
}

#[test]
fn receiver_takes_shape_and_coding_from_the_sender() {
    shared(|| {
        let shape = Shape { rate: 44_100, channels: 1, coding: FileCoding::L16 };
        let sent = Sound::noise(shape, 500, 5);
        received_as_l16(&sent).is_exactly(&sent);
    });
}

#[test]
fn file_of_24_bits_is_rounded_to_16() {
    shared(|| {
        let mut sent = Sound::noise(Shape::STEREO_24, 500, 5).quieter();
        let received = received_as_l16(&sent);
        sent.shape.coding = FileCoding::L16;
        // One step from rounding, and one from dither.
        received.is_about(&sent, |sample| sample >> 8, 2);
    });
}
