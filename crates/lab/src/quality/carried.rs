//! Whether a stream carries sound intact: `taut send`, `recv` and `compare`.

use core::time::Duration;

use serde_json::Value;
use tautline_proto::units::Rate;

use super::effect::NoiseEffect;
use crate::cases::Cases;
use crate::hosts::{ChildEnded, HostError, LabHost};
use crate::loadgen::{Alongside, Noise};
use crate::report::{ReportRow, Worst};
use crate::streams::{LabStream, StreamEnds};

pub const QUESTION: &str = "is what is heard the sound that was sent?";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CarriedCase {
    pub name: String,
    pub send: Vec<String>,
    pub recv: Vec<String>,
    pub off_clock: bool,
}

pub(super) const CASES: [&str; 4] = ["l24", "l16", "f32", "resampled"];
const FAST_PPM: u32 = 100;
/// A tone of 20 s had a THD+N of −25 dB in its first 3 s, −77 dB from 10 s on and −101 dB from 14 s
/// on.
const SETTLING: &str = "THD+N is due to the pitch, which changes for about 15 s while the receiver learns the card's \
                        rate; the resampler itself distorts less (docs/performance/distortion.csv)";

impl CarriedCase {
    pub(super) fn of(names: &[String]) -> Vec<Self> {
        let wanted = |name: &&str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        let case = |name: &str| {
            let off_clock = name == "resampled";
            let format = if off_clock { "l24" } else { name };
            let send = ["--format", format].map(str::to_owned).into();
            Self { name: name.to_owned(), send, recv: Vec::new(), off_clock }
        };
        CASES.into_iter().filter(wanted).map(case).collect()
    }

    /// `taut send` rejects a file with more bits than it carries.
    fn bits(&self) -> u32 {
        if self.send.iter().any(|word| word == "l16" || word == "--format=l16") { 16 } else { 24 }
    }
}

#[derive(Debug, Clone)]
pub(super) enum SentSound {
    Known(Rate),
    /// A file at this path on both ends.
    File {
        path: String,
        channels: usize,
    },
}

const JUDGING: Duration = Duration::from_secs(300);
const TOLD: usize = 10;

/// Each case runs without noise, then with each. An unreachable host ends all.
pub(super) fn carry(
    ends: &mut StreamEnds,
    reported: &mut Cases<'_>,
    plan: &LabStream,
    sound: &SentSound,
    cases: &[CarriedCase],
    noises: &[Noise],
) {
    let mut number = 0;
    for case in cases {
        let mut silent = None;
        for noise in noises_of(noises) {
            let name = match noise {
                Noise::SILENT => case.name.clone(),
                noise => format!("{}, {noise}", case.name),
            };
            let mut notes = Vec::new();
            number += 1;
            reported.run(&name, ends, |ends| {
                let (judged, alongside) = carried(ends, plan, sound, case, noise, number)?;
                let mut row = row(&name, &judged);
                alongside.notify(&mut row);
                notes.push(format!("{name}: {}", judged["says"].as_str().unwrap_or_default()));
                if case.off_clock {
                    notes.push(format!("{name}: {SETTLING}"));
                }
                match &silent {
                    None => silent = Some(row.clone()),
                    Some(silent) => {
                        let effect = NoiseEffect::of(silent, &row);
                        effect.add_to(&mut row);
                        notes.push(format!("{name}: {effect}"));
                    }
                }
                Ok(row)
            });
            notes.into_iter().for_each(|note| reported.note(note));
            // The next row must not take its place.
            silent.get_or_insert_with(|| ReportRow::named(&name));
        }
    }
}

pub(super) fn noises_of(requested: &[Noise]) -> Vec<Noise> {
    let mut noises = vec![Noise::SILENT];
    for noise in requested {
        if !noises.contains(noise) {
            noises.push(*noise);
        }
    }
    noises
}

fn carried(
    ends: &mut StreamEnds,
    plan: &LabStream,
    sound: &SentSound,
    case: &CarriedCase,
    noise: Noise,
    number: usize,
) -> Result<(Value, Alongside), HostError> {
    let (sent, channels) = match sound {
        SentSound::Known(rate) => {
            let (rate, bits) = (rate.hertz().to_string(), case.bits());
            let write = ["lab", "sound", "{dir}/known.wav", "--rate", &rate, "--bits"];
            let write = words(&write, bits);
            for host in [&mut ends.sender, &mut ends.receiver] {
                let ended = ran(host, &write, "lab sound")?;
                if ended.status != Some(0) {
                    return Err(host.failed("lab sound", ended));
                }
            }
            ("{dir}/known.wav", 2)
        }
        SentSound::File { path, channels } => (path.as_str(), *channels),
    };
    let received = format!("{{dir}}/heard-{number}.wav");
    let output = match case.off_clock {
        true => format!("virtual:?ppm={FAST_PPM}&record={received}"),
        false => format!("file:{received}"),
    };
    let mut recv = words(&["--channels"], channels);
    recv.extend(case.recv.iter().cloned());
    let stream = LabStream {
        input: Some(format!("file:{sent}")),
        output: Some(output),
        ledgers: false,
        send: case.send.clone(),
        recv,
        ..plan.clone()
    };
    let (_, alongside) = noise.around(ends, &stream)?;
    let compare = words(&["compare", sent, &received, "--report"], "json");
    let ended = ran(&mut ends.receiver, &compare, "compare")?;
    match serde_json::from_str(&ended.printed) {
        Ok(judged) => Ok((judged, alongside)),
        Err(_) => Err(ends.receiver.failed("compare", ended)),
    }
}

fn words(words: &[&str], last: impl ToString) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).chain([last.to_string()]).collect()
}

fn ran(host: &mut LabHost, words: &[String], role: &str) -> Result<ChildEnded, HostError> {
    let child = host.start(words, &[])?;
    host.end_of(child, role, JUDGING)
}

fn row(name: &str, judged: &Value) -> ReportRow {
    let mut row = ReportRow::named(name);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut add = |key, words, value: Value| {
        if !value.is_null() {
            row.add(key, words, value);
        }
    };
    add("verdict", "verdict", judged["verdict"].clone());
    add("sent_frames", "frames sent", judged["sent_frames"].clone());
    add("received_frames", "received", judged["received_frames"].clone());
    add("identical_frames", "bit for bit", judged["identical_frames"].clone());
    let routing = &judged["channels"][0];
    let gains: Vec<f64> = list(&routing["gains"]).iter().filter_map(Value::as_f64).collect();
    // Unknown if the recording lacks the sound.
    if !gains.is_empty() {
        let decibels = gains.iter().map(|gain| format!("{:+.2}", 20.0 * gain.abs().log10()));
        add("gains_db", "gains, dB", decibels.collect::<Vec<_>>().join(" ").into());
        let inverted = gains.iter().filter(|gain| **gain < 0.0).count();
        add("inverted_channels", "inverted channels", inverted.into());
        let source =
            |source: &Value| source.as_u64().map_or("–".to_owned(), |at| (at + 1).to_string());
        let sources: Vec<_> = list(&routing["sources"]).iter().map(source).collect();
        add("sources", "channels hold", sources.join(" ").into());
        add("mixed", "mixed", (!judged["mix"].is_null()).into());
    }
    let parts = list(&judged["resampled"]);
    let frames = |part: &Value| {
        let [to, from] = ["to_frame", "from_frame"].map(|key| part[key].as_u64().unwrap_or(0));
        to.saturating_sub(from)
    };
    let longest = parts.iter().max_by_key(|part| frames(part));
    add("resampled_ppm", "faster by, ppm", longest.map_or(Value::Null, |part| part["ppm"].clone()));
    add("rest_db", "rest, dB below", judged["rest_db"].clone());
    add("residue", "it is", judged["residue"]["kind"].clone());
    add("residue_bits", "of bits", judged["residue"]["bits"].clone());
    let tone = &judged["tones"][0];
    add("thd_n_sent_db", "THD+N sent, dB", tone["sent"]["thd_n_db"].clone());
    add("thd_n_db", "THD+N received, dB", tone["received"]["thd_n_db"].clone());
    let dropouts = &judged["dropouts"];
    add("dropouts", "dropouts", dropouts["count"].clone());
    add("dropout_frames", "frames in them", dropouts["frames"].clone());
    add("longest_dropout_frames", "the longest", dropouts["longest_frames"].clone());
    add("longest_dropout_at_frame", "at frame", dropouts["longest_at_frame"].clone());
    let rate = judged["rate"].as_f64().unwrap_or(f64::INFINITY);
    let dropout = |one: &Value| {
        let nanos = |key: &str| (one[key].as_f64().unwrap_or(0.0) * 1e9 / rate).round() as i64;
        let cause = Some("lost frames".to_owned());
        let [at_ns, value_ns] = ["at_frame", "frames"].map(nanos);
        Worst { at_ns, value_ns, cause, ..Worst::default() }
    };
    row.worst = list(&dropouts["all"]).iter().map(dropout).collect();
    row.worst.sort_by_key(|worst| -worst.value_ns);
    row.worst.truncate(TOLD);
    row
}
