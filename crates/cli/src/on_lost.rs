//! `--on-lost`: runs a command for each receiver that stops reporting. The device thread never
//! starts it; only a separate thread waits for it.

use std::process::{Command, Stdio};
use std::sync::Arc;

use tautline_engine::send_engine::LostHook;

use crate::screen::notify;

/// Maximum running commands. A network failure loses all receivers of a group.
const MAX_RUNNING: usize = 16;

const RECEIVER: &str = "TAUT_RECEIVER";
const STREAM: &str = "TAUT_STREAM";

pub(crate) fn hook(command: String) -> LostHook {
    let running = Arc::new(());
    Box::new(move |host, stream| {
        // One reference is our own.
        if Arc::strong_count(&running) > MAX_RUNNING {
            return notify(&format!(
                "--on-lost: not started for {host}: {MAX_RUNNING} commands are still running"
            ));
        }
        start(&command, &host.to_string(), stream, Arc::clone(&running));
    })
}

fn start(command: &str, host: &str, stream: &str, running: Arc<()>) {
    let child = Command::new("sh")
        .args(["-c", command])
        .env(RECEIVER, host)
        .env(STREAM, stream)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .spawn();
    let waiting = child.map(|mut child| {
        let host = host.to_owned();
        std::thread::Builder::new().name("taut-on-lost".into()).spawn(move || {
            match child.wait() {
                Ok(status) if status.success() => {}
                Ok(status) => {
                    notify(&format!("--on-lost: the command for {host} failed: {status}"))
                }
                Err(error) => notify(&format!("--on-lost: waiting for the command: {error}")),
            }
            drop(running);
        })
    });
    if let Err(error) = waiting.and_then(|thread| thread.map(drop)) {
        notify(&format!("--on-lost: starting sh: {error}; check that sh is in the PATH"));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tautline_proto::endpoint::Host;

    use super::*;

    #[test]
    fn on_lost_command_gets_receiver_and_stream_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let (gate, reported) = (folder.path().join("gate"), folder.path().join("told"));
        let made = Command::new("mkfifo").arg(&gate).status().unwrap();
        assert!(made.success());
        // Ends once the test writes into the pipe, after the hook has returned.
        let command = format!(
            "read line <'{}'; echo \"$TAUT_RECEIVER $TAUT_STREAM\" >'{}'; echo done >'{}'",
            gate.display(),
            reported.display(),
            gate.display()
        );
        hook(command)(&Host::from(IpAddr::from([10, 0, 0, 2])), "rtp://10.0.0.2:5004");
        std::fs::write(&gate, "go\n").unwrap();
        assert_eq!(std::fs::read_to_string(&gate).unwrap(), "done\n");
        assert_eq!(std::fs::read_to_string(&reported).unwrap(), "10.0.0.2 rtp://10.0.0.2:5004\n");
    }
}
