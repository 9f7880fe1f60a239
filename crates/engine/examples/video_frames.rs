//! Offloads pictures to a filter on another thread, over real sockets.
//!
//! ```text
//! cargo run --release -p tautline-engine --example video_frames
//! cargo run --release -p tautline-engine --example video_frames -- worker 127.0.0.1:7300   # in one terminal
//! cargo run --release -p tautline-engine --example video_frames -- 127.0.0.1:7300          # in another
//! ```
//!
//! Sends 300 pictures of 640x480 bytes, three at a time, in 216 datagrams each way. Compares each
//! byte with a local filter. A block of two numbers carries brightness and contrast.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};

use tautline_engine::offload::offloaded::Far;
use tautline_engine::offload::windowed::Windowed;
use tautline_engine::offload::working::{Work, work};
use tautline_io::clock::now;
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::halt::Halt;
use tautline_io::udp::UdpOptions;
use tautline_proto::offload::block::{
    BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, get_i16, put_i16,
};
use tautline_proto::offload::inbound::BlockTurn;
use tautline_proto::offload::master::MasterConfig;
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::Span;

const WIDTH: usize = 640;
const HEIGHT: usize = 480;
const PICTURE: usize = WIDTH * HEIGHT;
const PICTURES: u64 = 300;
const WINDOW: usize = 3;
const STREAM: u32 = 1;
const DATAGRAM_BYTES: usize = 1472;

fn set() -> Result<BlockSet, Box<dyn Error>> {
    let picture = BlockSpec {
        element: Element::Byte,
        way: BlockWay::Both,
        length: Length::Fixed(PICTURE as u32),
    };
    let controls =
        BlockSpec { element: Element::I16, way: BlockWay::ToWorker, length: Length::Fixed(2) };
    Ok(BlockSet::new(vec![picture, controls], 1)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let (address, halt) = (socket.local_addr()?, Halt::new()?);
            let reported = halt.clone();
            let worker =
                std::thread::spawn(move || serve(socket, &reported).map_err(|e| e.to_string()));
            let done = send(address);
            halt.request();
            worker.join().map_err(|_| "the worker panicked")??;
            done
        }
        ["worker", address] => serve(UdpSocket::bind(address)?, &Halt::new()?),
        [address] => send(address.parse()?),
        _ => Err("usage: video_frames [worker] [ADDRESS:PORT]".into()),
    }
}

fn options() -> UdpOptions {
    UdpOptions {
        datagram_bytes: DATAGRAM_BYTES,
        packets_per_second: 20_000,
        ..UdpOptions::default()
    }
}

fn send(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let options = UdpOptions { destinations: vec![to], ..options() };
    let far = Far::new(Box::new(DirectLink::open(&options)?), STREAM);
    let config = MasterConfig {
        set: set()?,
        stream: STREAM,
        epoch_seed: now().as_nanos() as u32,
        datagram_bytes: DATAGRAM_BYTES,
        history: 2 * WINDOW,
        copies: 0,
        hold: 2 * WINDOW,
    };
    let mut pictures = Windowed::new(config, WINDOW, far)?;
    let mut here = Here::new();
    let (begun, mut sent, mut back, mut wrong) = (now(), 0, 0, 0);
    while back < PICTURES {
        if sent < PICTURES && pictures.under_way() < WINDOW {
            pictures.hand_out(1, |bytes| draw(sent, bytes))?;
            sent += 1;
            continue;
        }
        let until = now() + Span::from_secs(10);
        let same = pictures.take_back(until, |answer| answer.bytes == here.next(back));
        wrong += u64::from(!same.ok_or("the worker did not answer: is it there?")?);
        back += 1;
    }
    let seconds = (now() - begun).as_millis_f64() / 1e3;
    let counted = pictures.counters();
    println!(
        "{back} pictures there and back, {wrong} of them wrong: {:.0} a second, {:.0} MB/s each way; {} datagrams there, {} \
         back, {} pictures asked for again",
        back as f64 / seconds,
        back as f64 * PICTURE as f64 / seconds / 1e6,
        counted.there.datagrams,
        counted.back.datagrams,
        counted.there.replays
    );
    if wrong == 0 { Ok(()) } else { Err("pictures came back wrong".into()) }
}

fn serve(socket: UdpSocket, halt: &Halt) -> Result<(), Box<dyn Error>> {
    let options = UdpOptions { max_destinations: 1, ..options() };
    let mut link = DirectLink::over_socket(socket, &options, None)?;
    let mut worker = Worker::new(WorkerConfig {
        set: set()?,
        stream: STREAM,
        order: ByteOrder::NATIVE,
        datagram_bytes: DATAGRAM_BYTES,
        history: 2 * WINDOW,
        copies: 0,
        hold: 2 * WINDOW,
        memory: None,
    })?;
    work(&mut link, &mut worker, &mut Echo { last: vec![0; PICTURE] }, halt);
    Ok(())
}

struct Echo {
    last: Vec<u8>,
}

impl Echo {
    fn filter(&mut self, brightness: i16, contrast: i16, picture: &mut [u8]) {
        for (pixel, last) in picture.iter_mut().zip(&mut self.last) {
            let light = (i32::from(*pixel) * i32::from(contrast) / 256 + i32::from(brightness))
                .clamp(0, 255);
            *last = ((i32::from(*last) + 3 * light) / 4) as u8;
            *pixel = *last;
        }
    }
}

impl Work for Echo {
    fn restart(&mut self) {
        self.last.fill(0);
    }

    fn work(&mut self, _: &BlockTurn, input: &[u8], output: &mut [u8]) -> u32 {
        let mut controls = [0; 2];
        get_i16(&input[PICTURE..], &mut controls, ByteOrder::NATIVE);
        self.filter(controls[0], controls[1], &mut output[..PICTURE]);
        0
    }
}

const fn controls(number: u64) -> [i16; 2] {
    [(number % 60) as i16 - 30, 200 + (number % 100) as i16]
}

fn draw(number: u64, bytes: &mut [u8]) {
    let (picture, rest) = bytes.split_at_mut(PICTURE);
    for (at, pixel) in picture.iter_mut().enumerate() {
        let (x, y) = (at % WIDTH, at / WIDTH);
        *pixel = ((x ^ y) as u64 + number * 3) as u8;
    }
    put_i16(rest, &controls(number));
}

struct Here {
    filter: Echo,
    bytes: Vec<u8>,
}

impl Here {
    fn new() -> Self {
        Self { filter: Echo { last: vec![0; PICTURE] }, bytes: vec![0; PICTURE + 4] }
    }

    fn next(&mut self, number: u64) -> &[u8] {
        draw(number, &mut self.bytes);
        let [brightness, contrast] = controls(number);
        self.filter.filter(brightness, contrast, &mut self.bytes[..PICTURE]);
        &self.bytes[..PICTURE]
    }
}
