//! Display and keys of `taut serve` on a terminal.

use crate::calls::on_a_terminal;
use crate::common::host::alongside;
use crate::common::messages;
use crate::common::program::{Running, taut, words};
use crate::common::sound::Sound;
use crate::common::{Folder, PATIENT};

fn served(home: &Folder, options: &str, rows: u16) -> (Running, String) {
    let patient = PATIENT.join(" ");
    let line =
        format!("serve --listen 127.0.0.1:0 {patient} --input tone:300 --output null: {options}");
    let serve = on_a_terminal(&line, rows).with("TAUT_HOME", home.path());
    let serve = serve.in_folder(home.path()).requested().start().wait_for(messages::AWAITS_CALLS);
    let address = serve.address();
    (serve, address)
}

fn caller(address: &str, home: &Folder, options: &str) -> Running {
    let line = format!("call {address} --report none --input tone:1000 {options}");
    let call = taut(words(&line)).and(PATIENT).with("TAUT_HOME", home.path());
    call.in_folder(home.path()).controlled().start()
}

#[test]
fn server_on_a_terminal_shows_callers_and_obeys_keys() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--report none", 12);
    let serve = serve.wait_for(&format!("no callers at {address}")).wait_for("q: end");
    let call = caller(&address, &home, "--output file:heard.wav").wait_for(messages::IN_A_CALL);
    let serve = serve.wait_for(&format!("1 of 8 at {address}: {}", messages::with_sound(1, 0)));
    let serve = serve.wait_for("this machine (127.0.0.1)").wait_for("-18.0 dBFS  open ");
    let serve = serve.wait_for("heard  ").wait_for(messages::NO_LOSS);
    let serve = serve.wait_for("latency: 400.0ms configured").wait_for(messages::STAGES);
    let serve = serve.enter("m").wait_for("0 without; muted").wait_for("-inf dBFS  muted");
    let serve = serve.enter("m").wait_for("-18.0 dBFS  open ");
    let other = caller(&address, &home, "--output null: --hold").wait_for("without sound");
    let serve = serve.wait_for("2 of 8 at ").wait_for(&messages::with_sound(1, 1));
    let other = other.request("resume", "ok ").wait_for(messages::CALL_SOUNDS);
    let serve = serve.wait_for(&messages::with_sound(2, 0)).wait_for("and 1 more");
    let other = other.request("ptime 5ms", "ok ");
    let serve = serve.wait_for(messages::PACKETS_OF_5_MS);
    let other = other.request("hold", "ok ").wait_for(messages::CALL_SILENT);
    call.enter("quit").end().well();
    let serve = serve.wait_for("1 of 8 at ").wait_for(&messages::with_sound(0, 1));
    other.enter("quit").end().well();
    let ended = serve.wait_for(&format!("no callers at {address}")).enter("q").end().well();
    assert!(
        !ended.messages.iter().any(|line| line.contains("too many calls use these devices")),
        "{ended:#?}"
    );
    // Each redraw is a line here.
    let drawn = |word| ended.messages.iter().map(|line| line.matches(word).count()).max();
    assert_eq!((drawn("heard  "), drawn("q: end")), (Some(1), Some(1)), "{ended:#?}");
    let received = Sound::read(&home.file("heard.wav"));
    // The meter covers 100 ms, so it showed the silence.
    let silences = received.silences(1_920);
    assert_eq!(silences.len(), 1, "it sounds at first, and after it was muted: {silences:?}");
}

#[test]
fn a_quiet_server_on_a_terminal_shows_nothing() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--report none --quiet --duration 500ms", 24);
    let ended = serve.end().well();
    let reported = ended.messages.iter().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    assert_eq!(reported, [&format!("{}{address}", messages::AWAITS_CALLS)]);
}

#[test]
fn nothing_is_drawn_over_the_report_of_a_server_on_a_terminal() {
    let _turn = alongside();
    let home = Folder::new();
    let (serve, address) = served(&home, "--report text", 24);
    let serve = serve.wait_for("q: end");
    let call = caller(&address, &home, "--output null:").wait_for(messages::IN_A_CALL);
    let serve = serve.wait_for("heard  ");
    call.enter("quit").end().well();
    let ended = serve.wait_for("no callers at ").enter("q").end().well();
    let mut report = ended.messages.iter().skip_while(|line| !line.contains("received from "));
    assert!(report.next().is_some_and(|line| !line.contains(" lost ")), "no report: {ended:#?}");
    // A busy host may cause xruns.
    let of_call = |line: &&String| !line.trim().is_empty() && !line.starts_with("xruns here");
    let rest: Vec<_> = report.clone().filter(of_call).collect();
    assert_eq!(rest.len(), 1, "two lines with the one before: {ended:#?}");
    let drawn = report.find(|line| line.contains('\u{1b}') || line.contains("q: end"));
    assert_eq!(drawn, None, "{ended:#?}");
}
