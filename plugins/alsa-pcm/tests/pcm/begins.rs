use alsa_sys::{SND_PCM_STREAM_PLAYBACK, snd_pcm_start};
use tautline_io::clock::now;
use tautline_io::link::Link;
use tautline_io::link::direct::DirectLink;
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::{pin_to, usable_cores};
use tautline_io::udp::UdpOptions;
use tautline_proto::time::{LocalTime, Span};
use tautline_trial::{Lack, Window, each, skipped};

use crate::handle::{Handle, Requested};
use crate::timed;

const CHANNELS: usize = 16;
const BUFFER: usize = 96_000;
/// 50 ms.
const PACKETS: usize = 400;

const PTIME: Span = Span::from_micros(125);
/// Packets within 0.5 ms of each arrival, and the time since they were due.
fn together(mut arrivals: Vec<LocalTime>) -> Vec<(Window, usize)> {
    arrivals.sort();
    let burst = |(at, first): (usize, &LocalTime)| {
        let until = *first + Span::from_micros(500);
        let burst = arrivals[at..].partition_point(|arrival| *arrival < until);
        let held_up = Span::from_nanos(PTIME.as_nanos() * burst as i64);
        (Window { from: *first - held_up, to: until }, burst)
    };
    arrivals.iter().enumerate().map(burst).collect()
}

/// Runs on one core with the stream. Returns the time taken, and the arrivals. `None` without the
/// priority.
fn arrivals(priority: u8) -> Option<(Span, Vec<LocalTime>)> {
    let mut far = DirectLink::open(&UdpOptions::receiver("127.0.0.1:0".parse().unwrap())).unwrap();
    let port = far.local().port();
    let program = std::thread::spawn(move || {
        pin_to(usable_cores()[0]).unwrap();
        let keys = format!(
            "to \"127.0.0.1:{port}\" channels {CHANNELS} ptime 125us pacing sleep latency 50ms"
        );
        let pcm = Handle::open(&keys, SND_PCM_STREAM_PLAYBACK).unwrap();
        if !Scheduler::Fifo(priority).apply().is_granted() {
            return None;
        }
        let requested =
            Requested { channels: CHANNELS as u32, buffer: BUFFER as u64, ..Requested::default() };
        pcm.set(requested).unwrap();
        let samples = vec![1_i16; BUFFER * CHANNELS];
        let begun = now();
        assert_eq!(pcm.write(&samples, BUFFER), Ok(BUFFER as i64));
        let filled = now() - begun;
        pcm.request(snd_pcm_start).unwrap();
        assert_eq!(pcm.write(&samples, BUFFER / 8), Ok(BUFFER as i64 / 8));
        Some(filled)
    });
    let (mut arrivals, until) = (Vec::new(), now() + Span::from_secs(20));
    while arrivals.len() < PACKETS && now() < until && !program.is_finished() {
        far.receive(&mut |datagram| arrivals.push(datagram.arrival.at));
        std::thread::yield_now();
    }
    program.join().unwrap().map(|filled| (filled, arrivals))
}

mod exclusive {
    use super::*;

    #[test]
    fn first_packets_leave_on_time_while_a_program_fills_its_buffer() {
        timed(|| {
            let Some((filled, arrivals)) = arrivals(75) else {
                return skipped(Lack::Privilege, "no real-time priority is granted");
            };
            assert!(arrivals.len() >= PACKETS, "{} packets", arrivals.len());
            let together = together(arrivals);
            // Four are due in 0.5 ms. Behind the program, 56 to 67 packets leave back to back. A
            // shared host can delay a thread by 2 ms (17 packets).
            let due = filled.as_nanos() / PTIME.as_nanos();
            let too_many = 4 + due as usize / 2;
            let maximum = together.iter().map(|(_, packets)| *packets).max().unwrap_or(0);
            println!(
                "at most {maximum} packets within 0.5 ms; {due} became due in the {filled} of filling"
            );
            each(together, |packets| {
                assert!(
                    packets <= too_many,
                    "{packets} packets within 0.5 ms, {due} due while filling"
                );
            });
        });
    }
}
