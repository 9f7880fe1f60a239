//! `taut lab kernel`

use tautline_dsp::format::SampleFormat;
use tautline_io::thread::affinity::usable_cores;
use tautline_lab::hosts::{HostPlace, LabHost};
use tautline_lab::kernel::{KernelOptions, PacketRun, PacketShape, empty, measure, measure_from};
use tautline_proto::time::Span;

use super::answer::ExperimentAnswer;
use super::room::check_room;
use super::stop_with_agent;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{KernelFlags, PacketsFlags};
use crate::screen;

/// As in Sjöberg and Hammarström, Lund 2020, section 2.2.4.
const PTIMES: [Span; 3] = [Span::from_millis(1), Span::from_millis(5), Span::from_millis(20)];

/// As many as there.
const PACKETS: u32 = 50_000;
/// Of a row where no number of packets is asked for.
const SHORT: Span = Span::from_secs(10);

pub(crate) fn run(flags: &KernelFlags) -> Result<(), Failure> {
    let ptimes = if flags.ptime.is_empty() { PTIMES.to_vec() } else { flags.ptime.clone() };
    let frame = SampleFormat::from(flags.format).bytes() * flags.channels.count();
    let shape = |ptime: Span| {
        let frames = flags.rate.frames_within(ptime).count();
        if frames == 0 {
            return Err(Failure::usage(format!(
                "--ptime {ptime} is shorter than a frame at {}; use 1ms or the like",
                flags.rate
            )));
        }
        Ok(PacketShape { ptime, payload: (frames as usize).saturating_mul(frame) })
    };
    let longest = ptimes.iter().copied().max().unwrap_or(Span::ZERO);
    let options = KernelOptions {
        packets: ptimes.into_iter().map(shape).collect::<Result<_, _>>()?,
        most: flags.packets.unwrap_or(PACKETS) as usize,
        duration: flags.duration.unwrap_or(match flags.packets {
            // They are what is asked for, however long they take.
            Some(packets) => {
                Span::from_nanos(longest.as_nanos().saturating_mul(i64::from(packets)))
            }
            None => SHORT,
        }),
        period: flags.period,
        cores: if flags.cpus.is_empty() { usable_cores() } else { flags.cpus.clone() },
        scheduler: flags.scheduler,
    };
    options.packets.iter().try_for_each(|packets| check_room(options.count(*packets)))?;
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let Some(with) = &flags.with else {
        let report = measure(&options, &stop, &mut |case| answer.tell(case));
        return answer.give(report);
    };
    // The one that may refuse first.
    let far = LabHost::at(with.clone(), &stop).map_err(|error| (with, error));
    let local = &HostPlace::Local;
    let both = far.and_then(|far| {
        let here = LabHost::at(local.clone(), &stop).map_err(|error| (local, error))?;
        Ok((far, here))
    });
    match both {
        Ok((mut far, mut here)) => {
            let mut tell = |case: &str| answer.tell(case);
            let report = measure_from(&options, &mut far, &mut here, flags.at, &stop, &mut tell);
            answer.give(report)
        }
        Err((place, error)) => {
            answer.write(empty().unusable(place.to_string(), error.to_string()))?;
            Err(error.into())
        }
    }
}

pub(crate) fn send(flags: &PacketsFlags) -> Result<(), Failure> {
    let stop = stop_with_agent()?;
    let packets = PacketShape { ptime: flags.ptime, payload: flags.payload };
    let run = PacketRun { packets, count: flags.count as usize, run: flags.run };
    let sent = run.send(flags.to, flags.scheduler, &stop).map_err(Failure::open)?;
    let json = serde_json::to_string(&sent).map_err(|e| Failure::running(e.to_string()))?;
    screen::print(&(json + "\n"));
    Ok(())
}
