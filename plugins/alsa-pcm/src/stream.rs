//! An engine's stream with the PCM's card. Receivers get silence while the application is stopped.

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tautline_engine::monitor::note::messages::claimed;
use tautline_engine::monitor::observers::Observers;
use tautline_engine::monitor::run::{Progress, RunOptions};
use tautline_engine::receive_engine::RecvEngine;
use tautline_engine::send_engine::SendEngine;
use tautline_io::programs::attaching::Attachment;
use tautline_io::programs::buffer::ProgramBuffer;
use tautline_io::programs::buffer::RecordingEnd;
use tautline_io::programs::ends::{Feeder, Giver};
use tautline_io::thread::{Scheduler, spawn as spawn_as, without_signals};
use tautline_proto::card_clock::CardClock;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::time::{LocalTime, MediaTime, Span};
use tautline_proto::units::Ppm;

use crate::card::{BufferEnd, DeviceProcess};
use crate::complaint::Complaint;
use crate::messages::words;
use crate::wire::{Reached, recv_plan, send_plan};

pub(crate) enum SoundEnd {
    Playing(Arc<ProgramBuffer>),
    Recording(RecordingEnd),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamShape {
    pub(crate) device: Settings,
    pub(crate) room: usize,
}

pub(crate) struct Stream {
    pub(crate) shape: StreamShape,
    pub(crate) shared: Arc<ProgramBuffer>,
    pub(crate) held: SoundEnd,
    card: StreamCard,
}

enum StreamCard {
    Own { clock: CardClock, stop: Stop, thread: JoinHandle<ThreadResult> },
    AttachedCard(Attachment),
}

/// Default priority. A wire thread runs one below.
const DEFAULT_PRIORITY: u8 = 70;
/// Maximum priority. Higher priorities are for kernel threads.
const MAX_PRIORITY: u8 = 98;

/// Options in a foreign program: no locked memory and no stall monitor.
const OPTIONS: RunOptions = RunOptions {
    scheduler: Scheduler::Fifo(DEFAULT_PRIORITY),
    duration: None,
    stall_monitor: false,
    lock_memory: false,
    words,
};

/// Timeout of the start. The engine's prelude takes 100 ms.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Priority above the program's: otherwise a real-time program that fills its buffer delays due
/// packets.
fn before(program: Scheduler) -> Scheduler {
    let above = match program {
        Scheduler::Fifo(priority) | Scheduler::RoundRobin(priority) => priority.saturating_add(2),
        Scheduler::Other | Scheduler::Deadline { .. } => DEFAULT_PRIORITY,
    };
    Scheduler::Fifo(above.clamp(DEFAULT_PRIORITY, MAX_PRIORITY))
}

/// Priority limited by `RLIMIT_RTPRIO`.
fn granted_before(program: Scheduler) -> Scheduler {
    let wanted = before(program);
    let is_granted = |wanted: &Scheduler| {
        let tried = without_signals(|| spawn_as("taut-probe", *wanted, 0, || ()));
        tried.is_ok_and(|(_, granted)| granted.is_granted())
    };
    // One above the program, the wire thread shares its priority.
    let highest = [wanted, wanted.one_below()].into_iter().filter(|one| *one != OPTIONS.scheduler);
    highest.into_iter().find(is_granted).unwrap_or(OPTIONS.scheduler)
}

impl Stream {
    pub(crate) fn start(
        reached: &Reached,
        direction: Direction,
        shape: StreamShape,
        notes: Sender<String>,
    ) -> Result<Self, Complaint> {
        let device = shape.device;
        let channels = device.channels.count();
        let shared = Arc::new(ProgramBuffer::new(shape.room, channels));
        let (started, starts) = sync_channel(1);
        let stop = Stop::default();
        let options = RunOptions { scheduler: granted_before(Scheduler::current()), ..OPTIONS };
        let (thread, held) = match direction {
            Direction::Playback => {
                let end = BufferEnd::ToWire(Feeder::new(Arc::clone(&shared)));
                let card = card(shape, end, started);
                let plan = without_signals(|| send_plan(reached, &device, options.scheduler))?;
                if reached.claim.is_some() {
                    let said = claimed(&reached.wish.address.to_string(), &plan.stream.address);
                    tell_all(&notes, [said].iter());
                }
                shared.set_latency(plan.policy.link_offset);
                let (reported, requested, promise) =
                    (Arc::clone(&shared), stop.clone(), plan.policy.link_offset);
                let mut engine = without_signals(|| SendEngine::new(plan))?;
                engine.show_to(observers("send"));
                let run = move || {
                    let mut said = 0;
                    let notify = &mut |progress: &Progress<'_>| {
                        follow(&reported, progress, promise);
                        said = speak(&notes, progress.notes, said);
                    };
                    let report = engine.run(card, &options, &requested, notify)?;
                    // The report adds the system's refusals.
                    speak(&notes, &report.notes, said);
                    Ok(())
                };
                (spawn(run)?, SoundEnd::Playing(Arc::clone(&shared)))
            }
            Direction::Capture => {
                let end = BufferEnd::FromWire(Giver::new(Arc::clone(&shared)));
                let card = card(shape, end, started);
                let plan = recv_plan(reached, &device)?;
                let promise = plan.streams[0].receiver.link_offset;
                shared.set_latency(promise);
                let (reported, requested) = (Arc::clone(&shared), stop.clone());
                let mut engine = RecvEngine::new(plan)?;
                engine.show_to(observers("recv"));
                let run = move || {
                    let mut said = 0;
                    let notify = &mut |progress: &Progress<'_>| {
                        follow(&reported, progress, promise);
                        said = speak(&notes, progress.notes, said);
                    };
                    engine
                        .run(card, &options, &requested, notify)
                        .map(drop)
                        .map_err(Complaint::from)
                };
                (spawn(run)?, SoundEnd::Recording(RecordingEnd::new(Arc::clone(&shared))))
            }
        };
        let Ok(clock) = starts.recv_timeout(TIMEOUT) else {
            stop.request();
            return Err(ended(thread));
        };
        Ok(Self { shape, shared, held, card: StreamCard::Own { clock, stop, thread } })
    }

    pub(crate) fn served(attachment: Attachment, direction: Direction, shape: StreamShape) -> Self {
        let shared = Arc::clone(attachment.buffer());
        let held = match direction {
            Direction::Playback => SoundEnd::Playing(Arc::clone(&shared)),
            Direction::Capture => SoundEnd::Recording(RecordingEnd::new(Arc::clone(&shared))),
        };
        Self { shape, shared, held, card: StreamCard::AttachedCard(attachment) }
    }

    pub(crate) const fn attachment(&self) -> Option<&Attachment> {
        match &self.card {
            StreamCard::AttachedCard(attachment) => Some(attachment),
            StreamCard::Own { .. } => None,
        }
    }

    pub(crate) fn clock(&self) -> CardClock {
        match &self.card {
            StreamCard::Own { clock, .. } => *clock,
            StreamCard::AttachedCard(attachment) => {
                let rate = attachment.settings().rate;
                CardClock::new(attachment.buffer().start(), rate, Ppm::ZERO)
            }
        }
    }

    /// Whether the device has ended. Its thread ends early only on errors.
    pub(crate) fn is_over(&self) -> bool {
        match &self.card {
            StreamCard::Own { thread, .. } => thread.is_finished(),
            StreamCard::AttachedCard(attachment) => attachment.is_over(),
        }
    }

    /// Time when the device's thread completes `position`.
    pub(crate) fn reaches(&self, anchor: i64, position: MediaTime) -> LocalTime {
        let position = position.as_frames();
        let period = self.shape.device.period.count();
        let whole = (position + period - 1).div_euclid(period) * period;
        // A recorder's block arrives before its first frame is due.
        let lead = match self.held {
            SoundEnd::Playing(_) => 0,
            SoundEnd::Recording(_) => period * i64::from(self.shape.device.periods),
        };
        self.clock().instant_of(anchor.saturating_add(whole - lead))
    }

    pub(crate) fn end(self) -> Result<(), Complaint> {
        // A served card continues.
        let StreamCard::Own { stop, thread, .. } = self.card else { return Ok(()) };
        stop.request();
        thread.join().unwrap_or_else(|_| Err(Complaint::of(libc::EIO)))
    }
}

fn observers(role: &'static str) -> Observers {
    Observers::open(role).unwrap_or_default()
}

fn card(shape: StreamShape, end: BufferEnd, started: SyncSender<CardClock>) -> Box<DeviceProcess> {
    Box::new(DeviceProcess::new(shape.device, end, started))
}

fn follow(shared: &ProgramBuffer, progress: &Progress<'_>, promise: Span) {
    let latency = progress.latency.map(|(latency, _)| latency).or(progress.auto);
    shared.set_latency(latency.unwrap_or(promise));
}

fn speak(to: &Sender<String>, notes: &[String], said: usize) -> usize {
    tell_all(to, notes.iter().skip(said));
    notes.len()
}

fn tell_all<'a>(to: &Sender<String>, notes: impl Iterator<Item = &'a String>) {
    // Fails only if the PCM is gone.
    notes.for_each(|note| drop(to.send(note.clone())));
}

type ThreadResult = Result<(), Complaint>;

fn spawn(
    run: impl FnOnce() -> ThreadResult + Send + 'static,
) -> Result<JoinHandle<ThreadResult>, Complaint> {
    let thread = std::thread::Builder::new().name("taut-pcm".into());
    let run = || {
        // A real-time scheduler is inherited, and would compete with the device's thread.
        let _ = Scheduler::Other.apply();
        run()
    };
    without_signals(|| thread.spawn(run)).map_err(|error| Complaint {
        errno: libc::EAGAIN,
        sentence: format!("cannot start a thread: {error}; stop other programs or raise ulimit -u"),
    })
}

fn ended(thread: JoinHandle<ThreadResult>) -> Complaint {
    if !thread.is_finished() {
        return Complaint {
            errno: libc::ETIMEDOUT,
            sentence:
                "cannot start the stream: its thread did not run in time; the machine is too busy"
                    .into(),
        };
    }
    match thread.join() {
        Ok(Err(complaint)) => complaint,
        _ => Complaint::of(libc::EIO),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::mpsc::channel;

    use tautline_io::programs::buffer::{Mode, Order};
    use tautline_proto::time::Frames;
    use tautline_proto::units::{Channels, Rate};
    use tautline_trial::{Lack, skipped};

    use super::*;
    use crate::keys::{Value, read};
    use crate::wire::reach;

    const CHANNELS: usize = 2;
    const SOUND: usize = 12_000;

    fn started(key: &str, port: u16, direction: Direction) -> Stream {
        let keys = [
            (key.to_owned(), Value::Text(format!("rtp://127.0.0.1:{port}"))),
            ("rate".to_owned(), Value::Number(48_000)),
            ("channels".to_owned(), Value::Number(CHANNELS as i64)),
            ("latency".to_owned(), Value::Text("50ms".to_owned())),
            ("format".to_owned(), Value::Text("f32".to_owned())),
        ];
        let wish = read("test", &keys, direction).unwrap();
        let (channels, period) = (Channels::STEREO, Frames::new(48));
        let device = Settings { rate: Rate::HZ_48000, channels, period, periods: 2 };
        let shape = StreamShape { device, room: 4 * SOUND };
        let reached = reach(wish, direction).unwrap();
        Stream::start(&reached, direction, shape, channel().0).unwrap()
    }

    fn ports() -> u16 {
        let free = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let any =
            || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        std::iter::repeat_with(any).find(|port| port % 2 == 0 && free(port + 1)).unwrap()
    }

    #[test]
    fn an_ordinary_thread_is_one_whatever_the_program_runs_as() {
        let program = std::thread::spawn(move || {
            let granted = Scheduler::RoundRobin(3).apply();
            if !granted.is_granted() {
                return skipped(Lack::Privilege, &granted.to_string());
            }
            let policy = |expected: i32| {
                // SAFETY: the call takes no pointers. 0 is the current thread.
                assert_eq!(unsafe { libc::sched_getscheduler(0) }, expected);
            };
            policy(libc::SCHED_RR);
            let ran = spawn(move || {
                policy(libc::SCHED_OTHER);
                Ok(())
            });
            ran.unwrap().join().unwrap().unwrap();
        });
        program.join().unwrap();
    }

    #[test]
    fn the_threads_of_a_stream_go_before_a_real_time_program() {
        let device = |program| match before(program) {
            Scheduler::Fifo(priority) => priority,
            other => panic!("{other}"),
        };
        for program in [Scheduler::Other, Scheduler::Fifo(1), Scheduler::RoundRobin(68)] {
            assert_eq!(device(program), 70, "{program}");
        }
        for priority in 69..97 {
            for program in [Scheduler::Fifo(priority), Scheduler::RoundRobin(priority)] {
                assert!(device(program) > priority + 1, "a wire thread, too");
            }
        }
        assert_eq!(device(Scheduler::Fifo(99)), 98, "not beside the kernel's own");
    }

    /// Under the real-time sanitizer.
    #[test]
    fn sound_of_an_application_reaches_another() {
        let port = ports();
        let recording = started("from", port, Direction::Capture);
        let playing = started("to", port, Direction::Playback);
        let SoundEnd::Playing(track) = &playing.held else { panic!("it plays") };
        let mut received = RecordingEnd::new(Arc::clone(&recording.shared));
        let sound: Vec<f32> = (1..=SOUND * CHANNELS).map(|at| at as f32 / 65_536.0).collect();
        track.put(MediaTime::ZERO, &sound);
        track.set_end(MediaTime::from_frames(SOUND as i64));
        for shared in [&recording.shared, &playing.shared] {
            shared.order(Order { stint: 1, mode: Mode::Running });
        }
        let mut found = 0;
        while found < sound.len() / 2 {
            let mut samples = [0.0; 480 * CHANNELS];
            match received.take(&mut samples) {
                0 => std::thread::yield_now(),
                frames => {
                    let samples = &samples[..frames * CHANNELS];
                    found += samples.iter().filter(|sample| **sample != 0.0).count();
                }
            }
            assert!(!playing.is_over() && !recording.is_over(), "{found} samples were heard");
        }
        playing.end().unwrap();
        recording.end().unwrap();
    }
}
