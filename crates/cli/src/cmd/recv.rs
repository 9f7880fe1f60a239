mod changes;
mod layout;
mod streams;

use tautline_audio::{DeviceSpec, Extras, SoftwareSpec};
use tautline_engine::control::{RecvChange, Requests, requests};
use tautline_engine::error::RunError;
use tautline_engine::monitor::run::Progress;
use tautline_engine::plan::RecvPlan;
use tautline_engine::plan::sockets;
use tautline_engine::receive_engine::learn::{Believe, Learnt, LinkArrivals, ListenedAt, learn};
use tautline_engine::receive_engine::{Doubt, Ran, RecvEngine};
use tautline_io::clock::now;
use tautline_io::output::OutputFile;
use tautline_proto::device::{Direction, Settings, Stop};
use tautline_proto::evidence::Proof;
use tautline_proto::latency::min_latency;
use tautline_proto::stream::{LONGEST_LINK_OFFSET, StreamFormat};
use tautline_proto::time::Span;
use tautline_proto::wire::rtcp::Announcement;
use tautline_proto::wire::sdp::Description;
use tautline_proto::wire::{PacketHeads, WireForm};

use super::{print_coding_time, print_period, print_stream, resolve, run_options, stop_on_signals};

use crate::control;
use crate::failure::Failure;
use crate::flags::{Recv, ReportKind, StreamFlags};
use crate::messages::counted;
use crate::not_received::NotReceived;
use crate::screen::Answers;
use crate::sealing::StreamKey;
use crate::show::Show;
use crate::sound_files;
use changes::PlayedFormat;
pub(crate) use changes::RecvLines;
use layout::{PlayoutSetup, check_fits, check_reported, knows_shape, layout};
use streams::{
    ReceiveAddress, check_alike, check_clock, check_goodbye, clock, latency, print_others, stream,
    wire_thread,
};

pub(crate) fn run(flags: &Recv) -> Result<(), Failure> {
    flags.running.refuse_partial_packet_log()?;
    sound_files::refuse_to_overwrite(&flags.output, flags.overwrite)?;
    let labels = sound_files::labels(&flags.output, flags.labels, flags.overwrite)?;
    let voice = flags.running.voice();
    let mut from: Vec<ReceiveAddress<'_>> = flags
        .from
        .iter()
        .map(|address| {
            Ok(ReceiveAddress { address, resolved: resolve(address, &flags.running)?, begun: None })
        })
        .collect::<Result<_, Failure>>()?;
    for ReceiveAddress { address, resolved, .. } in &from {
        StreamKey::of(flags.srtp_key_file.as_deref(), [(*address, resolved)])?;
    }
    check_clock(flags)?;
    flags.from.iter().try_for_each(|address| check_goodbye(flags, address))?;
    let stop = stop_on_signals()?;
    let described = from.iter().find_map(|received| received.resolved.description.clone());
    let described = described.as_ref();
    print_others(flags, &from);
    // Reports impossible settings before the wait for a sender.
    let assumed = layout(flags, described, None)?;
    latency(flags, None, &assumed.format, &assumed.device)?;
    print_period(voice, &flags.output, &flags.timing, &assumed.device);
    if let Some(path) = &flags.running.packet_log {
        OutputFile::check(path).map_err(|error| RunError::Ledger { path: path.clone(), error })?;
    }
    let mut show = Show::open("recv", &flags.running)?;
    if matches!(flags.output, DeviceSpec::Software(SoftwareSpec::Standard(_))) {
        show.leave_output_to_the_sound();
    }
    show.wait_for(NotReceived::at(
        from.iter().map(|received| (received.address, &received.resolved)),
        now(),
    ));
    let shape = PlayedFormat::default();
    let mut requests = match flags.running.control {
        true => Some(take_changes(flags, &shape, show.answers(), stop.clone())?),
        false => None,
    };
    let until = flags.running.duration.map(|duration| now() + duration);
    let over = || stop.is_requested() || until.is_some_and(|until| now() >= until);
    let wait = SenderWait { show: &mut show, over: &over };
    let mut settled = settle(flags, &mut from, assumed, Believe::AnyHost, wait)?;
    let mut begun = 0;
    loop {
        let Settled { layout: PlayoutSetup { format, device, map }, announced, proven, by, whose } =
            settled;
        // An announcement must not exhaust memory.
        let promised = announced.map(|a| a.link_offset.min(LONGEST_LINK_OFFSET));
        shape.set(format, device);
        for received in &from {
            check_alike(received, &format)?;
        }
        print_details(flags, &format, &device, promised, whose);
        let packet = announced.map_or(format.packet, |a| a.format.packet.max(format.packet));
        let playing = (&flags.output, &device, Direction::Playback);
        let received = StreamFormat { packet, ..format };
        print_coding_time(flags.running.voice(), playing, flags.from.len(), &received);
        let mut options = run_options(&flags.timing, &flags.running);
        // Includes the wait for the sender.
        options.duration = until.map(|until| (until - now()).max(Span::from_nanos(1)));
        let stream = |received: &mut ReceiveAddress<'_>| {
            stream(flags, received, promised, (format, proven), &device)
        };
        let streams = from.iter_mut().map(stream).collect::<Result<Vec<_>, Failure>>()?;
        let (streams, clock) = clock(flags, &from, streams)?;
        let plan = RecvPlan {
            clock,
            select: flags.select,
            gain: flags.sound.volume,
            map,
            exit_on_bye: flags.exit_on_bye,
            probes: flags.running.sample_packets,
            ledger: flags.running.packet_log.clone(),
            labels: labels.clone(),
            ..RecvPlan::new(streams, device)
        };
        let mut engine = RecvEngine::new(plan)?;
        engine.show_to(show.observers());
        if let Some(requests) = requests.take() {
            engine.listen(requests);
        }
        let extras = Extras {
            listener: engine.listener(),
            record_format: format.sample,
            ..Extras::default()
        };
        let opened =
            tautline_audio::open_supervised(&flags.output, Direction::Playback, device, extras)?;
        show.listen_to(opened.notes);
        if knows_shape(flags, &from) {
            print_listening(flags);
        }
        let progress = &mut |progress: &Progress<'_>| {
            opened.latency.set(progress.link_offset);
            show.on_receiving(progress);
        };
        let again = begun < MAX_RESTARTS && !sound_files::is_streamed(&flags.output);
        let ran = if by == By::User || !again {
            Ran::Whole(Box::new(engine.run(opened.device, &options, &stop, progress)?))
        } else {
            let playable = |theirs: &_| Settled::received(flags, described, *theirs).is_ok();
            let doubt = Doubt { hearsay: by == By::AnyHost, proven, playable: &playable };
            engine.run_as_announced(opened.device, &options, &stop, &doubt, progress)?
        };
        let another = match ran {
            Ran::Whole(mut report) => {
                report.notes.extend(sound_files::take_back(
                    &flags.output,
                    labels.as_deref(),
                    &report.streams,
                ));
                return show.end(*report);
            }
            Ran::Another(another) => another,
        };
        begun += 1;
        requests = another.requests;
        show.restart(&restart_reason(&format, another.announcement.as_ref(), proven));
        settled = match another.announcement {
            Some(theirs) => Settled::received(flags, described, theirs)?,
            None => {
                let assumed = layout(flags, described, None)?;
                let wait = SenderWait { show: &mut show, over: &over };
                settle(flags, &mut from, assumed, Believe::Senders, wait)?
            }
        };
    }
}

/// Maximum restarts. A peer that can cause more could as well send the sound.
const MAX_RESTARTS: u32 = 8;

fn restart_reason(laid_out: &StreamFormat, theirs: Option<&Announcement>, proven: bool) -> String {
    let words = |format: &StreamFormat| {
        format!("{} with {} in {}", format.rate, counted(format.channels), format.coding_name())
    };
    if proven && theirs.is_none() {
        return format!("the packets are not {}: restarted with their format", words(laid_out));
    }
    let laid_out = format!("{} was assumed before the first packet, but", words(laid_out));
    match theirs {
        Some(theirs) => format!(
            "{laid_out} the sender announces {}: restarted with that",
            words(&theirs.format)
        ),
        None => {
            format!("{laid_out} the packets are unreadable: waiting for the sender's announcement")
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    User,
    Sender,
    /// From a sender without packets so far.
    AnyHost,
}

struct Settled {
    layout: PlayoutSetup,
    announced: Option<Announcement>,
    proven: bool,
    by: By,
    /// Source of the format, for users.
    whose: &'static str,
}

impl Settled {
    fn received(
        flags: &Recv,
        described: Option<&Description>,
        announced: Announcement,
    ) -> Result<Self, Failure> {
        check_reported(flags, &announced.format)?;
        let layout = layout(flags, described, Some(announced.format))?;
        let (announced, whose) = (Some(announced), "from the announcement");
        Ok(Self { layout, announced, proven: false, by: By::Sender, whose })
    }
}

struct SenderWait<'a> {
    show: &'a mut Show,
    over: &'a dyn Fn() -> bool,
}

fn settle(
    flags: &Recv,
    from: &mut [ReceiveAddress<'_>],
    assumed: PlayoutSetup,
    believe: Believe,
    mut wait: SenderWait<'_>,
) -> Result<Settled, Failure> {
    let is_known = knows_shape(flags, from);
    let described = from.iter().find_map(|received| received.resolved.description.clone());
    let described = described.as_ref();
    let of_packets = |layout, proven| {
        let whose = "from the packets";
        Settled { layout, announced: None, proven, by: By::Sender, whose }
    };
    let mut requested = (!is_known).then_some(believe);
    while let Some(believe) = requested.take() {
        let (announced, sends) = match learnt(flags, from, believe, &mut wait)? {
            Learnt::Announced { announcement, sends } => (announcement, sends),
            Learnt::Shaped(format) => {
                check_reported(flags, &format)?;
                let layout = layout(flags, described, Some(format))?;
                return Ok(of_packets(layout, false));
            }
            Learnt::Unannounced(Some(proof)) => {
                let format = proven_format(flags, &proof)?;
                let layout = layout(flags, described, Some(format))?;
                check_fits(&flags.output, &layout)?;
                return Ok(of_packets(layout, true));
            }
            Learnt::Unannounced(None) | Learnt::Nothing => break,
        };
        match Settled::received(flags, described, announced) {
            Ok(settled) if sends => return Ok(settled),
            Ok(settled) => return Ok(Settled { by: By::AnyHost, ..settled }),
            Err(failure) if sends => return Err(failure),
            // Without packets the announcement may be forged, so it must not end the run.
            Err(_) => requested = Some(Believe::Senders),
        }
    }
    if !(wait.over)() {
        check_fits(&flags.output, &assumed)?;
    }
    let by = if is_known { By::User } else { By::Sender };
    let &StreamFlags { rate, channels, format, payload_type, .. } = &flags.stream;
    let whose = match (rate, channels, format, payload_type) {
        (None, None, None, None) if described.is_none() => "the default",
        (None, None, None, None) => "from the .sdp file",
        _ => "from the options",
    };
    Ok(Settled { layout: assumed, announced: None, proven: false, by, whose })
}

fn take_changes(
    flags: &Recv,
    shape: &PlayedFormat,
    answers: Answers,
    stop: Stop,
) -> Result<Requests<RecvChange>, Failure> {
    let (asker, requests) = requests();
    let lines = RecvLines { flags: flags.clone(), shape: shape.clone() };
    control::listen(asker, answers, stop, move |verb, rest| lines.read(verb, rest))?;
    Ok(requests)
}

fn print_listening(flags: &Recv) {
    if flags.running.report() != ReportKind::None {
        let voice = flags.running.voice();
        flags.from.iter().for_each(|from| voice.notify(&format!("listening at {from}")));
    }
}

fn print_details(
    flags: &Recv,
    format: &StreamFormat,
    device: &Settings,
    promised: Option<Span>,
    whose: &str,
) {
    let voice = flags.running.voice();
    let form = flags.from.first().map_or(WireForm::Rtp, |from| from.form());
    let heads = PacketHeads { form, stamps: true };
    voice.detail(&format!("stream format: {whose}"));
    print_stream(voice, &flags.output, device, format, heads);
    let promised = promised.map_or(String::new(), |span| format!("{span} announced; "));
    voice.detail(&format!(
        "latency: {promised}packet and device here take {}, {} of it in the device",
        min_latency(format.ptime(), device),
        device.playback_lead()
    ));
}

/// Format proven by packets. `--channels` takes precedence; mono plays on all channels.
fn proven_format(flags: &Recv, proof: &Proof) -> Result<StreamFormat, Failure> {
    let (bytes, &StreamFlags { rate, channels, .. }) = (proof.frame_bytes, &flags.stream);
    let Some(mut format) = proof.format(rate, channels) else {
        let given =
            channels.map_or(String::new(), |channels| format!(" with {}", counted(channels)));
        return Err(Failure::usage(format!(
            "no --format{given} fits the packets, which have {bytes} bytes per frame"
        )));
    };
    let carried = format.channels;
    format.channels = channels.unwrap_or(carried);
    check_reported(flags, &format)?;
    let assumed = if proof.rate.is_some() { "" } else { " (assumed)" };
    flags.running.voice().notify(&format!(
        "no announcement: the packets have {bytes} bytes per frame at {}{assumed}, played as {} with {}; \
         --format, --channels and --rate override that",
        format.rate,
        format.coding_name(),
        counted(carried)
    ));
    Ok(format)
}

/// Waits for an announcement, or for packets that prove the format; keeps those for playout.
fn learnt(
    flags: &Recv,
    from: &mut [ReceiveAddress<'_>],
    believe: Believe,
    wait: &mut SenderWait<'_>,
) -> Result<Learnt, Failure> {
    let mut opened = from
        .iter()
        .map(|received| {
            let options = sockets::reception(received.address, &received.resolved);
            let place = [(received.address, &received.resolved)];
            let key = StreamKey::of(flags.srtp_key_file.as_deref(), place)?;
            let opened = key.open(&options, wire_thread(flags, received.address))?;
            Ok(ListenedAt::new(received.resolved.form.unpack(received.resolved.stream), opened))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    if believe == Believe::AnyHost {
        print_listening(flags);
    }
    let given_up = |arrived: LinkArrivals| {
        if arrived.auth_failed > 0 {
            wait.show.auth_failed(flags.from.iter(), arrived.auth_failed);
        } else if !arrived.packets {
            wait.show.still_waiting();
        }
        wait.show.awaits(flags.from.iter());
        (wait.over)()
    };
    let learnt = learn(&mut opened, believe, given_up);
    for (received, listened) in from.iter_mut().zip(opened) {
        received.begun = Some(listened.to_be_played(&learnt));
    }
    if learnt == Learnt::Unannounced(None) {
        flags.running.voice().notify(
            "no announcement, and the packets prove no format: 48 kHz stereo is assumed; use --rate and \
             --channels for another",
        );
    }
    Ok(learnt)
}
