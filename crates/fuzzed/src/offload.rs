use tautline_proto::offload::block::{
    BlockSet, BlockSpec, BlockWay, ByteOrder, Element, Length, put_f32,
};
use tautline_proto::offload::datagram::{DatagramKind, Flags, HEAD_BYTES, Head};
use tautline_proto::offload::master::{Master, MasterConfig};
use tautline_proto::offload::returns::{Replacement, Returns, ReturnsConfig};
use tautline_proto::offload::worker::{Worker, WorkerConfig};
use tautline_proto::time::{LocalTime, Span};

const STREAM: u32 = 7;
const MAX_FRAMES: u32 = 300;

fn set() -> BlockSet {
    let block = |element, way, length| BlockSpec { element, way, length };
    let blocks = vec![
        block(Element::F32, BlockWay::ToWorker, Length::PerFrame(1)),
        block(Element::I16, BlockWay::Both, Length::Fixed(3)),
        block(Element::F32, BlockWay::FromWorker, Length::PerFrame(1)),
    ];
    BlockSet::new(blocks, MAX_FRAMES).expect("within all bounds")
}

struct World {
    master: Master,
    worker: Worker,
    returns: Returns,
    now: LocalTime,
    /// Epoch and number.
    ran: Option<(u32, u64)>,
    flights: Vec<Vec<u8>>,
}

impl World {
    fn new(shape: u8) -> Self {
        let master = MasterConfig {
            set: set(),
            stream: STREAM,
            epoch_seed: u32::from(shape),
            datagram_bytes: 552 + usize::from(shape) * 4,
            history: usize::from(shape % 8),
            copies: shape % 3,
            hold: 1 + usize::from(shape % 5),
        };
        let foreign = match ByteOrder::NATIVE {
            ByteOrder::Little => ByteOrder::Big,
            ByteOrder::Big => ByteOrder::Little,
        };
        let worker = WorkerConfig {
            set: set(),
            stream: STREAM,
            order: if shape & 64 > 0 { foreign } else { ByteOrder::NATIVE },
            datagram_bytes: 552,
            history: 4,
            copies: shape % 2,
            hold: 1 + usize::from(shape % 7),
            memory: (shape & 128 > 0).then_some(500),
        };
        // Rare: concealment is a hundred times slower.
        let replacement = match shape % 16 {
            1 => Replacement::Conceal,
            2 | 4 => Replacement::LastGood,
            3 => Replacement::Dry,
            _ => Replacement::Matched,
        };
        let returns = ReturnsConfig {
            inputs: 1,
            outputs: 1,
            rate: 8000,
            delay: 1000,
            max_frames: MAX_FRAMES,
            replacement,
        };
        let mut world = Self {
            master: Master::new(master).expect("within all bounds"),
            worker: Worker::new(worker).expect("within all bounds"),
            returns: Returns::new(returns),
            now: LocalTime::ZERO,
            ran: None,
            flights: Vec::new(),
        };
        world.begin(shape);
        world
    }

    fn begin(&mut self, delay: u8) {
        self.master.begin();
        self.returns.begin(u32::from(delay) * 4);
    }

    fn hand_out(&mut self, frames: u32) {
        let samples = vec![0.5; frames as usize];
        self.returns.push_dry(0, &samples);
        let Ok(bytes) = self.master.room(frames) else { return };
        put_f32(bytes, &samples);
        let block = self.master.commit(Flags::NONE);
        if let Some(before) = block.checked_sub(1)
            && let Some(answer) = self.master.answer(before)
        {
            let samples = vec![0.25; answer.frames as usize];
            self.returns.place(answer.position, 0, &samples);
            self.returns.arrived(answer.position, answer.frames, answer.latency % 2 == 0);
        }
        let mut pulled = 0;
        self.returns.pull(frames, &mut |_, samples| pulled += samples.len());
        assert_eq!(pulled, frames as usize);
    }

    fn send(&mut self) {
        let mut room = [0; 2000];
        let mut datagrams = 0;
        while let Some(len) = self.master.poll(&mut room) {
            self.flights.push(room[..len].to_vec());
            datagrams += 1;
        }
        while let Some(len) = self.worker.poll(self.now, &mut room) {
            self.flights.push(room[..len].to_vec());
            datagrams += 1;
        }
        assert!(datagrams < 2000, "{datagrams} datagrams together");
        self.flights.truncate(64);
    }

    fn run(&mut self) {
        while let Some(turn) = self.worker.next_turn() {
            if let Some((epoch, block)) = self.ran {
                assert!(turn.epoch != epoch || turn.block > block, "each once, in order");
                assert_eq!(turn.restart, turn.epoch != epoch);
            }
            self.ran = Some((turn.epoch, turn.block));
            assert!(turn.frames <= MAX_FRAMES);
            let (input, output) = self.worker.buffers();
            assert_eq!(input.len(), turn.frames as usize * 4 + 6);
            assert_eq!(output.len(), turn.frames as usize * 4 + 6);
            output[6..].fill(1);
            self.worker.finish(turn.frames);
        }
    }

    fn forge(&mut self, fields: &[u8; 8], body: &[u8]) {
        let kinds = [DatagramKind::Block, DatagramKind::Request, DatagramKind::Gone];
        let head = Head {
            kind: kinds[usize::from(fields[0] % 3)],
            flags: Flags(u16::from(fields[1] % 4)),
            part: u16::from(fields[2] % 4),
            parts: u16::from(fields[3] % 5),
            stream: STREAM,
            epoch: self.master.epoch().wrapping_add(u32::from(fields[4] % 3)).wrapping_sub(1),
            block: u64::from(fields[5] % 32),
            position: u64::from(fields[6]) * 16,
            frames: u32::from(fields[7]) * 2,
            latency: 0,
        };
        let mut datagram = [0; HEAD_BYTES].to_vec();
        head.write(datagram.first_chunk_mut().expect("as long"));
        datagram.extend_from_slice(body);
        self.take(&datagram);
    }

    fn take(&mut self, datagram: &[u8]) {
        self.worker.handle(datagram, self.now);
        self.master.handle(datagram, self.now);
    }
}

/// With lost, repeated and forged datagrams, every block runs at most once, in order, and each poll
/// sends a bounded number.
pub fn offload(bytes: &[u8]) {
    let Some((shape, mut rest)) = bytes.split_first() else { return };
    let mut world = World::new(*shape);
    while let [operation, argument, behind @ ..] = rest {
        rest = behind;
        match operation % 10 {
            0 => world.hand_out(u32::from(*argument) * 2),
            1 => world.send(),
            2 => world.run(),
            3 => world.now += Span::from_millis(i64::from(*argument)),
            4 if !world.flights.is_empty() => {
                let index = usize::from(*argument) % world.flights.len();
                let datagram = world.flights[index].clone();
                world.take(&datagram);
            }
            5 if *argument < 40 => world.begin(*argument),
            6 => {
                let len = usize::from(*argument).min(rest.len());
                let (datagram, behind) = rest.split_at(len);
                world.take(datagram);
                rest = behind;
            }
            7 => {
                let Some((fields, behind)) = rest.split_first_chunk() else { return };
                let len = usize::from(*argument).min(behind.len());
                let (body, behind) = behind.split_at(len);
                world.forge(fields, body);
                rest = behind;
            }
            8 => world.master.release(u64::from(*argument)),
            9 => world.master.insist(u64::from(*argument)),
            _ => drop(world.flights.pop()),
        }
        assert!(world.worker.deadline() > LocalTime::ZERO || world.now == LocalTime::ZERO);
    }
}
