use std::process::Command as Program;

use clap::{Command, CommandFactory, Parser};

use tautline_io::socket::launch::{LaunchClock, LaunchOptions};
use tautline_proto::time::Span;
use tautline_proto::units::Channels;
use tautline_proto::wire::WireForm;

use crate::cmd::recv::RecvLines;
use crate::cmd::send::SendLines;
use crate::flags::Command::Recv;
use crate::flags::Taut;

const COLUMNS: usize = 80;

const SHORT_HELP_LINES: usize = 40;

/// Lines that begin with `taut`, with their continuation lines.
fn examples(text: &str) -> Vec<String> {
    let (mut found, mut open) = (Vec::<String>::new(), false);
    for line in text.lines() {
        match found.last_mut() {
            Some(example) if open => {
                example.push('\n');
                example.push_str(line);
            }
            _ if line.trim_start().starts_with("taut ") => found.push(line.trim().to_owned()),
            _ => continue,
        }
        open = line.ends_with('\\');
        assert!(line.chars().count() <= COLUMNS, "a terminal would wrap {line:?}");
    }
    found
}

fn helps() -> String {
    let mut taut = Taut::command();
    taut.build();
    helps_of(&taut)
}

fn helps_of(command: &Command) -> String {
    let mut shown = command.clone();
    let own = format!("{}\n{}\n", shown.render_help(), shown.render_long_help());
    command.get_subcommands().map(helps_of).chain([own]).collect()
}

fn blocks(page: &str) -> String {
    page.split("```").skip(1).step_by(2).collect()
}

fn pasted(example: &str) -> Vec<String> {
    let shell = Program::new("sh").args(["-c", &format!("printf '%s\\n' {example}")]).output();
    let output = shell.expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{example}: {said}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[track_caller]
fn can_be_pasted(example: &str) {
    let words = pasted(example);
    for word in words.iter().filter(|word| word.contains(['?', '&'])) {
        assert!(example.contains(&format!("\"{word}\"")), "{word} is not quoted in {example}");
    }
    if let Err(error) = Taut::try_parse_from(&words) {
        panic!("{example}: {error}");
    }
}

#[test]
fn every_example_in_the_help_can_be_pasted() {
    let examples = examples(&helps());
    examples.iter().for_each(|example| can_be_pasted(example));
    assert!(examples.len() > 20, "{examples:#?}");
}

#[test]
fn every_example_in_the_readme_can_be_pasted() {
    let examples = examples(&blocks(include_str!("../../../../README.md")));
    examples.iter().for_each(|example| can_be_pasted(example));
    assert!(examples.len() > 1, "{examples:#?}");
}

#[test]
fn an_example_without_quotes_would_be_noticed() {
    let example = "taut send --input tone:440 --to rtp://239.69.1.1:5004?iface=eth0&ttl=4";
    let noticed = std::panic::catch_unwind(|| can_be_pasted(example));
    assert!(noticed.is_err());
}

fn below_options(command: &Command) -> Option<String> {
    command.get_after_help().map(ToString::to_string)
}

#[test]
fn no_line_below_the_options_would_be_wrapped() {
    let texts = [
        super::TAUT,
        super::TAUT_LONG,
        super::DEMO,
        super::JOIN,
        super::JOIN_LONG,
        super::COMPARE,
        super::COMPARE_LONG,
        super::DEVICES,
        super::DOCTOR,
        super::TOP,
        super::TOP_LONG,
        super::SITE_CHECK,
        super::NODE,
        super::ZONES,
        super::ZONE,
        super::PAGE,
        super::PLAY,
        super::ID,
        super::PAIR,
        super::TRUST,
        super::WORK,
        super::WORK_LONG,
        super::PLUGINS,
        super::PLUGINS_LONG,
        super::SEND,
        super::SEND_LONG,
        super::RECV,
        super::RECV_LONG,
        super::CALL,
        super::CALL_LONG,
        super::SERVE,
        super::SERVE_LONG,
    ];
    let mut taut = Taut::command();
    let lab = taut.find_subcommand_mut("lab").expect("a build with the lab");
    // The JSON of `taut lab all` needs more.
    let of_lab = lab.get_subcommands().filter(|command| command.get_name() != "all");
    let of_lab: Vec<String> = of_lab.filter_map(below_options).collect();
    assert!(of_lab.len() > 19, "{of_lab:#?}");
    let texts = texts.into_iter().chain(of_lab.iter().map(String::as_str));
    let lines = texts.flat_map(str::lines);
    let long = lines.filter(|line| line.chars().count() > COLUMNS).collect::<Vec<_>>();
    assert!(long.is_empty(), "{long:#?}");
}

fn changes(text: &str) -> Vec<(&str, &str)> {
    let (_, listed) = text.split_once("\nChanges, with --control").expect("a list of changes");
    let (listed, _) = listed.split_once("\n\n").expect("its end");
    let lines = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let begins = lines.filter(|line| !line.starts_with(' '));
    let change = begins.map(|line| line.split_once("  ").map_or(line, |(change, _)| change));
    change.map(|change| change.split_once(' ').unwrap_or((change, ""))).collect()
}

#[test]
fn every_change_in_the_help_is_understood() {
    let udp = tautline_io::udp::UdpOptions::sender(vec![([127, 0, 0, 1], 5004).into()]);
    let send = SendLines {
        form: WireForm::Rtp,
        udp: Some(udp),
        bitrate: None,
        channels: Channels::STEREO,
    };
    let listed = changes(super::SEND_LONG);
    for (verb, rest) in &listed {
        // The routes to these addresses depend on the machine.
        let read = send.read(verb, rest);
        assert!(*verb == "quit" || *verb == "to" || read.is_ok(), "{verb} {rest}: {read:?}");
    }
    assert_eq!(listed.len(), 10, "{listed:?}");
    let recv = ["taut", "recv", "--from", "rtp://0.0.0.0:5004", "--output", "null:"];
    let Ok(Taut { command: Recv(flags) }) = Taut::try_parse_from(recv) else { panic!() };
    let recv = RecvLines { flags: *flags, shape: Default::default() };
    let listed = changes(super::RECV_LONG);
    for (verb, rest) in &listed {
        let read = recv.read(verb, rest).err();
        assert!(*verb == "quit" || *verb == "from" || read.is_none(), "{verb}: {read:?}");
    }
    assert_eq!(listed.len(), 7, "{listed:?}");
    assert!(recv.read("ptime", "2ms").is_err() && send.read("from", "x").is_err());
}

#[test]
fn launch_time_packets_cannot_move_to_another_interface() {
    let mut udp = tautline_io::udp::UdpOptions::sender(vec![([127, 0, 0, 1], 5004).into()]);
    let (clock, none) = (LaunchClock::Monotonic, Span::ZERO);
    udp.launch = Some(LaunchOptions { clock, lead: none, minimum: none, ahead: none });
    let lines = |udp: &tautline_io::udp::UdpOptions| SendLines {
        form: WireForm::Rtp,
        udp: Some(udp.clone()),
        bitrate: None,
        channels: Channels::STEREO,
    };
    let to = "rtp://127.0.0.1:5006";
    assert!(lines(&udp).read("to", to).is_ok());
    // Not via the loopback interface.
    udp.destinations = vec![([240, 0, 0, 1], 5004).into()];
    let refused = lines(&udp).read("to", to).expect_err("another interface");
    assert!(refused.contains("--pacing sleep"), "{refused}");
    udp.launch = None;
    assert!(lines(&udp).read("to", to).is_ok());
}

#[test]
fn short_help_fits_one_screen() {
    let mut taut = Taut::command().term_width(COLUMNS);
    taut.build();
    let long = long_short_help(&taut, "taut");
    assert!(long.is_empty(), "{long:#?}");
}

fn long_short_help(command: &Command, name: &str) -> Vec<String> {
    let help = command.clone().render_help().to_string();
    let (options, _) = help.split_once("\nExample").unwrap_or((&help, ""));
    // clap does not wrap the usage.
    let wide = help.lines().filter(|line| line.chars().count() > COLUMNS);
    let wide = wide.filter(|line| !line.starts_with("Usage:"));
    // Continuation lines begin right of all option names.
    let wrapped = options.lines().filter(|line| line.starts_with("                "));
    // Experiments have options that need two lines.
    let wrapped = wrapped.filter(|_| !name.starts_with("taut lab"));
    let mut long: Vec<_> = wide.chain(wrapped).map(|line| format!("{name} -h: {line}")).collect();
    let lines = help.lines().count();
    if lines > SHORT_HELP_LINES {
        long.push(format!("{name} -h has {lines} lines"));
    }
    let shown = |below: &&Command| below.get_name() != "help" && !below.is_hide_set();
    let below = command.get_subcommands().filter(shown);
    long.extend(below.flat_map(|below| {
        let name = format!("{name} {}", below.get_name());
        long_short_help(below, &name)
    }));
    long
}

#[test]
fn every_option_of_an_address_is_explained() {
    let explained = |text: &str, option: &str| text.contains(&format!("\n  {option}="));
    for option in ["iface", "ttl", "loop"] {
        assert!(explained(super::SEND_LONG, option), "{option}");
    }
    for option in ["iface", "source", "senders", "volume"] {
        assert!(explained(super::RECV_LONG, option), "{option}");
    }
}

#[test]
fn help_gives_the_avtp_meaning_of_options() {
    let shown = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let recv = shown(super::RECV_LONG);
    for said in ["no goodbye, so no --exit-on-bye", "--latency moves nothing"] {
        assert!(recv.contains(said), "{said}");
    }
}
