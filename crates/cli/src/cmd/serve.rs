//! `taut serve`: sound for trusted callers.

use std::sync::{Arc, Mutex};

use console::Term;
use tautline_api::trust::TrustStore;
use tautline_call::{Server, ServerConfig, Standing, is_mixed};
use tautline_io::clock::now;
use tautline_proto::time::{LocalTime, Span};

use super::calls::devices::devices;
use super::calls::status::{CallStatus, page};
use super::calls::{Calls, config, failure, print_reports};
use super::keys::{Pressed, PressedKeys};
use super::stop_on_signals;
use super::work::log::WorkLog;
use super::work::{emit, locked};
use crate::failure::Failure;
use crate::flags::{ReportKind, ServeFlags};
use crate::screen;

const KEYS: &str = "m: mute or unmute this machine for its callers   q: end";

const DEFAULT_ROWS: u16 = 24;
/// Peer, sent sound, received sound, missed packets, latency, stages.
const ROWS_OF_A_CALL: usize = 6;
/// Call count, hidden calls, keys, cursor.
const OTHER_ROWS: usize = 4;

pub(crate) fn run(flags: &ServeFlags) -> Result<(), Failure> {
    let running = &flags.end.running;
    running.refuse_partial_packet_log()?;
    if running.control {
        return Err(Failure::usage(
            "taut serve does not support --control\n\
             hint: use it with taut call, which changes both ends",
        ));
    }
    if flags.end.record.as_deref().is_some_and(is_mixed) {
        return Err(Failure::usage(
            "--record: taut serve keeps files of each caller\nhint: name a folder, without .wav",
        ));
    }
    let stop = stop_on_signals()?;
    let voice = running.voice();
    let trust = TrustStore::usual()?;
    let devices = devices(&flags.end, &flags.input, &flags.output)?;
    let files = running.report_files()?;
    let log = Arc::new(Mutex::new(WorkLog::new(voice)));
    let served = Arc::clone(&log);
    let mut status = CallStatus::on_terminal(voice);
    let mut end =
        config(&flags.end, (&flags.input, &flags.output), flags.echo_cancel, Calls::OfServer);
    if flags.end.ptime.is_none() {
        // As short as the caller requests, but at least one period. The conversion to frames rounds
        // down.
        let period = devices.capture.rate.span_of(devices.capture.period) + Span::from_nanos(1);
        end.ptime = end.ptime.min(period);
    }
    let config = ServerConfig {
        end,
        listen: flags.listen,
        callers: flags.max_callers,
        max_calls_per_host: flags.max_calls_per_host,
        bridged: !flags.private,
        auto_format: flags.end.format == Some(None),
        seen: status.are_seen(),
    };
    let news = move |news: &_| locked(&served).served(news, now());
    let mut server = Server::open(config, trust, devices, news).map_err(failure)?;
    let keys = match status.are_seen() {
        true => PressedKeys::listen(stop.clone(), key)?,
        false => None,
    };
    keys.iter().for_each(|_| status.with_keys(KEYS));
    if server.address().ip().is_loopback() {
        voice.notify(
            "other machines can call by ssh:HOST only; add --listen 0.0.0.0 for direct calls",
        );
    }
    let listens = format!("listening for calls at {}\n", server.address());
    match running.report() {
        ReportKind::Json | ReportKind::Html => screen::print_aside(&listens),
        ReportKind::Text | ReportKind::None => screen::print(&listens),
    }
    let (ends, mut muted) = (running.duration.map(|duration| now() + duration), false);
    while !stop.is_requested() && ends.is_none_or(|ends| now() < ends) {
        match server.turn() {
            Ok(true) => {}
            Ok(false) => break,
            Err(failed) => {
                status.end();
                return Err(failure(failed));
            }
        }
        for Mute in keys.iter().flat_map(PressedKeys::pressed) {
            muted = !muted;
            server.mute(muted);
        }
        if status.are_seen() {
            status.show(lines(&server, flags.max_callers, muted));
        }
        emit(voice, &log, now());
    }
    server.hang_up();
    status.end();
    let ended = server.finish();
    emit(voice, &log, LocalTime::NEVER);
    print_reports("serve", ended.map_err(failure)?, files, running)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mute;

const fn key(byte: u8) -> Option<Pressed<Mute>> {
    match byte {
        b'm' | b'M' => Some(Pressed::Key(Mute)),
        b'q' | b'Q' => Some(Pressed::End),
        _ => None,
    }
}

fn lines(server: &Server, callers: u16, muted: bool) -> Vec<String> {
    let rows = Term::stdout().size_checked().map_or(DEFAULT_ROWS, |(rows, _)| rows);
    let rows = usize::from(if rows == 0 { DEFAULT_ROWS } else { rows });
    let maximum = (rows.saturating_sub(OTHER_ROWS) / ROWS_OF_A_CALL).max(1);
    let mut calls = server.views();
    let (all, address) = (calls.len(), server.address());
    calls.retain(|call| matches!(call.standing, Standing::By(_)));
    let sounding = calls.len();
    let (word, whether) = if muted { ("muted", "; muted") } else { ("open", "") };
    let mut lines = vec![match all {
        0 => format!("no callers at {address}{whether}"),
        all => format!(
            "{all} of {callers} at {address}: {sounding} with sound, {} without{whether}",
            all - sounding
        ),
    }];
    lines.extend(calls.iter().take(maximum).flat_map(|call| page(call, true, word)));
    if sounding > maximum {
        lines.push(format!("and {} more with sound", sounding - maximum));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ignore_case_and_other_keys_do_nothing() {
        for byte in 0..=u8::MAX {
            let right = match byte.to_ascii_lowercase() {
                b'm' => Some(Pressed::Key(Mute)),
                b'q' => Some(Pressed::End),
                _ => None,
            };
            assert_eq!(key(byte), right, "{:?}", char::from(byte));
        }
    }
}
