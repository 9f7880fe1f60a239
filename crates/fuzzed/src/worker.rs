use tautline_api::client::WorkerAddress;
use tautline_api::seal::{Sealed, StreamKeys};
use tautline_api::trust::{HostKey, TrustedHosts};
use tautline_api::v1::{Catalogue, StreamRequest, WorkStream};
use tautline_io::socket::seal::Seal;

/// Valid offload data survives a round trip, and only encrypted datagrams are accepted.
pub fn worker(bytes: &[u8]) {
    opened(bytes);
    HostKey::of_certificate(&bytes.into());
    answers(bytes);
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    if let Ok(address) = text.parse::<WorkerAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    if let Ok(key) = text.parse::<HostKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    if let Ok(hosts) = TrustedHosts::read(text) {
        assert_eq!(TrustedHosts::read(&hosts.to_string()), Ok(hosts));
    }
}

fn opened(bytes: &[u8]) {
    let keys = StreamKeys::of(&[7; 32], 7);
    let (mut master, mut worker) = (Sealed::master(&keys, 1), Sealed::worker(&keys, 1));
    assert_eq!(worker.open(&mut bytes.to_vec()), None);
    let mut sealed = bytes.to_vec();
    sealed.resize(bytes.len() + master.room(), 0);
    let len = master.seal(&mut sealed, bytes.len());
    assert_eq!(worker.open(&mut sealed[..len]), Some(bytes));
}

fn answers(bytes: &[u8]) {
    if let Ok(mut catalogue) = serde_json::from_slice::<Catalogue>(bytes) {
        let same = serde_json::to_vec(&catalogue)
            .map(|text| serde_json::from_slice::<Catalogue>(&text).ok());
        let checked = catalogue.check();
        assert!(checked.is_err() || catalogue.plugins.iter().all(|plugin| !plugin.id.is_empty()));
        if checked.is_ok() {
            assert_eq!(catalogue.check(), Ok(Vec::new()), "what is left can be true");
        }
        assert_eq!(same.ok().flatten().map(|mut same| same.check()), Some(checked));
    }
    if let Ok(request) = serde_json::from_slice::<StreamRequest>(bytes) {
        let text = serde_json::to_vec(&request).unwrap_or_default();
        assert_eq!(serde_json::from_slice(&text).ok(), Some(request));
    }
    let _ = serde_json::from_slice::<WorkStream>(bytes);
}
