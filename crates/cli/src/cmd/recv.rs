//! `taut recv`

use std::sync::{Arc, OnceLock};

use tautline_audio::{DeviceSpec, Extras};
use tautline_engine::address::{Address, Resolved};
use tautline_engine::control::{RecvChange, Requests, requests};
use tautline_engine::learn::{Learnt, learn};
use tautline_engine::plan::{RecvPlan, least_latency};
use tautline_engine::recv::RecvEngine;
use tautline_engine::run::RunError;
use tautline_engine::too_long::datagram_bytes;
use tautline_engine::way;
use tautline_io::clock::now;
use tautline_io::pair::open_pair;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::stream::{LONGEST_LINK_OFFSET, StreamFormat};
use tautline_proto::time::Span;
use tautline_proto::wire::rtcp::Announcement;

use super::layout::{Layout, check_fits, check_told, knows_shape, layout};
use super::recv_changes::RecvLines;
use super::streams::{check_alike, latency, stream};
use super::{run_options, stop_on_signals, tell_stream};
use crate::control;
use crate::failure::Failure;
use crate::flags::{Recv, ReportKind};
use crate::screen::Answers;
use crate::show::Show;
use crate::unheard::Unheard;

pub(crate) fn run(flags: &Recv) -> Result<(), Failure> {
    super::takes::refuse_to_overwrite(&flags.output, flags.overwrite)?;
    let from: Vec<(&Address, Resolved)> = flags
        .from
        .iter()
        .map(|address| Ok((address, address.resolve()?)))
        .collect::<Result<_, Failure>>()?;
    let stop = stop_on_signals()?;
    let described = from.iter().find_map(|(_, resolved)| resolved.description.as_ref());
    // What cannot work is said before a sender is waited for.
    let unheard = layout(flags, described, None)?;
    latency(flags, None, &unheard.format, &unheard.device)?;
    if let Some(path) = &flags.running.ledger {
        let created = std::fs::File::create(path);
        created.map_err(|error| RunError::Ledger { path: path.clone(), error })?;
    }
    let mut show = Show::open("recv", &flags.running)?;
    if matches!(flags.output, DeviceSpec::Standard(_)) {
        show.leave_output_to_the_sound();
    }
    show.wait_for(Unheard::at(from.iter().map(|(_, resolved)| resolved), now()));
    let shape = Arc::<OnceLock<_>>::default();
    let requests = match flags.running.control {
        true => Some(take_changes(flags, &shape, (show.answers(), stop.clone()))?),
        false => None,
    };
    let until = flags.running.duration.map(|duration| now() + duration);
    let over = || stop.is_requested() || until.is_some_and(|until| now() >= until);
    let announced = announced(flags, &from, (&mut show, &over))?;
    let Layout { format, device, map } = match announced {
        Some(announced) => {
            check_told(flags, &announced.format)?;
            layout(flags, described, Some(announced.format))?
        }
        None => {
            // The sender does not say either, so it has as many channels as are assumed.
            if !over() {
                check_fits(&flags.output, &unheard)?;
            }
            unheard
        }
    };
    // What a sender says must not take all memory.
    let promised = announced.map(|a| a.link_offset.min(LONGEST_LINK_OFFSET));
    shape.get_or_init(|| (format, device));
    for (address, resolved) in &from {
        check_alike(address, resolved, &format)?;
    }
    let whose = if announced.is_some() { "as its sender announces" } else { "as is said here" };
    tell_details(flags, (&format, &device), promised, whose);
    let mut options = run_options(&flags.timing, &flags.running);
    // What was spent on waiting for the sender is a part of it.
    options.duration = until.map(|until| (until - now()).max(Span::from_nanos(1)));
    let streams = from
        .iter()
        .map(|(address, resolved)| stream(flags, (address, resolved), promised, format, &device))
        .collect::<Result<Vec<_>, Failure>>()?;
    let plan = RecvPlan {
        streams,
        select: flags.select,
        gain: flags.sound.volume,
        map,
        device,
        until_bye: flags.until_bye,
        ledger: flags.running.ledger.clone(),
    };
    let mut engine = RecvEngine::new(plan)?;
    if let Some(requests) = requests {
        engine.listen(requests);
    }
    let extras = Extras { listener: engine.listener(), record_format: format.sample };
    let opened =
        tautline_audio::open_supervised(&flags.output, Direction::Playback, device, extras)?;
    show.listen_to(opened.notes);
    if knows_shape(flags, &from) {
        tell_listening(flags);
    }
    let mut report = engine.run(opened.device, &options, &stop, &mut |progress| {
        opened.latency.set(progress.link_offset);
        show.on_receiving(progress);
    })?;
    report.notes.extend(super::takes::take_back(&flags.output, &report.streams));
    show.end(report)
}

/// Takes changes from here on: also while a sender is waited for.
fn take_changes(
    flags: &Recv,
    shape: &Arc<OnceLock<(StreamFormat, Settings)>>,
    (answers, stop): (Answers, Stop),
) -> Result<Requests<RecvChange>, Failure> {
    let (asker, requests) = requests();
    let lines = RecvLines { flags: flags.clone(), shape: Arc::clone(shape) };
    control::listen(asker, (answers, stop), move |verb, rest| lines.read(verb, rest))?;
    Ok(requests)
}

fn tell_listening(flags: &Recv) {
    if flags.running.report() != ReportKind::None {
        let voice = flags.running.voice();
        flags.from.iter().for_each(|from| voice.tell(&format!("listening at {from}")));
    }
}

/// Says what was decided.
fn tell_details(
    flags: &Recv,
    (format, device): (&StreamFormat, &Settings),
    promised: Option<Span>,
    whose: &str,
) {
    let voice = flags.running.voice();
    voice.detail(&format!("the stream is laid out {whose}"));
    tell_stream(voice, (&flags.output, device), format, datagram_bytes(format, true));
    let promised = promised.map_or(String::new(), |span| format!("{span} promised; "));
    voice.detail(&format!(
        "latency: {promised}packet and device here take {}, of which a block waits {} in the device",
        least_latency(format.ptime(), device),
        device.playback_lead()
    ));
}

/// What the first sender says of its stream, where nobody said it here.
fn announced(
    flags: &Recv,
    from: &[(&Address, Resolved)],
    (show, over): (&mut Show, &dyn Fn() -> bool),
) -> Result<Option<Announcement>, Failure> {
    if knows_shape(flags, from) {
        return Ok(None);
    }
    let mut pairs = from
        .iter()
        .map(|(address, resolved)| Ok(open_pair(&way::reception(address, resolved))?))
        .collect::<Result<Vec<_>, Failure>>()?;
    tell_listening(flags);
    let given_up = |any: bool| {
        if !any {
            show.still_unheard();
        }
        over()
    };
    match learn(&mut pairs, given_up) {
        Learnt::Announced(announcement) => Ok(Some(announcement)),
        Learnt::Unannounced => {
            flags.running.voice().tell(
                "the sender does not say what its stream is: 48000 Hz and 2 channels are assumed \
                 where --rate and --channels say nothing else",
            );
            Ok(None)
        }
        Learnt::Nothing => Ok(None),
    }
}
