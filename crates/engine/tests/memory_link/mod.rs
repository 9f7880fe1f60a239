//! A link in memory, without reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::Road;
use rtrb::{Consumer, Producer, RingBuffer};
use tautline_engine::plan::StreamPlan;
use tautline_io::clock::now;
use tautline_io::link::destinations::Outbound;
use tautline_io::link::event_queue::{EventSender, LinkEvent};
use tautline_io::link::{Datagram, Link, LinkCounters, TransmitStamp};
use tautline_proto::device::{Cycle, Flow, Process};
use tautline_proto::endpoint::{Arrival, Endpoint};
use tautline_proto::jitter_buffer::JitterBufferConfig;
use tautline_proto::stream::Outgoing;
use tautline_proto::wire::rtp::RtpUnpack;
use tautline_trial::steady;

const FAR: Endpoint = Endpoint::Memory(1);
const LOST: u64 = 100;
const AGAIN: u64 = 200;
const LONGEST: usize = 1472;

type Slot = (usize, [u8; LONGEST]);

struct Sending {
    slots: Producer<Slot>,
    event_sender: Option<EventSender>,
    counters: LinkCounters,
}

struct Receiving {
    slots: Consumer<Slot>,
    counters: LinkCounters,
}

fn memory_link(packets: usize) -> (Sending, Receiving) {
    let (near, far) = RingBuffer::new(packets);
    let counters = LinkCounters::default();
    (Sending { slots: near, event_sender: None, counters }, Receiving { slots: far, counters })
}

impl Link for Sending {
    fn notify(&mut self, mut event_sender: EventSender) {
        event_sender.event(LinkEvent::Connected(FAR));
        self.event_sender = Some(event_sender);
    }

    fn queue(&mut self, packet: &Outgoing<'_>) -> bool {
        let mut slot = (packet.datagram.len(), [0; LONGEST]);
        slot.1[..slot.0].copy_from_slice(packet.datagram);
        let mut departure = packet.instants;
        departure.handed = now();
        if let Some(at) = packet.handed_at {
            let since = (departure.handed - departure.capture).as_nanos();
            slot.1[at..at + 4].copy_from_slice(&u32::try_from(since).unwrap().to_be_bytes());
        }
        let taken = self.slots.push(slot).is_ok();
        self.counters.sent += u64::from(taken);
        self.counters.dropped += u64::from(!taken);
        if let Some(event_sender) = &mut self.event_sender {
            event_sender.departure(departure);
            match self.counters.sent {
                LOST => event_sender.event(LinkEvent::Lost(FAR)),
                AGAIN => event_sender.event(LinkEvent::Connected(FAR)),
                _ => {}
            }
        }
        taken
    }

    fn flush(&mut self) {}

    fn receive(&mut self, _: &mut dyn FnMut(Datagram<'_>)) {}

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl Link for Receiving {
    fn queue(&mut self, _: &Outgoing<'_>) -> bool {
        false
    }

    fn flush(&mut self) {}

    fn receive(&mut self, deliver: &mut dyn FnMut(Datagram<'_>)) {
        for _ in 0..self.slots.slots() {
            let Ok((len, bytes)) = self.slots.pop() else { return };
            self.counters.received += 1;
            let read = now();
            let arrival = Arrival::exact(FAR, read, read);
            deliver(Datagram { bytes: &bytes[..len], arrival, truncated: false });
        }
    }

    fn transmit_stamps(&mut self, _: &mut dyn FnMut(TransmitStamp)) {}

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

struct Loud(Box<dyn Process>, Arc<AtomicU64>);

impl Process for Loud {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let flow = self.0.process(cycle);
        let loud = cycle.playback.samples.iter().any(|sample| sample.abs() > 0.01);
        self.1.fetch_add(u64::from(loud), Ordering::Relaxed);
        flow
    }

    fn finish(&mut self) {
        self.0.finish();
    }
}

/// Run alone (decision 25).
mod exclusive {
    use super::*;

    #[test]
    fn sound_goes_by_a_link_of_memory_without_any_control_channel() {
        steady(|| {
            let road = Road::default();
            let (near, far) = memory_link(512);
            let config = JitterBufferConfig::new(RtpUnpack::usual(), road.format(), road.latency);
            let stream = StreamPlan::new(FAR.to_string(), config, Box::new(far), None);
            let loud = Arc::<AtomicU64>::default();
            let counted = Arc::clone(&loud);
            let plays = move |process| Box::new(Loud(process, counted)) as Box<dyn Process>;
            let receiver = road.receive(vec![stream], plays);
            let outbound = Outbound {
                destinations: vec![FAR],
                networks: None,
                datagram_bytes: LONGEST,
                ringed: false,
            };
            let sent = road.send(road.sender_by(Box::new(near), outbound, FAR.to_string()), 0);
            let report = receiver.join().unwrap();
            let (to, from) = (&sent.streams[0], &report.streams[0]);
            let packets = to.counters.sent;
            assert!(packets > 1_000, "{sent:#?}");
            assert_eq!(from.counters.received, packets, "{report:#?}");
            assert_eq!((from.counters.lost, from.counters.late), (0, 0), "{report:#?}");
            let loud = loud.load(Ordering::Relaxed);
            assert!(
                (packets - 10..=packets + 60).contains(&loud),
                "{loud} of {packets} were played"
            );
            let reported =
                |part: &str| sent.notes.iter().filter(|note| note.contains(part)).count();
            assert_eq!(reported("answer"), 0, "{:?}", sent.notes);
            assert_eq!(reported("memory 1 is not connected any more"), 1, "{:?}", sent.notes);
            assert_eq!(reported("memory 1 is connected again"), 1, "{:?}", sent.notes);
        });
    }
}
