//! A worker that runs nothing and records requests.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use tautline_api::client::{WorkerAddress, WorkerClient};
use tautline_api::trust::TrustStore;
use tautline_api::v1::*;
use tautline_proto::offload::block::{BlockSpec, BlockWay, ByteOrder, Element, Length};
use tautline_serving::{ApiServer, Listening, ServingNews, serve, serve_with_events};

#[derive(Default)]
pub(crate) struct Hollow {
    pub(crate) requested: Mutex<Vec<(StreamRequest, Option<[u8; 32]>)>>,
    pub(crate) open: Mutex<Vec<u32>>,
    pub(crate) refuse: Mutex<Option<WorkRefused>>,
    pub(crate) gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    pub(crate) closed: Mutex<Option<Sender<u32>>>,
}

pub(crate) fn plugin() -> Plugin {
    let port = |name: &str, descriptor| PluginPort {
        name: name.to_owned(),
        descriptor,
        hints: 3,
        lower: -1.5,
        upper: f32::INFINITY,
    };
    Plugin {
        id: "reverb.so:hall".to_owned(),
        file: "reverb.so".to_owned(),
        label: "hall".to_owned(),
        unique_id: 1999,
        name: "Hall".to_owned(),
        maker: "Nobody".to_owned(),
        copyright: "None".to_owned(),
        properties: 4,
        ports: vec![port("In", 9), port("Out", 10), port("Size", 5)],
        hash: "c0ffee".to_owned(),
        cost: Some(PluginCost { fixed_ns: 1200.5, per_frame_ns: 3.25 }),
    }
}

pub(crate) fn state(id: u32) -> WorkStreamState {
    WorkStreamState {
        id,
        plugin: plugin().id,
        rate: 48_000,
        max_frames: 256,
        udp_port: 40_000,
        phase: StreamPhase::Restarting,
        reason: Some("its process was killed by signal 11".to_owned()),
        restarts: 1,
        epoch: 3,
        dirty: true,
        latency_frames: 64,
        core: Some(1),
        share: 0.25,
        counters: WorkCounters { blocks: 9, ..WorkCounters::default() },
    }
}

pub(crate) fn request() -> StreamRequest {
    StreamRequest {
        hash: Some("c0ffee".to_owned()),
        period_ns: Some(5_333_333),
        history: 64,
        copies: 1,
        memory_frames: Some(96_000),
        ..StreamRequest::of(plugin().id, 48_000, 256)
    }
}

impl Workshop for Hollow {
    fn catalogue(&self) -> Catalogue {
        Catalogue { version: VERSION, worker: "hollow".to_owned(), plugins: vec![plugin()] }
    }

    fn capacity(&self) -> Capacity {
        let used_share = vec![0.25, 0.5];
        Capacity { cores: 2, used_share, max_share: 0.75, streams: 1, max_streams: 64 }
    }

    fn open(
        &self,
        request: StreamRequest,
        secret: Option<[u8; 32]>,
    ) -> Result<WorkStream, WorkRefused> {
        if let Some(refused) = self.refuse.lock().unwrap().clone() {
            return Err(refused);
        }
        if let Some((begun, let_on)) = self.gate.lock().unwrap().take() {
            begun.send(()).unwrap();
            let_on.recv().unwrap();
        }
        let mut requested = self.requested.lock().unwrap();
        let id = requested.len() as u32 + 1;
        requested.push((request.clone(), secret));
        self.open.lock().unwrap().push(id);
        let block = |way, length| BlockSpec { element: Element::F32, way, length };
        Ok(WorkStream {
            id,
            udp_port: 40_000,
            set: vec![
                block(BlockWay::ToWorker, Length::PerFrame(1)),
                block(BlockWay::ToWorker, Length::Fixed(1)),
                block(BlockWay::FromWorker, Length::PerFrame(1)),
            ],
            max_frames: request.max_frames,
            datagram_bytes: request.datagram_bytes,
            byte_order: ByteOrder::NATIVE,
            inputs: 1,
            outputs: 1,
            controls_in: 1,
            controls_out: 0,
            salt: None,
            key: None,
            fed: request
                .pipeline
                .filter(|place| place.fed)
                .map(|_| FedPort { udp_port: 40_001, key: Some(SecretText("a2V5".into())) }),
            state: state(id),
        })
    }

    fn streams(&self) -> Vec<WorkStreamState> {
        self.open.lock().unwrap().iter().map(|id| state(*id)).collect()
    }

    fn stream(&self, id: u32) -> Option<WorkStreamState> {
        self.open.lock().unwrap().contains(&id).then(|| state(id))
    }

    fn close(&self, id: u32) -> bool {
        let mut open = self.open.lock().unwrap();
        let before = open.len();
        open.retain(|known| *known != id);
        if let Some(closed) = &*self.closed.lock().unwrap() {
            closed.send(id).unwrap();
        }
        open.len() < before
    }
}

pub(crate) const ANY: &str = "127.0.0.1:0";

pub(crate) fn serving(trust: Option<Arc<TrustStore>>) -> (ApiServer, Arc<Hollow>) {
    let hollow = Arc::new(Hollow::default());
    let listening = Listening { address: ANY.parse().unwrap(), trust };
    (serve(&listening, Arc::clone(&hollow) as _).unwrap(), hollow)
}

pub(crate) fn event_channel(
    trust: Option<Arc<TrustStore>>,
) -> (ApiServer, Arc<Hollow>, Receiver<ServingNews>) {
    let hollow = Arc::new(Hollow::default());
    let listening = Listening { address: ANY.parse().unwrap(), trust };
    let (news, reported) = channel();
    let notify = move |reported: &ServingNews| drop(news.send(reported.clone()));
    (serve_with_events(&listening, Arc::clone(&hollow) as _, notify).unwrap(), hollow, reported)
}

pub(crate) fn address(server: &ApiServer) -> WorkerAddress {
    server.address().to_string().parse().unwrap()
}

pub(crate) fn client(at: SocketAddr) -> WorkerClient {
    WorkerClient::new(&at.to_string().parse().unwrap(), None)
}
