//! Real sockets and shared memory, simulated card time.

use tautline_trial::snapshot;

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use tautline_proto::card_clock::Turn;
use tautline_proto::device::{Direction, Settings};
use tautline_proto::time::{Frames, LocalTime, MediaTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_trial::{Lack, skipped};

use super::ProgramsName;
use super::attaching::{AttachError, Attachment};
use super::buffer::RecordingEnd;
use super::buffer::{BufferWord, DeviceProgress, Mode, Order};
use super::listening::{ProgramsRefused, ProgramsSocket};
use super::mixing::{AttachedPrograms, MAX_PROGRAMS};
use crate::clock::{now, sleep_until};
use crate::local::effective_user;
use crate::thread::realtime;

const PERIOD: usize = 64;
const TIMEOUT: Span = Span::from_secs(10);

fn settings() -> Settings {
    let (rate, channels) = (Rate::HZ_48000, Channels::MONO);
    Settings { rate, channels, period: Frames::from_len(PERIOD), periods: 2 }
}

struct Card {
    folder: PathBuf,
    direction: Direction,
    programs: AttachedPrograms,
    listening: Option<ProgramsSocket>,
    frame: i64,
}

impl Card {
    fn new(test: &str, direction: Direction) -> Self {
        let name = format!("taut-programs-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let (listening, mut programs) =
            ProgramsSocket::open(&folder, &ProgramsName::default(), direction, settings()).unwrap();
        programs.begin(LocalTime::from_nanos(1));
        Self { folder, direction, programs, listening: Some(listening), frame: 0 }
    }

    fn attach(&self) -> Result<Attachment, AttachError> {
        Attachment::open([self.folder.as_path()], &ProgramsName::default(), self.direction)
    }

    fn turn(&mut self) -> Turn {
        let frame = self.frame;
        self.frame += PERIOD as i64;
        Turn { frame, meets: LocalTime::NEVER, skipped: Frames::ZERO }
    }

    fn mixes(&mut self) -> Vec<f32> {
        let (turn, mut block) = (self.turn(), vec![9.0; PERIOD]);
        let _realtime = realtime::scope();
        self.programs.mix(&turn, &mut block);
        block
    }

    fn gives(&mut self, sample: f32) {
        let turn = self.turn();
        let _realtime = realtime::scope();
        self.programs.give(&turn, &[sample; PERIOD]);
    }

    fn meets(&mut self, program: &Attachment) {
        let until = now() + TIMEOUT;
        while program.buffer().standing().stint != program.buffer().ordered().stint {
            assert!(now() < until, "it is never let in");
            match self.direction {
                Direction::Playback => drop(self.mixes()),
                Direction::Capture => self.gives(0.0),
            }
            sleep_until(now() + Span::from_micros(100));
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.listening = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn order(program: &Attachment, stint: u64, mode: Mode) {
    program.buffer().order(Order { stint, mode });
}

fn player(card: &mut Card, frames: &[f32]) -> Attachment {
    let program = card.attach().unwrap();
    order(&program, 1, Mode::Stopped);
    program.buffer().put(MediaTime::ZERO, frames);
    program.buffer().set_end(MediaTime::from_frames(frames.len() as i64));
    card.meets(&program);
    program
}

fn ramp(from: i16) -> Vec<f32> {
    (from..).take(3 * PERIOD).map(|sample| f32::from(sample) / 32_768.0).collect()
}

#[test]
fn programs_are_mixed_and_one_alone_is_bit_exact() {
    let mut card = Card::new("mixed", Direction::Playback);
    let (one, other) = (ramp(1), ramp(-700));
    let first = player(&mut card, &one);
    let second = player(&mut card, &other);
    assert_eq!((first.settings(), card.mixes()), (settings(), vec![0.0; PERIOD]), "none runs");
    order(&first, 1, Mode::Running);
    assert_eq!(card.mixes(), one[..PERIOD]);
    order(&second, 1, Mode::Running);
    let both: Vec<f32> = one[PERIOD..].iter().zip(&other).map(|(a, b)| a + b).collect();
    assert_eq!([card.mixes(), card.mixes()].concat(), both[..2 * PERIOD]);
    assert_eq!(card.mixes(), other[2 * PERIOD..], "the first has nothing more");
    let DeviceProgress { position, anchor, .. } = second.buffer().standing();
    let begun = card.frame - 3 * PERIOD as i64;
    assert_eq!((position.as_frames(), anchor), (3 * PERIOD as i64, Some(begun)));
}

#[test]
fn ended_program_frees_its_place() {
    let mut card = Card::new("gone", Direction::Playback);
    let frames: Vec<f32> = (0..1400 * PERIOD).map(|at| (at % 4096) as f32 / 32_768.0).collect();
    let others = vec![0.5; frames.len()];
    let mut all: Vec<_> = (1..MAX_PROGRAMS).map(|_| player(&mut card, &others)).collect();
    let stays = player(&mut card, &frames);
    let refused = card.attach().unwrap_err().to_string();
    snapshot!(refused);
    all.iter().chain([&stays]).for_each(|program| order(program, 1, Mode::Running));
    let mut expected = frames.chunks(PERIOD);
    let mut with = |card: &mut Card| {
        let others: Vec<f32> =
            card.mixes().iter().zip(expected.next().unwrap()).map(|(a, b)| (a - b) * 2.0).collect();
        assert!(others.iter().all(|count| *count == others[0]), "{others:?}");
        others[0]
    };
    assert_eq!(with(&mut card), 15.0);
    all.clear();
    while with(&mut card) > 0.0 {
        sleep_until(now() + Span::from_millis(1));
    }
    let until = now() + TIMEOUT;
    while card.attach().is_err() {
        assert!(now() < until, "its place is never free");
    }
    assert_eq!(with(&mut card), 0.0);
    assert!(!stays.is_over());
}

#[test]
fn whatever_a_program_writes_where_it_may_is_its_own_harm() {
    let mut card = Card::new("lies", Direction::Playback);
    let frames = ramp(1);
    let good = player(&mut card, &frames);
    let bad = player(&mut card, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30]);
    order(&bad, 1, Mode::Running);
    assert_eq!(card.mixes()[..4], [0.0, 8.0, -8.0, 8.0], "invalid samples are bounded");
    bad.buffer()
        .samples()
        .iter()
        .for_each(|sample| sample.store(0, core::sync::atomic::Ordering::Relaxed));
    order(&good, 1, Mode::Running);
    let lies = [0, 1, 5, u64::MAX, u64::MAX - 1, i64::MAX as u64, i64::MIN as u64, 1 << 40];
    for lie in lies {
        for word in 0..32 {
            bad.buffer().scribble(word, lie);
        }
        let at = good.buffer().standing().position.as_frames() as usize;
        let received = card.mixes();
        let mut expected = frames.get(at..).unwrap_or_default().to_vec();
        expected.resize(PERIOD.max(expected.len()), 0.0);
        assert_eq!(received, expected[..PERIOD], "{lie}");
    }
}

#[test]
fn false_taken_count_affects_only_its_program() {
    let mut card = Card::new("records", Direction::Capture);
    let [good, bad] = [(); 2].map(|()| card.attach().unwrap());
    let mut end = RecordingEnd::new(std::sync::Arc::clone(good.buffer()));
    for program in [&good, &bad] {
        order(program, 1, Mode::Running);
        card.meets(program);
    }
    let mut before = vec![0.0; 1 << 16];
    end.take(&mut before);
    for (at, lie) in [0, 1, u64::MAX, i64::MIN as u64, 1 << 60].into_iter().enumerate() {
        for place in [BufferWord::Taken, BufferWord::Room, BufferWord::Given, BufferWord::Reported]
        {
            bad.buffer().scribble(place as usize, lie);
        }
        card.gives(at as f32);
        let mut received = [9.0; PERIOD];
        assert_eq!((end.take(&mut received), received), (PERIOD, [at as f32; PERIOD]), "{lie}");
    }
}

#[test]
fn program_is_woken_at_its_wanted_position() {
    let mut card = Card::new("woken", Direction::Playback);
    let program = player(&mut card, &ramp(1));
    order(&program, 1, Mode::Running);
    let is_woken = || crate::control::wait(&[program.sign()], now());
    program.buffer().want(MediaTime::from_frames(2 * PERIOD as i64));
    card.mixes();
    assert!(!is_woken());
    card.mixes();
    assert!(is_woken());
    program.sign().silence();
    card.mixes();
    assert!(!is_woken(), "once is enough");
    program.buffer().want(MediaTime::from_frames(4 * PERIOD as i64));
    card.mixes();
    assert!(is_woken());
}

#[test]
fn program_cannot_delay_the_device_thread_by_its_wake_up() {
    let mut card = Card::new("held", Direction::Playback);
    let program = player(&mut card, &ramp(1));
    order(&program, 1, Mode::Running);
    let handed = program.sign().as_fd().as_raw_fd();
    let full = (u64::MAX - 1).to_ne_bytes();
    // SAFETY: an open descriptor, and eight bytes that outlive the call.
    let wrote = unsafe {
        libc::fcntl(handed, libc::F_SETFL, 0);
        libc::write(handed, full.as_ptr().cast(), full.len())
    };
    let (ended, ends) = std::sync::mpsc::channel();
    program.buffer().want(MediaTime::from_frames(PERIOD as i64));
    std::thread::spawn(move || {
        card.mixes();
        let _ = ended.send(card);
    });
    let _card = ends.recv_timeout(std::time::Duration::from_secs(5)).expect("it is held up");
    assert!(crate::control::wait(&[program.sign()], now()), "it is woken all the same");
    assert!(wrote < 0, "nothing can be written");
}

#[test]
fn device_name_is_exclusive_and_stale_one_is_reused() {
    let mut card = Card::new("named", Direction::Playback);
    let folder = card.folder.clone();
    let again =
        || ProgramsSocket::open(&folder, &ProgramsName::default(), Direction::Playback, settings());
    let refused = again().map(drop).unwrap_err();
    assert!(matches!(refused, ProgramsRefused::Taken), "{refused}");
    let program = player(&mut card, &[0.5]);
    assert!(!program.is_over());
    card.listening = None;
    assert!(program.is_over(), "the program detects the end");
    assert!(matches!(card.attach(), Err(AttachError::Nobody)));
    drop(UnixListener::bind(folder.join("programs-taut.play")).unwrap());
    assert!(matches!(card.attach(), Err(AttachError::Nobody)));
    let (_listening, mut programs) = again().unwrap();
    programs.begin(LocalTime::ZERO);
    card.attach().unwrap();
}

#[test]
fn program_with_impossible_values_is_rejected() {
    let mut card = Card::new("strange", Direction::Playback);
    card.listening = None;
    let socket = card.folder.join("programs-taut.play");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut said = Vec::from(*b"tautpcm\x01\x00");
    for number in [48_000_u32, 1, 64, 2, 96_000] {
        said.extend(number.to_le_bytes());
    }
    for (said, why) in [
        (&b""[..], "not taut serve"),
        (b"GET / HTTP/1.1\r\n", "not taut serve"),
        (&[&b"tautpcm\x02"[..], &said[8..]].concat(), "another version"),
        (&said, "sent no memory"),
    ] {
        let served = listener.try_clone().unwrap();
        let said = said.to_vec();
        let thread =
            std::thread::spawn(move || served.accept().unwrap().0.write_all(&said).unwrap());
        let refused = card.attach().unwrap_err().to_string();
        thread.join().unwrap();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn memory_that_was_handed_over_stays_as_long_as_it_is() {
    let memory = super::handing::unnamed().unwrap();
    let file = std::fs::File::from(memory.try_clone().unwrap());
    file.set_len(4096).unwrap();
    assert!(!super::handing::is_sealed(std::os::fd::AsFd::as_fd(&memory)));
    super::handing::seal(std::os::fd::AsFd::as_fd(&memory)).unwrap();
    assert!(super::handing::is_sealed(std::os::fd::AsFd::as_fd(&memory)));
    for length in [0, 100, 8192] {
        assert!(file.set_len(length).is_err(), "{length}");
    }
}

const ANOTHER: u32 = 65_534;

#[test]
fn programs_skip_folders_that_are_not_private() {
    let mut card = Card::new("foreign", Direction::Playback);
    player(&mut card, &[0.5]);
    for mode in [0o755, 0o701, 0o770] {
        std::fs::set_permissions(&card.folder, PermissionsExt::from_mode(mode)).unwrap();
        assert!(matches!(card.attach(), Err(AttachError::Nobody)), "{mode:o}");
    }
    std::fs::set_permissions(&card.folder, PermissionsExt::from_mode(0o700)).unwrap();
    card.attach().unwrap();
    if effective_user() != 0 {
        return skipped(Lack::Privilege, "only root can give a folder to another user");
    }
    chown(&card.folder, Some(ANOTHER), None).unwrap();
    assert!(matches!(card.attach(), Err(AttachError::Nobody)));
    let own = Card::new("own", Direction::Playback);
    let folders = [&card.folder, &own.folder].map(PathBuf::as_path);
    Attachment::open(folders, &ProgramsName::default(), Direction::Playback).unwrap();
}

#[test]
fn program_of_another_user_is_not_a_device() {
    if effective_user() != 0 {
        return skipped(Lack::Privilege, "only root can listen as another user");
    }
    let mut card = Card::new("impostor", Direction::Playback);
    card.listening = None;
    let listener = UnixListener::bind(card.folder.join("programs-taut.play")).unwrap();
    let as_another = || {
        // SAFETY: the call takes no pointers. The raw system call, unlike its wrapper, affects only
        // this thread, which ends.
        let answer = unsafe { libc::syscall(libc::SYS_setresuid, -1, ANOTHER, -1) };
        // SAFETY: the descriptor is open; `SO_PEERCRED` reports the last caller of `listen`
        // (unix(7)).
        (answer, unsafe { libc::listen(listener.as_raw_fd(), 1) })
    };
    let listens = std::thread::scope(|threads| threads.spawn(as_another).join().unwrap());
    assert_eq!(listens, (0, 0));
    let refused = card.attach().unwrap_err();
    assert!(matches!(refused, AttachError::Foreign), "{refused}");
}
