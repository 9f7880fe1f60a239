use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tautline_api::client::WorkerClient;
use tautline_serving::{ApiAsker, ServingNews, THIS_MACHINE};

use crate::common::{client, event_channel, request, state};
use crate::trusted::{Host, friends};

struct Owned {
    server: tautline_serving::ApiServer,
    hollow: Arc<crate::common::Hollow>,
    reported: Receiver<ServingNews>,
    worker: Host,
    desk: Host,
    rack: Host,
}

impl Owned {
    fn new() -> Self {
        let (worker, desk) = friends();
        let rack = Host::new();
        rack.trusts("worker", &worker);
        worker.trusts("rack", &rack);
        let (server, hollow, reported) = event_channel(Some(Arc::clone(&worker.store)));
        Self { server, hollow, reported, worker, desk, rack }
    }

    fn machine(&self) -> WorkerClient {
        self.worker.requests(&self.server)
    }

    fn open(&self) -> Vec<u32> {
        self.hollow.open.lock().unwrap().clone()
    }

    fn closing(&self) -> ServingNews {
        let closes = |news: &ServingNews| {
            matches!(news, ServingNews::Closing { .. } | ServingNews::CloseDenied { .. })
        };
        loop {
            let news = self.reported.recv_timeout(Duration::from_secs(60)).unwrap();
            if closes(&news) {
                return news;
            }
        }
    }
}

fn by(name: Option<&str>) -> ApiAsker {
    ApiAsker { name: name.map(str::to_owned), address: [127, 0, 0, 1].into() }
}

fn is_shut_out(stranger: &WorkerClient, id: u32) {
    assert!(stranger.states().unwrap().iter().all(|state| state.id != id));
    assert_eq!(stranger.state(id).unwrap(), None);
    assert!(!stranger.close(id).unwrap());
}

#[test]
fn a_stream_is_seen_and_ended_by_its_owner_alone() {
    let owned = Owned::new();
    let (desk, rack) = (owned.desk.requests(&owned.server), owned.rack.requests(&owned.server));
    let local = client(owned.server.address());
    let id = desk.open(&request()).unwrap().stream.id;
    let racks = rack.open(&request()).unwrap().stream.id;
    let locals = local.open(&request()).unwrap().stream.id;
    for (stranger, name) in [(&rack, Some("rack")), (&local, None)] {
        is_shut_out(stranger, id);
        assert_eq!(owned.closing(), ServingNews::CloseDenied { by: by(name), id });
    }
    is_shut_out(&desk, racks);
    is_shut_out(&desk, locals);
    assert_eq!(owned.open(), [id, racks, locals]);
    assert_eq!(desk.states().unwrap(), [state(id)]);
    assert_eq!(desk.state(id).unwrap(), Some(state(id)));
    assert!(desk.close(id).unwrap() && local.close(locals).unwrap());
    assert_eq!(owned.open(), [racks]);
}

#[test]
fn the_own_key_of_the_machine_sees_and_ends_every_stream() {
    let owned = Owned::new();
    let id = owned.desk.requests(&owned.server).open(&request()).unwrap().stream.id;
    let machine = owned.machine();
    assert_eq!(machine.states().unwrap(), [state(id)]);
    assert_eq!(machine.state(id).unwrap(), Some(state(id)));
    assert!(machine.close(id).unwrap());
    assert!(owned.open().is_empty());
    assert_eq!(owned.closing(), ServingNews::Closing { by: by(Some(THIS_MACHINE)), id });
}

#[test]
fn a_denied_delete_is_answered_like_that_of_an_unknown_stream() {
    let owned = Owned::new();
    let id = owned.desk.requests(&owned.server).open(&request()).unwrap().stream.id;
    let answer = |id: u32| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let url = format!("http://{}/v1/streams/{id}", owned.server.address());
        let mut answer = ureq::Agent::new_with_config(config).delete(&url).call().unwrap();
        let body = answer.body_mut().read_to_string().unwrap();
        (answer.status().as_u16(), body.replace(&format!("\\\"{id}\\\""), "ID"))
    };
    assert_eq!(answer(id), answer(id + 1));
    assert_eq!(answer(id).0, 404);
    assert_eq!(owned.open(), [id]);
}
