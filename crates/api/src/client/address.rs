//! Address of a worker.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv6Addr};

use thiserror::Error;

use crate::v1::PORT;

/// `[NAME=]HOST[:PORT]`. Without the name of a trusted key, any is accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerAddress {
    /// Name in `taut trust`.
    pub name: Option<String>,
    /// Host name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Error for an invalid worker address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid worker address {0:?}\nhint: write HOST, HOST:PORT or NAME=HOST:PORT, and an IPv6 address as [::1]:17230"
)]
pub struct NoWorkerAddress(pub String);

impl WorkerAddress {
    pub(super) fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]:{}", self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }

    /// Whether the host is certainly this machine, without name resolution.
    pub(super) fn is_surely_here(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost"
            || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        f.write_str(&self.authority())
    }
}

impl FromStr for WorkerAddress {
    type Err = NoWorkerAddress;

    fn from_str(text: &str) -> Result<Self, NoWorkerAddress> {
        Self::parse(text, PORT)
    }
}

impl WorkerAddress {
    pub(crate) fn parse(text: &str, usual: u16) -> Result<Self, NoWorkerAddress> {
        let wrong = || NoWorkerAddress(text.chars().take(80).collect());
        let (name, place) = match text.split_once('=') {
            Some((name, place)) => (Some(name.trim().to_owned()), place.trim()),
            None => (None, text.trim()),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or_else(wrong)?;
                host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
                (
                    host,
                    after.strip_prefix(':').or(after.is_empty().then_some("")).ok_or_else(wrong)?,
                )
            }
            None if place.parse::<Ipv6Addr>().is_ok() => (place, ""),
            None => match place.split_once(':') {
                Some((_, "")) => return Err(wrong()),
                Some(parts) => parts,
                None => (place, ""),
            },
        };
        let port = match port {
            "" => usual,
            digits => digits.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
        };
        let of_a_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        let fits = !host.is_empty() && host.len() <= 253 && host.chars().all(of_a_host);
        if !fits || name.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { name, host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn read(text: &str) -> (Option<String>, String, u16) {
        let WorkerAddress { name, host, port } = text.parse().unwrap();
        (name, host, port)
    }

    #[test]
    fn name_and_port_may_be_left_out() {
        assert_eq!(read("10.0.0.2"), (None, "10.0.0.2".to_owned(), 17230));
        assert_eq!(read("studio:9000"), (None, "studio".to_owned(), 9000));
        let named = (Some("studio".to_owned()), "10.0.0.3".to_owned(), 17230);
        assert_eq!(read("studio=10.0.0.3:17230"), named);
        for text in ["::1", "[::1]", "[::1]:17230"] {
            assert_eq!(read(text), (None, "::1".to_owned(), 17230));
            assert_eq!(text.parse::<WorkerAddress>().unwrap().to_string(), "[::1]:17230");
        }
    }

    #[test]
    fn invalid_address_is_repeated_with_a_hint() {
        for text in [
            "", ":1", "a:", "a:0", "a:65536", "=a", "a b", "http://a", "[::1", "[::1]x", "a/b",
            "a@b",
        ] {
            let error = text.parse::<WorkerAddress>().expect_err(text).to_string();
            assert!(error.contains("write HOST"), "{error}");
        }
    }

    #[test]
    fn this_host_is_known_without_asking() {
        let here = |text: &str| text.parse::<WorkerAddress>().unwrap().is_surely_here();
        assert!(here("127.0.0.1") && here("localhost:1") && here("::1") && here("127.9.9.9"));
        assert!(!here("10.0.0.1") && !here("0.0.0.0") && !here("studio"));
    }
}
