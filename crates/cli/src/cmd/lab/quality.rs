//! `taut lab quality`, and the sound that it sends.

use tautline_lab::quality::{self, CarriedCase, KNOWN_SECONDS, SentSound, noises_of, write_known};
use tautline_lab::report::{LabReport, ReportRow};
use tautline_lab::streams::LabStream;
use tautline_proto::time::{Frames, Span};

use super::answer::ExperimentAnswer;
use super::ends::over;
use crate::cmd::stop_on_signals;
use crate::failure::Failure;
use crate::flags::{KnownSound, QualityFlags};
use tautline_ui::read_sound as read;

pub(crate) fn run(flags: &QualityFlags) -> Result<(), Failure> {
    let stop = stop_on_signals()?;
    let answer = ExperimentAnswer::open(&flags.reporting)?;
    let (sound, rate, lasts) = match &flags.input {
        None => {
            let lasts = Span::from_secs(i64::from(KNOWN_SECONDS));
            (SentSound::Known(flags.rate), flags.rate, lasts)
        }
        Some(path) => {
            let sound = read(path)?;
            let lasts = sound.rate.span_of(Frames::from_len(sound.frames()));
            // Agents have folders of their own.
            let whole = std::path::absolute(path).map_err(|error| {
                Failure::open(format!("{}: {error}; check the path", path.display()))
            })?;
            let path = whole.to_str().map(str::to_owned).ok_or_else(|| {
                Failure::usage(format!("{} is no UTF-8; rename it", whole.display()))
            })?;
            (SentSound::File { path, channels: sound.channels.len() }, sound.rate, lasts)
        }
    };
    let plan = LabStream {
        rate: rate.hertz(),
        ptime: flags.shape.blocks.ptime,
        latency: flags.shape.latency,
        period: flags.shape.blocks.period,
        periods: flags.periods,
        duration: lasts,
        at: flags.far.at,
        ..LabStream::default()
    };
    let cases = cases(flags);
    let noises: Vec<_> = flags.noise.iter().map(|noise| noise.and_tcp(flags.tcp_rate)).collect();
    let times = cases.len() * noises_of(&noises).len();
    answer.tell(&format!("{lasts} of sound follow, {times} times over"));
    let asked = LabReport::of("quality", quality::QUESTION);
    over(&flags.far.with, asked, answer, &stop, |ends, answer| {
        quality::run(ends, &plan, &sound, &cases, &noises, |row| {
            answer.tell(&line(row));
            !stop.is_requested()
        })
    })
}

/// One as it was asked for, or those that are built in.
fn cases(flags: &QualityFlags) -> Vec<CarriedCase> {
    if flags.send.is_none() && flags.recv.is_none() {
        return CarriedCase::of(&flags.only);
    }
    let [send, recv] = [&flags.send, &flags.recv].map(|words| {
        let words = words.as_deref().unwrap_or_default();
        words.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    vec![CarriedCase { name: "as asked".to_owned(), send, recv, off_clock: false }]
}

fn line(row: &ReportRow) -> String {
    let verdict = row.figures.iter().find(|figure| figure.key == "verdict");
    let found = match (&row.void, verdict.and_then(|figure| figure.value.as_str())) {
        (Some(why), _) => format!("void: {why}"),
        (None, verdict) => verdict.unwrap_or("no verdict").replace('_', " "),
    };
    format!("{}: {found}", row.name)
}

pub(crate) fn write(flags: &KnownSound) -> Result<(), Failure> {
    write_known(&flags.path, flags.rate, flags.bits).map_err(|error| {
        Failure::open(format!("writing {}: {error}; is there room for it?", flags.path.display()))
    })
}
