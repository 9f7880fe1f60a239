//! ALSA without a card: PCMs of the test's configuration, backed by nothing or by a file.

use tautline_trial::snapshot;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};

use tautline_audio::{DeviceSpec, Extras, offered, open, settle};
use tautline_dsp::card::{self, CardFormat};
use tautline_proto::device::{
    Cycle, DeviceError, Direction, Directions, Ended, Flow, Process, Settings, Stop,
};
use tautline_proto::time::{Frames, LocalTime, Span};
use tautline_proto::units::{Channels, Rate};
use tautline_trial::{Lack, skipped};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("alsa");
    fs::create_dir_all(&folder).expect("a folder");
    let mut text = String::from(
        "pcm.nothing { type null }\n\
         pcm.mono { type speex slave.pcm nothing }\n\
         pcm.around { type vdownmix slave.pcm nothing }\n\
         pcm.encoder { type a52 slavepcm \"nothing\" rate 44100 channels 2 format S16_LE }\n\
         pcm.lone { type copy slave.pcm encoder }\n\
         pcm.unknown { type nonsense }\n\
         pcm.wrong { type null colour \"blue\" }\n\
         pcm.itself { type plug slave.pcm itself }\n\
         pcm.single { type multi slaves.a { pcm nothing channels 1 } bindings.0 { slave a channel 0 } }\n",
    );
    text += &format!(
        "pcm.best {{ type file format raw slave.pcm {{ type null }} file \"{}\" }}\n",
        folder.join("best.raw").display(),
    );
    text += "pcm.asks { @args [ WHAT ] @args.WHAT { type string } type null }\n";
    text += &format!(
        "pcm.never {{ type file format raw slave.pcm {{ type null }} file \"{}\" }}\n",
        folder.join("out-never.raw").display(),
    );
    for format in CardFormat::BEST_FIRST {
        let file = |way: &str| folder.join(format!("{way}-{format}.raw")).display().to_string();
        text += &format!(
            "pcm.out-{format} {{ type file format raw slave.pcm {{ type null }} file \"{}\" }}\n\
             pcm.in-{format} {{ type file format raw slave.pcm {{ type null }} \
             file \"/dev/null\" infile \"{}\" }}\n",
            file("out"),
            file("in"),
        );
    }
    text += &format!(
        "pcm.both-out {{ type file format raw slave.pcm {{ type null }} file \"{}\" }}\n\
         pcm.both-in {{ type file format raw slave.pcm {{ type null }} \
         file \"/dev/null\" infile \"{}\" }}\n\
         pcm.both {{ type asym playback.pcm \"both-out\" capture.pcm \"both-in\" }}\n",
        folder.join("both-out.raw").display(),
        folder.join("both-in.raw").display(),
    );
    let path = folder.join("asound.conf");
    fs::write(&path, text).expect("a file");
    // SAFETY: the tests of this program wait here before they read the environment, and nothing
    // else writes to it.
    unsafe { std::env::set_var("ALSA_CONFIG_PATH", &path) };
    folder
});

fn settings() -> Settings {
    let (rate, channels, period) = (Rate::HZ_48000, Channels::STEREO, Frames::new(48));
    Settings { rate, channels, period, periods: 2 }
}

fn extras() -> Extras {
    Extras::default()
}

fn spec(name: &str) -> DeviceSpec {
    LazyLock::force(&FOLDER);
    name.parse().expect(name)
}

fn refused(name: &str, direction: Direction, settings: Settings) -> DeviceError {
    let error = settle(&spec(name), direction, settings).expect_err(name);
    assert_eq!(open(&spec(name), direction, settings, extras()).err(), Some(error.clone()));
    let tried = name.split('?').next().unwrap_or(name);
    assert!(error.tried == tried && !error.answer.is_empty() && !error.hint.is_empty(), "{error}");
    error
}

fn pattern() -> impl Iterator<Item = f32> {
    (0_i32..)
        .map(|n| (n.wrapping_mul(25_717) as i16, n))
        .map(|(coarse, n)| f32::from(coarse) / 32_768.0 + (n % 256 - 128) as f32 / 8_388_608.0)
}

#[derive(Default)]
struct Reported {
    samples: Vec<f32>,
    meets: Vec<LocalTime>,
    skipped: Frames,
    xruns: u32,
}

/// Sends results at the end, because that allocates.
struct Runs {
    direction: Direction,
    left: usize,
    sound: Box<dyn Iterator<Item = f32> + Send>,
    reported: Reported,
    event_sender: Sender<Reported>,
}

impl Process for Runs {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        let xruns = cycle.xruns;
        let side = match self.direction {
            Direction::Capture => &mut cycle.capture,
            Direction::Playback => &mut cycle.playback,
        };
        if self.direction == Direction::Playback {
            side.samples.fill_with(|| self.sound.next().unwrap_or_default());
        }
        self.reported.samples.extend_from_slice(side.samples);
        self.reported.meets.push(side.meets);
        self.reported.skipped += side.skipped;
        self.reported.xruns += xruns;
        self.left -= 1;
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.event_sender.send(std::mem::take(&mut self.reported));
    }
}

fn run(name: &str, direction: Direction, periods: usize) -> (Reported, Ended) {
    let (event_sender, reported) = mpsc::channel();
    let room = Reported {
        samples: Vec::with_capacity(periods * 48 * 2),
        meets: Vec::with_capacity(periods),
        ..Reported::default()
    };
    let sound = Box::new(pattern());
    let process = Box::new(Runs { direction, left: periods, sound, reported: room, event_sender });
    let mut opened = open(&spec(name), direction, settings(), extras()).expect(name);
    let (process, ended) = opened.device.run(process, &Stop::default());
    let notes = opened.notes.take();
    assert!(matches!(&notes[..], [note] if note.contains("a timer")), "{notes:?}");
    drop((process, opened));
    (reported.recv().expect(name), ended)
}

fn coded(format: CardFormat, samples: usize) -> (Vec<u8>, Vec<f32>) {
    let sound: Vec<f32> = pattern().take(samples).collect();
    let mut bytes = vec![0; samples * format.bytes()];
    card::encode(format, &sound, &mut bytes);
    let mut received = vec![0.0; samples];
    card::decode(format, &bytes, &mut received);
    (bytes, received)
}

#[test]
fn playback_is_bit_exact_in_every_format() {
    for format in CardFormat::BEST_FIRST {
        let name = format!("alsa:out-{format}?format={format}");
        let (_, ended) = run(&name, Direction::Playback, 100);
        assert!(matches!(ended, Ended::Finished), "{ended:?}");
        let written = fs::read(FOLDER.join(format!("out-{format}.raw"))).unwrap();
        let silence = 2 * 48 * 2 * format.bytes();
        let (bytes, _) = coded(format, 100 * 48 * 2);
        assert!(written[..silence].iter().all(|&byte| byte == 0), "{format}");
        assert!(written[silence..] == bytes, "{format}");
    }
}

#[test]
fn capture_is_bit_exact_in_every_format() {
    for format in CardFormat::BEST_FIRST {
        let (bytes, expected) = coded(format, 100 * 48 * 2);
        LazyLock::force(&FOLDER);
        fs::write(FOLDER.join(format!("in-{format}.raw")), bytes).unwrap();
        let (reported, ended) =
            run(&format!("alsa:in-{format}?format={format}"), Direction::Capture, 100);
        assert!(matches!(ended, Ended::Finished), "{ended:?}");
        assert!(reported.samples == expected, "{format}");
    }
}

#[test]
fn of_all_formats_that_is_taken_which_holds_24_bits() {
    run("alsa:best", Direction::Playback, 10);
    let written = fs::read(FOLDER.join("best.raw")).unwrap();
    let mut received = vec![0.0; written.len() / 4];
    card::decode(CardFormat::S32, &written, &mut received);
    let expected: Vec<f32> = pattern().take(10 * 48 * 2).collect();
    assert!(received[2 * 48 * 2..] == expected);
}

#[test]
fn pcm_without_a_card_is_paced_by_a_timer() {
    for direction in [Direction::Capture, Direction::Playback] {
        let (reported, ended) = run("alsa:nothing", direction, 200);
        assert!(matches!(ended, Ended::Finished), "{ended:?}");
        assert_eq!(
            (reported.meets.len(), reported.xruns, reported.skipped),
            (200, 0, Frames::ZERO)
        );
        for pair in reported.meets.windows(2) {
            let apart = pair[1] - pair[0] - Span::from_millis(1);
            assert!(apart.abs() <= Span::from_nanos(1), "{apart}");
        }
    }
}

#[test]
fn device_stops_on_request() {
    struct Requests(Stop);
    impl Process for Requests {
        fn process(&mut self, _: &mut Cycle<'_>) -> Flow {
            self.0.request();
            Flow::Continue
        }
    }
    for wakeup in ["card", "timer"] {
        let stop = Stop::default();
        let name = format!("alsa:nothing?wakeup={wakeup}");
        let opened = open(&spec(&name), Direction::Playback, settings(), extras());
        let (_, ended) = opened.unwrap().device.run(Box::new(Requests(stop.clone())), &stop);
        assert!(matches!(ended, Ended::Stopped), "{ended:?}");
    }
}

#[test]
fn unsupported_pcm_formats_are_refused_with_supported_ones() {
    let both = [Direction::Capture, Direction::Playback];
    for direction in both {
        let error = refused("alsa:nosuch", direction, settings());
        snapshot!(error.answer);
        let error = refused("alsa:wrong", direction, settings());
        assert!(error.answer.contains("colour") && error.hint.contains("asound.conf"), "{error}");
        refused("alsa:itself", direction, settings());
        refused("alsa:unknown", direction, settings());
        refused("alsa:hw:31", direction, settings());
        refused("alsa:a'b\"{$(", direction, settings());
    }
}

#[test]
fn wrong_channel_count_is_rejected_with_the_option() {
    for (name, holds, hint) in [
        ("alsa:mono", "it has 1 channel, not 2", "--channels 1"),
        ("alsa:around", "it has 4 to 6 channels, not 2", "--channels 4"),
    ] {
        if let Err(error) = spec_opens(name) {
            without_plugins(name, &error);
            continue;
        }
        let error = refused(name, Direction::Playback, settings());
        assert!(error.answer == holds && error.hint.contains(hint), "{error}");
    }
}

fn without_plugins(pcm: &str, error: &DeviceError) {
    skipped(Lack::Package, &format!("{pcm} needs libasound2-plugins: {error}"));
}

#[test]
fn unsupported_settings_are_rejected_with_supported_ones() {
    let rate = Rate::new(44_100).unwrap();
    let has = Settings { rate, period: Frames::new(768), ..settings() };
    if let Err(error) = settle(&spec("alsa:lone"), Direction::Playback, has) {
        return without_plugins("alsa:lone", &error);
    }
    for (wanted, hint) in [
        (Settings { rate: Rate::HZ_48000, ..has }, "--rate 44100"),
        (Settings { period: Frames::new(48), ..has }, "--period 768"),
        (Settings { periods: 1, ..has }, "--periods 2"),
    ] {
        let error = refused("alsa:lone", Direction::Playback, wanted);
        assert!(error.hint.contains(hint), "{error}");
        snapshot!(hint, error);
    }
}

#[test]
fn a_card_that_is_not_there_is_answered_with_those_that_are() {
    for name in ["alsa:hw:77", "alsa:plughw:77,1", "alsa:hw:Nosuch", "alsa:hw:CARD=31"] {
        let error = refused(name, Direction::Capture, settings());
        snapshot!(error.answer);
        assert!(error.hint.contains("taut devices"), "{error}");
    }
}

#[test]
fn an_option_that_is_one_of_the_commands_is_answered_with_that() {
    for (option, hint) in
        [("period=48", "--period 48"), ("periods=3", "--periods 3"), ("rate=44100", "--rate 44100")]
    {
        let answer = format!("alsa:null?{option}").parse::<DeviceSpec>().unwrap_err();
        assert!(answer.hint.contains(hint), "{answer}");
    }
}

fn spec_opens(name: &str) -> Result<(), DeviceError> {
    match settle(&spec(name), Direction::Playback, settings()) {
        Err(error) if error.answer.contains("channel") => Ok(()),
        other => other.map(drop),
    }
}

#[test]
fn unsupported_format_is_rejected_with_supported_ones() {
    if let Err(error) = spec_opens("alsa:mono") {
        return without_plugins("alsa:mono", &error);
    }
    let mono = Settings { channels: Channels::MONO, ..settings() };
    let error = refused("alsa:mono?format=FLOAT_LE", Direction::Playback, mono);
    snapshot!(error.answer);
    assert_eq!(error.hint, "use format=S16_LE");
}

#[test]
fn unknown_alsa_option_is_rejected_with_the_known_ones() {
    for text in ["alsa:hw:0?wakeup=timer", "alsa:hw:0?format=s24_3le&wakeup=card", "alsa:plug:x"] {
        assert!(text.parse::<DeviceSpec>().is_ok(), "{text}");
    }
    for text in ["alsa:", "alsa:?wakeup=timer", "alsa:hw:0?wake=timer", "alsa:hw:0?format=U8"] {
        let answer = text.parse::<DeviceSpec>().unwrap_err();
        let helps = ["name one", "wakeup=timer", "S24_3LE"];
        assert!(helps.iter().any(|help| answer.hint.contains(help)), "{answer}");
    }
}

#[test]
fn a_list_names_the_pcms_of_a_configuration_and_opens_none() {
    LazyLock::force(&FOLDER);
    let untouched = FOLDER.join("out-never.raw");
    let listed = tautline_audio::list();
    let named = |name: &str| listed.iter().any(|device| device.name == name);
    assert!(named("alsa:nothing") && named("alsa:itself") && named("alsa:never"), "{listed:?}");
    assert!(!named("alsa:asks"), "it needs arguments");
    assert!(!untouched.exists(), "opening a PCM of type file makes the file");
}

struct BothWays {
    left: usize,
    sound: Box<dyn Iterator<Item = f32> + Send>,
    received: Vec<f32>,
    meets: Vec<[LocalTime; 2]>,
    skipped: Frames,
    event_sender: Sender<(Vec<f32>, Vec<[LocalTime; 2]>, Frames)>,
}

impl Process for BothWays {
    fn process(&mut self, cycle: &mut Cycle<'_>) -> Flow {
        self.received.extend_from_slice(cycle.capture.samples);
        cycle.playback.samples.fill_with(|| self.sound.next().unwrap_or_default());
        self.meets.push([cycle.capture.meets, cycle.playback.meets]);
        self.skipped += cycle.capture.skipped + cycle.playback.skipped;
        self.left -= 1;
        if self.left == 0 { Flow::Finished } else { Flow::Continue }
    }
}

impl Drop for BothWays {
    fn drop(&mut self) {
        let reported =
            (std::mem::take(&mut self.received), std::mem::take(&mut self.meets), self.skipped);
        let _ = self.event_sender.send(reported);
    }
}

#[test]
fn duplex_pcm_has_both_sides_in_each_cycle() {
    let (bytes, expected) = coded(CardFormat::S16, 100 * 48 * 2);
    let spec = spec("alsa:both?format=S16_LE");
    fs::write(FOLDER.join("both-in.raw"), &bytes).unwrap();
    let (event_sender, reported) = mpsc::channel();
    let process = BothWays {
        left: 100,
        sound: Box::new(pattern()),
        received: Vec::with_capacity(100 * 48 * 2),
        meets: Vec::with_capacity(100),
        skipped: Frames::ZERO,
        event_sender,
    };
    let settled = settle(&spec, Directions::Both, settings()).unwrap();
    let mut opened = open(&spec, Directions::Both, settled, extras()).unwrap();
    let (process, ended) = opened.device.run(Box::new(process), &Stop::default());
    assert!(matches!(ended, Ended::Finished), "{ended:?}");
    drop((process, opened));
    let (received, meets, skipped) = reported.recv().unwrap();
    assert!(received == expected);
    let written = fs::read(FOLDER.join("both-out.raw")).unwrap();
    let silence = 2 * 48 * 2 * CardFormat::S16.bytes();
    assert!(written[silence..] == bytes && written[..silence].iter().all(|&byte| byte == 0));
    assert_eq!(skipped, Frames::ZERO);
    for [captured, played] in meets {
        // A host stall between both starts would change this.
        assert!(played > captured, "{}", played - captured);
    }
}

#[test]
fn supported_wishes_are_offered_in_order() {
    let at = |hertz, channels| Settings {
        rate: Rate::new(hertz).expect("a rate"),
        channels: Channels::new(channels).expect("channels"),
        ..settings()
    };
    let wanted = [at(48_000, 2), at(16_000, 2), at(48_000, 1), at(16_000, 1)];
    for direction in [Direction::Capture, Direction::Playback] {
        let all = offered(&spec("alsa:nothing"), direction, &wanted);
        assert_eq!(all.as_deref(), Ok(&wanted[..]));
        let mono = offered(&spec("alsa:single"), direction, &wanted);
        assert_eq!(mono.as_deref(), Ok(&wanted[2..]));
        assert!(offered(&spec("alsa:unknown"), direction, &wanted).is_err());
    }
}
