use std::io::Cursor;

use tautline_proto::device::Stop;

use super::*;

fn said(lines: &str) -> Vec<String> {
    let mut said = Vec::new();
    serve(Cursor::new(lines.to_owned()), &mut said, &Stop::default()).unwrap();
    String::from_utf8(said).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_place_is_read_as_it_is_written() {
    for text in ["local", "netns:far", "ssh:user@studio.example"] {
        assert_eq!(text.parse::<HostPlace>().unwrap().to_string(), text);
    }
    for text in ["", "ssh:", "netns", "ssh:-oProxyCommand=x", "netns:-x", "here"] {
        let refused = text.parse::<HostPlace>().unwrap_err();
        assert!(refused.contains("local, netns:NAME or ssh:HOST"), "{refused}");
    }
}

#[test]
fn agent_greets_and_answers_each_request_by_id() {
    let said = said(
        "{\"id\":7,\"request\":{\"listen\":{\"pairs\":2}}}\nnonsense\n{\"id\":8,\"request\":\"received\"}\n",
    );
    assert_eq!(said.len(), 3, "{said:?}");
    let hello: Hello = serde_json::from_str(&said[0]).unwrap();
    assert_eq!(hello.taut, env!("CARGO_PKG_VERSION"));
    assert!(hello.host.cpus > 0 && hello.clock.is_some(), "{hello:?}");
    let replies: Vec<Reply> =
        said[1..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.iter().map(|reply| reply.id).collect::<Vec<_>>(), [7, 8]);
    assert!(matches!(replies[0].answer, AgentAnswer::Listening { .. }), "{replies:?}");
    assert!(matches!(replies[1].answer, AgentAnswer::Reached { address: None }), "{replies:?}");
}

#[test]
fn an_agent_reads_nothing_beside_its_folder() {
    for file in ["/etc/hostname", "../hostname", "a/b", "", "."] {
        let request = AgentAsk::Read { file: file.into(), from: 0, maximum: 100 };
        let line = serde_json::to_string(&AgentRequest { id: 1, request }).unwrap();
        let said = said(&line);
        assert!(said[1].contains("invalid file name"), "{file}: {said:?}");
    }
}

#[test]
fn missing_agent_is_an_error() {
    let place: HostPlace = "netns:taut-there-is-none".parse().unwrap();
    let Err(error) = LabHost::at(place, &Stop::default()) else { panic!("there is one") };
    let text = error.to_string();
    assert!(text.starts_with("cannot start an agent at netns:taut-there-is-none: "), "{text}");
}
