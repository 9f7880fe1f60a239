use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use tautline_api::attach::connect;
use tautline_api::client::{AskError, WorkOpened, WorkerAddress, WorkerClient};
use tautline_api::v1::{FedStream, StreamPhase, StreamRequest, WorkStream};
use tautline_engine::offload::offloaded::{Far, LastFar};
use tautline_io::udp::UdpOptions;
use tautline_proto::text::on_one_line;

use super::{Alive, Opening, OrderBehind, StreamOrder, WorkerCalls};

/// Timeout of an opening. A worker gives a plugin 10 s to start.
const OPEN_LIMIT: Duration = Duration::from_secs(12);
/// Timeout of a look. An absent host must not delay the next attempt.
const LOOK_LIMIT: Duration = Duration::from_millis(250);
/// Timeout of a closing, for which the host waits when it ends.
const CLOSE_LIMIT: Duration = Duration::from_millis(150);
/// Packet rate for the socket's buffer: 32 frames at 192 kHz, in three parts.
const DATAGRAMS_PER_SECOND: u32 = 20_000;

pub(crate) struct HttpCalls {
    address: String,
    was_away: bool,
    behind: BTreeMap<u32, Vec<(String, u32)>>,
}

impl HttpCalls {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), was_away: false, behind: BTreeMap::new() }
    }

    fn client(&self, limit: Duration) -> Result<WorkerClient, Opening> {
        client(&self.address, limit)
    }

    fn opened(&mut self, order: &StreamOrder) -> Result<Opening, Opening> {
        if self.was_away {
            self.client(LOOK_LIMIT)?.capacity().map_err(opening)?;
        }
        let mut pipeline = OpenedPipeline::default();
        match pipeline.open(&self.address, order) {
            Ok(far) => {
                let id = far.stream;
                self.behind.insert(id, pipeline.behind());
                Ok(Opening::Opened { id, far })
            }
            Err(not) => {
                // They would occupy places there.
                pipeline.close();
                Err(not)
            }
        }
    }
}

#[derive(Default)]
struct OpenedPipeline(Vec<(String, WorkOpened)>);

impl OpenedPipeline {
    fn open(&mut self, address: &str, order: &StreamOrder) -> Result<Far, Opening> {
        let mut fed = None;
        for OrderBehind { address, request, ports } in order.behind.iter().rev() {
            let request = feeding(request, fed.take());
            let opened = self.one(address, &request, *ports)?;
            fed = Some(fed_stream(address, opened)?);
            self.check_reach(address, &request)?;
        }
        let request = feeding(&order.request, fed);
        self.one(address, &request, order.ports)?;
        self.check_reach(address, &request)?;
        let options =
            UdpOptions { packets_per_second: DATAGRAMS_PER_SECOND, ..UdpOptions::default() };
        let link = |opened: &WorkOpened| match connect(opened, options.clone()) {
            Ok(link) => Ok((Box::new(link), opened.stream.id)),
            Err(error) => Err(Opening::Refused(on_one_line(&error))),
        };
        let [last, .., first] = self.0.as_slice() else {
            let alone = self.0.first().map(|(_, alone)| link(alone)).transpose()?;
            let none = || Opening::Refused("no stream was opened; open it again".to_owned());
            return alone.map(|(link, stream)| Far::new(link, stream)).ok_or_else(none);
        };
        let ((first, stream), (last, last_stream)) = (link(&first.1)?, link(&last.1)?);
        let last = LastFar { link: last, stream: last_stream };
        Ok(Far { last: Some(last), ..Far::new(first, stream) })
    }

    fn one(
        &mut self,
        address: &str,
        request: &StreamRequest,
        ports: [usize; 4],
    ) -> Result<&WorkOpened, Opening> {
        let opened = client(address, OPEN_LIMIT)?.open(request).map_err(opening)?;
        self.0.push((address.to_owned(), opened));
        let opened = &self.0[self.0.len() - 1].1;
        check(&opened.stream, request, ports).map_err(Opening::Refused)?;
        Ok(opened)
    }

    /// The newest worker must reach the next one.
    fn check_reach(&self, address: &str, request: &StreamRequest) -> Result<(), Opening> {
        let feeds = request.pipeline.as_ref().and_then(|place| place.feeds.as_ref());
        let (Some(feeds), Some((_, opened))) = (feeds, self.0.last()) else { return Ok(()) };
        if feeds.address.ip().is_loopback() && !opened.far.ip().is_loopback() {
            return Err(Opening::Refused(format!(
                "{address} cannot reach the worker that it feeds, whose address is on this host's loopback interface; \
                 use this host's network address for that worker"
            )));
        }
        Ok(())
    }

    fn behind(&self) -> Vec<(String, u32)> {
        let Some((_first, behind)) = self.0.split_last() else { return Vec::new() };
        behind.iter().map(|(address, opened)| (address.clone(), opened.stream.id)).collect()
    }

    fn close(&self) {
        for (address, opened) in &self.0 {
            close(address, opened.stream.id);
        }
    }
}

fn feeding(request: &StreamRequest, feeds: Option<FedStream>) -> StreamRequest {
    let mut request = request.clone();
    if let Some(place) = &mut request.pipeline {
        place.feeds = feeds;
    }
    request
}

fn fed_stream(address: &str, opened: &WorkOpened) -> Result<FedStream, Opening> {
    let fed = opened.stream.fed.as_ref().ok_or_else(|| {
        Opening::Refused(format!(
            "{address} does not support input from another worker; update taut there"
        ))
    })?;
    Ok(FedStream {
        address: SocketAddr::new(opened.far.ip(), fed.udp_port),
        stream: opened.stream.id,
        key: fed.key.clone(),
    })
}

fn client(address: &str, limit: Duration) -> Result<WorkerClient, Opening> {
    let address: WorkerAddress =
        address.parse().map_err(|error: tautline_api::client::NoWorkerAddress| {
            Opening::Refused(on_one_line(&error))
        })?;
    let client = WorkerClient::usual(&address);
    Ok(client.map_err(|error| Opening::Refused(on_one_line(&error)))?.within(limit))
}

fn close(address: &str, id: u32) {
    if let Ok(client) = client(address, CLOSE_LIMIT) {
        // The worker also notices the silence.
        let _ = client.close(id);
    }
}

fn look(address: &str, id: u32) -> Alive {
    let Ok(client) = client(address, LOOK_LIMIT) else { return Alive::Unknown };
    match client.state(id) {
        Ok(Some(state)) if state.phase == StreamPhase::Failed => {
            Alive::Abandoned(state.reason.unwrap_or_else(|| "the worker ended the plugin".into()))
        }
        Ok(Some(_)) => Alive::Yes,
        Ok(None) => Alive::No,
        Err(error @ AskError::Unreachable { .. }) => Alive::Away(on_one_line(&error)),
        Err(_) => Alive::Unknown,
    }
}

impl WorkerCalls for HttpCalls {
    fn open(&mut self, order: &StreamOrder) -> Opening {
        let opening = self.opened(order).unwrap_or_else(|not| not);
        self.was_away = matches!(opening, Opening::Away(_));
        opening
    }

    /// The worst in a pipeline.
    fn look(&mut self, id: u32) -> Alive {
        let mine = look(&self.address, id);
        self.was_away |= matches!(mine, Alive::Away(_));
        let others =
            self.behind.get(&id).into_iter().flatten().map(|(address, id)| look(address, *id));
        let found = core::iter::once(mine).chain(others).find(|one| *one != Alive::Yes);
        let found = found.unwrap_or(Alive::Yes);
        if matches!(found, Alive::No | Alive::Away(_))
            && let Some(behind) = self.behind.remove(&id)
            && !behind.is_empty()
        {
            behind.iter().for_each(|(address, id)| close(address, *id));
            close(&self.address, id);
        }
        found
    }

    fn close(&mut self, id: u32) {
        close(&self.address, id);
        for (address, id) in self.behind.remove(&id).into_iter().flatten() {
            close(&address, id);
        }
    }
}

fn opening(error: AskError) -> Opening {
    let sentence = on_one_line(&error);
    match error {
        AskError::Unreachable { .. } | AskError::TimedOut { .. } | AskError::NoSuchHost(..) => {
            Opening::Away(sentence)
        }
        _ => Opening::Refused(sentence),
    }
}

fn check(stream: &WorkStream, request: &StreamRequest, known: [usize; 4]) -> Result<(), String> {
    let reported = [stream.inputs, stream.outputs, stream.controls_in, stream.controls_out];
    if reported.iter().zip(known).any(|(reported, known)| u32::try_from(known) != Ok(*reported)) {
        return Err(format!(
            "{} has {reported:?} inputs, outputs, controls and control outputs there, and {known:?} in the saved \
             catalogue; run taut plugins --save again",
            request.plugin
        ));
    }
    let requested = (request.max_frames, request.datagram_bytes);
    if (stream.max_frames, stream.datagram_bytes) != requested {
        return Err(format!(
            "the worker agreed to {} frames and {} bytes instead of {} and {}; update taut on both hosts",
            stream.max_frames, stream.datagram_bytes, requested.0, requested.1
        ));
    }
    Ok(())
}
