//! One sender per stream: real engines whose devices lend their processes to the bench.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tautline_engine::monitor::run::RunOptions;
use tautline_engine::plan::SendPlan;
use tautline_engine::plan::address::EthernetPlace;
use tautline_engine::plan::sockets::ethernet_sender;
use tautline_engine::send_engine::SendEngine;
use tautline_io::clock::{now, sleep_until};
use tautline_io::ethernet::{self, EthernetOptions};
use tautline_io::link::OpenError;
use tautline_io::link::threaded::Spacing;
use tautline_io::thread::Scheduler;
use tautline_io::udp::UdpOptions;
use tautline_io::udp::pair::open_stream;
use tautline_proto::device::{Cycle, Side, Stop};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::wire::avtp::Encapsulation;
use tautline_proto::wire::rtp::STAMPED_HEADER_BYTES;
use tautline_proto::wire::{WireForm, avtp};
use tautline_report::Report;

use crate::lender::{Loan, clock, lender};
use crate::{BLOCK, BenchWire, LAUNCH, PACKETS, STREAMS, device, format};

pub(crate) const PERIOD: Span = Span::from_millis(1);
const LATENCY: Span = Span::from_millis(20);
const AHEAD: Span = Span::from_millis(100);

/// Discard port (RFC 863) at a loopback address without a listener.
pub(crate) const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), 9);
const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Other,
    duration: None,
    stall_monitor: false,
    lock_memory: true,
    words: |note| Some(format!("{note:?}")),
};

pub(crate) const fn head_bytes(wire: BenchWire) -> usize {
    match wire {
        BenchWire::Rtp => STAMPED_HEADER_BYTES,
        BenchWire::Avtp => avtp::HEADER_BYTES,
    }
}

pub(crate) fn by_udp(to: SocketAddr) -> UdpOptions {
    let mut options = UdpOptions::sender(vec![to]);
    options.datagram_bytes = head_bytes(BenchWire::Rtp) + format().payload_bytes();
    options.batch = PACKETS;
    options.transmit_stamp_every = 4000;
    options.launch = Some(LAUNCH);
    options
}

pub(crate) fn by_ethernet() -> EthernetOptions {
    // An address for local use without a claim (IEEE 1722 table B.10).
    let address = [0x91, 0xE0, 0xF0, 0x00, 0xFE, 0x01];
    let place = EthernetPlace { interface: "lo".to_owned(), address, stream: None, priority: 3 };
    EthernetOptions { launch: Some(LAUNCH), ..ethernet_sender(&place, &format(), PACKETS) }
}

pub(crate) struct Ours {
    senders: Vec<Loan>,
    stop: Stop,
    sending: Vec<JoinHandle<Report>>,
    block: [f32; BLOCK],
    capture: LocalTime,
    periods: u64,
}

impl Ours {
    pub(crate) fn open(wire: BenchWire, spacing: Option<Spacing>) -> Option<Self> {
        let stop = Stop::default();
        let send = |_| send(wire, spacing, stop.clone());
        let started = (0..STREAMS).map(send).collect::<Result<Vec<_>, _>>();
        let (senders, sending) = match started {
            Ok(started) => started.into_iter().unzip(),
            Err(error) => {
                println!("left out: {error}");
                return None;
            }
        };
        let block = std::array::from_fn(|index| (index as f32 * 0.37).sin() * 0.5);
        Some(Self { senders, stop, sending, block, capture: now(), periods: 0 })
    }

    pub(crate) fn period(&mut self) {
        let capture = self.capture;
        self.capture += PERIOD;
        self.periods += 1;
        for sender in &mut self.senders {
            let captured = Side {
                samples: &mut self.block,
                meets: capture,
                uncertainty: Span::ZERO,
                skipped: Frames::ZERO,
            };
            sender.process.process(&mut Cycle {
                now: now(),
                capture: captured,
                playback: Side::absent(),
                xruns: 0,
                clock: Some(clock()),
            });
        }
    }

    pub(crate) fn period_in_time(&mut self) {
        sleep_until(self.capture + PERIOD);
        self.period();
    }

    pub(crate) fn wait(&self) {
        sleep_until(self.capture - AHEAD);
    }

    pub(crate) fn close(self) {
        self.senders.into_iter().for_each(Loan::end);
        self.stop.request();
        for report in self.sending {
            let report = report.join().unwrap();
            let counted = &report.streams[0].counters;
            assert_eq!(counted.send_errors, 0);
            let due = self.periods * PACKETS as u64;
            assert!(counted.sent.abs_diff(due) <= PACKETS as u64, "{counted:?} of {due}");
        }
    }
}

fn send(
    wire: BenchWire,
    spacing: Option<Spacing>,
    stop: Stop,
) -> Result<(Loan, JoinHandle<Report>), OpenError> {
    let by_wire = spacing.map(|_| OPTIONS.scheduler);
    let spacing = spacing.unwrap_or_default();
    let opened = match wire {
        BenchWire::Rtp => open_stream(&UdpOptions { spacing, ..by_udp(NOBODY) }, by_wire),
        BenchWire::Avtp => {
            ethernet::open_stream(&EthernetOptions { spacing, ..by_ethernet() }, by_wire)
        }
    }?;
    let form = match wire {
        BenchWire::Rtp => WireForm::Rtp,
        BenchWire::Avtp => WireForm::Avtp(Encapsulation::Ethernet),
    };
    let mut plan = SendPlan::new(format!("{wire:?}"), opened, format(), device()).unwrap();
    (plan.policy.form, plan.policy.link_offset) = (form, LATENCY);
    let engine = SendEngine::new(plan).unwrap();
    let (device, loan) = lender(device());
    let running = std::thread::spawn(move || {
        engine.run(Box::new(device), &OPTIONS, &stop, &mut |_| {}).unwrap()
    });
    Ok((loan(), running))
}
