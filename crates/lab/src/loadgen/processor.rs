use std::hint::{black_box, spin_loop};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use tautline_io::clock::now;
use tautline_io::thread::Scheduler;
use tautline_io::thread::affinity::pin_to;
use tautline_proto::time::Span;

use super::{BEAT, LoadgenError, LoadgenReport, Until};
use crate::hosts::{BoundedLine, lines_within};
use crate::kept::refusal;
use crate::signals::interrupt;

/// Loop turns per look at the clock: well below 1 ms.
const TURNS: u32 = 10_000;

pub(super) fn turn(threads: u32, until: &Until<'_>) -> Result<LoadgenReport, LoadgenError> {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let spin = || {
                while !until.is_over() {
                    (0..TURNS).for_each(|_| spin_loop());
                }
            };
            let spinner = std::thread::Builder::new().name("loadgen".into());
            if let Err(error) = spinner.spawn_scoped(scope, spin) {
                until.stop.request();
                return Err(LoadgenError::System { what: "cannot start a thread", error });
            }
        }
        Ok(LoadgenReport::default())
    })
}

/// Busy and idle time. Real-time threads get 95 % of each second (sched(7), `sched_rt_runtime_us`),
/// and the stream needs a share.
const RIVAL: (Span, Span) = (Span::from_millis(400), Span::from_millis(100));

pub(super) fn rival(
    scheduler: Scheduler,
    core: usize,
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let refused = |why: String| LoadgenError::Rival { scheduler, core, why };
    let works = || {
        pin_to(core).map_err(|error| refused(error.to_string()))?;
        let granted = scheduler.apply();
        if !granted.is_granted() {
            return Err(refused(refusal(granted)));
        }
        let mut tally = LoadgenReport::default();
        while !until.is_over() {
            let rests = now() + RIVAL.0;
            while now() < rests && !until.is_over() {
                (0..TURNS).for_each(|_| spin_loop());
            }
            tally.rounds += 1;
            until.sleep(rests + RIVAL.1);
        }
        Ok(tally)
    };
    // A separate thread: the caller keeps its scheduler.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rival".into()).spawn_scoped(scope, works);
        let thread = thread
            .map_err(|error| LoadgenError::System { what: "cannot start a thread", error })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Minimum page size. One write makes the kernel provide a page.
const PAGE: usize = 4096;
const PIECE: usize = 1 << 20;

pub(super) fn touch(bytes: u64, until: &Until<'_>) -> LoadgenReport {
    let mut memory = vec![0_u8; usize::try_from(bytes).unwrap_or(usize::MAX).max(PAGE)];
    let mut tally = LoadgenReport::default();
    loop {
        for piece in memory.chunks_mut(PIECE) {
            if until.is_over() {
                return tally;
            }
            piece.iter_mut().step_by(PAGE).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        black_box(&mut memory);
        tally.rounds += 1;
    }
}

fn timeout(maximum: Option<Span>) -> Option<String> {
    let seconds = maximum?.as_nanos().max(0) / 1_000_000_000 + 1;
    Some(format!("--timeout={seconds}s"))
}

pub(super) fn stress_ng(
    words: &[String],
    until: &Until<'_>,
) -> Result<LoadgenReport, LoadgenError> {
    let mut command = Command::new("stress-ng");
    // Ends the program even if this process is killed.
    command.args(timeout(until.ends.map(|ends| ends - now()))).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(LoadgenError::NoStressNg)?;
    // Output may exceed a pipe's buffer.
    let said = child.stderr.take().map(|said| std::thread::spawn(move || last_line(said)));
    let failed = |error| LoadgenError::System { what: "waiting for stress-ng", error };
    let mut stopped = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if until.is_over() && !stopped {
            stopped = true;
            interrupt(&mut child);
        }
        std::thread::sleep(Duration::from_nanos(BEAT.as_nanos() as u64));
    };
    // An interrupted program may report failure.
    if stopped || status.success() {
        return Ok(LoadgenReport::default());
    }
    let said = said.and_then(|said| said.join().ok()).flatten().unwrap_or("nothing".into());
    Err(LoadgenError::StressNg { words: words.join(" "), status: status.to_string(), said })
}

const LINE: usize = 1 << 16;

fn last_line(said: impl Read) -> Option<String> {
    let mut last = None;
    for line in lines_within(said, LINE) {
        if let BoundedLine::Whole(line) = line
            && !line.trim().is_empty()
        {
            last = Some(line);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stress_ng_timeout_is_whole_seconds_and_never_zero() {
        let reported = |millis| timeout(Some(Span::from_millis(millis)));
        assert_eq!(reported(61_500).as_deref(), Some("--timeout=62s"));
        assert_eq!(reported(-5).as_deref(), Some("--timeout=1s"), "and 0 would be for ever");
        assert_eq!(timeout(None), None);
    }
}
