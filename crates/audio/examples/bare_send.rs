//! Minimal sender of a card's sound, as baseline for `taut send`: `bare_send PCM HOST:PORT PERIOD
//! SECONDS` prints its processor time in nanoseconds. L24 RTP, stereo at 48 kHz, one packet per
//! period, under `fifo:70`.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::env;
use std::error::Error;
use std::ffi::CString;
use std::net::{SocketAddr, UdpSocket};

use alsa::pcm::{Access, Format, HwParams, PCM};
use alsa::{Direction, ValueOr};
use tautline_io::thread::{self, Scheduler};

const CHANNELS: usize = 2;
const HEADER: usize = 12;

fn set_up(name: &str, period: i64) -> Result<PCM, Box<dyn Error + Send + Sync>> {
    let pcm = PCM::open(&CString::new(name)?, Direction::Capture, false)?;
    {
        let params = HwParams::any(&pcm)?;
        params.set_access(Access::MMapInterleaved)?;
        params.set_channels(CHANNELS as u32)?;
        params.set_rate(48_000, ValueOr::Nearest)?;
        params.set_format(Format::s32())?;
        params.set_period_size(period, ValueOr::Nearest)?;
        params.set_buffer_size(2 * period)?;
        pcm.hw_params(&params)?;
        let running = pcm.sw_params_current()?;
        running.set_avail_min(period)?;
        pcm.sw_params(&running)?;
    }
    pcm.start()?;
    Ok(pcm)
}

fn carry(
    pcm: &PCM,
    (socket, to): (&UdpSocket, SocketAddr),
    (period, periods): (i64, u32),
) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let frames = period as usize;
    let mut packet = vec![0; HEADER + frames * CHANNELS * 3];
    let mut xruns = 0;
    let io = pcm.io_i32()?;
    for number in 0..periods {
        let waited = pcm.wait(Some(1000)).and_then(|_| pcm.avail_update());
        if waited.is_err() {
            xruns += 1;
            pcm.prepare()?;
            pcm.start()?;
            continue;
        }
        packet[0] = 0x80;
        packet[1] = 96;
        packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        packet[4..8].copy_from_slice(&(number.wrapping_mul(period as u32)).to_be_bytes());
        let mut filled = 0;
        while filled < frames {
            let taken = io.mmap(frames - filled, |samples| {
                let room = packet[HEADER + filled * CHANNELS * 3..].chunks_exact_mut(3);
                for (coded, sample) in room.zip(samples.iter()) {
                    coded.copy_from_slice(&sample.to_be_bytes()[..3]);
                }
                samples.len() / CHANNELS
            })?;
            if taken == 0 {
                break;
            }
            filled += taken;
        }
        socket.send_to(&packet, to)?;
    }
    Ok(xruns)
}

/// In nanoseconds (proc(5), schedstat of its threads).
fn processor_time() -> Result<u64, Box<dyn Error>> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        total += stat.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(total)
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).collect();
    let [name, address, period, seconds] = given.as_slice() else {
        return Err("give PCM HOST:PORT PERIOD SECONDS".into());
    };
    let period: i64 = period.parse()?;
    let periods = seconds.parse::<u32>()? * 48_000 / u32::try_from(period)?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let to: SocketAddr = address.parse()?;
    let name = name.clone();
    let (report, handle) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (running, _granted) = thread::spawn("bare", Scheduler::Fifo(70), 256 << 10, move || {
        let run = || {
            let pcm = set_up(&name, period)?;
            let xruns = carry(&pcm, (&socket, to), (period, periods));
            let _ = Scheduler::Other.apply();
            drop(pcm);
            xruns
        };
        // The receiver may be gone.
        let _ = report.send(run());
        // Readable only while the thread exists.
        let _ = wait.recv();
    })?;
    let xruns = handle.recv()?;
    let time = processor_time()?;
    drop(done);
    running.join().map_err(|_| "the thread panicked")?;
    let xruns = xruns.map_err(|error| error.to_string())?;
    println!("{time} ns, {xruns} xruns");
    Ok(())
}
