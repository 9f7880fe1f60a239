//! Options, event texts and reports shared by `taut call` and `taut serve`.

pub(super) mod devices;
pub(super) mod status;
pub(super) mod tunnel;
pub(super) mod usual;

use std::sync::Arc;

use tautline_audio::DeviceSpec;
use tautline_call::{CallEvent, Config, Ended, Event, bits_in_words};
use tautline_proto::call::path::SilentWay;
use tautline_proto::call::terms::{CallPath, CallTerms, StreamTerms};
use tautline_proto::device::Direction;
use tautline_proto::time::Span;
use tautline_report::CallReport;
use tautline_report::text::{self, Detail};

use crate::failure::{Failure, on_one_line, with_more};
use crate::flags::{EchoFlag, EndFlags, RunFlags};
use crate::messages::{self, cannot_change, changed, counted};
use crate::page::{self, Drawing};
use crate::report_file::{self, FileFormat, ReportFiles};
use crate::voice::Voice;

pub(super) const DEFAULT_PTIME: Span = Span::from_micros(2_500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    One,
    Several,
    OfServer,
}

pub(super) fn config(
    flags: &EndFlags,
    (input, output): (&DeviceSpec, &DeviceSpec),
    echo: EchoFlag,
    calls: Calls,
) -> Config {
    let voice = flags.running.voice();
    let specs = (input.clone(), output.clone());
    let events = move |event: Event| match &event {
        Event::Detail(sentence) => voice.detail(&on_one_line(sentence)),
        Event::LongCoding(long, direction, streams, format) => {
            let spec = match direction {
                Direction::Capture => &specs.0,
                Direction::Playback => &specs.1,
            };
            voice.notify(&messages::long_coding(long, (spec, *direction), *streams, format));
        }
        Event::Note(sentence) => voice.notify(&on_one_line(sentence)),
        Event::EchoCancelled => {
            voice.notify("echo of the loudspeaker is cancelled in the microphone");
        }
        // The screen and `status` show the present format.
        Event::Call(_, CallEvent::Adapted { format, ptime, times: 2.. }) => {
            voice.detail(&received_format(format, *ptime));
        }
        Event::Call(peer, event) => {
            let (names_peer, sentence) = call_words(calls, peer, event);
            let named = format!("{peer}: {sentence}");
            voice.notify(if calls == Calls::One || names_peer { &sentence } else { &named });
        }
    };
    Config {
        input: input.clone(),
        output: output.clone(),
        looped: flags.looped,
        format: flags.format.flatten(),
        ptime: flags.ptime.unwrap_or(DEFAULT_PTIME),
        latency: flags.latency,
        redundancy: flags.redundancy,
        scheduler: flags.timing.scheduler,
        record: flags.record.clone(),
        duration: flags.running.duration,
        probes: flags.running.sample_packets,
        stall_monitor: !flags.running.no_stall_monitor,
        cancel_echo: match echo {
            EchoFlag::On => Some(true),
            EchoFlag::Auto if input.is_of_desktop() && output.is_of_desktop() => Some(false),
            EchoFlag::Auto | EchoFlag::Off => None,
        },
        note_words: match voice {
            Voice::Verbose => messages::in_a_call_in_detail,
            Voice::Quiet | Voice::Usual => messages::in_a_call,
        },
        change_words: changed,
        refusal_words: cannot_change,
        events: Arc::new(events),
    }
}

fn call_words(calls: Calls, peer: &str, event: &CallEvent) -> (bool, String) {
    let is_server = calls == Calls::OfServer;
    let named = |sentence| (true, sentence);
    let sentence = match event {
        CallEvent::Begun(terms) if is_server => {
            let sound = terms.as_ref().map_or("without sound".into(), in_words);
            return named(format!("call from {peer}: {sound}"));
        }
        CallEvent::Begun(Some(terms)) => {
            return named(format!("in a call with {peer}: {}", in_words(terms)));
        }
        CallEvent::Begun(None) => {
            format!("in a call with {peer} without sound; resume starts it")
        }
        CallEvent::Held if is_server => "the call is without sound".into(),
        CallEvent::Held => "the call is without sound; resume starts it".into(),
        CallEvent::Sounds(terms) => format!("the call has sound: {}", in_words(terms)),
        CallEvent::MovedTo(CallPath::Udp, _) => "the sound now uses UDP".into(),
        CallEvent::MovedTo(CallPath::Tcp, None) => "the sound now uses TCP".into(),
        CallEvent::MovedTo(CallPath::Tcp, Some(port)) => format!(
            "the sound now uses TCP; for less latency, open UDP port {port} in the firewall there"
        ),
        CallEvent::CannotChange(why) => on_one_line(&cannot_change(why)),
        CallEvent::Away(_) if is_server => {
            "the control connection is lost; the sound continues while packets arrive".into()
        }
        CallEvent::Away(why) => {
            let why = why.as_deref();
            let why =
                why.unwrap_or("the control connection is lost: the other machine does not answer");
            with_more(why, "; the sound continues while packets arrive, and the call reconnects")
        }
        CallEvent::Silent => {
            "nothing is received from the caller; the sound to it stops until its packets return"
                .into()
        }
        CallEvent::Resumed if is_server => {
            return named(format!("{peer} is back: the call continues"));
        }
        CallEvent::Resumed => "the call continues".into(),
        CallEvent::Over(why) if is_server => format!("the call is over: {}", why.as_str()),
        CallEvent::Over(why) => return named(format!("{peer} hung up: {}", why.as_str())),
        CallEvent::Retrying(why) => {
            return named(with_more(why, "; retrying"));
        }
        CallEvent::Dropped(terms) => format!(
            "the control connection was lost twice during this request, so it is not repeated: {}; request it again if it \
             is still needed",
            in_words(terms)
        ),
        CallEvent::CodingKept => {
            "the format no longer follows the network; format auto makes it follow again".into()
        }
        CallEvent::Refused(requested, why) => {
            let requested = requested.as_ref();
            let requested = requested
                .map_or(String::new(), |requested| format!("refused {}: ", changed(requested)));
            format!("{requested}{peer} rejects the change: {}", why.as_str())
        }
        CallEvent::LatencyRaised { requested, kept } => format!(
            "a latency of {requested} was requested, but packets, devices and network need {kept}, which is used; shorter \
             device periods (--period, or jackd -p) or packets (--ptime) allow less"
        ),
        CallEvent::PtimeRaised { requested, agreed } => format!(
            "packets of {requested} were requested, but the other end supports {agreed} or more; a shorter --ptime of taut serve there \
             allows less"
        ),
        CallEvent::Adapted { format, ptime, .. } => received_format(format, *ptime),
        CallEvent::NoDatagrams(way, port) => {
            let way = match way {
                SilentWay::There => "to",
                SilentWay::Back => "from",
            };
            let fix = match port {
                Some(port) => {
                    format!("open UDP port {port} there, or use --transport auto for TCP")
                }
                None => "they did before, so the network is interrupted".to_owned(),
            };
            format!("no UDP packets pass {way} {peer}; {fix}")
        }
        CallEvent::Untrusted(None) => {
            let fix = "taut trust NAME KEY trusts it again";
            return named(format!("{peer} is no longer trusted here; {fix}"));
        }
        CallEvent::Untrusted(Some(why)) => {
            return named(format!("{peer} is no longer trusted here: {why}"));
        }
        CallEvent::Changed(terms) => format!("the call is now {}", in_words(terms)),
        CallEvent::Failed(why) | CallEvent::Fault(why) => on_one_line(why),
        CallEvent::Rejected(why) => return named(format!("{peer} was rejected: {}", why.as_str())),
        CallEvent::Stranger => {
            return named(format!("{peer} was rejected: its connection belongs to no call"));
        }
    };
    (false, sentence)
}

fn received_format(format: &str, ptime: Span) -> String {
    format!("the received format adapts to the network: {format} in packets of {ptime}")
}

fn in_words(terms: &CallTerms) -> String {
    let stream = |terms: &StreamTerms| {
        format!(
            "{} {}, {}, {} per packet{}",
            terms.coding.name(),
            terms.rate,
            counted(terms.channels),
            terms.ptime,
            bits_in_words(terms.coding.bitrate())
        )
    };
    let latency = terms.latency;
    if terms.there == terms.back {
        return format!("{} both ways, latency {latency}", stream(&terms.there));
    }
    format!("there {}; back {}; latency {latency}", stream(&terms.there), stream(&terms.back))
}

/// Reports both directions for `role` (`call` or `serve`). Fails if a call failed.
pub(super) fn print_reports(
    role: &str,
    (reports, done): Ended,
    files: ReportFiles,
    running: &RunFlags,
) -> Result<(), Failure> {
    let done = done.map_err(failure);
    // The call never began: an earlier report of the same name stays.
    if reports.is_empty() && done.is_err() {
        return done;
    }
    let json =
        || CallReport::json(role, &reports).map_err(|error| Failure::running(error.to_string()));
    let drawn = |drawing| {
        reports.first().map_or(String::new(), |received| page::of_run(received, None, drawing))
    };
    let text = |detail| match role {
        "serve" => text::render_served(&reports),
        _ => text::render_calls(&reports, detail),
    };
    let render = |format, detail| match format {
        FileFormat::Html => Ok(drawn(Drawing::Page)),
        FileFormat::Svg => Ok(drawn(Drawing::Charts)),
        FileFormat::Txt => Ok(text(detail)),
        FileFormat::Json | FileFormat::Csv => json(),
    };
    let written = files.write(|format| render(format, Detail::Full));
    let detail = running.voice().report_detail();
    report_file::print(running.report(), |format| render(format, detail))?;
    written?;
    done
}

pub(super) fn failure(error: tautline_call::Error) -> Failure {
    use tautline_call::Error;
    match error {
        Error::Usage(sentence) => Failure::usage(sentence),
        Error::Open(sentence) => Failure::open(sentence),
        Error::Running(sentence) => Failure::running(sentence),
        Error::Device(error) => error.into(),
        Error::Link(error) => error.into(),
        Error::Run(error) => error.into(),
        Error::Trust(error) => error.into(),
    }
}
