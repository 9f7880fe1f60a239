mod carried;
mod effect;
mod known;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args};
use tautline_proto::time::{Frames, Span};
use tautline_proto::units::Rate;
use tautline_ui::failure::{Failure, on_one_line};
use tautline_ui::read_sound;
use tautline_ui::readers::rate;

use crate::answer::{Answer, Reporting};
use crate::loadgen::{Noise, TcpRate};
use crate::report::ReportRow;
use crate::runner::{FarEnd, StreamShape, run_streams};
use crate::streams::LabStream;
pub use carried::QUESTION;
use carried::{CASES, CarriedCase, SentSound, carry, noises_of};
use known::{KNOWN_SECONDS, write_known};

const SHORT_HELP: &str = r#"Examples:
  taut lab quality --with ssh:studio --input /srv/song.flac
  taut lab quality --send "--format l16 --redundancy auto" --latency 50ms

All options, details and exit status: taut lab quality --help"#;

const HELP: &str = r#"Examples:
  # With 24 bits, 16 bits and floats, and to a card with a wrong clock:
  taut lab quality
  # A song, to another machine that has it at the same path:
  taut lab quality --with ssh:studio --input /srv/song.flac
  # One stream with its own options:
  taut lab quality --send "--format l16 --redundancy auto" --latency 50ms
  # Test 10 of the thesis: 20 ms without noise, with it, and without its mDNS:
  taut lab quality --only l16 --latency 20ms --period 240 --periods 2 \
      --noise noisy --noise unhandled

Each row runs `taut send` from a file and `taut recv` to a file, and `taut
compare` judges the result: its sentence is a note, its figures are columns. The
sound is built in unless --input is set: a sine, whose THD+N is reported, a
sweep and noise, different in each channel. `resampled` plays on a virtual card
that runs 100 ppm fast; its THD+N is measured in the first seconds, while the
receiver still learns the card's rate. With --send or --recv, one row runs with these options.

With --noise each row runs without noise first, then with each noise. Columns
report the noise in Mbit/s and packets/s, and its effect on the sound: none,
lost (frames were lost, and none without noise), changed (no frame was lost, but
the sound differs) or unknown (the sound without noise was not whole). Exit
status: 0 whatever the verdict is; 1 if there is none."#;

/// `taut lab quality`
#[derive(Debug, Args)]
#[command(after_help = SHORT_HELP, after_long_help = HELP, mut_arg("latency", unhurried))]
pub struct QualityFlags {
    /// Only this case; repeatable
    #[arg(long, value_name = "CASE", value_parser = PossibleValuesParser::new(CASES),
          conflicts_with_all = ["send", "recv"], help_heading = "Run")]
    only: Vec<String>,
    /// Options of taut send, such as "--format l16"
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Stream")]
    send: Option<String>,
    /// Options of taut recv
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, help_heading = "Stream")]
    recv: Option<String>,
    /// Repeat each row with network noise: noisy or unhandled; repeatable
    ///
    /// noisy is multicast that no program reads, and small packets that a program reads; unhandled
    /// is the multicast alone.
    #[arg(long, value_name = "NOISE", help_heading = "Network")]
    noise: Vec<Noise>,
    /// TCP in the noise, such as 100Mbit or full [default: none]
    #[arg(long, value_name = "RATE", requires = "noise", help_heading = "Network")]
    tcp_rate: Option<TcpRate>,
    #[command(flatten)]
    shape: StreamShape,
    /// Periods in each device buffer; must outlast host stalls
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Stream",
          value_parser = clap::value_parser!(u32).range(2..=64), hide_short_help = true)]
    periods: u32,
    /// WAV or FLAC file to send, at the same path on both hosts
    #[arg(long, short, value_name = "FILE", help_heading = "Sound")]
    input: Option<PathBuf>,
    /// Sample rate of the built-in sound
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate,
          conflicts_with = "input", help_heading = "Sound", hide_short_help = true)]
    rate: Rate,
    #[command(flatten)]
    far: FarEnd,
    #[command(flatten)]
    reporting: Reporting,
}

/// Stalls must not affect quality.
fn unhurried(latency: Arg) -> Arg {
    latency.default_value("200ms").help("Latency, longer than host stalls")
}

/// `taut lab sound`
#[derive(Debug, Args)]
pub struct KnownSound {
    /// Output file
    path: PathBuf,
    /// Sample rate
    #[arg(long, value_name = "HZ", default_value = "48000", value_parser = rate)]
    rate: Rate,
    /// Bits per sample
    #[arg(long, value_name = "N", default_value_t = 24,
          value_parser = clap::value_parser!(u16).range(16..=24))]
    bits: u16,
}

pub(crate) fn run(flags: &QualityFlags) -> Result<(), Failure> {
    let (sound, rate, lasts) = match &flags.input {
        None => {
            let lasts = Span::from_secs(i64::from(KNOWN_SECONDS));
            (SentSound::Known(flags.rate), flags.rate, lasts)
        }
        Some(path) => {
            let sound = read_sound(path)?;
            let lasts = sound.rate.span_of(Frames::from_len(sound.frames()));
            // Agents have their own folders.
            let whole = std::path::absolute(path).map_err(|error| {
                Failure::open(format!("{}: {error}\nhint: check the path", path.display()))
            })?;
            let path = whole.to_str().map(str::to_owned).ok_or_else(|| {
                Failure::usage(format!("{} is not valid UTF-8\nhint: rename it", whole.display()))
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
    let words = |row: &ReportRow| Some(line(row));
    let answer = Answer::open(&flags.reporting)?;
    answer.notify(&format!("sending {lasts} of sound {times} times"));
    run_streams(answer, ("quality", &flags.far), words, |ends, reported, _| {
        carry(ends, reported, &plan, &sound, &cases, &noises);
    })
}

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
    let found = match (&row.invalid, verdict.and_then(|figure| figure.value.as_str())) {
        (Some(why), _) => format!("invalid: {}", on_one_line(why)),
        (None, verdict) => verdict.unwrap_or("no verdict").replace('_', " "),
    };
    format!("{}: {found}", row.name)
}

pub(crate) fn write(flags: &KnownSound) -> Result<(), Failure> {
    write_known(&flags.path, flags.rate, flags.bits).map_err(|error| {
        Failure::open(format!(
            "cannot write {}: {error}\nhint: check the path and the free space",
            flags.path.display()
        ))
    })
}
