//! A worker as it is asked in truth: by HTTP, each call with a limit.

use core::time::Duration;

use tautline_api::attach::connect;
use tautline_api::client::{AskError, WorkerAddress, WorkerClient};
use tautline_api::v1::{StreamRequest, WorkStream};
use tautline_engine::offload::offloaded::Far;
use tautline_engine::offload::sound_set::SoundSet;
use tautline_io::udp::UdpOptions;

use super::calls::{Alive, Opening, WorkerCalls};

/// A worker starts a process for a stream; on a busy one that takes its time.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Whether somebody is there at all: a host that is off answers nothing, and the next attempt is not to
/// wait for this one.
const LOOK_LIMIT: Duration = Duration::from_millis(250);
/// A host is about to end and waits for it.
const CLOSE_LIMIT: Duration = Duration::from_millis(150);
/// Datagrams each second that buffers are laid out for: blocks of 32 frames at 192 kHz, in three parts.
const DATAGRAMS_PER_SECOND: u32 = 20_000;

/// Asks the worker at an address.
pub(crate) struct HttpCalls {
    address: String,
    /// The last attempt found nobody.
    was_away: bool,
}

impl HttpCalls {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), was_away: false }
    }

    /// Made anew for each call: what is trusted may have changed.
    fn client(&self, limit: Duration) -> Result<WorkerClient, Opening> {
        let address: WorkerAddress =
            self.address.parse().map_err(|error: tautline_api::client::NoWorkerAddress| {
                Opening::Refused(error.to_string())
            })?;
        let client = WorkerClient::usual(&address);
        Ok(client.map_err(|error| Opening::Refused(error.to_string()))?.within(limit))
    }

    fn opened(&self, request: &StreamRequest, set: SoundSet) -> Result<Opening, Opening> {
        if self.was_away {
            self.client(LOOK_LIMIT)?.capacity().map_err(opening)?;
        }
        let client = self.client(OPEN_LIMIT)?;
        let opened = client.open(request).map_err(opening)?;
        let id = opened.stream.id;
        let options =
            UdpOptions { packets_per_second: DATAGRAMS_PER_SECOND, ..UdpOptions::default() };
        let made = check(&opened.stream, request, set)
            .and_then(|()| connect(&opened, options).map_err(|error| error.to_string()));
        match made {
            Ok(link) => Ok(Opening::Opened { id, far: Far { link: Box::new(link), stream: id } }),
            Err(why) => {
                // It would keep its place there.
                let _ = client.close(id);
                Err(Opening::Refused(why))
            }
        }
    }
}

impl WorkerCalls for HttpCalls {
    fn open(&mut self, request: &StreamRequest, set: SoundSet) -> Opening {
        let opening = self.opened(request, set).unwrap_or_else(|not| not);
        self.was_away = matches!(opening, Opening::Away(_));
        opening
    }

    fn look(&mut self, id: u32) -> Alive {
        let Ok(client) = self.client(LOOK_LIMIT) else { return Alive::Unknown };
        match client.state(id) {
            Ok(Some(_)) => Alive::Yes,
            Ok(None) => Alive::No,
            Err(error @ AskError::Unreachable { .. }) => {
                self.was_away = true;
                Alive::Away(error.to_string())
            }
            Err(_) => Alive::Unknown,
        }
    }

    fn close(&mut self, id: u32) {
        if let Ok(client) = self.client(CLOSE_LIMIT) {
            // A worker that does not hear it finds itself alone.
            let _ = client.close(id);
        }
    }
}

fn opening(error: AskError) -> Opening {
    let sentence = error.to_string();
    match error {
        AskError::Unreachable { .. } | AskError::TimedOut { .. } | AskError::NoSuchHost { .. } => {
            Opening::Away(sentence)
        }
        _ => Opening::Refused(sentence),
    }
}

/// A worker may say what it likes: the stream must be the one that is laid out here.
fn check(stream: &WorkStream, request: &StreamRequest, set: SoundSet) -> Result<(), String> {
    let told = [stream.inputs, stream.outputs, stream.controls_in, stream.controls_out];
    let known = [set.inputs, set.outputs, set.controls_in, set.controls_out];
    if told.iter().zip(known).any(|(told, known)| u32::try_from(known) != Ok(*told)) {
        return Err(format!(
            "{} has {told:?} inputs, outputs, controls and told controls there, and {known:?} in the \
             catalogue that was saved; run taut plugins --save again",
            request.plugin
        ));
    }
    let asked = (request.most_frames, request.datagram_bytes);
    if (stream.most_frames, stream.datagram_bytes) != asked {
        return Err(format!(
            "the worker agreed to {} frames and {} bytes, where {} and {} were asked for; update taut on \
             both hosts",
            stream.most_frames, stream.datagram_bytes, asked.0, asked.1
        ));
    }
    Ok(())
}
