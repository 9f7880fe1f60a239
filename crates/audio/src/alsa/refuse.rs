use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use ::alsa::Card;
use tautline_proto::device::{DeviceError, Direction};

use super::pcm::PcmError;
use super::spec::AlsaSpec;

pub(super) fn refusal(spec: &AlsaSpec, answer: String, hint: String) -> DeviceError {
    DeviceError { tried: spec.to_string(), answer, hint }
}

pub(super) const CONFIGURED: &str = "fix its definition in /etc/asound.conf or ~/.asoundrc";

pub(super) fn sentence(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno.abs()).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

pub(super) fn not_opened(
    spec: &AlsaSpec,
    direction: Direction,
    errno: i32,
    said: &str,
) -> DeviceError {
    let (answer, hint) = match errno {
        _ if spec.card().is_some_and(|card| !is_here(card)) => (none_such(direction), name_one()),
        libc::ENOENT | libc::ENODEV | libc::ENXIO => (none_such(direction), name_one()),
        libc::EBUSY => busy(spec, direction),
        // `default` is mostly a sound server.
        libc::EHOSTDOWN | libc::ECONNREFUSED => (
            "its sound server does not respond".to_owned(),
            format!("start it (systemctl --user start pipewire wireplumber), or {}", name_one()),
        ),
        libc::EACCES | libc::EPERM => (
            "permission denied".to_owned(),
            "add the user to the group audio (usermod -aG audio NAME) and log in again".to_owned(),
        ),
        errno => {
            let first = said.lines().next().unwrap_or_default();
            let first = first.split_once(": ").map_or(first, |(_, rest)| rest);
            let said = if first.is_empty() { sentence(errno) } else { first.to_owned() };
            (format!("ALSA cannot open it: {said}"), CONFIGURED.to_owned())
        }
    };
    refusal(spec, answer, hint)
}

fn none_such(direction: Direction) -> String {
    let does = match direction {
        Direction::Capture => "captures",
        Direction::Playback => "plays",
    };
    format!("no such card or PCM that {does}")
}

fn is_here(card: &str) -> bool {
    CString::new(card).is_ok_and(|card| Card::from_str(&card).is_ok())
}

fn name_one() -> String {
    let names: Vec<String> = ::alsa::card::Iter::new()
        .flatten()
        .filter_map(|card| {
            Some(format!("alsa:hw:{} ({})", card.get_index(), card.get_name().ok()?))
        })
        .collect();
    if names.is_empty() {
        return "use another device (`taut devices`) or PCM (`aplay -L`), as this machine has no card"
            .to_owned();
    }
    format!(
        "use one of {} (`taut devices` shows their settings), or another PCM (`aplay -L`)",
        names.join(", ")
    )
}

fn busy(spec: &AlsaSpec, direction: Direction) -> (String, String) {
    match holder(Path::new("/proc/asound"), spec, direction).and_then(name_of) {
        Some((program, pid)) => (
            format!("in use by {program} (process {pid})"),
            format!("stop {program}, or use another PCM"),
        ),
        None => (
            "in use by another program".to_owned(),
            "stop that program: `fuser -v /dev/snd/*` shows it".to_owned(),
        ),
    }
}

fn holder(asound: &Path, spec: &AlsaSpec, direction: Direction) -> Option<u32> {
    let letter = match direction {
        Direction::Capture => 'c',
        Direction::Playback => 'p',
    };
    let card = match spec.card()? {
        card if card.bytes().all(|byte| byte.is_ascii_digit()) => format!("card{card}"),
        card => card.to_owned(),
    };
    let (device, part) = spec.device()?;
    let pcm = asound.join(card).join(format!("pcm{device}{letter}"));
    let parts = fs::read_dir(pcm).ok()?.flatten().filter(|entry| match part {
        Some(part) => entry.file_name() == *format!("sub{part}"),
        None => entry.file_name().to_string_lossy().starts_with("sub"),
    });
    parts.map(|part| part.path().join("status")).find_map(|status| {
        fs::read_to_string(status).ok()?.lines().find_map(|line| {
            line.strip_prefix("owner_pid")?.trim_start_matches([' ', ':']).parse().ok()
        })
    })
}

fn name_of(pid: u32) -> Option<(String, u32)> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some((name.trim().to_owned(), pid))
}

/// Errors of a run, created before it because this allocates.
#[derive(Debug)]
pub(super) struct CardErrors {
    unplugged: DeviceError,
    silent: DeviceError,
    vain: DeviceError,
    refused: DeviceError,
}

impl CardErrors {
    pub(super) fn new(spec: &AlsaSpec) -> Self {
        let loss = |answer: &str, hint: &str| refusal(spec, answer.to_owned(), hint.to_owned());
        let mut refused = loss("its driver returned error ", "see `dmesg`");
        refused.answer.reserve(16);
        Self {
            unplugged: loss("the card was removed", "plug it in again"),
            silent: loss(
                "the card stopped: it transferred no frames for 500 ms",
                "reconnect it, or see `dmesg`",
            ),
            vain: loss(
                "it underruns or overruns at every start, before the end of its first period",
                "use longer or more periods, such as --period 480 --periods 4",
            ),
            refused,
        }
    }

    pub(super) fn take(&mut self, trouble: PcmError) -> DeviceError {
        const NOTHING: DeviceError =
            DeviceError { tried: String::new(), answer: String::new(), hint: String::new() };
        let loss = match trouble {
            PcmError::Unplugged => &mut self.unplugged,
            PcmError::Refused(errno) => {
                let _ = write!(self.refused.answer, "{errno}");
                &mut self.refused
            }
            PcmError::Stopped => &mut self.vain,
            PcmError::Suspended | PcmError::NotReady => &mut self.silent,
        };
        std::mem::replace(loss, NOTHING)
    }
}

#[cfg(test)]
mod tests {
    use tautline_trial::snapshot;

    use super::*;

    #[test]
    fn loss_with_an_errno_is_reported_without_allocation() {
        let spec: AlsaSpec = "hw:0".parse().unwrap();
        let mut losses = CardErrors::new(&spec);
        let room = losses.refused.answer.capacity();
        let error = losses.take(PcmError::Refused(i32::MIN));
        assert_eq!(error.answer.capacity(), room);
        assert!(error.to_string().contains("error -2147483648"), "{error}");
        snapshot!(losses.take(PcmError::Unplugged).hint);
        assert!(losses.take(PcmError::Stopped).hint.contains("--period"));
    }

    #[test]
    fn holders_of_devices_of_a_card_are_distinguished() {
        let asound = std::env::temp_dir().join(format!("taut-asound-{}", std::process::id()));
        for (part, owner) in
            [("pcm0p/sub0", 10), ("pcm0c/sub0", 20), ("pcm3p/sub0", 30), ("pcm3p/sub1", 31)]
        {
            let folder = asound.join("card0").join(part);
            fs::create_dir_all(&folder).unwrap();
            let status = format!("state: RUNNING\nowner_pid   : {owner}\ntrigger_time: 1.0\n");
            fs::write(folder.join("status"), status).unwrap();
        }
        let free = asound.join("card0/pcm7p/sub0");
        fs::create_dir_all(&free).unwrap();
        fs::write(free.join("status"), "closed\n").unwrap();
        std::os::unix::fs::symlink("card0", asound.join("PCH")).unwrap();
        let (plays, captures) = (Direction::Playback, Direction::Capture);
        for (name, direction, owners) in [
            ("hw:0", plays, vec![10]),
            ("hw:0", captures, vec![20]),
            ("plughw:0,3", plays, vec![30, 31]),
            ("hw:0,3,1", plays, vec![31]),
            ("hw:CARD=PCH,DEV=3,SUBDEV=0", plays, vec![30]),
            ("hw:PCH,DEV=3,SUBDEV=-1", plays, vec![30, 31]),
            ("plug:'hw:PCH,3,1'", plays, vec![31]),
            ("hw:0,3", captures, vec![]),
            ("hw:0,7", plays, vec![]),
            ("hw:0,x", plays, vec![]),
            ("hw:1", plays, vec![]),
            ("default", plays, vec![]),
        ] {
            let spec: AlsaSpec = name.parse().unwrap();
            let holder = holder(&asound, &spec, direction);
            let right = holder.map_or(owners.is_empty(), |pid| owners.contains(&pid));
            assert!(right, "{name} {direction:?}: {holder:?}, not {owners:?}");
        }
        fs::remove_dir_all(&asound).unwrap();
    }
}
