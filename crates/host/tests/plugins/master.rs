//! A master that waits for each block.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use tautline_api::seal::{Sealed, StreamKeys};
use tautline_api::v1::{StreamRequest, WorkStream};
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::socket::seal::Seal;
use tautline_proto::offload::block::{BlockLeg, BlockSet, ByteOrder, get_f32, put_f32};
use tautline_proto::offload::datagram::Flags;
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::time::LocalTime;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(100);
const DATAGRAM_BYTES: usize = 1400;

pub(crate) fn request(plugin: &str, rate: u32, max_frames: u32) -> StreamRequest {
    StreamRequest { history: 64, ..StreamRequest::of(plugin, rate, max_frames) }
}

pub(crate) struct TestMaster {
    master: Master,
    set: BlockSet,
    pub(crate) sound: SoundSet,
    socket: UdpSocket,
    seal: Option<Sealed>,
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) incarnation: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worked {
    pub(crate) outputs: Vec<Vec<f32>>,
    pub(crate) reported: Vec<f32>,
    pub(crate) latency: u32,
    pub(crate) clean: bool,
}

impl TestMaster {
    pub(crate) fn of(stream: &WorkStream, secret: Option<[u8; 32]>) -> Self {
        let sound = SoundSet {
            inputs: stream.inputs as usize,
            outputs: stream.outputs as usize,
            controls_in: stream.controls_in as usize,
            controls_out: stream.controls_out as usize,
            max_frames: stream.max_frames,
            ..SoundSet::default()
        };
        let set = sound.block_set().unwrap();
        let mut master = Master::new(MasterConfig {
            set: set.clone(),
            stream: stream.id,
            epoch_seed: 6,
            datagram_bytes: DATAGRAM_BYTES,
            history: 64,
            copies: 0,
            hold: 64,
        })
        .unwrap();
        master.begin();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect((Ipv4Addr::LOCALHOST, stream.udp_port)).unwrap();
        socket.set_read_timeout(Some(AGAIN)).unwrap();
        let seal = secret.map(|secret| Sealed::master(&StreamKeys::of(&secret, stream.id), 1));
        Self { master, set, sound, socket, seal, sent: Vec::new(), incarnation: 0 }
    }

    pub(crate) fn begin(&mut self) {
        self.master.begin();
    }

    pub(crate) fn hand_out(&mut self, inputs: &[Vec<f32>], controls: &[f32], flags: Flags) -> u64 {
        let frames = inputs.first().map_or(self.sound.max_frames as usize, Vec::len);
        self.hand_out_frames(frames, inputs, controls, flags)
    }

    pub(crate) fn hand_out_frames(
        &mut self,
        frames: usize,
        inputs: &[Vec<f32>],
        controls: &[f32],
        flags: Flags,
    ) -> u64 {
        let frames = frames as u32;
        let places: Vec<_> = self.set.placed(BlockLeg::There, frames).collect();
        let bytes = self.master.room(frames).unwrap();
        for (block, place) in places {
            put_f32(&mut bytes[place], inputs.get(block).map_or(controls, |samples| samples));
        }
        let block = self.master.commit(flags);
        self.send();
        block
    }

    fn send(&mut self) {
        let mut room = [0; DATAGRAM_BYTES + tautline_api::seal::ROOM];
        while let Some(len) = self.master.poll(&mut room[..DATAGRAM_BYTES]) {
            let len = self.seal.as_mut().map_or(len, |seal| seal.seal(&mut room, len));
            // Refused while nothing is bound.
            let _ = self.socket.send(&room[..len]);
            self.sent.push(room[..len].to_vec());
        }
    }

    pub(crate) fn play_again(&self, kept: &[Vec<u8>]) {
        for datagram in kept {
            let _ = self.socket.send(datagram);
        }
    }

    pub(crate) fn receive(&mut self) -> bool {
        let mut room = [0; 65_536];
        let Ok(len) = self.socket.recv(&mut room) else { return false };
        // The nonce begins with the incarnation.
        let nonce = len.checked_sub(12).map(|at| room[at..at + 4].try_into().unwrap());
        let opened = match &mut self.seal {
            Some(seal) => seal.open(&mut room[..len]),
            None => Some(&room[..len]),
        };
        if let Some(datagram) = opened {
            self.incarnation = nonce.map_or(0, u32::from_be_bytes);
            self.master.handle(datagram, LocalTime::ZERO);
        }
        self.send();
        true
    }

    /// Sends a block each `period` until one returns; returns the time taken.
    pub(crate) fn plays_again(&mut self, inputs: &[Vec<f32>], period: Duration) -> Duration {
        let begun = Instant::now();
        self.socket.set_read_timeout(Some(Duration::from_micros(500))).unwrap();
        let mut handed_out = Vec::new();
        while !handed_out.iter().any(|block| self.master.answer(*block).is_some()) {
            assert!(begun.elapsed() < TIMEOUT, "no block came back");
            if begun.elapsed() >= period * handed_out.len() as u32 {
                handed_out.push(self.hand_out(inputs, &[0.0], Flags::NONE));
            }
            self.receive();
        }
        begun.elapsed()
    }

    pub(crate) fn await_block(&mut self, block: u64) -> Worked {
        let until = Instant::now() + TIMEOUT;
        while self.master.answer(block).is_none() {
            assert!(Instant::now() < until, "block {block} never came back");
            if !self.receive() {
                self.master.insist(block);
                self.send();
            }
        }
        let (sound, set) = (self.sound, &self.set);
        let answer = self.master.answer(block).unwrap();
        let frames = answer.frames;
        let read = |place: core::ops::Range<usize>| {
            let mut values = vec![0.0; place.len() / 4];
            get_f32(&answer.bytes[place], &mut values, ByteOrder::NATIVE);
            values
        };
        let mut values: Vec<_> =
            set.placed(BlockLeg::Back, frames).map(|(_, place)| read(place)).collect();
        let reported = values.split_off(sound.outputs).pop().unwrap_or_default();
        let worked = Worked {
            outputs: values,
            reported,
            latency: answer.latency,
            clean: !answer.flags.has(Flags::DIRTY),
        };
        self.master.release(block + 1);
        worked
    }

    pub(crate) fn run(&mut self, inputs: &[Vec<f32>], controls: &[f32]) -> Worked {
        let block = self.hand_out(inputs, controls, Flags::NONE);
        self.await_block(block)
    }
}
