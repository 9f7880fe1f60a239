//! Real time, as in `taut serve`.

use tautline_trial::snapshot;

use std::sync::Arc;

use tautline_io::clock::{now, sleep_until};
use tautline_io::local::places;
use tautline_io::programs::ProgramsName;
use tautline_io::programs::attaching::Attachment;
use tautline_io::programs::buffer::RecordingEnd;
use tautline_io::programs::buffer::{Mode, Order};
use tautline_proto::device::{Direction, Stop};
use tautline_proto::time::{MediaTime, Span};

use super::{each, settings};
use crate::{DeviceSpec, Extras, open, open_supervised};

const PERIOD: i64 = 480;
const TIMEOUT: Span = Span::from_secs(10);

fn name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn spec(test: &str) -> DeviceSpec {
    format!("programs:{}", name(test)).parse().unwrap()
}

fn attached(test: &str, direction: Direction) -> Attachment {
    let (folders, name): (_, ProgramsName) = (places(), name(test).parse().unwrap());
    let until = now() + TIMEOUT;
    loop {
        match Attachment::open(folders.iter().map(|folder| &**folder), &name, direction) {
            Ok(attachment) => return attachment,
            Err(error) => assert!(now() < until, "{error}"),
        }
        sleep_until(now() + Span::from_millis(1));
    }
}

fn forget(test: &str) {
    for way in ["play", "record"] {
        let file = format!("programs-{}.{way}.lock", name(test));
        places().iter().for_each(|folder| drop(std::fs::remove_file(folder.join(&file))));
    }
}

#[test]
fn programs_card_captures_and_plays_for_programs() {
    let test = "both";
    let wanted = settings(PERIOD, 2);
    let channels = wanted.channels.count();
    let mut device =
        open(&spec(test), tautline_proto::device::Directions::Both, wanted, Extras::default());
    let device = device.as_mut().unwrap();
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let stops = StopAtEnd(stop.clone());
        let stopped = stop.clone();
        let runs = scope.spawn(move || {
            let echo = each(|cycle| {
                cycle.playback.samples.copy_from_slice(cycle.capture.samples);
                tautline_proto::device::Flow::Continue
            });
            device.device.run(echo, &stopped);
        });
        let plays = attached(test, Direction::Playback);
        let records = attached(test, Direction::Capture);
        assert_eq!((plays.settings(), records.settings()), (wanted, wanted));
        let sound: Vec<f32> = (1..=4 * PERIOD as usize * channels).map(|at| at as f32).collect();
        let sound: Vec<f32> = sound.iter().map(|sample| sample / 65_536.0).collect();
        plays.buffer().put(MediaTime::ZERO, &sound);
        plays.buffer().set_end(MediaTime::from_frames(4 * PERIOD));
        let mut end = RecordingEnd::new(Arc::clone(records.buffer()));
        let running = Order { stint: 1, mode: Mode::Running };
        records.buffer().order(running);
        while records.buffer().standing().stint == 0 {
            sleep_until(now() + Span::from_millis(1));
        }
        plays.buffer().order(running);
        let (mut received, until) = (Vec::<f32>::new(), now() + TIMEOUT);
        while received.len() < sound.len() {
            assert!(now() < until, "{} of {} samples were recorded", received.len(), sound.len());
            let mut some = vec![0.0; PERIOD as usize * channels];
            let frames = end.take(&mut some);
            let some = some[..frames * channels].iter();
            let begun = !received.is_empty();
            received.extend(some.skip_while(|sample| !begun && **sample == 0.0));
            sleep_until(now() + Span::from_millis(1));
        }
        assert_eq!(received[..sound.len()], sound);
        drop(stops);
        runs.join().unwrap();
    });
    forget(test);
}

struct StopAtEnd(Stop);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.request();
    }
}

#[test]
fn name_of_another_card_is_refused_with_a_hint() {
    let test = "taken";
    let open = || {
        let extras = Extras::default();
        open_supervised(&spec(test), Direction::Capture, settings(PERIOD, 2), extras).map(drop)
    };
    let opened =
        open_supervised(&spec(test), Direction::Capture, settings(PERIOD, 2), Extras::default());
    let refused = open().unwrap_err().to_string();
    snapshot!(refused.replace(&name(test), "NAME"));
    drop(opened.unwrap());
    open().unwrap();
    forget(test);
}
