//! API requests with curl.

use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tautline_api::client::WorkerClient;
use tautline_api::trust::TrustStore;
use tautline_trial::{Lack, skipped};
use tempfile::TempDir;

use crate::common::{address, request, serving};

fn curl(arguments: &[&str]) -> Result<(u16, String), String> {
    let mut curl = Command::new("curl");
    let limits = ["--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}"];
    let output = curl.args(limits).args(arguments).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').expect("it writes a status");
    Ok((status.parse().unwrap(), body.to_owned()))
}

fn lacks_curl() -> bool {
    let lacks = Command::new("curl").arg("--version").output().is_err();
    if lacks {
        skipped(Lack::Package, "curl is not installed");
    }
    lacks
}

#[test]
fn curl_opens_looks_at_and_closes_a_stream_of_this_host() {
    if lacks_curl() {
        return;
    }
    let (server, _) = serving(None);
    let streams = format!("http://{}/v1/streams", server.address());
    let body = serde_json::to_string(&request()).unwrap();
    let json = ["--header", "Content-Type: application/json", "--data", &body, &streams];
    let (status, opened) = curl(&json).unwrap();
    let opened: Value = serde_json::from_str(&opened).unwrap();
    assert_eq!((status, &opened["id"]), (201, &1.into()), "{opened:#}");
    let one = format!("{streams}/1");
    assert_eq!(curl(&[&one]).unwrap().0, 200);
    assert_eq!(curl(&["--request", "DELETE", &one]).unwrap(), (204, String::new()));
    assert_eq!(curl(&["--data", &body, &streams]).unwrap().0, 415, "as a page would send it");
}

#[test]
fn by_tls_curl_shows_an_exported_key_and_pins_the_workers() {
    if lacks_curl() {
        return;
    }
    let home = |_| -> (TempDir, Arc<TrustStore>) {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::open(folder.path()).unwrap();
        (folder, store)
    };
    let [(_worker, worker), (folder, master)] = [(), ()].map(home);
    worker.trusted().trust("master", master.identity().key()).unwrap();
    let keys = folder.path().join("keys");
    master.identity().export(&keys).unwrap();
    let (server, _) = serving(Some(Arc::clone(&worker)));
    let url = format!("https://{}/v1/capacity", server.address());
    let pin = |store: &TrustStore| format!("sha256//{}", store.identity().key().pin());
    let (certificate, key) = (keys.join("taut-cert.pem"), keys.join("taut-key.pem"));
    let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let shown = ["--insecure", "--cert", certificate, "--key", key];
    let requests = |pin: &str, more: &[&str]| {
        curl(&[&shown[..], &["--pinnedpubkey", pin], more, &[&url]].concat())
    };
    assert_eq!(requests(&pin(&worker), &[]).unwrap().0, 200);
    let identity = folder.path().join("identity.pem");
    let kept = ["--insecure", "--cert", identity.to_str().unwrap(), &url];
    assert_eq!(curl(&kept).unwrap().0, 200, "what lies there will do as well");
    let refused = requests(&pin(&master), &[]).expect_err("another worker's key");
    assert!(refused.contains("pinned"), "{refused}");
    assert!(requests(&pin(&worker), &["--tls-max", "1.2"]).is_err(), "an older TLS");
    assert!(curl(&["--insecure", &url]).is_err(), "no key to show");
    worker.trusted().remove("master").unwrap();
    assert!(requests(&pin(&worker), &[]).is_err(), "trusted no more");
    assert!(WorkerClient::new(&address(&server), None).capacity().is_ok());
}
