use tautline_trial::snapshot;

use std::sync::Arc;

use tautline_api::client::{AskError, WorkerClient};
use tautline_api::trust::{HostKey, TrustStore};
use tautline_api::v1::StreamRequest;
use tautline_serving::{ApiServer, ListenError, Listening, serve};
use tempfile::TempDir;

use crate::common::{Hollow, address, request, serving};

pub(crate) struct Host {
    pub(crate) store: Arc<TrustStore>,
    _folder: TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: TrustStore::open(folder.path()).unwrap(), _folder: folder }
    }

    fn key(&self) -> HostKey {
        self.store.identity().key()
    }

    pub(crate) fn trusts(&self, name: &str, other: &Self) {
        self.store.trusted().trust(name, other.key()).unwrap();
    }

    pub(crate) fn requests(&self, server: &ApiServer) -> WorkerClient {
        WorkerClient::new(&address(server), Some(Arc::clone(&self.store))).by_tls()
    }

    pub(crate) fn serving(&self) -> (ApiServer, Arc<Hollow>) {
        serving(Some(Arc::clone(&self.store)))
    }
}

pub(crate) fn friends() -> (Host, Host) {
    let (worker, master) = (Host::new(), Host::new());
    worker.trusts("master", &master);
    master.trusts("worker", &worker);
    (worker, master)
}

#[test]
fn hosts_that_trust_each_other_come_to_the_same_secret() {
    let (worker, master) = friends();
    let (server, hollow) = worker.serving();
    let client = master.requests(&server);
    let (one, other) = (client.open(&request()).unwrap(), client.open(&request()).unwrap());
    let requested = hollow.requested.lock().unwrap();
    assert!(one.secret.is_some() && one.secret == requested[0].1, "and it went over no wire");
    assert!(one.stream.key.is_none());
    assert_eq!(other.secret, requested[1].1);
    assert_ne!(one.secret, other.secret);
}

#[test]
fn untrusted_host_gets_the_command_to_run_on_the_worker() {
    let (worker, _) = friends();
    let stranger = Host::new();
    stranger.trusts("worker", &worker);
    let (server, hollow) = worker.serving();
    let error = stranger.requests(&server).open(&request()).expect_err("not trusted");
    let AskError::NotTrustedThere { key, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*key, stranger.key());
    let hint = format!("taut trust {} {key}", tautline_api::trust::host_name());
    assert!(error.to_string().ends_with(&hint), "{error}");
    assert!(hollow.requested.lock().unwrap().is_empty());
}

#[test]
fn untrusted_worker_gets_no_request() {
    let (worker, master) = (Host::new(), Host::new());
    worker.trusts("master", &master);
    let (server, hollow) = worker.serving();
    let error = master.requests(&server).open(&request()).expect_err("not trusted");
    assert!(matches!(error, AskError::Untrusted(..)), "{error:?}");
    assert!(hollow.requested.lock().unwrap().is_empty());
}

#[test]
fn named_worker_must_be_that_trusted_host() {
    let (worker, master) = friends();
    let other = Host::new();
    master.trusts("studio", &other);
    let (server, _) = worker.serving();
    let requests = |name: &str| {
        let address = format!("{name}={}", server.address()).parse().unwrap();
        WorkerClient::new(&address, Some(Arc::clone(&master.store))).by_tls().capacity()
    };
    assert!(requests("worker").is_ok());
    for name in ["studio", "nobody"] {
        let error = requests(name).expect_err(name);
        assert!(matches!(error, AskError::OtherHost { .. }), "{error:?}");
    }
}

#[test]
fn named_worker_proves_its_key_even_if_resolved_to_loopback() {
    let (worker, master) = friends();
    let other = Host::new();
    master.trusts("studio", &other);
    let (server, hollow) = worker.serving();
    let port = server.address().port();
    let requests = |name: &str| {
        let address = format!("{name}LOCALHOST:{port}").parse().unwrap();
        WorkerClient::new(&address, Some(Arc::clone(&master.store))).open(&request())
    };
    let error = requests("studio=").expect_err("another host");
    assert!(matches!(error, AskError::OtherHost { .. }), "{error:?}");
    assert!(hollow.requested.lock().unwrap().is_empty());
    assert!(requests("worker=").unwrap().stream.key.is_none(), "by TLS");
    assert!(requests("").is_ok(), "and without a name as ever");
}

#[test]
fn trust_changes_apply_to_a_running_worker() {
    let (worker, master) = friends();
    let late = Host::new();
    late.trusts("worker", &worker);
    let (server, _) = worker.serving();
    let client = late.requests(&server);
    assert!(client.capacity().is_err());
    worker.trusts("late", &late);
    assert!(client.capacity().is_ok());
    worker.store.trusted().remove("late").unwrap();
    assert!(client.capacity().is_err());
    assert!(master.requests(&server).capacity().is_ok(), "the others stay");
}

#[test]
fn unreadable_trust_list_is_empty() {
    let (worker, master) = friends();
    let (server, _) = worker.serving();
    let client = master.requests(&server);
    assert!(client.capacity().is_ok());
    std::fs::write(worker.store.trusted().path(), "master = ").unwrap();
    assert!(matches!(client.capacity(), Err(AskError::NotTrustedThere { .. })));
}

#[test]
fn this_hosts_own_programs_need_no_key() {
    let (worker, _) = friends();
    let (server, _) = worker.serving();
    assert!(WorkerClient::new(&address(&server), None).capacity().is_ok());
}

#[test]
fn cleartext_is_for_the_loopback_interface_even_by_tls() {
    let (worker, master) = friends();
    let (server, hollow) = worker.serving();
    let requested = StreamRequest { cleartext: true, ..request() };
    let opened = master.requests(&server).open(&requested).unwrap();
    assert!(opened.secret.is_none() && opened.stream.salt.is_none());
    assert_eq!(hollow.requested.lock().unwrap()[0].1, None);
}

#[test]
fn server_without_trusted_hosts_listens_on_loopback_only() {
    let host = Host::new();
    let beyond = |trust: Option<&Host>| {
        let trust = trust.map(|host| Arc::clone(&host.store));
        serve(
            &Listening { address: "0.0.0.0:0".parse().unwrap(), trust },
            Arc::new(Hollow::default()),
        )
    };
    let refused = beyond(Some(&host)).expect_err("no host is trusted").to_string();
    snapshot!(refused);
    let refused = beyond(None).expect_err("no key to show");
    assert!(matches!(refused, ListenError::NoIdentity(_)), "{refused:?}");
    host.trusts("somebody", &Host::new());
    let server = beyond(Some(&host)).unwrap();
    assert!(server.address().ip().is_unspecified() && server.address().port() != 0);
}

#[test]
fn invalid_or_writable_trust_list_stops_the_worker() {
    use std::os::unix::fs::PermissionsExt;
    let (worker, _) = friends();
    let path = worker.store.trusted().path();
    let listens = || {
        let trust = Some(Arc::clone(&worker.store));
        let listening = Listening { address: "127.0.0.1:0".parse().unwrap(), trust };
        serve(&listening, Arc::new(Hollow::default())).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(listens(), Ok(()));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::write(path, "# touched").unwrap();
    let error = listens().expect_err("others may write it");
    assert!(error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(path, "a = \"nokey\"").unwrap();
    let error = listens().expect_err("no key");
    snapshot!(error);
}
