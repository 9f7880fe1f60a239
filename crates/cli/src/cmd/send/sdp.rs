use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread::{self, JoinHandle};

use tautline_engine::plan::SendPlan;
use tautline_engine::plan::address::Resolved;
use tautline_io::output::OutputFile;
use tautline_io::udp::{UdpOptions, source_address};
use tautline_proto::wire::rtp::ExtensionIds;
use tautline_proto::wire::sdp::{Description, Reference, SdpOrigin};

use crate::failure::Failure;
use crate::flags::Send;
use crate::sealing::StreamKey;

pub(crate) fn describe(
    plan: &SendPlan,
    udp: &UdpOptions,
    to: &[Resolved],
    (flags, key): (&Send, &StreamKey),
) -> Option<Description> {
    let first = to.first()?;
    let (media, reports) = first.media().zip(first.reports())?;
    let multicast = media.ip().is_multicast();
    let own = source_address(media, udp).unwrap_or(Ipv4Addr::LOCALHOST.into());
    Some(Description {
        name: flags.input.to_string(),
        origin: SdpOrigin {
            session: u64::from(plan.policy.identity.stream.ssrc()),
            version: 1,
            address: own,
        },
        destination: media.ip(),
        rtp_port: media.port(),
        rtcp_port: reports.port(),
        ttl: multicast.then_some(udp.ttl),
        sources: if multicast { vec![own] } else { Vec::new() },
        rate: plan.policy.format.rate,
        channels: plan.policy.format.channels,
        sample: plan.policy.format.sample,
        codec: plan.policy.format.codec,
        payload_type: plan.policy.format.payload_type,
        packet: Some(plan.policy.format.packet),
        link_offset: Some(plan.policy.link_offset),
        mediaclk_offset: Some(plan.policy.identity.timestamp),
        reference: Reference::Local,
        extensions: if plan.policy.stamps { ExtensionIds::DEFAULT } else { ExtensionIds::NONE },
        sealed: plan.stream.sealed.is_some(),
        crypto: key.to_description().filter(|_| flags.sdp_key).into_iter().collect(),
    })
}

/// Returns the thread that waits for a pipe's reader.
pub(crate) fn write(
    path: &Path,
    description: &Description,
) -> Result<Option<JoinHandle<io::Result<()>>>, Failure> {
    let secret = !description.crypto.is_empty();
    let written = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.mode(if secret { 0o600 } else { 0o666 });
        let mut output = OutputFile::open(path, &mut options)?;
        if let Some(file) = output.file().filter(|_| secret) {
            // Before the key is written, even to an existing file.
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let text = description.write();
        if output.is_awaited() {
            // A pipe's reader may open it at any time.
            let path = path.to_owned();
            return thread::Builder::new().spawn(move || std::fs::write(path, text)).map(Some);
        }
        output.write_all(&text).map(|()| None)
    };
    written().map_err(|error: io::Error| {
        Failure::open(format!(
            "writing {}: {error}\nhint: check that the folder exists",
            path.display()
        ))
    })
}
